//! Which Cleaners the API server stores: those of the proposal, and none that can never work or would delete more than was meant.

use std::path::Path;

use kube::Api;
use kube::api::{Patch, PatchParams};
use podloom_api::Cleaner;
use podloom_tests::{Cluster, Scene, Specs, blackbox_on, with};
use serde_json::{Value, json};

/// A manifest in the words of the proposal, in the namespace of the scene.
fn proposal(scene: &Scene) -> String {
    let path = "blackbox/fixtures/cleaner/proposal.yaml";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = std::fs::read_to_string(path).unwrap();
    text.replace("NAMESPACE", &scene.namespace)
}

/// Writes the status of the proposal's example, and returns it as it was stored.
async fn write_status(cleaners: &Api<Cleaner>, status: &Value) -> Value {
    let parameters = PatchParams::default();
    let patch = Patch::Merge(json!({ "status": status }));
    let patched = cleaners.patch_status("shop-commit--demo", &parameters, &patch);
    serde_json::to_value(patched.await.unwrap().status).unwrap()
}

#[test]
fn the_example_of_the_proposal_applies() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-proposal",
        async |scene| {
            let text = proposal(&scene);
            let manifest: Value = serde_saphyr::from_str(&text).unwrap();
            let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
            std::fs::write(file.path(), &text).unwrap();
            let path = file.path().to_str().unwrap();
            for way in [
                &["--validate=strict"][..],
                &["--server-side", "--force-conflicts", "--validate=strict"],
            ] {
                let said = scene
                    .cluster
                    .ask_kubectl(&[&["apply", "--filename", path], way].concat());
                assert!(said.is_done, "{way:?}: {}", said.error);
                assert!(!said.error.contains("Warning"), "{way:?}: {}", said.error);
            }
            let cleaners: Api<Cleaner> = Api::namespaced(scene.client.clone(), &scene.namespace);
            let stored = cleaners.get("shop-commit--demo").await.unwrap();
            let spec = serde_json::to_value(&stored.spec).unwrap();
            for field in ["ttl", "retry", "targets", "conditions", "cloudEventSink"] {
                assert_eq!(spec[field], manifest["spec"][field], "{field}");
            }
            assert_eq!(
                spec["helm"],
                json!({ "release": "shop-commit--demo", "delete": true, "disableHooks": false, "hookTimeout": "5m" })
            );
            assert_eq!(stored.status, None, "only the operator writes the status");
            assert_eq!(stored.metadata.finalizers, None);
            // If the operator wrote the proposal's status, it would be stored too.
            let status = write_status(&cleaners, &manifest["status"]).await;
            assert_eq!(status, manifest["status"]);
        },
    );
}

#[test]
fn columns_say_what_a_cleaner_waits_for() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-columns",
        async |scene| {
            scene.cluster.apply_text(&proposal(&scene));
            let cleaners: Api<Cleaner> = Api::namespaced(scene.client.clone(), &scene.namespace);
            let ready = json!({
                "type": "Ready", "status": "Unknown", "reason": "NotExpired", "message": "m",
                "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
            });
            let next = "2126-01-16T00:00:00Z";
            let status = json!({ "conditions": [ready], "nextScheduledEvaluation": next });
            write_status(&cleaners, &status).await;
            let table = scene
                .cluster
                .kubectl(&["get", "clnr", "--namespace", &scene.namespace]);
            let rows: Vec<Vec<&str>> = table
                .lines()
                .map(|line| line.split_whitespace().collect())
                .collect();
            assert_eq!(rows[0], ["NAME", "TTL", "STATUS", "NEXT", "AGE"]);
            assert_eq!(
                rows[1][..4],
                ["shop-commit--demo", "360h", "NotExpired", next]
            );
        },
    );
}

#[test]
fn kubectl_explains_fields() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-explain",
        async |scene| {
            for (field, text) in [
                ("spec.ttl", "Give the time for which nothing is deleted"),
                ("spec.targets.reference.kind", "in upper or lower case"),
                (
                    "spec.targets.reference.labelSelector.matchExpressions.operator",
                    "NotIn",
                ),
                ("spec.deletion.maxObjects", "above which nothing is deleted"),
                ("status.deletion.objects.uid", "is left alone"),
            ] {
                let field = format!("cleaners.{field}");
                let said = scene.cluster.kubectl(&["explain", &field]);
                // The text is wrapped.
                let said: Vec<&str> = said.split_whitespace().collect();
                assert!(said.join(" ").contains(text), "{field}: {said:?}");
            }
        },
    );
}

/// A spec with all that has fields of its own.
fn cleaner() -> Value {
    json!({
        "ttl": "1h",
        "retry": {},
        "helm": { "release": "shop" },
        "targets": [{ "name": "pods", "reference": { "version": "v1", "kind": "Pod", "name": "a" } }],
        "delivery": {},
        "deletion": {},
    })
}

fn cleaners(scene: &Scene) -> Specs {
    Specs::of(scene, &Cleaner::resource())
}

#[test]
fn fields_that_are_not_given_have_defaults() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-defaults",
        async |scene| {
            let cleaners = cleaners(&scene);
            let least = cleaners.stored(json!({ "ttl": "1h" })).await.unwrap();
            let delivery = json!({ "policy": "Block", "deadline": "1h" });
            let deletion = json!({
                "propagationPolicy": "Background", "maxObjects": 100, "timeout": "10m", "waitForGone": false,
            });
            assert_eq!(
                least,
                json!({
                    "ttl": "1h", "targets": [], "conditions": [], "delivery": delivery, "deletion": deletion, "dryRun": false,
                })
            );
            let full = cleaners.stored(cleaner()).await.unwrap();
            assert_eq!(full["retry"], json!({ "period": "5m", "monotonic": false }));
            assert_eq!(full["delivery"], delivery);
            assert_eq!(full["deletion"], deletion);
            assert_eq!(
                full["helm"],
                json!({ "release": "shop", "delete": false, "disableHooks": false, "hookTimeout": "5m" })
            );
            assert_eq!(full["targets"][0]["delete"], false);
            assert_eq!(full["targets"][0]["includeWhenEvaluating"], false);
            // What a template left empty is as if it was not there.
            let empty = json!({ "ttl": "1h", "targets": null, "conditions": null, "deletion": null, "dryRun": null });
            assert_eq!(cleaners.stored(empty).await.unwrap(), least);
        },
    );
}

#[test]
fn durations_have_units_and_are_never_negative() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-durations",
        async |scene| {
            let cleaners = cleaners(&scene);
            let fields = [
                ("/ttl", "spec.ttl"),
                ("/retry/period", "spec.retry.period"),
                ("/helm/hookTimeout", "spec.helm.hookTimeout"),
                ("/delivery/deadline", "spec.delivery.deadline"),
                ("/deletion/timeout", "spec.deletion.timeout"),
            ];
            let long = format!("{}h", "0".repeat(64));
            for (pointer, field) in fields {
                let bad = [
                    "", "-1h", "+1h", "1 day", "360", "00", "1h ", " 1h", "1h\n", "h", ".h",
                    "1..5h", "1H", "1y", "1hm", "P1D", &long,
                ];
                let bad = bad.map(|text| (field, with(cleaner(), pointer, text.into())));
                cleaners.rejected(bad.to_vec()).await;
                let number = with(cleaner(), pointer, json!(360));
                cleaners.rejected(vec![(field, number)]).await;
                // How long it is, only the operator can say.
                let good = [
                    "0",
                    "1.5h",
                    ".5h",
                    "2d",
                    "1w2d3h",
                    "1us1µs1μs",
                    "300000w",
                    &long[1..],
                ];
                let good = good.map(|text| with(cleaner(), pointer, text.into()));
                cleaners.accepted(good.to_vec()).await;
            }
            let without = with(cleaner(), "/ttl", Value::Null);
            cleaners.rejected(vec![("spec.ttl", without)]).await;
        },
    );
}

#[test]
fn lists_and_choices_have_bounds() {
    blackbox_on(Cluster::without_operator, "cleaner-bounds", async |scene| {
        let cleaners = cleaners(&scene);
        let targets = |count: usize| -> Value {
            let target = |number| json!({ "name": format!("t{number}"), "reference": { "version": "v1", "kind": "Pod", "name": "a" } });
            with(cleaner(), "/targets", (0..count).map(target).collect())
        };
        let conditions = |texts: Vec<String>| with(cleaner(), "/conditions", json!(texts));
        let set = |pointer: &str, value: Value| with(cleaner(), pointer, value);
        let release = "r".repeat(54);
        cleaners
            .rejected(vec![
                ("spec.targets", targets(65)),
                ("spec.conditions", conditions(vec!["true".to_owned(); 33])),
                ("spec.conditions[0]", conditions(vec![String::new()])),
                ("spec.conditions[0]", conditions(vec!["x".repeat(8193)])),
                (
                    "spec.deletion.maxObjects",
                    set("/deletion/maxObjects", json!(0)),
                ),
                (
                    "spec.deletion.maxObjects",
                    set("/deletion/maxObjects", json!(2001)),
                ),
                (
                    "spec.deletion.propagationPolicy",
                    set("/deletion/propagationPolicy", json!("Orphan")),
                ),
                (
                    "spec.delivery.policy",
                    set("/delivery/policy", json!("block")),
                ),
                ("spec.helm.release", set("/helm", json!({}))),
                ("spec.helm.release", set("/helm/release", json!(""))),
                ("spec.helm.release", set("/helm/release", json!("Shop"))),
                ("spec.helm.release", set("/helm/release", json!("shop_1"))),
                ("spec.helm.release", set("/helm/release", json!("shop."))),
                ("spec.helm.release", set("/helm/release", json!(release))),
                (
                    "spec.retry.monotonic",
                    set("/retry/monotonic", json!("true")),
                ),
                ("spec.dryRun", set("/dryRun", json!("yes"))),
            ])
            .await;
        cleaners
            .accepted(vec![
                targets(64),
                conditions(vec!["x".repeat(8192); 32]),
                set("/deletion/maxObjects", json!(1)),
                set("/deletion/maxObjects", json!(2000)),
                set("/deletion/propagationPolicy", json!("Foreground")),
                set("/delivery/policy", json!("Ignore")),
                set("/helm/release", json!("shop.v1-a")),
                set("/helm/release", json!(release[1..])),
                set("/dryRun", json!(true)),
            ])
            .await;
    });
}

#[test]
fn a_sink_is_an_http_url_with_a_host() {
    blackbox_on(Cluster::without_operator, "cleaner-sinks", async |scene| {
        let cleaners = cleaners(&scene);
        let with_sink = |url: &str| with(cleaner(), "/cloudEventSink", url.into());
        let long = format!("http://sink/{}", "x".repeat(2037));
        let bad = [
            "",
            "sink",
            "/sink",
            "http://",
            "http:///path",
            "http://:80",
            "http://?query",
            "ftp://sink",
            "https//sink",
            "http://user@sink",
            "http://user:password@sink",
            "http://sink#fragment",
            "http://sink/#fragment",
            "http://sink /",
            "http://sink/a b",
            "http://sink\n",
            "http://sink:port",
            "http://[::1",
            &long,
        ];
        let bad = bad.map(|url| ("spec.cloudEventSink", with_sink(url)));
        cleaners.rejected(bad.to_vec()).await;
        let good = [
            "http://my-sink",
            "https://sink.example.com:8443/a/b?c=d",
            "http://10.0.0.1",
            "http://[2001:db8::1]:8080/",
            "http://sink.svc.cluster.local.",
            &long[..2048],
        ];
        cleaners.accepted(good.map(with_sink).to_vec()).await;
    });
}
