//! Random faults for as long as you like: replicas of the operator on a real control plane, Browsers that come and go, and faults in
//! everything around them. Afterwards nothing must be lost, doubled or left over.

mod chaos;
mod judge;
mod ledger;
mod peers;
mod population;
mod replica;
mod stage;
mod tenants;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use fastrand::Rng;
use tokio::task::JoinSet;

use chaos::Chaos;
use ledger::Findings;
use population::Population;
use stage::Stage;

/// How long there are faults before all are undone for a check.
const ROUND: Duration = Duration::from_secs(40);

/// Random faults around the operator, until the time is up; exits with 1 if anything was lost, doubled or left over.
///
/// `cargo xtask soak --minutes N` builds the operator and sets the environment, as for the black-box tests.
#[derive(Parser)]
#[command(name = "soak")]
struct Arguments {
    /// How long, in minutes.
    #[arg(long, value_name = "N", default_value_t = 2)]
    minutes: u64,
    /// The number of Browsers at a time.
    #[arg(long, value_name = "N", default_value_t = 200)]
    browsers: usize,
    /// Repeats the faults of another run, but not their exact times; by default random.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if podloom_tests::binary().is_none() {
        eprintln!("error: PODLOOM_BLACKBOX_BINARY is not set; run `cargo xtask soak`");
        return ExitCode::FAILURE;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let findings = match runtime {
        Ok(runtime) => runtime.block_on(soak(&arguments)),
        Err(error) => vec![format!("could not start: {error}")],
    };
    if findings.is_empty() {
        eprintln!("soak: nothing was lost, doubled or left over");
        return ExitCode::SUCCESS;
    }
    eprintln!("soak: {} findings", findings.len());
    for finding in findings {
        eprintln!("  - {finding}");
    }
    ExitCode::FAILURE
}

/// Returns the findings.
async fn soak(arguments: &Arguments) -> Vec<String> {
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("soak: {} minutes, --seed {seed}", arguments.minutes);
    let findings = Findings::default();
    let stage = Arc::new(Stage::open(findings.clone()).await);
    let population = Arc::new(Population::new(&stage, arguments.browsers, seed));
    let mut work = JoinSet::new();
    for replica in &stage.replicas {
        work.spawn(replica::probe(Arc::clone(replica), findings.clone()));
    }
    work.spawn(ledger::follow_browsers(Arc::clone(&stage)));
    work.spawn(ledger::follow_pods(Arc::clone(&stage)));
    work.spawn(Arc::clone(&population).live());

    let mut chaos = Chaos::new(Arc::clone(&stage), Rng::with_seed(seed));
    population.is_complete().await;
    quiet(&stage, &population).await;
    let end = Instant::now() + Duration::from_secs(60 * arguments.minutes);
    while Instant::now() < end {
        population.resume();
        chaos.rage(end.min(Instant::now() + ROUND)).await;
        quiet(&stage, &population).await;
    }
    let begun = Instant::now();
    let there = population.end().await;
    judge::nothing_is_left(&stage, begun, there).await;
    judge::judge(&stage);
    chaos.report();
    stage.ledger.report();
    let found = findings.take();
    if !found.is_empty() {
        stage.scene.cluster.plane.keep_logs();
    }
    found
}

/// Stops creating and deleting Browsers, waits until all have what they need, and then measures memory.
async fn quiet(stage: &Arc<Stage>, population: &Population) {
    population.pause();
    population.delete_again().await;
    judge::all_settle(stage).await;
    for replica in &stage.replicas {
        replica.measure_memory();
    }
}
