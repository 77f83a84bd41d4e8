//! Measures the controller of Cleaners on a real control plane: many that are due at one instant, until each has begun to delete; and
//! many more that only wait, with their requests, memory and processor time. It fails if the operator writes while all wait.
//!
//! Requests are counted in the API server's audit log: a proxy between the two would take its share of the same processors.
#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot go on ends with the reason"
)]

mod due;
mod place;
mod rest;

use std::fs;
use std::path::PathBuf;

use clap::Parser;
use podloom_tests::steps::Step;
use serde_json::{Map, Value, json};

use due::Delays;
use place::Place;

/// Measure the controller of Cleaners: how late the first deletion of each is when many are due at one instant, and what many more
/// cost at rest. PODLOOM_BLACKBOX_BINARY names the operator's binary.
#[derive(Parser)]
#[command(name = "cleaner-bench")]
struct Arguments {
    /// How many Cleaners are due at one instant, each with a target of its own; none with 0.
    #[arg(long, default_value_t = 1000)]
    due: usize,
    /// How many Cleaners are at rest; none with 0. Most are not old enough, and one of ten waits for its condition, so that its
    /// target is watched.
    #[arg(long, default_value_t = 10_000)]
    resting: usize,
    /// In how many namespaces they are.
    #[arg(long, default_value_t = 10)]
    namespaces: usize,
    /// How long to measure at rest, in seconds.
    #[arg(long, default_value_t = 60)]
    rest: u64,
    /// An option for the operator, such as --cleaner-workers=32; repeat it for several.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    operator: Vec<String>,
    /// Also write the figures to this file, as one JSON object.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    let place = Place::new(arguments.namespaces, arguments.operator.clone()).await;
    let mut steps = Vec::new();
    let mut delays = None;
    if arguments.due > 0 {
        let (step, measured) = due::measure(&place, arguments.due).await;
        measured.print();
        steps.push(step);
        delays = Some(measured);
    }
    if arguments.resting > 0 {
        steps.extend(rest::measure(&place, arguments.resting, arguments.rest).await);
    }
    if let Some(path) = &arguments.json {
        let figures = figures(&steps, delays.as_ref(), &arguments);
        let text = serde_json::to_string_pretty(&figures).unwrap();
        fs::write(path, text + "\n").unwrap();
    }
    rest::check(&steps);
}

/// The figures by step.
fn figures(steps: &[Step], delays: Option<&Delays>, arguments: &Arguments) -> Value {
    let figures = steps.iter().map(|step| {
        let mut figures = step.figures();
        figures["namespaces"] = arguments.namespaces.into();
        (step.name.to_owned(), figures)
    });
    let mut figures: Map<String, Value> = figures.collect();
    figures.insert(
        "cleaners".to_owned(),
        json!({ "due": arguments.due, "resting": arguments.resting }),
    );
    if let Some(delays) = delays {
        figures.insert("first_delete_seconds".to_owned(), delays.figures());
    }
    Value::Object(figures)
}
