use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use podloom_api::{BrowserObject, SelenosisApi, SelenosisKind, names};

use super::fixtures::{Objects, objects};
use super::{render_pod, resolve};
use crate::cause::Cause;

/// Renders as the reconciler does, and returns the pod, or the reason and the message of the Browser's status.
fn outcome(objects: &Objects, browser: &BrowserObject) -> Result<Pod, String> {
    let api_version = browser.types.as_ref().unwrap().api_version.as_str();
    let (api, kind) = SelenosisApi::recognize(api_version, "Browser").unwrap();
    assert_eq!(kind, SelenosisKind::Browser);
    let resolved = resolve(&objects.config_refs(), &browser.spec)
        .map_err(|error| format!("{}: {error}", Cause::from(&error).reason()))?;
    render_pod(api, &browser.metadata, &browser.spec, &resolved)
        .map_err(|error| format!("{}: {error}", Cause::from(&error).reason()))
}

fn read(path: &Path) -> Objects {
    objects(&std::fs::read_to_string(path).unwrap())
}

#[test]
fn rendered_as_the_file_name_says() {
    insta::glob!("cases/*.yaml", |path| {
        let objects = read(path);
        let outcome = outcome(&objects, &objects.browsers[0]);
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
            match outcome {
                Ok(pod) => insta::assert_yaml_snapshot!("render", pod),
                Err(refusal) => insta::assert_snapshot!("render", refusal),
            }
        });
    });
}

/// The environment's order, and everything else.
#[test]
fn the_same_input_gives_the_same_bytes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/render/cases/a_desktop_of_many_containers.yaml");
    let render = || {
        let objects = read(&path);
        serde_json::to_string(&outcome(&objects, &objects.browsers[0]).unwrap()).unwrap()
    };
    let first = render();
    for _ in 0..100 {
        assert_eq!(render(), first);
    }
}

#[test]
fn nothing_overrides_the_labels_that_name_the_browser() {
    insta::glob!("cases/*.yaml", |path| {
        let objects = read(path);
        let browser = &objects.browsers[0];
        let Ok(pod) = outcome(&objects, browser) else {
            return;
        };
        let labels = pod.metadata.labels.unwrap();
        let name = browser.metadata.name.as_deref().unwrap();
        assert_eq!(labels[names::label::BROWSER], names::label_value(name));
        assert_eq!(
            labels[names::label::BROWSER_NAME],
            names::label_value(&browser.spec.browser_name)
        );
        assert_eq!(
            labels[names::label::BROWSER_VERSION],
            names::label_value(&browser.spec.browser_version)
        );
    });
}

#[test]
fn a_browser_without_uid_owns_nothing_and_one_without_name_is_refused() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/render/cases/a_browser_with_one_sidecar.yaml");
    let mut objects = read(&path);
    let mut browser = objects.browsers.remove(0);
    browser.metadata.uid = None;
    assert_eq!(
        outcome(&objects, &browser)
            .unwrap()
            .metadata
            .owner_references,
        None
    );
    browser.metadata.name = None;
    assert_eq!(
        outcome(&objects, &browser).unwrap_err(),
        "BrowserPodSpec: the Browser has no name, give it a metadata.name",
    );
}
