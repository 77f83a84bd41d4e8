use std::fmt::Write;

use podloom_api::{BrowserConfigObject, BrowserObject, PodSettings, SelenosisApi};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::dry::DRY_BYTES;
use super::{Before, DRY_PODS, DryPods, Findings, browser, browser_config};
use crate::render::ConfigRef;

/// One review: the object, what is stored of it, and the BrowserConfigs of its namespace, if they are known.
#[derive(Deserialize)]
struct Case {
    new: Value,
    old: Option<Value>,
    configs: Option<Vec<BrowserConfigObject>>,
}

fn typed<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn findings(case: Case) -> (Findings, Option<DryPods>) {
    let refs: Option<Vec<ConfigRef<'_>>> = case
        .configs
        .as_ref()
        .map(|configs| configs.iter().map(ConfigRef::from).collect());
    if case.new["kind"] == "Browser" {
        let (new, old): (BrowserObject, Option<BrowserObject>) =
            (typed(case.new), case.old.map(typed));
        let found = browser(&new, old.as_ref(), refs.as_deref());
        return (found, None);
    }
    let (new, old): (BrowserConfigObject, Option<BrowserConfigObject>) =
        (typed(case.new), case.old.map(typed));
    let found = browser_config(&new, old.as_ref(), &refs.unwrap_or_default());
    (found, Some(DryPods::of(SelenosisApi::Seed, new, old)))
}

fn report((Findings { refusals, warnings }, dry): (Findings, Option<DryPods>)) -> String {
    let mut text = String::new();
    for refusal in refusals {
        writeln!(text, "refused: {refusal}").unwrap();
    }
    for warning in warnings {
        writeln!(text, "warning: {warning}").unwrap();
    }
    let Some(mut dry) = dry else { return text };
    while let Some(pod) = dry.next() {
        let before = match dry.before(&pod.of) {
            Before::Absent => "new",
            Before::Same => "as before",
            Before::Other(_) => "changed",
        };
        let image = pod.pod["spec"]["containers"][0]["image"].as_str().unwrap();
        writeln!(text, "tried: {}, {before}, image {image}", pod.of.pair()).unwrap();
    }
    if dry.untried() > 0 {
        writeln!(text, "not tried: {}", dry.untried()).unwrap();
    }
    text
}

#[test]
fn found_as_the_file_name_says() {
    insta::glob!("cases/*.yaml", |path| {
        let text = std::fs::read_to_string(path).unwrap();
        let found = report(findings(serde_saphyr::from_str(&text).unwrap()));
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!("validate", found);
        });
    });
}

#[test]
fn a_pod_that_is_tried_is_that_of_a_browser_and_says_that_it_is_dry() {
    let new = json!({
        "metadata": { "name": "a", "namespace": "team-a" },
        "spec": { "browsers": { "chrome": { "139.0": { "image": "a" } } } },
    });
    let mut dry = DryPods::of(SelenosisApi::Seed, typed(new), None);
    let tried = dry.next().unwrap();
    insta::assert_yaml_snapshot!("dry_pod", tried.pod);
    let request = tried.request;
    assert_eq!((request.kind, request.dry_run), ("Browser", true));
    assert_eq!(request.namespace, "team-a");
    assert_eq!(request.labels["selenosis.io/browser.version"], "139.0");
}

fn config(versions: usize, settings: impl Fn(usize) -> Value) -> BrowserConfigObject {
    let versions: serde_json::Map<String, Value> = (0..versions)
        .map(|number| (format!("v{number:05}"), settings(number)))
        .collect();
    typed(json!({
        "metadata": { "name": "a", "namespace": "team-a" },
        "spec": { "browsers": { "chrome": versions } },
    }))
}

/// How many findings name a field, and how many pods are tried and how many not.
#[track_caller]
fn check_bounds(
    new: &BrowserConfigObject,
    old: Option<&BrowserConfigObject>,
    expected: (usize, usize, usize, usize),
) {
    let found = browser_config(new, old, &[]);
    let mut dry = DryPods::of(SelenosisApi::Seed, new.clone(), old.cloned());
    let pods = dry.by_ref().count();
    let counts = (
        found.refusals.len(),
        found.warnings.len(),
        pods,
        dry.untried(),
    );
    assert_eq!(counts, expected, "{found:?}");
}

#[test]
fn of_many_versions_a_few_are_tried() {
    let image = |number: usize| json!({ "image": format!("image-{number}") });
    let many = config(10_000, image);
    check_bounds(&many, None, (0, 0, DRY_PODS, 10_000 - DRY_PODS));
    let same = config(10_000, |_| json!({ "image": "a" }));
    check_bounds(&same, None, (0, 0, 1, 0));
    let mut other = config(10_000, image);
    other.spec.template = Some(typed::<PodSettings>(json!({ "workingDir": "/" })));
    check_bounds(&other, Some(&many), (0, 0, DRY_PODS, 10_000 - DRY_PODS));
}

#[test]
fn of_many_problems_a_few_are_named_and_the_rest_is_counted() {
    let broken = |number: usize| {
        let mount = json!({ "name": format!("volume-{number}"), "mountPath": "/a" });
        json!({ "image": "a", "volumeMounts": [mount] })
    };
    let new = config(1000, broken);
    check_bounds(&new, None, (13, 0, 0, 0));
    let found = browser_config(&new, None, &[]);
    assert_eq!(
        found.refusals[12].to_string(),
        "spec.browsers: and 244 more problems"
    );
    // More problems were stored than are found, so any of them may have been there.
    let old = config(1001, broken);
    check_bounds(&new, Some(&old), (0, 6, 0, 0));
}

#[test]
fn pods_are_tried_up_to_some_bytes() {
    let value = "x".repeat(DRY_BYTES / 2 - 1000);
    let image = |number| json!({ "image": format!("image-{number}"), "workingDir": value });
    check_bounds(&config(20, image), None, (0, 0, 2, 18));
    // One that is too large does not hold up the others.
    let mut new = config(20, |number| json!({ "image": format!("image-{number}") }));
    let versions = new.spec.browsers.get_mut("chrome").unwrap();
    let large = json!({ "image": "a", "workingDir": "x".repeat(DRY_BYTES) });
    versions.insert("v00000".to_owned(), typed(large));
    check_bounds(&new, None, (0, 0, 19, 1));
}

#[test]
fn pods_of_the_stored_object_count_too() {
    let variable = |number| json!({ "name": format!("V{number}"), "value": "" });
    let env: Vec<Value> = (0..30_000).map(variable).collect();
    let image = |number| json!({ "image": format!("image-{number}") });
    let mut old = config(20, image);
    old.spec.template = Some(typed::<PodSettings>(json!({ "env": env })));
    let mut dry = DryPods::of(SelenosisApi::Seed, config(20, image), Some(old));
    let (mut pods, mut bytes) = (0, 0);
    while let Some(pod) = dry.next() {
        pods += 1;
        bytes += pod.pod.to_string().len();
        match dry.before(&pod.of) {
            Before::Other(old) => bytes += old.to_string().len(),
            before => assert_eq!(before, Before::Same),
        }
    }
    assert_eq!(pods, 20);
    assert!(
        (1 << 20..DRY_BYTES + (64 << 10)).contains(&bytes),
        "{bytes}"
    );
}

#[test]
fn what_was_too_large_or_unreadable_is_taken_for_the_same_and_what_was_broken_is_not() {
    let before = |dry: DryPods| {
        let mut dry = dry;
        let pod = dry.next().unwrap();
        dry.before(&pod.of)
    };
    let of = |old| {
        DryPods::of(
            SelenosisApi::Seed,
            config(1, |_| json!({ "image": "a" })),
            old,
        )
    };
    let mut large = config(1000, |_| json!({ "image": "b" }));
    let value = "x".repeat(40 << 10);
    large.spec.template = Some(typed::<PodSettings>(json!({ "workingDir": value })));
    assert_eq!(before(of(Some(large))), Before::Same);
    assert_eq!(before(of(None).with_unknown_old()), Before::Same);
    let broken = json!({ "image": "a", "sidecars": [{ "name": "browser", "image": "b" }] });
    let broken = config(1, |_| broken.clone());
    assert_eq!(before(of(Some(broken))), Before::Absent);
}

#[test]
fn what_is_too_large_to_merge_is_refused_and_what_was_may_shrink() {
    let value = "x".repeat(40 << 10);
    let large = |versions| {
        let mut config = config(
            versions,
            |_| json!({ "image": "a", "volumeMounts": [{ "name": "home", "mountPath": "/a" }] }),
        );
        config.spec.template = Some(typed::<PodSettings>(json!({ "workingDir": value })));
        config
    };
    check_bounds(&large(1000), None, (1, 0, 0, 0));
    check_bounds(&large(900), Some(&large(1000)), (0, 1, 0, 0));
    check_bounds(&large(10), Some(&large(1000)), (0, 1, 0, 0));
    check_bounds(&large(10), None, (1, 0, 0, 0));
}

#[test]
fn a_field_is_written_as_kubernetes_does_and_is_never_long() {
    let new = config(
        1,
        |_| json!({ "image": "a", "sidecars": [{ "name": "browser", "image": "b" }] }),
    );
    let mut new = new;
    let versions = new.spec.browsers.remove("chrome").unwrap();
    new.spec.browsers.insert("x\"\n".repeat(100), versions);
    let found = browser_config(&new, None, &[]);
    let text = found.refusals[0].to_string();
    assert!(text.starts_with(r#"spec.browsers["x\"\nx\"\n"#), "{text}");
    assert!(text.chars().count() < 300, "{text}");
}
