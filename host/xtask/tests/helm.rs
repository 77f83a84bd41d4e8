//! Checks that the Helm chart agrees with the rest of the repository. `tests/blackbox/helm_chart.rs` renders it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const CHART: &str = "deploy/helm";

/// The files of the chart that are copies, and of what: a file, or all YAML files of a directory.
///
/// They are no links, since Flux follows none that leads out of a chart.
const COPIES: [(&str, &str); 31] = [
    ("crds/browser", "crds"),
    ("crds/portal", "crds/portal"),
    ("crds/infrastructure", "crds/infrastructure"),
    ("crds/cleaner", "crds/cleaner"),
    ("crds/rollout", "crds/rollout"),
    ("crds/webhook", "crds/webhook"),
    ("rbac/browser.yaml", "deploy/controllers/browser/rbac.yaml"),
    ("rbac/portal.yaml", "deploy/controllers/portal/rbac.yaml"),
    (
        "rbac/infrastructure.yaml",
        "deploy/controllers/infrastructure/rbac.yaml",
    ),
    ("rbac/cleaner.yaml", "deploy/controllers/cleaner/rbac.yaml"),
    ("rbac/rollout.yaml", "deploy/controllers/rollout/rbac.yaml"),
    ("rbac/webhook.yaml", "deploy/controllers/webhook/rbac.yaml"),
    ("rbac/drift.yaml", "deploy/options/drift/rbac.yaml"),
    ("rbac/gate.yaml", "deploy/options/gate/rbac.yaml"),
    ("rbac/heal.yaml", "deploy/options/heal/rbac.yaml"),
    ("rbac/reports.yaml", "deploy/options/reports/rbac.yaml"),
    ("rbac/follow.yaml", "deploy/options/rollout/rbac.yaml"),
    (
        "users/browser.yaml",
        "deploy/controllers/browser/users.yaml",
    ),
    ("users/portal.yaml", "deploy/controllers/portal/users.yaml"),
    (
        "users/infrastructure.yaml",
        "deploy/controllers/infrastructure/users.yaml",
    ),
    (
        "users/cleaner.yaml",
        "deploy/controllers/cleaner/users.yaml",
    ),
    (
        "users/webhook.yaml",
        "deploy/controllers/webhook/users/users.yaml",
    ),
    (
        "users/rollout.yaml",
        "deploy/controllers/rollout/users.yaml",
    ),
    (
        "webhook/certificate.yaml",
        "deploy/options/cert-manager/certificate.yaml",
    ),
    (
        "webhook/validating.yaml",
        "deploy/controllers/webhook/configurations/validating.yaml",
    ),
    (
        "webhook/policy.yaml",
        "deploy/controllers/webhook/policy/policy.yaml",
    ),
    (
        "rollout/policy.yaml",
        "deploy/controllers/rollout/policy/policy.yaml",
    ),
    ("webhook/gate.yaml", "deploy/options/gate/gate.yaml"),
    (
        "webhook/updates.yaml",
        "deploy/options/updates/webhook.yaml",
    ),
    (
        "webhook/workloads.yaml",
        "deploy/options/workloads/webhook.yaml",
    ),
    (
        "webhook/gate-strict.yaml",
        "deploy/options/gate-strict/policy.yaml",
    ),
];

/// Written by the tests of `podloom rbac`.
const OF_RBAC: &str = "rbac/namespaced/";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The paths of all files below a directory, relative to it.
fn files(directory: &Path, prefix: &str) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("the directory exists");
    let entries = entries.map(|entry| entry.expect("it can be read"));
    let found = entries.flat_map(|entry| {
        let name = entry.file_name().into_string().expect("UTF-8");
        let path = format!("{prefix}{name}");
        match entry.path().is_dir() {
            true => files(&entry.path(), &format!("{path}/")),
            false => vec![path],
        }
    });
    found.collect()
}

/// Each copied file with its origin.
fn copies() -> Vec<(String, PathBuf)> {
    let pairs = COPIES.iter().flat_map(|(copy, origin)| {
        let origin = root().join(origin);
        if origin.is_file() {
            return vec![((*copy).to_owned(), origin)];
        }
        let names = files(&origin, "").into_iter();
        let names = names.filter(|name| name.ends_with(".yaml") && !name.contains('/'));
        names
            .map(|name| (format!("{copy}/{name}"), origin.join(name)))
            .collect()
    });
    pairs.collect()
}

/// On a developer's machine the copies are rewritten, and the test fails once; in CI it only fails.
#[test]
fn copies_are_fresh() {
    let folder = root().join(CHART).join("files");
    let mut stale = Vec::new();
    let mut known = BTreeSet::new();
    for (copy, origin) in copies() {
        let text = fs::read_to_string(&origin).expect("the origin is there");
        let path = folder.join(&copy);
        known.insert(copy);
        if fs::read_to_string(&path).is_ok_and(|found| found == text) {
            continue;
        }
        if std::env::var_os("CI").is_none() {
            fs::create_dir_all(path.parent().expect("it is in a directory")).expect("it is made");
            fs::write(&path, text).expect("it can be written");
        }
        stale.push(path);
    }
    assert!(
        stale.is_empty(),
        "these files differed from their origins; run this test again and commit them: {stale:#?}",
    );
    let mut others = files(&folder, "");
    others.retain(|file| !known.contains(file) && !file.starts_with(OF_RBAC));
    assert!(
        others.is_empty(),
        "these are copies of nothing, so delete them: {others:?}"
    );
}

#[test]
fn the_version_is_the_one_that_is_built() {
    let chart = fs::read_to_string(root().join(CHART).join("Chart.yaml")).expect("it is there");
    let version = env!("CARGO_PKG_VERSION");
    for line in [
        format!("\nversion: {version}\n"),
        format!("\nappVersion: {version}\n"),
    ] {
        assert!(chart.contains(&line), "Chart.yaml lacks {line}");
    }
}

/// A controller of kustomize is one of the chart.
#[test]
fn every_controller_has_values_and_notes() {
    let read = |file: &str| fs::read_to_string(root().join(CHART).join(file)).expect("it is there");
    let values = read("values.yaml");
    let notes = read("templates/NOTES.txt");
    let duties = fs::read_dir(root().join("deploy/controllers")).expect("it is there");
    let mut count = 0;
    for duty in duties {
        let name = duty.expect("it can be read").file_name();
        let name = name.into_string().expect("UTF-8");
        count += 1;
        let section = format!("\n{name}:\n  enabled: ");
        assert!(values.contains(&section), "values.yaml lacks {name}");
        let switch = format!(".Values.{name}.enabled");
        assert!(notes.contains(&switch), "NOTES.txt lacks {name}");
    }
    assert!(count >= 5, "only {count} controllers found");
}
