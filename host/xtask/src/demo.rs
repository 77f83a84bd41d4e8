//! `cargo xtask demo`: the operator at work on a real control plane.

mod browsers;
mod build;
mod cleaner;
mod diff;
mod http;
mod infrastructure;
mod node;
mod operator;
mod portal;
mod reload;
mod scene;
mod screen;
mod volume;
mod webhook;

use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;
use podloom_control_plane::{ControlPlane, Options};

use self::browsers::Session;
use self::build::{Built, Plane};
use self::operator::Operator;
use self::scene::Play;
use self::screen::Steps;
use self::volume::Volume;
use crate::run;

/// The examples to apply: the sessions, their configurations and Secrets, and their namespace, whose labels plugins read.
/// The other files are workloads for `podloom render` and the admission webhook.
const EXAMPLES: [&str; 5] = [
    "namespace.yaml",
    "secrets.yaml",
    "browserconfig-chrome.yaml",
    "browserconfig-firefox.yaml",
    "browsers.yaml",
];
/// The namespace of the examples.
const NAMESPACE: &str = "shop-tests";
/// How long to wait for the sessions to run.
const PATIENCE: Duration = Duration::from_mins(1);

/// The options of the demo.
#[derive(Args)]
#[command(after_help = scene::table())]
pub(crate) struct Arguments {
    /// Keep everything running at the end, until Ctrl-C.
    #[arg(long)]
    keep: bool,
    /// Use this cluster instead of starting one; CRDs and examples are installed there, and stay.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Install the operator from its image on a real node (kubelet, containerd and runc in namespaces of their own), as README.md
    /// says. Needs root on Linux, and runc, iptables and iproute2.
    #[arg(long, conflicts_with_all = ["kubeconfig", "only"])]
    node: bool,
    /// Show only this scene, with what it needs; repeat the option for several scenes, or separate them by commas.
    #[arg(long, value_name = "SCENE", value_delimiter = ',', value_parser = PossibleValuesParser::new(scene::NAMES))]
    only: Vec<String>,
}

/// A cluster: the demo's own, or the user's.
struct Cluster {
    plane: Option<ControlPlane>,
    kubeconfig: PathBuf,
}

/// Everything that runs once the sessions of the examples do.
struct Live {
    // Before the cluster, so that it is stopped first.
    operator: Operator,
    volume: Volume,
    cluster: Cluster,
    sessions: Vec<Session>,
    /// How long a changed plugin took to serve, if that scene was shown.
    reloaded: Option<Duration>,
}

/// Builds everything, starts what the scenes need, and shows them: sessions that come and go.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.node {
        return node::show(arguments.keep);
    }
    let start_of_builds = Instant::now();
    let scenes = scene::chosen(&arguments.only);
    let is_live = arguments.keep || scenes.iter().any(|scene| scene.play.is_live());
    let mut steps = Steps::default();
    steps.next("Build everything");
    for scene in &scenes {
        let name = scene.name;
        (scene.prepare)().with_context(|| {
            format!("the scene {name} cannot be shown; choose others with --only")
        })?;
    }
    let built = build::run(match (is_live, &arguments.kubeconfig) {
        (true, None) => Plane::Own,
        _ => Plane::NotNeeded,
    })?;
    let end_of_builds = Instant::now();
    let mut live = match is_live {
        true => Some(start(arguments, &built, &mut steps)?),
        false => None,
    };
    for scene in scenes {
        steps.next(scene.title);
        match (scene.play, &mut live) {
            (Play::Offline(play), _) => play(&built)?,
            (Play::Live(play), Some(live)) => play(&built, live)?,
            (Play::Live(_), None) => {
                bail!("scene {} needs a cluster, and none was started", scene.name)
            }
        }
    }
    screen::title("Summary");
    if let Some(live) = &live {
        summarize(live);
    }
    screen::line(&format!(
        "{:.0} s for the builds, {:.0} s for everything after them.",
        (end_of_builds - start_of_builds).as_secs_f64(),
        end_of_builds.elapsed().as_secs_f64()
    ));
    match live {
        Some(live) if arguments.keep => keep(&built, &live),
        _ => {
            screen::line("cargo xtask demo --keep leaves it running, for you to try.");
            Ok(())
        }
    }
}

/// Starts a control plane, the operator, and the sessions of the examples.
fn start(arguments: &Arguments, built: &Built, steps: &mut Steps) -> Result<Live> {
    steps.next("Start a control plane");
    let cluster = cluster(arguments)?;

    steps.next("Install the CRDs and start the operator");
    let crds = run::root().join("crds");
    succeed(cluster.kubectl().arg("apply").arg("-k").arg(crds))?;
    let target = run::workspace()?.target_directory.into_std_path_buf();
    let volume = Volume::mount(&built.bundle, target.join("demo/plugins"))?;
    let operator = Operator::start(&built.binary, volume.path(), &cluster.kubeconfig)?;
    screen::line(&format!(
        "operator: ready at http://{}, log in {}",
        operator.address,
        operator.log.display()
    ));

    steps.next("Apply the examples");
    let mut apply = cluster.kubectl();
    apply.arg("apply");
    for file in EXAMPLES {
        apply.arg("-f").arg(built.examples.join(file));
    }
    succeed(&mut apply)?;
    let sessions = browsers::until_running(|| cluster.kubectl(), PATIENCE)
        .inspect_err(|_| operator.print_log())?;
    Ok(Live {
        operator,
        volume,
        cluster,
        sessions,
        reloaded: None,
    })
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

    /// `kubectl get` for the pods of all sessions; the caller adds flags.
    fn get_pods(&self) -> Command {
        let mut kubectl = self.kubectl();
        kubectl.args(["get", "pods", "--namespace", NAMESPACE]);
        kubectl.args(["--selector", "selenosis.io/browser"]);
        kubectl
    }
}

fn summarize(live: &Live) {
    for session in &live.sessions {
        screen::line(&format!(
            "{:<12} ran after {:>4} ms at {:<12} {}",
            session.name,
            session.started_in.as_millis(),
            session.address,
            session.plugins
        ));
    }
    screen::line(&format!(
        "{} sessions, each in a pod that went through the sandboxed plugins; every pod passes the restricted Pod Security Standard.",
        live.sessions.len()
    ));
    if let Some(reloaded) = live.reloaded {
        screen::line(&format!(
            "A changed plugin served {} ms after it was on disk, without a restart.",
            reloaded.as_millis()
        ));
    }
}

fn keep(built: &Built, live: &Live) -> Result<()> {
    let Live {
        operator,
        volume,
        cluster,
        ..
    } = live;
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
        built.examples.join("browsers.yaml").display()
    ));
    screen::line("kubectl get browsers -A -w");
    screen::line(&format!("curl http://{}/plugins", operator.address));
    screen::line(&format!(
        "{}/chain.yaml and the plugins beside it are reloaded when they change.",
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

/// Runs kubectl and shows what it prints.
fn succeed(kubectl: &mut Command) -> Result<()> {
    run::succeed(kubectl)
}

#[cfg(test)]
mod tests;
