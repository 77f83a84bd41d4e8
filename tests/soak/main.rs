//! Random faults, for as long as one likes: replicas of the operator on a real control plane, Browsers that come and go, and
//! everything around them that breaks. Afterwards nothing may be lost, doubled or left over.

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

/// How long things go wrong before everything is put right for a look.
const ROUND: Duration = Duration::from_secs(40);

/// Random faults around the operator, until the time is up; exits with 1 if anything was lost, doubled or left over.
///
/// `cargo xtask soak --minutes N` builds the operator and names it, as for the black-box tests.
#[derive(Parser)]
#[command(name = "soak")]
struct Arguments {
    /// How long.
    #[arg(long, value_name = "N", default_value_t = 2)]
    minutes: u64,
    /// How many Browsers there are at a time.
    #[arg(long, value_name = "N", default_value_t = 200)]
    browsers: usize,
    /// Repeats the faults of another run, though not their moments; by default random.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if podloom_tests::binary().is_none() {
        eprintln!("error: PODLOOM_BLACKBOX_BINARY names no binary, as `cargo xtask soak` does");
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

/// Returns what does not hold.
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
    population.is_there().await;
    quiet(&stage, &population).await;
    let end = Instant::now() + Duration::from_secs(60 * arguments.minutes);
    while Instant::now() < end {
        population.go_on();
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

/// Lets no Browser come or go any more, waits until all have what they need, and looks at memory then.
async fn quiet(stage: &Arc<Stage>, population: &Population) {
    population.rest();
    population.delete_again().await;
    judge::all_settle(stage).await;
    for replica in &stage.replicas {
        replica.weigh();
    }
}
