//! `cargo xtask soak`: random tests that take too long for every test run.

use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::{black_box, plugins, release, run, test};

/// A soak of one part. Every `cargo xtask test` runs the same tests with fewer cases.
struct Soak {
    name: &'static str,
    what: &'static str,
    /// The arguments of cargo, separated by spaces.
    command: &'static str,
    /// A variable of the tests, and its value.
    setting: Option<(&'static str, &'static str)>,
    needs: Needs,
}

/// What a soak needs besides its crate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// Nothing.
    Nothing,
    /// The bundle of the standard plugins.
    Plugins,
    /// The operator as a binary, and a control plane.
    Operator,
    /// What `cargo xtask test` needs, with the operator as it is shipped: the soak is no single command.
    Shipped,
    /// The same, on several releases of Kubernetes.
    Releases,
}

/// All soaks. proptest itself reads PROPTEST_CASES, and prints the smallest failing case.
const SOAKS: [Soak; 16] = [
    Soak {
        name: "paths",
        what: "100,000 random transactions on a pod: only granted paths are written, no answer depends on a value that is not granted, a rollback restores everything",
        command: "test --package podloom-pod-path --lib laws",
        setting: Some(("PROPTEST_CASES", "100000")),
        needs: Needs::Nothing,
    },
    Soak {
        name: "guests",
        what: "100,000 random plugins, as a core module and as a component: same pod, same messages, same limits",
        command: "test --package podloom-mutators --test runner guests",
        setting: Some(("PROPTEST_CASES", "100000")),
        needs: Needs::Nothing,
    },
    Soak {
        name: "patch",
        what: "50,000 random chains on random pods: the JSON Patch, applied by another implementation, gives the same pod as the chain",
        command: "test --package podloom-pod-path --package podloom-mutators --lib --test runner patch",
        setting: Some(("PROPTEST_CASES", "50000")),
        needs: Needs::Nothing,
    },
    Soak {
        name: "commute",
        what: "100,000 random pods: plugins that commute by their grants give the same bytes in both orders, the standard ones and random ones",
        command: "test --package podloom-pod-path --package podloom-mutators --lib --test standard_plugins commute",
        setting: Some(("PROPTEST_CASES", "100000")),
        needs: Needs::Plugins,
    },
    Soak {
        name: "queue",
        what: "20,000 random histories of the control loop's queue, compared with a simple model",
        command: "test --package podloom-control-loop --lib laws",
        setting: Some(("PROPTEST_CASES", "20000")),
        needs: Needs::Nothing,
    },
    Soak {
        name: "model",
        what: "every history of a session with up to two faults, and 20,000 long random histories of two sessions; takes hours",
        command: "test --release --package podloom-browser --lib tests::model::no_history_breaks_a_rule -- --exact --nocapture",
        setting: Some(("PODLOOM_MODEL", "2 1 1 20000")),
        needs: Needs::Nothing,
    },
    Soak {
        name: "cleaner",
        what: "1,000 Cleaners on a real control plane, each with a fault at a random time: nothing is deleted that their conditions did not name",
        command: "test --package podloom-tests --test blackbox cleaner_storm -- --nocapture",
        setting: Some(("PODLOOM_CLEANER_RUNS", "1000")),
        needs: Needs::Operator,
    },
    Soak {
        name: "lives",
        what: "sessions on a real control plane, each with its operator killed in or after another of its writes, or with another change of a watch left out: each has one pod and the right end, and nothing is left",
        command: "test --package podloom-tests --test blackbox -- browser_killed unobserved what_no_watch_shows",
        setting: Some(("PODLOOM_LIVES", "all")),
        needs: Needs::Operator,
    },
    Soak {
        name: "gate",
        what: "an hour of workloads that come and go while replicas of the webhook die: no pod runs without the chain, and nothing is stuck after each round",
        command: "test --package podloom-tests --test blackbox gate_storm -- --nocapture",
        setting: Some(("PODLOOM_GATE_ROUNDS", "100")),
        needs: Needs::Operator,
    },
    Soak {
        name: "heal",
        what: "10,000 pods of 1,000 owners are replaced, 50 owners at a time: never more than 50 owners miss a pod; prints what each eviction costs",
        command: "test --package podloom-tests --test blackbox heal::many -- --nocapture",
        setting: Some(("PODLOOM_HEAL_OWNERS", "1000")),
        needs: Needs::Operator,
    },
    Soak {
        name: "rollout",
        what: "half an hour of a rollout while replicas and the judge restart: no Deployment is half changed, and none goes back",
        command: "test --package podloom-tests --test blackbox rollout::storm -- --nocapture",
        setting: Some(("PODLOOM_ROLLOUT_SECONDS", "1800")),
        needs: Needs::Operator,
    },
    Soak {
        name: "diff",
        what: "1,000 random pods as a real API server sends them, and twenty changes of the chain: the webhook answers differently exactly where podloom chain diff says so",
        command: "test --package podloom-tests --test blackbox the_webhook_answers_differently -- --nocapture",
        setting: Some(("PODLOOM_DIFF_PODS", "1000")),
        needs: Needs::Operator,
    },
    Soak {
        name: "specs",
        what: "25 random stories of each kind: a few edits of its spec that the CRD allows or forbids, after each of which the operator settles; then the first spec brings back the first state",
        command: "test --package podloom-tests --test blackbox specs_nobody_wrote -- --nocapture",
        setting: Some(("PODLOOM_SPECS", "25")),
        needs: Needs::Operator,
    },
    Soak {
        name: "languages",
        what: "the page on other languages: its commands install the compilers of Python, JavaScript and C, build a plugin with each, and run it; needs Python with venv, Node.js and npm, and cargo for the bindings of C",
        command: "test --workspace --test blackbox languages -- --test-threads 1",
        setting: Some(("PODLOOM_LANGUAGES", "1")),
        needs: Needs::Operator,
    },
    Soak {
        name: "shipped",
        what: "the black-box tests, two minutes of random faults and the real node, with the operator as it is shipped; `cargo xtask test` runs them with a build that is hardly optimized",
        command: "",
        setting: None,
        needs: Needs::Shipped,
    },
    Soak {
        name: "versions",
        what: "the black-box tests on the oldest Kubernetes that Podloom supports, and on the newest; builds their control planes once, with Go",
        command: "",
        setting: None,
        needs: Needs::Releases,
    },
];

#[derive(Args)]
#[command(after_help = table())]
pub(crate) struct Arguments {
    /// Run this soak alone.
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(SOAKS.map(|soak| soak.name)))]
    only: Option<String>,
    /// For N minutes, run replicas on a real control plane, and inject random faults: into the replicas, the API server, the
    /// connections to it, plugins and quotas. HTTP clients that do not read answers run too. At the end, nothing may be lost,
    /// duplicated or left over.
    #[arg(long, value_name = "N", conflicts_with = "only")]
    minutes: Option<u64>,
    /// With --minutes: repeat the faults of the run that printed this seed.
    #[arg(long, value_name = "N", requires = "minutes")]
    seed: Option<u64>,
}

fn table() -> String {
    let rows = SOAKS.map(|soak| format!("  {:9} {}", soak.name, soak.what));
    format!("Soaks:\n{}", rows.join("\n"))
}

/// Runs the chosen soaks; without arguments all but the random faults.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if let Some(minutes) = arguments.minutes {
        let bundle = plugins::run()?;
        return black_box::faults(&release::shipped()?, &bundle, minutes, arguments.seed);
    }
    let is_chosen = |soak: &&Soak| arguments.only.as_ref().is_none_or(|only| only == soak.name);
    let mut failed = Vec::new();
    for soak in SOAKS.iter().filter(is_chosen) {
        if !holds(soak)? {
            failed.push(soak.name);
        }
    }
    if !failed.is_empty() {
        bail!("these soaks failed: {}", failed.join(", "));
    }
    Ok(())
}

fn holds(soak: &Soak) -> Result<bool> {
    eprintln!("\n==> {}: {}", soak.name, soak.what);
    let start = Instant::now();
    let done = match soak.needs {
        Needs::Shipped => test::shipped(),
        Needs::Releases => black_box::releases(),
        _ => tests(soak),
    };
    let outcome = match &done {
        Ok(()) => "done",
        Err(error) => {
            eprintln!("{error:#}");
            "FAILED"
        }
    };
    let seconds = start.elapsed().as_secs_f64();
    eprintln!("==> {}: {outcome} in {seconds:.1} s", soak.name);
    Ok(done.is_ok())
}

/// Runs the tests of a soak.
fn tests(soak: &Soak) -> Result<()> {
    let mut command = run::cargo(soak.command.split(' '));
    command.envs(soak.setting);
    if soak.needs != Needs::Nothing {
        command.env("PODLOOM_BUNDLE", plugins::run()?);
    }
    if soak.needs == Needs::Operator {
        command
            .env("PODLOOM_BLACKBOX_BINARY", release::shipped()?)
            .env("PODLOOM_CONTROL_PLANE", "1");
    }
    run::succeed(&mut command)
}
