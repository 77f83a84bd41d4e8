//! `cargo xtask demo`: the operator at work on a real control plane.

mod browsers;
mod cleaner;
mod diff;
mod gate;
mod infrastructure;
mod node;
mod operator;
mod portal;
mod rollout;
mod screen;
mod warm;
mod webhook;

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;
use podloom_control_plane::{ControlPlane, Options, Programs};

use self::browsers::Session;
use self::operator::{Operator, Volume};
use self::screen::Steps;
use crate::{plugins, release, run};

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
#[command(after_help = table())]
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
    #[arg(long, value_name = "SCENE", value_delimiter = ',', value_parser = PossibleValuesParser::new(SCENES.map(|scene| scene.name)))]
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

/// Everything that is built and found.
struct Built {
    bundle: PathBuf,
    binary: PathBuf,
    examples: PathBuf,
}

/// One scene.
struct Scene {
    /// For `--only`.
    name: &'static str,
    title: &'static str,
    what: &'static str,
    play: Play,
}

/// What a scene needs, and what it shows.
#[derive(Clone, Copy)]
enum Play {
    /// Needs only the builds.
    Offline(fn(&Built) -> Result<()>),
    /// Needs the sessions of the examples too, on a cluster.
    Live(fn(&Built, &mut Live) -> Result<()>),
}

impl Play {
    fn is_live(self) -> bool {
        matches!(self, Self::Live(_))
    }
}

/// The scene that needs an Infrastructure Manager.
const INFRASTRUCTURE: &str = "infrastructure";

/// In the order in which they are shown; the last one deletes the sessions.
const SCENES: [Scene; 13] = [
    Scene {
        name: "render",
        title: "What the chain does, without a cluster",
        what: "what each plugin writes into each pod, and what a changed chain would change: no cluster",
        play: Play::Offline(diff::offline),
    },
    Scene {
        name: "sessions",
        title: "Sessions as kubectl shows them",
        what: "sessions start, and kubectl shows them",
        play: Play::Live(|_, live| {
            let list = ["get", "browsers", "--namespace", NAMESPACE];
            run::succeed(live.cluster.kubectl().args(list))
        }),
    },
    Scene {
        name: "reload",
        title: "A plugin changes while they run",
        what: "a plugin changes and then breaks while sessions run",
        play: Play::Live(|_, live| {
            live.reloaded = Some(browsers::reload(
                &live.cluster,
                &live.operator,
                &live.volume,
            )?);
            Ok(())
        }),
    },
    Scene {
        name: "mistake",
        title: "What a mistake looks like",
        what: "a session that no BrowserConfig serves, and what its user sees",
        play: Play::Live(|_, live| browsers::fail_one(&live.cluster)),
    },
    Scene {
        name: "warm",
        title: "Sessions that need not wait for their pods",
        what: "sessions take pods that wait for them, beside sessions whose pods are made for them",
        play: Play::Live(warm::show),
    },
    Scene {
        name: "webhook",
        title: "Pods of anybody, through the admission webhook",
        what: "pods of kubectl pass the chain through the admission webhook",
        play: Play::Live(webhook::show),
    },
    Scene {
        name: "gate",
        title: "No webhook answers, and nothing slips past",
        what: "pods that are created while no webhook answers wait, and pass the chain once one does",
        play: Play::Live(gate::show),
    },
    Scene {
        name: "rollout",
        title: "A new chain serves a few first, and is taken back by itself",
        what: "a candidate whose pods fail is taken back by itself, and a good one comes to serve by itself",
        play: Play::Live(rollout::show),
    },
    Scene {
        name: "portal",
        title: "A Service, exposed through relays",
        what: "a tunnel exposes a Service, rolls for a new plugin, and loses a relay",
        play: Play::Live(portal::show),
    },
    Scene {
        name: INFRASTRUCTURE,
        title: "A cluster from an Infrastructure Manager",
        what: "a Cluster is created, grows, is broken and repaired, and deleted",
        play: Play::Live(infrastructure::show),
    },
    Scene {
        name: "cleaner",
        title: "A preview that goes when nobody needs it any more",
        what: "a Cleaner waits for conditions, deletes a preview, and sends a CloudEvent",
        play: Play::Live(cleaner::show),
    },
    Scene {
        name: "diff",
        title: "A chain is changed, and nobody has to guess",
        what: "what a changed chain does to running sessions before it serves, who wrote a line, and what was missed",
        play: Play::Live(diff::show),
    },
    Scene {
        name: "end",
        title: "Sessions end",
        what: "sessions are deleted, and their pods with them",
        play: Play::Live(|built, live| {
            browsers::delete_all(&live.cluster, &built.examples, PATIENCE)
        }),
    },
];

/// Builds everything, starts what the scenes need, and shows them: sessions that come and go.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.node {
        return node::show(arguments.keep);
    }
    let start_of_builds = Instant::now();
    let scenes = chosen(&arguments.only);
    let is_live = arguments.keep || scenes.iter().any(|scene| scene.play.is_live());
    let mut steps = Steps::default();
    steps.next("Build everything");
    if scenes.iter().any(|scene| scene.name == INFRASTRUCTURE) {
        // First, so that what cannot be installed here is known at once.
        podloom_im::python().with_context(|| {
            format!("the scene {INFRASTRUCTURE} cannot be shown; choose others with --only")
        })?;
    }
    // Looks for Go now: without it, nobody should wait for the Rust builds first.
    let missing = match (is_live, &arguments.kubeconfig) {
        (true, None) => Programs::missing()?,
        _ => Vec::new(),
    };
    let built = build(!missing.is_empty())?;
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
        Some(_) => {
            screen::line("cargo xtask demo --keep leaves it running, for you to try.");
            Ok(())
        }
        None => Ok(()),
    }
}

/// Starts a control plane, the operator, and the sessions of the examples.
fn start(arguments: &Arguments, built: &Built, steps: &mut Steps) -> Result<Live> {
    steps.next("Start a control plane");
    let cluster = cluster(arguments)?;

    steps.next("Install the CRDs and start the operator");
    cluster.install("crds")?;
    let volume = Volume::mount(&built.bundle, run::target("demo/plugins")?)?;
    let operator = Operator::start(built, volume.path(), &cluster, ("operator.log", &[]))?;
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
    run::succeed(&mut apply)?;
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

    /// kubectl for a namespace.
    fn kubectl_in(&self, namespace: &str) -> Command {
        let mut kubectl = self.kubectl();
        kubectl.args(["--namespace", namespace]);
        kubectl
    }

    /// Applies a Kustomization of the repository.
    fn install(&self, directory: &str) -> Result<()> {
        let directory = run::root().join(directory);
        run::succeed(self.kubectl().arg("apply").arg("-k").arg(directory))
    }

    /// Deletes a namespace, and does not wait for it.
    fn delete_namespace(&self, name: &str) -> Result<()> {
        let delete = ["delete", "namespace", name, "--wait=false"];
        run::succeed(self.kubectl().args(delete))
    }

    /// Applies a manifest.
    fn apply(&self, manifest: &str) -> Result<()> {
        self.pipe("apply", manifest)
    }

    /// Deletes what a manifest names, and waits until it is gone.
    fn delete(&self, manifest: &str) -> Result<()> {
        self.pipe("delete", manifest)
    }

    fn pipe(&self, verb: &str, manifest: &str) -> Result<()> {
        let mut kubectl = self.kubectl();
        kubectl.args([verb, "-f", "-"]).stdin(Stdio::piped());
        let mut child = kubectl.spawn()?;
        if let Some(stdin) = &mut child.stdin {
            stdin.write_all(manifest.as_bytes())?;
        }
        drop(child.stdin.take());
        let status = child.wait()?;
        if !status.success() {
            bail!("{} failed ({status})", run::display(&kubectl));
        }
        Ok(())
    }

    /// `kubectl get` for the pods of all sessions; the caller adds flags.
    fn get_pods(&self) -> Command {
        let mut kubectl = self.kubectl_in(NAMESPACE);
        kubectl.args(["get", "pods", "--selector", "selenosis.io/browser"]);
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

/// Builds the plugins and the operator with Rust, and beside them the programs of the control plane with Go if they are missing.
fn build(are_programs_missing: bool) -> Result<Built> {
    if are_programs_missing {
        screen::line("The first time, all of this takes many minutes; later it takes seconds.");
    }
    let (built, ()) = thread::scope(|scope| {
        let programs = are_programs_missing.then(|| scope.spawn(find_programs));
        let rust = rust();
        if rust.is_err()
            && programs
                .as_ref()
                .is_some_and(|thread| !thread.is_finished())
        {
            screen::line(
                "The control plane is still being built, for your next try. Ctrl-C stops that.",
            );
        }
        run::both(
            rust,
            programs.map_or(Ok(()), |it| run::joined("programs", it)),
        )
    })?;
    Ok(built)
}

fn rust() -> Result<Built> {
    Ok(Built {
        bundle: plugins::run()?,
        binary: release::local("podloom")?,
        examples: run::root().join("deploy/examples"),
    })
}

/// Finds them in what `ControlPlane::start` will look through, so only what was built for it counts.
fn find_programs() -> Result<()> {
    Programs::find().map(drop).map_err(|error| {
        let error = anyhow!(error);
        eprintln!("control plane: FAILED: {error:#}");
        error
    })
}

/// For `--help`.
fn table() -> String {
    let rows = SCENES.map(|scene| format!("  {:14} {}", scene.name, scene.what));
    format!("Scenes:\n{}", rows.join("\n"))
}

/// The scenes of these names, in their own order; all scenes if there are no names.
fn chosen(names: &[String]) -> Vec<Scene> {
    let is_chosen = |scene: &Scene| names.is_empty() || names.iter().any(|name| name == scene.name);
    SCENES.into_iter().filter(is_chosen).collect()
}

#[cfg(test)]
mod tests;
