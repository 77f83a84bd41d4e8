//! The commands of the guides, as they are written there.

use std::fs;

use crate::cluster::root;

/// The lines of the first shell block below a heading, without comments.
#[track_caller]
fn block(file: &str, heading: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(file)).unwrap();
    // The title is a heading too.
    let text = format!("\n{text}");
    let (_, section) = text.split_once(&format!("\n{heading}\n")).unwrap();
    let (_, rest) = section.split_once("```sh\n").unwrap();
    let (block, _) = rest.split_once("```\n").unwrap();
    let lines = block
        .lines()
        .map(|line| line.split(" #").next().unwrap().trim());
    lines
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The commands of README.md that install the operator, after the one that builds the image.
///
/// Without the line that loads the image into kind: this node has loaded it already.
pub(crate) fn install() -> Vec<String> {
    let mut lines = block("README.md", "## Install");
    assert_eq!(lines.remove(0), "cargo xtask image");
    assert!(lines.remove(0).starts_with("kind load image-archive "));
    lines
}

/// The commands of deploy/README.md that uninstall it.
pub(crate) fn uninstall() -> Vec<String> {
    block("deploy/README.md", "### Uninstalling the operator")
}

/// The commands of deploy/README.md that install the admission webhooks, and then those that try them.
pub(crate) fn webhooks() -> (Vec<String>, Vec<String>) {
    let mut install = block("deploy/README.md", "## Admission webhooks");
    let is_try = |line: &String| line.contains(" run ");
    let first = install.iter().position(is_try).unwrap();
    let tries = install.split_off(first);
    (install, tries)
}

/// The commands of deploy/README.md that uninstall them.
pub(crate) fn uninstall_webhooks() -> Vec<String> {
    block("deploy/README.md", "### Uninstalling the webhooks")
}

/// The commands of deploy/PORTAL.md that install the portal controller and its examples, without the one that watches them.
pub(crate) fn portal() -> Vec<String> {
    let mut lines = block("deploy/PORTAL.md", "# Services through relays");
    assert!(lines.pop().unwrap().ends_with(" --watch"));
    lines
}

/// The commands of deploy/PORTAL.md that uninstall it.
pub(crate) fn uninstall_portal() -> Vec<String> {
    block("deploy/PORTAL.md", "## Uninstalling")
}

/// The commands of deploy/README.md for Helm: they install, label the namespace, upgrade and roll back.
pub(crate) fn helm() -> Vec<String> {
    block("deploy/README.md", "## Helm")
}

/// The command there with these words, also inside a sentence.
#[track_caller]
pub(crate) fn helm_command(words: &str) -> String {
    let text = fs::read_to_string(root().join("deploy/README.md")).unwrap();
    let commands = text.split(['`', '\n']);
    let mut commands = commands.filter(|command| command.starts_with("helm "));
    let command = commands.find(|command| command.contains(words));
    command.unwrap().to_owned()
}

/// The commands there that uninstall a release.
pub(crate) fn uninstall_helm() -> Vec<String> {
    block("deploy/README.md", "### Uninstalling a Helm release")
}

#[test]
fn the_commands_are_found() {
    let install = install();
    assert_eq!(install[0], "kubectl apply -k deploy");
    assert_eq!(install.len(), 3, "{install:?}");
    let uninstall = uninstall();
    assert!(uninstall[0].starts_with("kubectl delete browsers.selenosis.io "));
    assert_eq!(uninstall.len(), 4, "{uninstall:?}");
    let (install, tries) = webhooks();
    assert_eq!(install[0], "kubectl apply -k deploy/webhook");
    assert_eq!(
        (install.len(), tries.len()),
        (3, 2),
        "{install:?} {tries:?}"
    );
    let uninstall = uninstall_webhooks();
    assert!(uninstall[0].starts_with("kubectl delete mutatingwebhookconfiguration,"));
    assert_eq!(uninstall.len(), 4, "{uninstall:?}");
    let install = portal();
    assert_eq!(install[0], "kubectl apply -k deploy/portal");
    assert_eq!(install.len(), 4, "{install:?}");
    let uninstall = uninstall_portal();
    assert!(uninstall[0].starts_with("kubectl delete portalexposes "));
    assert_eq!(uninstall.len(), 4, "{uninstall:?}");
    let helm = helm();
    assert!(helm[0].starts_with("helm install podloom deploy/helm "));
    assert_eq!(helm.len(), 4, "{helm:?}");
    let uninstall = uninstall_helm();
    assert!(uninstall[1].starts_with("helm uninstall podloom "));
    assert_eq!(uninstall.len(), 5, "{uninstall:?}");
}
