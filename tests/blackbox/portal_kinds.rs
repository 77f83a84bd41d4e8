//! Which PortalExposes and TunnelClasses the API server stores: those that are published for the public controller, and none that
//! can never work.
//!
//! Nothing of it is stored but what a test deletes: TunnelClasses have no namespace, and a default one would count in other tests.

use std::path::{Path, PathBuf};

use kube::Api;
use podloom_api::{PortalExpose, TunnelClass};
use podloom_tests::webhook::{Policy, Route, Webhook, address};
use podloom_tests::{Cluster, Specs, blackbox_on, eventually, standard, with};
use serde_json::{Value, json};

/// The manifests that are published for the public controller, in other words; and one more.
fn samples() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("blackbox/fixtures/portal");
    let files = std::fs::read_dir(directory).unwrap();
    let files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 8);
    files
}

#[test]
fn published_manifests_apply() {
    blackbox_on(Cluster::without_operator, "portal-samples", async |scene| {
        for sample in samples() {
            let text = std::fs::read_to_string(&sample).unwrap();
            let text = text.replace("NAMESPACE", &scene.namespace);
            let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
            std::fs::write(file.path(), text).unwrap();
            let path = file.path().to_str().unwrap();
            for way in [&["--server-side"][..], &["--validate=strict"]] {
                let apply = ["apply", "--dry-run=server", "--namespace", &scene.namespace];
                let arguments = [&apply[..], &["--filename", path], way].concat();
                let said = scene.cluster.ask_kubectl(&arguments);
                assert!(said.is_done, "{}: {}", sample.display(), said.error);
                assert!(!said.error.contains("Warning"), "{}", said.error);
            }
        }
    });
}

#[test]
fn a_class_has_no_namespace_though_its_manifest_says_so() {
    blackbox_on(Cluster::without_operator, "portal-scope", async |scene| {
        let name = &scene.namespace;
        let class = json!({
            "apiVersion": "portal.gosuda.org/v1alpha1", "kind": "TunnelClass",
            "metadata": { "name": name, "namespace": name },
            "spec": { "replicas": 1, "size": "small" },
        });
        let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
        serde_json::to_writer(&file, &class).unwrap();
        let path = file.path().to_str().unwrap();
        let said = scene.cluster.ask_kubectl(&["apply", "--filename", path]);
        assert!(said.is_done, "{}", said.error);
        let classes: Api<TunnelClass> = Api::all(scene.client.clone());
        let stored = classes.get(name).await.unwrap();
        assert_eq!(stored.metadata.namespace, None);
        scene.cluster.kubectl(&["delete", "tunnelclass", name]);
    });
}

fn expose() -> Value {
    json!({
        "app": { "name": "web", "service": { "name": "web", "port": 80 } },
        "relay": { "targets": [{ "name": "a", "url": "wss://h.org/relay" }] },
    })
}

fn class() -> Value {
    json!({ "replicas": 1, "size": "small" })
}

fn with_url(url: &str) -> Value {
    let target = json!([{ "name": "a", "url": url }]);
    with(expose(), "/relay/targets", target)
}

/// So many relays, each with a name and a URL of its own.
fn with_targets(count: usize) -> Value {
    let targets = (0..count).map(
        |number| json!({ "name": format!("r{number}"), "url": format!("wss://r{number}.org") }),
    );
    with(expose(), "/relay/targets", targets.collect())
}

#[test]
fn relays_have_urls_that_a_tunnel_can_use() {
    blackbox_on(Cluster::without_operator, "portal-urls", async |scene| {
        let exposes = Specs::of(&scene, &PortalExpose::resource());
        let bad = [
            "wss://",
            "http://h.org",
            "ws://h.org",
            "WSS://h.org",
            "h.org",
            "wss://10.0.0.1/x",
            "wss://[::1]/x",
            "wss://a:b@h.org",
            "wss://user@h.org",
            "wss://h.org/x,https://i.org",
            "wss://h.org,i.org",
            "wss://h.org?query",
            "wss://h.org/x#fragment",
            "wss://h.org:0",
            "wss://h.org:0443",
            "wss://h.org:65536",
            "wss://h..org",
            "wss://-h.org",
            "wss://h.1org",
            "wss://h_h.org",
            "wss://h.org\n",
            "",
        ];
        let url = "spec.relay.targets[0].url";
        let long = format!("wss://h.org/{}", "x".repeat(309));
        let bad = bad.into_iter().chain([long.as_str()]);
        let bad = bad.map(|bad| (url, with_url(bad))).collect();
        exposes.rejected(bad).await;
        let good = [
            "wss://portal.gosuda.org/relay",
            "https://h.org",
            "wss://localhost",
            "wss://RELAY.Example.COM/a/b_c~d.e-f",
            "wss://h:1",
            "wss://h:65535",
            "wss://10.relay/",
            &long[..320],
        ];
        exposes.accepted(good.map(with_url).to_vec()).await;
    });
}

#[test]
fn names_are_dns_labels() {
    blackbox_on(Cluster::without_operator, "portal-labels", async |scene| {
        let exposes = Specs::of(&scene, &PortalExpose::resource());
        let fields = [
            ("/app/name", "spec.app.name"),
            ("/app/service/name", "spec.app.service.name"),
        ];
        let long = "w".repeat(64);
        for (pointer, field) in fields {
            let bad = ["", "Web", "-web", "web-", "w.eb", "w_eb", "w eb", &long];
            let bad = bad.map(|name| (field, with(expose(), pointer, name.into())));
            exposes.rejected(bad.to_vec()).await;
            let good = ["w", "0-w", &long[..63]].map(|name| with(expose(), pointer, name.into()));
            exposes.accepted(good.to_vec()).await;
        }
    });
}

#[test]
fn a_portal_expose_has_up_to_16_relays_of_its_own() {
    blackbox_on(Cluster::without_operator, "portal-targets", async |scene| {
        let exposes = Specs::of(&scene, &PortalExpose::resource());
        let with_name = |name: &str, url: &str| {
            let first = json!({ "name": "a", "url": "wss://h.org" });
            let targets = json!([first, { "name": name, "url": url }]);
            with(expose(), "/relay/targets", targets)
        };
        let name = "spec.relay.targets[1].name";
        let cases = vec![
            ("spec.relay.targets", with_targets(0)),
            ("spec.relay.targets", with_targets(17)),
            (
                "names of targets must be unique",
                with_name("a", "wss://i.org"),
            ),
            (
                "URLs of targets must be unique",
                with_name("b", "wss://h.org"),
            ),
            (name, with_name("", "wss://i.org")),
            (name, with_name(&"b".repeat(64), "wss://i.org")),
        ];
        exposes.rejected(cases).await;
        let good = vec![
            with_targets(1),
            with_targets(16),
            with_name("b", "wss://i.org"),
        ];
        exposes.accepted(good).await;
    });
}

#[test]
fn a_portal_expose_names_an_application_and_its_relays() {
    blackbox_on(Cluster::without_operator, "portal-fields", async |scene| {
        let exposes = Specs::of(&scene, &PortalExpose::resource());
        let port = "/app/service/port";
        let long = "c".repeat(254);
        let cases = vec![
            ("spec.app.service.port", with(expose(), port, json!(0))),
            ("spec.app.service.port", with(expose(), port, json!(65_536))),
            ("spec.app.service.port", with(expose(), port, json!("http"))),
            ("spec.app.service.port", with(expose(), port, Value::Null)),
            ("spec.app", with(expose(), "/app", Value::Null)),
            ("spec.relay", with(expose(), "/relay", Value::Null)),
            (
                "spec.tunnelClassName",
                with(expose(), "/tunnelClassName", long.into()),
            ),
            (
                "spec.identityPolicy",
                with(expose(), "/identityPolicy", "Keep".into()),
            ),
        ];
        exposes.rejected(cases).await;
        let good = vec![
            with(expose(), port, json!(65_535)),
            with(expose(), "/tunnelClassName", "".into()),
            with(expose(), "/identityPolicy", "Delete".into()),
        ];
        exposes.accepted(good).await;
        let defaulted = exposes.stored(expose()).await.unwrap();
        assert_eq!(defaulted["identityPolicy"], "Retain");
    });
}

#[test]
fn a_tunnel_class_says_how_many_pods_of_which_size() {
    blackbox_on(Cluster::without_operator, "portal-classes", async |scene| {
        let classes = Specs::of_all(&scene, &TunnelClass::resource());
        let labels = |count: usize, value: &str| -> Value {
            let labels = (0..count).map(|number| (format!("l{number}"), value.into()));
            Value::Object(labels.collect())
        };
        let client = |client: Value| with(class(), "/client", client);
        let cases = vec![
            ("spec.replicas", with(class(), "/replicas", json!(0))),
            ("spec.replicas", with(class(), "/replicas", json!(101))),
            ("spec.replicas", with(class(), "/replicas", Value::Null)),
            ("spec.size", with(class(), "/size", "huge".into())),
            ("spec.size", with(class(), "/size", "Small".into())),
            ("spec.size", with(class(), "/size", Value::Null)),
            ("spec.rollout", with(class(), "/rollout", "Recreate".into())),
            (
                "spec.nodeSelector",
                with(class(), "/nodeSelector", labels(65, "v")),
            ),
            (
                "spec.nodeSelector",
                with(class(), "/nodeSelector", labels(1, &"v".repeat(64))),
            ),
            (
                "spec.tolerations",
                with(class(), "/tolerations", json!(vec![json!({}); 65])),
            ),
            ("spec.client.version", client(json!({ "image": "i" }))),
            ("spec.client.image", client(json!({ "version": "2.4.3" }))),
            (
                "spec.client.image",
                client(json!({ "image": "", "version": "2.4.3" })),
            ),
            (
                "spec.client.version",
                client(json!({ "image": "i", "version": "v2.4.3" })),
            ),
            (
                "spec.client.version",
                client(json!({ "image": "i", "version": "2.4" })),
            ),
        ];
        classes.rejected(cases).await;
        let good = vec![
            with(class(), "/replicas", json!(100)),
            with(class(), "/size", "large".into()),
            with(class(), "/rollout", "Surge".into()),
            with(class(), "/nodeSelector", labels(64, &"v".repeat(63))),
            with(
                class(),
                "/tolerations",
                json!(vec![json!({ "operator": "Exists" }); 64]),
            ),
            client(json!({ "image": "i", "version": "2.1.1" })),
        ];
        classes.accepted(good).await;
        let defaulted = classes.stored(class()).await.unwrap();
        assert_eq!(defaulted["rollout"], "Replace");
    });
}

/// What no schema can say is said by the webhook, before the object is stored.
#[test]
fn the_webhook_refuses_what_can_never_work() {
    blackbox_on(Cluster::without_operator, "portal-webhook", async |scene| {
        let webhook = Webhook::new(&scene, Route::Url);
        let operator = webhook.spawn(&standard(), &[]);
        webhook.configure_portal(address(&operator).await, Policy::Fail);
        operator.ready().await;
        let exposes = Specs::of(&scene, &PortalExpose::resource());
        let same = json!([{ "name": "a", "url": "wss://h.org" }, { "name": "b", "url": "https://H.org:443/x" }]);
        let same = with(expose(), "/relay/targets", same);
        eventually("a relay that is listed twice is refused", async || {
            let (_, message) = exposes
                .stored(same.clone())
                .await
                .err()
                .ok_or("it was stored")?;
            let expected =
                "spec.relay.targets[1].url: it is the relay h.org, as spec.relay.targets[0].url is";
            message.contains(expected).then_some(()).ok_or(message)
        })
        .await;
        let named = with(
            expose(),
            "/tunnelClassName",
            scene.namespace.as_str().into(),
        );
        assert!(exposes.stored(named).await.is_ok());
    });
}
