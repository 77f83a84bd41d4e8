use podloom_api::BrowserConfigObject;

use super::{ConfigRef, resolve};
use crate::render::fixtures::{browser, config, plain_config};

/// Resolves, and returns the image or the error.
fn outcome(configs: &[BrowserConfigObject], name: &str, version: &str) -> String {
    let configs: Vec<ConfigRef<'_>> = configs.iter().map(ConfigRef::from).collect();
    match resolve(&configs, &browser(name, version)) {
        Ok(resolved) => resolved.effective.image,
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn check(configs: &[BrowserConfigObject], (name, version): (&str, &str), expected: &str) {
    assert_eq!(outcome(configs, name, version), expected);
    let reversed: Vec<_> = configs.iter().rev().cloned().collect();
    assert_eq!(
        outcome(&reversed, name, version),
        expected,
        "in reverse order"
    );
}

#[test]
fn exact_names_win_over_other_spellings() {
    let configs = [
        plain_config("old", 1, &[("chrome", "latest"), ("Edge", "Beta")]),
        plain_config("young", 2, &[("Chrome", "latest"), ("Chrome", "LATEST")]),
    ];
    check(&configs[..1], ("chrome", "latest"), "old/chrome:latest");
    check(&configs[..1], ("CHROME", "Latest"), "old/chrome:latest");
    check(&configs[..1], ("edge", "beta"), "old/Edge:Beta");
    check(&configs, ("chrome", "latest"), "old/chrome:latest");
}

#[test]
fn the_older_config_serves_a_spelling_that_none_has() {
    let configs = [
        plain_config("young", 2, &[("Chrome", "139.0")]),
        plain_config("old", 1, &[("chrome", "139.0")]),
    ];
    check(&configs, ("CHROME", "139.0"), "old/chrome:139.0");
    check(&configs, ("Chrome", "139.0"), "young/Chrome:139.0");
}

#[test]
fn a_config_with_the_same_pair_does_not_overwrite_the_older() {
    let old = plain_config("old", 1, &[("chrome", "139.0")]);
    let young = plain_config("young", 2, &[("chrome", "139.0"), ("chrome", "140.0")]);
    let both = [old.clone(), young.clone()];
    check(&both, ("chrome", "139.0"), "old/chrome:139.0");
    check(&both, ("chrome", "140.0"), "young/chrome:140.0");
    check(&[old], ("chrome", "139.0"), "old/chrome:139.0");
    check(&[young], ("chrome", "139.0"), "young/chrome:139.0");
}

#[test]
fn configs_of_one_age_serve_by_name() {
    let configs = [
        plain_config("b", 1, &[("chrome", "139.0")]),
        plain_config("a", 1, &[("chrome", "139.0")]),
    ];
    check(&configs, ("chrome", "139.0"), "a/chrome:139.0");
}

#[test]
fn a_config_that_is_not_yet_created_is_the_youngest() {
    let mut file = plain_config("a", 1, &[("chrome", "139.0")]);
    file.metadata.creation_timestamp = None;
    let created = plain_config("b", 1, &[("chrome", "139.0")]);
    check(&[file, created], ("chrome", "139.0"), "b/chrome:139.0");
}

#[test]
fn a_version_removed_from_a_config_is_gone_at_once() {
    let mut only = plain_config("only", 1, &[("chrome", "139.0"), ("chrome", "140.0")]);
    check(&[only.clone()], ("chrome", "139.0"), "only/chrome:139.0");
    only.spec
        .browsers
        .get_mut("chrome")
        .unwrap()
        .remove("139.0");
    check(
        &[only],
        ("chrome", "139.0"),
        r#"Browser configuration not found: chrome has no version "139.0", available: 140.0"#,
    );
}

#[test]
fn what_is_not_found_is_told_with_what_there_is() {
    let configs = [
        plain_config("a", 1, &[("chrome", "138.0"), ("firefox", "118.0")]),
        plain_config("b", 2, &[("chrome", "139.0")]),
    ];
    check(
        &[],
        ("chrome", "139.0"),
        "Browser configuration not found: the namespace has no BrowserConfig",
    );
    check(
        &configs,
        ("opera", "1"),
        r#"Browser configuration not found: no browser is called "opera", available: chrome (138.0, 139.0), firefox (118.0)"#,
    );
    check(
        &configs,
        ("crome", "139.0"),
        r#"Browser configuration not found: no browser is called "crome", did you mean "chrome"? available: chrome (138.0, 139.0), firefox (118.0)"#,
    );
    check(
        &configs,
        ("chrome", "139"),
        r#"Browser configuration not found: chrome has no version "139", did you mean "139.0"? available: 138.0, 139.0"#,
    );
    check(
        &configs,
        ("Firefox", "9"),
        r#"Browser configuration not found: Firefox has no version "9", available: 118.0"#,
    );
}

#[test]
fn names_that_differ_in_case_alone_are_refused_and_the_others_are_served() {
    let mixed = [plain_config(
        "mixed",
        1,
        &[
            ("chrome", "beta"),
            ("chrome", "Beta"),
            ("chrome", "139.0"),
            ("Edge", "1"),
            ("edge", "2"),
        ],
    )];
    check(
        &mixed,
        ("chrome", "beta"),
        "Browser configuration mixed is invalid: versions Beta and beta differ only in case, rename or merge them",
    );
    check(
        &mixed,
        ("edge", "2"),
        "Browser configuration mixed is invalid: browsers Edge and edge differ only in case, rename or merge them",
    );
    check(&mixed, ("chrome", "139.0"), "mixed/chrome:139.0");
}

#[test]
fn an_invalid_version_is_refused_although_a_younger_config_has_it_too() {
    let broken = config(
        "broken",
        1,
        "browsers: { chrome: { '139.0': { image: x, sidecars: [{ name: browser, image: s }] } } }",
    );
    let young = plain_config("young", 2, &[("chrome", "139.0")]);
    check(
        &[broken, young],
        ("chrome", "139.0"),
        "Browser configuration broken is invalid: a sidecar or init container is called browser, rename it: the browser container has that name",
    );
}
