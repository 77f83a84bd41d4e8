//! `cargo xtask demo`: the operator at work on a real control plane.

mod browsers;
mod operator;
mod reload;
mod screen;
mod volume;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use podloom_control_plane::{ControlPlane, Options};

use self::browsers::Session;
use self::operator::Operator;
use self::volume::Volume;
use crate::{plugins, release, run};

/// What is applied: the sessions, what they are made of, and the namespace with what plugins read of it.
/// The workloads beside them are for `podloom render` and the admission webhook.
const EXAMPLES: [&str; 4] = [
    "namespace.yaml",
    "browserconfig-chrome.yaml",
    "browserconfig-firefox.yaml",
    "browsers.yaml",
];
/// The namespace of the examples.
const NAMESPACE: &str = "shop-tests";
/// How long the sessions may take to run.
const PATIENCE: Duration = Duration::from_mins(1);

/// How the demo is run.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Leave it running at the end, until Ctrl-C.
    #[arg(long)]
    keep: bool,
    /// Use this cluster instead of starting one; CRDs and examples are installed there, and stay.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// A cluster to show things on: its own, or the user's.
struct Cluster {
    plane: Option<ControlPlane>,
    kubeconfig: PathBuf,
}

/// Builds everything, starts everything, and shows sessions come and go.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let begun = Instant::now();
    screen::title("1. Build the operator and the plugins");
    let bundle = plugins::run()?;
    let binary = release::binary()?;

    screen::title("2. Start a control plane");
    let cluster = cluster(arguments)?;
    let started = Instant::now();

    screen::title("3. Install the CRDs and start the operator");
    succeed(
        cluster
            .kubectl()
            .arg("apply")
            .arg("-k")
            .arg(run::root().join("crds")),
    )?;
    let target = run::workspace()?.target_directory.into_std_path_buf();
    let volume = Volume::mount(&bundle, target.join("demo/plugins"))?;
    let operator = Operator::start(&binary, volume.path(), &cluster.kubeconfig)?;
    screen::line(&format!(
        "operator: ready at http://{}, log in {}",
        operator.address,
        operator.log.display()
    ));

    screen::title("4. Apply the examples");
    let examples = run::root().join("deploy/examples");
    let mut apply = cluster.kubectl();
    apply.arg("apply");
    for file in EXAMPLES {
        apply.arg("-f").arg(examples.join(file));
    }
    succeed(&mut apply)?;
    let sessions =
        browsers::until_running(&cluster, PATIENCE).inspect_err(|_| operator.tell_log())?;

    screen::title("5. What each plugin did to each pod");
    explain(&binary, &bundle, &examples)?;

    screen::title("6. Sessions as kubectl shows them");
    succeed(
        cluster
            .kubectl()
            .args(["get", "browsers", "--namespace", NAMESPACE]),
    )?;
    let reloaded = reload::show(&cluster, &operator, &volume)?;
    browsers::fail_one(&cluster)?;
    browsers::delete_all(&cluster, &examples, PATIENCE)?;

    screen::title("Summary");
    summarize(&sessions, reloaded);
    screen::line(&format!(
        "{:.0} s in all, {:.0} s of them since the builds.",
        begun.elapsed().as_secs_f64(),
        started.elapsed().as_secs_f64()
    ));
    if arguments.keep {
        return keep(&cluster, &operator, &volume, &examples);
    }
    screen::line("cargo xtask demo --keep leaves it running, for you to try.");
    Ok(())
}

fn cluster(arguments: &Arguments) -> Result<Cluster> {
    if let Some(kubeconfig) = &arguments.kubeconfig {
        let kubeconfig = kubeconfig
            .canonicalize()
            .with_context(|| kubeconfig.display().to_string())?;
        screen::line(&format!("using the cluster of {}", kubeconfig.display()));
        return Ok(Cluster {
            plane: None,
            kubeconfig,
        });
    }
    let start = Instant::now();
    let plane = ControlPlane::start(&Options::default())?;
    screen::line(&format!(
        "etcd, kube-apiserver, kube-controller-manager, kube-scheduler, and KWOK as the kubelet: ready in {:.1} s",
        start.elapsed().as_secs_f64()
    ));
    let kubeconfig = plane.kubeconfig();
    Ok(Cluster {
        plane: Some(plane),
        kubeconfig,
    })
}

impl Cluster {
    fn kubectl(&self) -> Command {
        match &self.plane {
            Some(plane) => plane.kubectl(),
            None => {
                let mut kubectl = Command::new("kubectl");
                kubectl.env("KUBECONFIG", &self.kubeconfig);
                kubectl
            }
        }
    }

    /// Gets the pods of all sessions, in the way that further flags say.
    fn get_pods(&self) -> Command {
        let mut kubectl = self.kubectl();
        kubectl.args(["get", "pods", "--namespace", NAMESPACE]);
        kubectl.args(["--selector", "selenosis.io/browser"]);
        kubectl
    }
}

/// The same chain offline: what it writes is what the operator's pods got.
fn explain(binary: &Path, bundle: &Path, examples: &Path) -> Result<()> {
    let mut render = Command::new(binary);
    render
        .arg("render")
        .arg("--explain")
        .arg("--plugins")
        .arg(bundle);
    for file in EXAMPLES {
        render.arg("-f").arg(examples.join(file));
    }
    run::succeed(render.stdout(Stdio::null()))
}

fn summarize(sessions: &[Session], reloaded: Duration) {
    for session in sessions {
        screen::line(&format!(
            "{:<12} ran after {:>4} ms at {:<12} {}",
            session.name,
            session.started_in.as_millis(),
            session.address,
            session.plugins
        ));
    }
    screen::line(&format!(
        "{} sessions, each in a pod that three sandboxed plugins finished; every pod passes the restricted Pod Security Standard.",
        sessions.len()
    ));
    screen::line(&format!(
        "A changed plugin served {} ms after it was on disk, without a restart.",
        reloaded.as_millis()
    ));
}

fn keep(cluster: &Cluster, operator: &Operator, volume: &Volume, examples: &Path) -> Result<()> {
    let kubectl = cluster.kubectl();
    screen::title("It keeps running");
    screen::line(&format!(
        "export KUBECONFIG={}",
        cluster.kubeconfig.display()
    ));
    screen::line(&format!(
        "alias kubectl={}",
        kubectl.get_program().to_string_lossy()
    ));
    screen::line(&format!(
        "kubectl apply -f {}",
        examples.join("browsers.yaml").display()
    ));
    screen::line("kubectl get browsers -A -w");
    screen::line(&format!("curl http://{}/plugins", operator.address));
    screen::line(&format!(
        "{}/chain.yaml and the plugins beside it are read again when they change.",
        volume.path().display()
    ));
    screen::line("Ctrl-C stops everything and removes it.");
    loop {
        thread::sleep(Duration::from_secs(1));
        operator.check_alive()?;
        if let Some(plane) = &cluster.plane {
            plane.check_alive()?;
        }
    }
}

/// Runs kubectl and lets it talk to the person who watches.
fn succeed(kubectl: &mut Command) -> Result<()> {
    run::succeed(kubectl)
}
