//! A chain is changed, and everybody can see before what that does, and afterwards who wrote a line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::{Built, Live, NAMESPACE, screen};
use crate::run;

/// Where the manifests of the offline scene are.
const EXAMPLES: &str = "deploy/examples";
/// What the user edits: the value of a label.
const BEFORE: &str = "value: $(request/kind)";
const AFTER: &str = "value: somebody";
/// More than any plugin of the chain needs.
const ALLOWED: &str = "  - /metadata/labels/team\n";
const TOO_MUCH: &str = "  - /metadata/labels/team\n  - /metadata/annotations # just in case\n";

/// Shows what a chain writes into the pods of manifests, and previews and tightens a changed one, without a cluster.
pub(super) fn offline(built: &Built) -> Result<()> {
    let (old, new) = (shown(&built.bundle)?, shown(&edited(&built.bundle)?)?);
    let podloom = |arguments: &[&str]| podloom(built, None, arguments);
    screen::line("what each plugin writes into the pods of these manifests, and why:");
    podloom(&["render", "-f", EXAMPLES, "--plugins", &old, "--explain"])?;
    screen::line("somebody edits chain.yaml: another value for a label, and a grant too much.");
    screen::line("what that changes:");
    podloom(&["chain", "diff", &old, &new, "-f", EXAMPLES, "--show-values"])?;
    screen::line("and what these pods do not need of the grants:");
    podloom(&["chain", "tighten", &new, "-f", EXAMPLES])?;
    screen::line(&format!(
        "your own manifests work as well: {} render -f FILE --plugins {old} --diff",
        shown(&built.binary)?
    ));
    Ok(())
}

/// Previews, tightens and explains a chain on the sessions of the examples.
pub(super) fn show(built: &Built, live: &mut Live) -> Result<()> {
    let (old, new) = (shown(&built.bundle)?, shown(&edited(&built.bundle)?)?);
    let corpus = shown(&directory()?.join("corpus"))?;
    let podloom = |arguments: &[&str]| podloom(built, Some(&live.cluster.kubeconfig), arguments);
    screen::line("somebody edits chain.yaml: another value for a label, and a grant too much.");
    podloom(&["corpus", "record", &corpus, "-n", NAMESPACE])?;
    podloom(&["chain", "diff", &old, &new, "--corpus", &corpus])?;
    screen::line("nothing of it serves yet. The grant too much is found on what was recorded:");
    podloom(&["chain", "tighten", &new, "--corpus", &corpus])?;
    let session = live.sessions.first().context("no session runs")?;
    let pod = format!("pod/{}", session.name);
    screen::line("who wrote a line of a pod that runs:");
    podloom(&["blame", &pod, "-n", NAMESPACE])?;
    screen::line("and whether the chain missed a pod, or somebody changed what it wrote:");
    podloom(&["drift", "-n", NAMESPACE, "--plugins", &old])
}

fn directory() -> Result<PathBuf> {
    run::target("demo/change")
}

/// A copy of the bundle as somebody edits it.
fn edited(bundle: &Path) -> Result<PathBuf> {
    let directory = directory()?;
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    let copy = directory.join("my-chain");
    fs::create_dir_all(&copy)?;
    for file in fs::read_dir(bundle)? {
        let file = file?;
        fs::copy(file.path(), copy.join(file.file_name()))?;
    }
    let path = copy.join("chain.yaml");
    let mut text = fs::read_to_string(&path)?;
    for (before, after) in [(BEFORE, AFTER), (ALLOWED, TOO_MUCH)] {
        if !text.contains(before) {
            bail!("{} has no {}", path.display(), before.trim());
        }
        text = text.replacen(before, after, 1);
    }
    fs::write(path, text)?;
    Ok(copy)
}

/// Runs it in the root of the repository. What it renders is not shown.
fn podloom(built: &Built, kubeconfig: Option<&Path>, arguments: &[&str]) -> Result<()> {
    let is_render = arguments.first() == Some(&"render");
    let end = if is_render { " >/dev/null" } else { "" };
    screen::line(&format!("$ podloom {}{end}", arguments.join(" ")));
    let mut command = Command::new(&built.binary);
    command.args(arguments).current_dir(run::root());
    if let Some(kubeconfig) = kubeconfig {
        command.env("KUBECONFIG", kubeconfig);
    }
    if is_render {
        command.stdout(Stdio::null());
    }
    run::succeed(&mut command)
}

/// A path as one would type it in the root of the repository.
fn shown(path: &Path) -> Result<String> {
    let path = path.strip_prefix(run::root()).unwrap_or(path);
    let text = path.to_str();
    Ok(text
        .with_context(|| format!("{} is not UTF-8", path.display()))?
        .to_owned())
}
