//! The install manifests agree with the rest of the repository.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    let text = fs::read_to_string(root().join(path)).unwrap_or_default();
    assert!(!text.is_empty(), "{path} is missing or empty");
    text
}

/// The entries of a list of scalars that follows a key, as our kustomizations write them.
fn list(text: &str, key: &str) -> Vec<String> {
    text.lines()
        .map(str::trim)
        .skip_while(|line| *line != key)
        .skip(1)
        .map_while(|line| line.strip_prefix("- "))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_config_map_holds_the_chain_and_every_plugin_of_it() {
    let listed = list(&read("deploy/plugins/kustomization.yaml"), "files:");
    let chain = read("plugins/chain.yaml");
    let mut wanted: BTreeSet<String> = chain
        .lines()
        .filter_map(|line| line.trim().strip_prefix("file: "))
        .map(str::to_owned)
        .collect();
    assert!(!wanted.is_empty(), "the chain names no plugin");
    wanted.insert("chain.yaml".to_owned());
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), wanted);
}

#[test]
fn the_image_has_the_version_that_is_built() {
    let version = env!("CARGO_PKG_VERSION");
    let tag = format!("ghcr.io/podloom/podloom:{version}\n");
    assert!(read("deploy/base/deployment.yaml").contains(&tag), "{tag}");
    assert!(read("deploy/Dockerfile").contains(&format!("ARG VERSION={version}\n")));
}

#[test]
fn every_part_names_the_directory_of_plugins_alike() {
    let directory = "/usr/share/podloom/plugins";
    let dist = read("host/xtask/src/dist.rs");
    assert!(dist.contains(directory.trim_start_matches('/')));
    for (file, wanted) in [
        (
            "deploy/base/deployment.yaml",
            format!("args: [run, --plugins, {directory}]\n"),
        ),
        (
            "deploy/plugins/kustomization.yaml",
            format!("mountPath: {directory}\n"),
        ),
        (
            "deploy/Dockerfile",
            format!("CMD [\"run\", \"--plugins\", \"{directory}\"]\n"),
        ),
    ] {
        assert!(read(file).contains(&wanted), "{file} lacks {wanted}");
    }
}

#[test]
fn the_deployment_has_no_limit_on_cpu() {
    let deployment = read("deploy/base/deployment.yaml");
    let (_, limits) = deployment
        .split_once("limits:\n")
        .expect("memory has a limit");
    let limits: Vec<&str> = limits.lines().take(2).map(str::trim).collect();
    assert_eq!(limits, ["memory: 384Mi", "securityContext:"]);
}
