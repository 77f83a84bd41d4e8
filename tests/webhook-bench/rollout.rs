//! What a rollout costs a review: with a candidate that is only tried, and with one that nearly all owners pass.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::chains::ChainUnderTest;
use crate::client::Target;
use crate::operator::Served;
use crate::report::{Goal, Report, rounded};
use crate::{Arguments, rows};

const COST: Goal = Goal {
    key: "rollout_cpu_ratio",
    what: "CPU with a rollout, against a candidate only tried",
    most: Some(1.03),
};

const TRIED: &str = "three plugins, TLS, candidate only tried";
const ROLLED_OUT: &str = "three plugins, TLS, rollout at 99 percent";
/// How often both are measured, one after the other: what else the machine does meets both.
const ROUNDS: usize = 4;
/// How long the candidate may take until it is loaded.
const PATIENCE: Duration = Duration::from_secs(30);

/// Adds the rows of both, and the ratio of their processor time.
pub(crate) async fn measure(
    arguments: &Arguments,
    podloom: &Path,
    plugins: &Path,
    review: &Bytes,
    report: &mut Report,
) -> Result<()> {
    let serving = ChainUnderTest::Three.files(plugins)?;
    let candidate = serving.with_value(1)?;
    let mut rollout = Value::Null;
    let mut spent = [0.0, 0.0];
    for round in 0..ROUNDS {
        for (at, name) in [TRIED, ROLLED_OUT].into_iter().enumerate() {
            let wanted = if name == TRIED {
                Value::Null
            } else {
                rollout.clone()
            };
            let more = Some((&candidate, &wanted));
            let served = Served::start_with(podloom, &serving, true, review, more).await?;
            let digests = digests(&served).await?;
            if rollout.is_null() {
                rollout = under_way(&digests);
            }
            let target = served.target()?;
            let measured = rows(
                arguments,
                &target,
                Some(served.id()),
                review,
                name.to_owned(),
            );
            let most = arguments.most();
            let mut measured = measured.await?;
            measured.retain(|row| row.connections == most);
            let cpu = measured.iter().filter_map(|row| row.figures.cpu_ms);
            spent[at] += cpu.sum::<f64>();
            if name == ROLLED_OUT {
                passes_the_candidate(&target, review, &digests).await?;
            }
            if round == 0 {
                report.rows.extend(measured);
            }
        }
    }
    let [tried, rolled_out] = spent;
    report.reached(&COST, rounded(rolled_out / tried), None);
    Ok(())
}

/// The digests of the serving chain and of the candidate, once both are loaded.
async fn digests(served: &Served) -> Result<[Value; 2]> {
    let begun = Instant::now();
    loop {
        let shown = served.shows("/plugins/candidate")?;
        let digests = [&shown["serving"], &shown["candidate"]["chain"]];
        if digests.iter().all(|digest| digest.is_string()) {
            return Ok(digests.map(Value::clone));
        }
        if begun.elapsed() > PATIENCE {
            bail!("the candidate was not loaded: {shown:#}");
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// A rollout that nobody follows costs nothing.
async fn passes_the_candidate(
    target: &Target,
    review: &Bytes,
    [_, candidate]: &[Value; 2],
) -> Result<()> {
    let answer = target.ask(&mut target.connect().await?, review).await?;
    let answer: Value = serde_json::from_slice(&answer)?;
    let patch = answer["response"]["patch"].as_str().unwrap_or_default();
    let patch = String::from_utf8(BASE64_STANDARD.decode(patch)?)?;
    if !patch.contains(candidate.as_str().unwrap_or_default()) {
        bail!("the pod did not pass the candidate: {patch}");
    }
    Ok(())
}

/// A rollout that is under way, and nobody judges it any more.
fn under_way([serving, candidate]: &[Value; 2]) -> Value {
    json!({
        "apiVersion": "chain.podloom.dev/v1alpha1", "kind": "ChainRollout",
        "metadata": { "name": "main", "namespace": "default", "uid": "1", "resourceVersion": "1", "generation": 1 },
        "spec": {},
        "status": {
            "phase": "Progressing", "rollout": 1, "serving": serving, "candidate": candidate,
            "shares": [{ "percent": 99 }],
        },
    })
}
