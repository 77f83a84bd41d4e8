//! Reviews at a fixed rate, and what may disturb them: a chain that changes again and again, a plugin that never returns.

use std::time::Duration;

use anyhow::{Error, Result, bail};
use futures::future::{self, OptionFuture};
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::time::interval;

use crate::chains::{Files, HOSTILE_LIMIT_MS, HOSTILE_NAMESPACE};
use crate::operator::Served;
use crate::report::{Figures, Measured};
use crate::schedule::Schedule;

/// How many reviews a second are of pods that the hostile plugin sees.
const HOSTILE_RATE: f64 = 2.0;
const HOSTILE_CONNECTIONS: usize = 2;

/// What happens while reviews are answered.
#[derive(clap::Args, Clone, Copy, Default, PartialEq)]
pub(crate) struct Disturbances {
    /// Change a plugin or `chain.yaml` again and again while reviews come at a fixed rate, for example each 1s.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    reload_every: Option<f64>,
    /// Add a plugin that never returns for some pods, and send such pods beside those that come at a fixed rate.
    #[arg(long)]
    pub(crate) hostile: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    positive(text.trim_end_matches('s'))
}

/// A number that a time or a rate can be.
pub(crate) fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|error| format!("{error}"))?;
    match number.is_finite() && number > 0.0 {
        true => Ok(number),
        false => Err("write a number above 0".to_owned()),
    }
}

/// An operator, its bundle, and the reviews that it gets.
pub(crate) struct Paced {
    pub(crate) served: Served,
    pub(crate) files: Files,
    pub(crate) schedule: Schedule,
}

impl Paced {
    /// A row of so many seconds.
    pub(crate) async fn row(
        &self,
        name: &str,
        seconds: u64,
        disturbances: Disturbances,
    ) -> Result<Measured> {
        let schedule = Schedule {
            time: Duration::from_secs(seconds),
            ..self.schedule.clone()
        };
        let mut name = format!("{name}, {}/s", schedule.rate);
        eprintln!("{name}");
        let loads = self.served.loads()?;
        let figures = tokio::select! {
            sent = self.send(&schedule, disturbances.hostile) => sent?,
            error = self.reload(disturbances.reload_every) => return Err(error),
        };
        if disturbances.hostile {
            name += ", hostile";
        }
        if disturbances.reload_every.is_some() {
            let reloads = self.served.loads()? - loads;
            if reloads < 1.0 {
                bail!("no change of the bundle was loaded");
            }
            name += &format!(", {reloads} reloads");
        }
        Ok(Measured {
            chain: name,
            connections: schedule.connections,
            figures,
        })
    }

    /// The figures of all pods, except that the latencies are of those that the hostile plugin does not see.
    async fn send(&self, schedule: &Schedule, hostile: bool) -> Result<Figures> {
        let beside = hostile.then(|| Schedule {
            review: hostile_review(&schedule.review),
            connections: HOSTILE_CONNECTIONS,
            rate: HOSTILE_RATE,
            ..schedule.clone()
        });
        let beside = OptionFuture::from(beside.as_ref().map(|beside| beside.run(None)));
        let (figures, beside) = future::join(schedule.run(Some(self.served.id())), beside).await;
        let mut figures = figures?;
        if let Some(beside) = beside.transpose()? {
            if beside.p50_ms < HOSTILE_LIMIT_MS {
                bail!("the hostile plugin returned before its time limit");
            }
            figures.failures += beside.failures;
        }
        Ok(figures)
    }

    /// Changes the bundle until this is dropped, or a change fails.
    async fn reload(&self, every: Option<f64>) -> Error {
        let Some(every) = every else {
            return future::pending().await;
        };
        let mut ticks = interval(Duration::from_secs_f64(every));
        let mut number = 1;
        loop {
            ticks.tick().await;
            if let Err(error) = self.files.change(&self.served.bundle, number) {
                return error;
            }
            number += 1;
        }
    }
}

/// The same review, of a pod that the hostile plugin sees.
fn hostile_review(review: &Bytes) -> Bytes {
    let mut review: Value = serde_json::from_slice(review).unwrap_or_default();
    review["request"]["namespace"] = json!(HOSTILE_NAMESPACE);
    review["request"]["object"]["metadata"]["namespace"] = json!(HOSTILE_NAMESPACE);
    review["request"]["object"]["metadata"]["labels"]["loop"] = json!("yes");
    review.to_string().into()
}
