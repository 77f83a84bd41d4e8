//! Objects that are larger than the CRDs allow.

use std::path::Path;
use std::sync::Arc;

use kube::api::PostParams;
use podloom_api::{Browser, BrowserConfig, Phase, SelenosisApi, crds};
use podloom_tests::{Cluster, Scene, blackbox_on, eventually};
use serde_json::{Value, json};

/// A name with one character too many.
fn long() -> String {
    "v".repeat(254)
}

/// The CRDs as they were before they had any bounds.
fn without_bounds() -> String {
    let definitions = crds(SelenosisApi::Seed).into_iter().map(|definition| {
        let mut definition = serde_json::to_value(definition).unwrap();
        let spec = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
            ["spec"];
        unbind(spec);
        definition.to_string()
    });
    definitions.collect::<Vec<_>>().join("\n---\n")
}

fn unbind(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for bound in ["maxItems", "maxLength", "maxProperties"] {
                fields.remove(bound);
            }
            fields.remove("x-kubernetes-validations");
            fields.values_mut().for_each(unbind);
        }
        Value::Array(items) => items.iter_mut().for_each(unbind),
        _ => {}
    }
}

/// One environment variable more than allowed.
const TOO_MANY: usize = 1025;

/// A BrowserConfig with a version of this name, and this number of environment variables.
fn config_of(name: &str, version: &str, variables: usize) -> BrowserConfig {
    let env: Vec<Value> = (0..variables)
        .map(|number| json!({ "name": format!("VARIABLE_{number}"), "value": "x" }))
        .collect();
    let config = json!({
        "apiVersion": "selenosis.io/v1", "kind": "BrowserConfig",
        "metadata": { "name": name },
        "spec": { "browsers": { "chrome": { version: { "image": "example.com/chrome:1", "env": env } } } },
    });
    serde_json::from_value(config).unwrap()
}

fn browser(name: &str, version: &str) -> Browser {
    let browser = json!({
        "apiVersion": "selenosis.io/v1", "kind": "Browser",
        "metadata": { "name": name },
        "spec": { "browserName": "chrome", "browserVersion": version },
    });
    serde_json::from_value(browser).unwrap()
}

/// Creates objects that are too large while the CRDs have no bounds, and then installs the CRDs with bounds.
async fn store(scene: &Scene) {
    let create = PostParams::default();
    let (config, session) = (config_of("old", &long(), TOO_MANY), browser("old", &long()));
    scene.cluster.apply_text(&without_bounds());
    eventually(
        "the API server accepts a BrowserConfig that is too large",
        async || {
            let created = scene.configs().create(&create, &config).await;
            created.map(drop).map_err(|error| error.to_string())
        },
    )
    .await;
    eventually(
        "the API server accepts a Browser that is too large",
        async || {
            let created = scene.browsers().create(&create, &session).await;
            created.map(drop).map_err(|error| error.to_string())
        },
    )
    .await;
    let crds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crds");
    scene.cluster.apply(&crds);
}

#[test]
fn stored_objects_keep_working_and_new_ones_that_are_too_large_are_rejected() {
    blackbox_on(
        || Arc::new(Cluster::installed()),
        "bounds",
        async |scene| {
            store(&scene).await;
            let dry = PostParams {
                dry_run: true,
                ..PostParams::default()
            };
            // One error each: the API server checks names only if the rest is valid.
            for (version, variables, refusal) in [
                ("1", TOO_MANY, "must have at most 1024 items"),
                (
                    &long(),
                    1,
                    "names of browsers and versions have at most 253 characters",
                ),
            ] {
                let config = config_of("new", version, variables);
                eventually(refusal, async || {
                    match scene.configs().create(&dry, &config).await {
                        Ok(_) => Err("it was accepted".to_owned()),
                        Err(error) if error.to_string().contains(refusal) => Ok(()),
                        Err(error) => Err(error.to_string()),
                    }
                })
                .await;
            }
            let session = browser("new", &long());
            eventually("a long version is rejected", async || {
                match scene.browsers().create(&dry, &session).await {
                    Ok(_) => Err("it was accepted".to_owned()),
                    Err(error) if error.to_string().contains("spec.browserVersion") => Ok(()),
                    Err(error) => Err(error.to_string()),
                }
            })
            .await;

            let seen = scene.watch_browsers().await;
            let _operator = scene.operator(&[]).await;
            let runs = |browser: &Browser| {
                browser.status.as_ref().and_then(|status| status.phase) == Some(Phase::Running)
            };
            seen.until_is("old", "runs", runs).await;
            eventually("its BrowserConfig reports the long name", async || {
                let config = scene.configs().get_status("old").await.unwrap();
                let status = serde_json::to_value(config.status).unwrap();
                let message = &status["conditions"][0]["message"];
                let expected = "has 254 characters, use at most 253";
                match message.as_str() {
                    Some(message) if message.contains(expected) => Ok(()),
                    _ => Err(status.to_string()),
                }
            })
            .await;
        },
    );
}
