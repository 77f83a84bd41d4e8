//! A chain is changed, and everybody can see before what that does, and afterwards who wrote a line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Built, Live, NAMESPACE, screen};
use crate::run;

/// What the user edits: the value of a label.
const BEFORE: &str = "value: $(request/kind)";
const AFTER: &str = "value: somebody";
/// More than any plugin of the chain needs.
const ALLOWED: &str = "  - /metadata/labels/team\n";
const TOO_MUCH: &str = "  - /metadata/labels/team\n  - /metadata/annotations # just in case\n";

/// Previews, tightens and explains a chain on the sessions of the examples.
pub(super) fn show(built: &Built, live: &mut Live) -> Result<()> {
    let demo = Demo {
        binary: &built.binary,
        kubeconfig: &live.cluster.kubeconfig,
        directory: run::target("demo/change")?,
    };
    let new = demo.edited(&built.bundle)?;
    let corpus = demo.directory.join("corpus");
    let (old, new, corpus) = (text(&built.bundle)?, text(&new)?, text(&corpus)?);

    screen::line("somebody edits chain.yaml: another value for a label, and a grant too much.");
    demo.podloom(&["corpus", "record", corpus, "-n", NAMESPACE])?;
    demo.podloom(&["chain", "diff", old, new, "--corpus", corpus])?;
    screen::line("nothing of it serves yet. The grant too much is found on what was recorded:");
    demo.podloom(&["chain", "tighten", new, "--corpus", corpus])?;
    let session = live.sessions.first().context("no session runs")?;
    let pod = format!("pod/{}", session.name);
    screen::line("who wrote a line of a pod that runs:");
    demo.podloom(&["blame", &pod, "-n", NAMESPACE])?;
    screen::line("and whether the chain missed a pod, or somebody changed what it wrote:");
    demo.podloom(&["drift", "-n", NAMESPACE, "--plugins", old])
}

struct Demo<'a> {
    binary: &'a Path,
    kubeconfig: &'a Path,
    directory: PathBuf,
}

impl Demo<'_> {
    /// A copy of the bundle as somebody edits it.
    fn edited(&self, bundle: &Path) -> Result<PathBuf> {
        if self.directory.exists() {
            fs::remove_dir_all(&self.directory)?;
        }
        let copy = self.directory.join("my-chain");
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

    fn podloom(&self, arguments: &[&str]) -> Result<()> {
        screen::line(&format!("$ podloom {}", arguments.join(" ")));
        let mut command = Command::new(self.binary);
        command.args(arguments).env("KUBECONFIG", self.kubeconfig);
        run::succeed(&mut command)
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str()
        .with_context(|| format!("{} is not UTF-8", path.display()))
}
