//! `cargo xtask demo --node`: the install of README.md, on a node with a real kubelet and containerd instead of KWOK.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use podloom_real_node::{Node, Programs, check, stand_in};

use super::screen::{self, Steps};
use super::{NAMESPACE, browsers};
use crate::{image, run};

/// What README.md says to run once the image is loaded.
const INSTALL: [&str; 2] = [
    "kubectl apply -k deploy",
    "kubectl rollout status deployment/podloom --namespace podloom-system",
];

/// And then, to try it.
const TRY: &str = "(cd deploy/examples && kubectl apply -f namespace.yaml,secrets.yaml,browserconfig-chrome.yaml,browserconfig-firefox.yaml,browsers.yaml)";

/// What deploy/README.md says to run at the end; the first line ends all sessions.
const UNINSTALL: [&str; 4] = [
    "kubectl delete browsers.selenosis.io --all --all-namespaces",
    "kubectl delete browserconfigs.selenosis.io --all --all-namespaces",
    "kubectl delete -k crds",
    "kubectl delete -k deploy/operator",
];

/// One of the examples asks for a whole core: too much for two cores beside the others.
const LARGE: &str = "checkout-2";

/// How long to wait for the sessions to run.
const PATIENCE: Duration = Duration::from_mins(2);

/// Builds the image, starts a node, and installs the operator there as a user does.
pub(super) fn show(keep: bool) -> Result<()> {
    check().context(
        "this machine cannot run a real node; without --node, KWOK stands in for the kubelet",
    )?;
    let start_of_builds = Instant::now();
    let mut steps = Steps::default();
    steps.next("Build everything");
    if !Programs::missing()?.is_empty() {
        screen::line("The first time, all of this takes many minutes; later it takes seconds.");
    }
    let programs = Programs::find()?;
    let archive = image::tested()?.archive;
    let end_of_builds = Instant::now();

    steps.next("Start a real node, and load the image");
    let images = archive.with_file_name("stand-ins.tar");
    stand_in::write(&programs, &stand_in::named_in(&manifests()?)?, &images)?;
    let node = Node::start(&[&archive, &images])?;
    screen::line(&format!(
        "a control plane, kubelet, containerd and runc: ready in {:.1} s, in namespaces of their own",
        end_of_builds.elapsed().as_secs_f64()
    ));
    play(&node, &mut steps, keep)?;
    screen::line(&format!(
        "{:.0} s for the builds, {:.0} s for everything after them.",
        (end_of_builds - start_of_builds).as_secs_f64(),
        end_of_builds.elapsed().as_secs_f64()
    ));
    if keep {
        return wait(&node);
    }
    screen::line("cargo xtask demo --node --keep leaves it running, for you to try.");
    Ok(())
}

/// Installs the operator, runs the sessions of the examples, and uninstalls all unless it is kept.
fn play(node: &Node, steps: &mut Steps, keep: bool) -> Result<()> {
    steps.next("Install the operator, as README.md says");
    let start = Instant::now();
    for line in INSTALL {
        shell(node, line)?;
    }
    screen::step(start.elapsed(), "the operator is ready");

    steps.next("Sessions start");
    screen::line("Their browsers are stand-ins that only wait; the operator is the real one.");
    shell(node, TRY)?;
    screen::line(&format!(
        "{LARGE} asks for a whole core. Two cores are too few for it and the others, so it goes."
    ));
    shell(
        node,
        &format!("kubectl delete browser {LARGE} --namespace {NAMESPACE} --ignore-not-found"),
    )?;
    let sessions =
        browsers::until_running(|| node.kubectl(), PATIENCE).inspect_err(|_| node.keep_logs())?;
    shell(node, "kubectl get browsers,pods --all-namespaces")?;
    if !keep {
        steps.next("Sessions end, and the operator is uninstalled, as deploy/README.md says");
        for line in UNINSTALL {
            shell(node, line)?;
        }
    }
    screen::title("Summary");
    screen::line(&format!(
        "{} sessions ran in containers of a real kubelet, each in a pod that went through the sandboxed plugins.",
        sessions.len()
    ));
    Ok(())
}

/// The files that name images.
fn manifests() -> Result<Vec<PathBuf>> {
    let directory = run::root().join("deploy/examples");
    let entries = std::fs::read_dir(&directory).with_context(|| directory.display().to_string())?;
    let mut files = vec![run::root().join("plugins/chain.yaml")];
    for entry in entries {
        files.push(entry?.path());
    }
    files.retain(|file| file.is_file());
    Ok(files)
}

/// Runs a line as a user does: in the repository, with kubectl on PATH.
fn shell(node: &Node, line: &str) -> Result<()> {
    screen::line(&format!("$ {line}"));
    let kubectl = &node.programs().control_plane.kubectl;
    let mut path = kubectl.parent().unwrap_or(kubectl).as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut shell = node.in_network(Path::new("sh"));
    shell.args(["-c", line]).env("PATH", path);
    let status = shell.current_dir(run::root()).status()?;
    if !status.success() {
        node.keep_logs();
        bail!("{line} failed ({status})");
    }
    Ok(())
}

fn wait(node: &Node) -> Result<()> {
    screen::title("It keeps running");
    screen::line(&format!(
        "export KUBECONFIG={}",
        node.kubeconfig().display()
    ));
    let kubectl = node.kubectl();
    let words = std::iter::once(kubectl.get_program()).chain(kubectl.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    screen::line(&format!("alias kubectl='{}'", words.join(" ")));
    screen::line(&format!(
        "alias ctr='{} --address {} --namespace k8s.io'",
        node.programs().directory.join("ctr").display(),
        node.containerd().display()
    ));
    screen::line("kubectl get browsers -A -w");
    screen::line(
        "ctr images import ARCHIVE.tar     # the node pulls nothing, so this brings it your images",
    );
    screen::line(&format!(
        "logs of the kubelet and the others: {}",
        node.logs_dir().display()
    ));
    screen::line("Ctrl-C stops everything and removes it.");
    loop {
        thread::sleep(Duration::from_secs(1));
        node.check_alive()?;
    }
}

#[cfg(test)]
mod tests;
