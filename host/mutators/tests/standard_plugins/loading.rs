//! Which chains of these plugins load.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use podloom_mutators::{Bundle, Chain};
use serde_json::{Value, json};

use super::{
    PLUGINS, bundle, directory, engine, hardening, labels, mutate, pod, sidecar, try_load,
    violations,
};

#[test]
fn a_manifest_that_grants_too_little_is_refused_with_the_paths() {
    let Some(bundle) = bundle() else { return };
    let with = |mut plugin: Value, field: &str, paths: Value| {
        plugin[field] = paths;
        try_load(&bundle, &[plugin]).err().unwrap_or_default()
    };
    for (error, path) in [
        (
            with(labels(), "allow", json!(["/metadata/labels/team"])),
            "/metadata/annotations/example.com~1account",
        ),
        (
            with(labels(), "allow", json!(["/metadata/annotations"])),
            "/metadata/labels/team",
        ),
        (
            with(labels(), "read", json!(["/metadata"])),
            "/spec/serviceAccountName",
        ),
        (
            with(
                sidecar(),
                "allow",
                json!(["/metadata/annotations", "/spec/volumes"]),
            ),
            "/spec/initContainers",
        ),
        (
            with(hardening(), "allow", json!(["/spec/securityContext"])),
            "/spec/containers/*/securityContext",
        ),
    ] {
        assert!(error.contains(path), "{path} is not in: {error}");
    }
}

#[test]
fn a_wrong_configuration_is_refused_with_what_to_change() {
    let Some(bundle) = bundle() else { return };
    let mut plugin = labels();
    plugin["config"]["labels"][0]["key"] = json!("app.kubernetes.io/name");
    plugin["allow"] = json!(["/metadata/labels", "/metadata/annotations"]);
    let error = try_load(&bundle, &[plugin.clone()])
        .err()
        .unwrap_or_default();
    assert!(error.contains("add the key to allowProtected"), "{error}");

    plugin["config"] = json!({ "label": [] });
    let error = try_load(&bundle, &[plugin]).err().unwrap_or_default();
    assert!(error.contains("label"), "{error}");
}

#[test]
fn the_default_bundle_loads_and_is_proven() {
    let Some(bundle) = bundle() else { return };
    let chain = Chain::load(engine(), &Bundle::read(&bundle).unwrap()).unwrap();
    let names: Vec<&str> = chain
        .plugins()
        .iter()
        .map(|plugin| plugin.name.as_str())
        .collect();
    assert_eq!(names, PLUGINS);
    assert_eq!(chain.prove(), []);
    let mutation = mutate(&chain, pod());
    assert_eq!(violations(&mutation.pod), Vec::<String>::new());
}

#[test]
fn shipped_chains_grant_what_their_plugins_need_and_no_more() {
    let Some(bundle) = bundle() else { return };
    for manifest in ["plugins/chain.yaml", "deploy/examples/chain/chain.yaml"] {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(manifest);
        let directory = directory(&bundle, &[]);
        fs::copy(&manifest, directory.path().join("chain.yaml")).unwrap();
        let files = Bundle::read(directory.path()).unwrap();
        let chain = Chain::load(engine(), &files).unwrap();
        for plugin in chain.plugins() {
            let sorted = |paths: &[String]| paths.iter().cloned().collect::<BTreeSet<_>>();
            let about = &plugin.description;
            assert_eq!(
                sorted(&plugin.allow),
                sorted(&about.writes),
                "{}",
                plugin.name
            );
            assert_eq!(
                sorted(&plugin.read),
                sorted(&about.reads),
                "{}",
                plugin.name
            );
        }
        assert_eq!(chain.prove(), []);
    }
}
