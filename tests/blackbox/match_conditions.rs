//! The conditions that `podloom chain check` prints keep exactly the pods from the webhook that no plugin takes.

use std::process::Command;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use podloom_tests::webhook::{Route, STAMP, Webhook, dry_run, plain_pod};
use podloom_tests::{Bundle, Cluster, Scene, binary, blackbox_on, eventually};
use serde_json::{Value, json};

const CHAIN: &str = "[{ name: tiers, file: labels.wasm.gz, allow: [/metadata/labels/seen], \
      config: { labels: [{ key: seen, value: by-us }] }, match: { kinds: [Pod], namespaces: ['*'], \
      selector: { matchLabels: { example.com/tier: web }, matchExpressions: [{ key: no, operator: DoesNotExist }] } } }, \
    { name: elsewhere, file: labels.wasm.gz, allow: [/metadata/labels/seen], \
      config: { labels: [{ key: seen, value: by-us }] }, match: { namespaces: [other, 'no-*-such'] } }, \
    { name: apps, file: labels.wasm.gz, allow: [/metadata/labels/seen], \
      config: { labels: [{ key: seen, value: by-us }] }, \
      match: { selector: { matchExpressions: [{ key: app, operator: In, values: [a, b] }, { key: no, operator: NotIn, values: ['1'] }] } } }]";

/// The conditions as they are printed.
fn printed(bundle: &Bundle) -> Value {
    let mut command = Command::new(binary().unwrap());
    let output = command.args(["chain", "check"]).arg(bundle.path()).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let (_, rest) = text.split_once("matchConditions:\n").unwrap();
    let lines = rest.lines().take_while(|line| line.starts_with(['-', ' ']));
    serde_saphyr::from_str(&lines.collect::<Vec<_>>().join("\n")).unwrap()
}

fn pod(labels: &[(&str, &str)]) -> Pod {
    let mut pod = plain_pod("a");
    for (key, value) in labels {
        pod.labels_mut()
            .insert((*key).to_owned(), (*value).to_owned());
    }
    pod
}

async fn is_seen(scene: &Scene, pod: &Pod) -> Result<bool, String> {
    let created = scene.pods().create(&dry_run(), pod).await;
    let created = created.map_err(|error| error.to_string())?;
    let is_stamped = created.annotations().contains_key(STAMP);
    assert_eq!(
        is_stamped,
        created.labels().contains_key("seen"),
        "{created:?}"
    );
    Ok(is_stamped)
}

#[test]
fn pods_that_no_plugin_takes_are_kept_from_the_webhook() {
    blackbox_on(
        Cluster::without_operator,
        "match-conditions",
        async |scene| {
            let (webhook, bundle) = (Webhook::new(&scene, Route::Url), Bundle::of(CHAIN));
            let _operator = webhook.operator(bundle.path(), &[]).await;
            let patch = json!([{ "op": "add", "path": "/webhooks/0/matchConditions", "value": printed(&bundle) }]);
            let patch = ["--type=json", "--patch", &patch.to_string()];
            let configuration = ["patch", "mutatingwebhookconfiguration", &webhook.name];
            scene
                .cluster
                .kubectl(&[&configuration[..], &patch].concat());
            eventually("the conditions count", async || {
                let is_seen = is_seen(&scene, &pod(&[])).await;
                (is_seen == Ok(false))
                    .then_some(())
                    .ok_or_else(|| format!("{is_seen:?}"))
            })
            .await;
            for (labels, expected) in [
                (&[("example.com/tier", "web")][..], true),
                (&[("example.com/tier", "db")], false),
                (&[("example.com/tier", "web"), ("no", "")], false),
                (&[("app", "a")], true),
                (&[("app", "b"), ("no", "2")], true),
                (&[("app", "b"), ("no", "1")], false),
                (&[("app", "c")], false),
            ] {
                assert_eq!(
                    is_seen(&scene, &pod(labels)).await,
                    Ok(expected),
                    "{labels:?}"
                );
            }
        },
    );
}
