//! The bundle of plugins changes under a running operator.

mod candidate;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use podloom_tests::usage::{forget_peak, usage};
use podloom_tests::{Cluster, MountedBundle, Operator, Scene, blackbox_on, eventually};
use serde_json::Value;

/// How soon a changed bundle must be used.
const SOON: Duration = Duration::from_secs(2);

/// A chain that writes this team into a label.
fn team(name: &str) -> String {
    format!(
        "\n- {{ name: labels, file: labels.wasm.gz, allow: [/metadata/labels], config: {{ labels: [{{ key: team, value: {name} }}] }} }}"
    )
}

const MISSING: &str = "\n- { name: labels, file: missing.wasm }";

async fn start(scene: &Scene, bundle: &MountedBundle) -> Operator {
    let plugins = bundle.path().to_str().unwrap();
    let namespace = scene.namespace.as_str();
    scene
        .operator(&[
            "--plugins",
            plugins,
            "--pod-name",
            "the-operator",
            "--pod-namespace",
            namespace,
            "--pod-uid",
            "f3b0a1de-0c1c-4c87-8f0c-94c5c8c2a3d7",
        ])
        .await
}

/// Creates a Browser and returns its pod.
async fn pod_of_new(scene: &Scene, name: &str) -> Pod {
    let pods = scene.watch_pods().await;
    scene.browser(name, "running").await;
    pods.until_is(name, "exists", |_| true).await
}

fn team_of(pod: &Pod) -> Option<&str> {
    pod.labels().get("team").map(String::as_str)
}

fn plugins(operator: &Operator) -> Value {
    serde_json::from_str(&operator.get("/plugins").unwrap().1).unwrap()
}

#[test]
fn a_changed_bundle_changes_new_browsers_and_leaves_running_ones() {
    blackbox_on(Cluster::without_operator, "reload-swap", async |scene| {
        let bundle = MountedBundle::of(&team("one"));
        let operator = start(&scene, &bundle).await;
        scene.behaviours().await;
        assert_eq!(team_of(&pod_of_new(&scene, "before").await), Some("one"));
        let running = scene.pods().get("before").await.unwrap();
        // A watch on a file would miss the second swap.
        for name in ["two", "three"] {
            let served = plugins(&operator)["chain"].clone();
            bundle.update(&team(name));
            let swapped = Instant::now();
            eventually("the new chain is used", async || {
                let now = plugins(&operator)["chain"].clone();
                (now != served).then_some(()).ok_or_else(|| now.to_string())
            })
            .await;
            assert!(swapped.elapsed() < SOON, "{:?}", swapped.elapsed());
            let pod = pod_of_new(&scene, &format!("after-{name}")).await;
            assert_eq!(team_of(&pod), Some(name));
        }
        let still = scene.pods().get("before").await.unwrap();
        assert_eq!(
            (still.uid(), team_of(&still)),
            (running.uid(), Some("one")),
            "running pods do not change"
        );
        let reloads = operator.metric("podloom_chain_reloads_total{outcome=\"success\"}");
        assert_eq!(reloads, 3.0);
        // Only the configuration differs, so the compiled code is kept.
        let kept =
            operator.metric("podloom_plugin_loads_total{plugin=\"labels\",outcome=\"kept\"}");
        assert_eq!(kept, 2.0);
    });
}

#[test]
fn a_broken_bundle_is_reported_everywhere_and_the_last_good_chain_stays() {
    blackbox_on(Cluster::without_operator, "reload-broken", async |scene| {
        let bundle = MountedBundle::of(&team("one"));
        let operator = start(&scene, &bundle).await;
        scene.behaviours().await;
        bundle.update(MISSING);
        let error = eventually("the error is reported", async || {
            let plugins = plugins(&operator);
            let error = plugins["lastError"].clone();
            (!error.is_null())
                .then_some(error)
                .ok_or_else(|| plugins.to_string())
        })
        .await;
        assert_eq!(error["reason"], "invalid_bundle");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("missing.wasm"), "{message}");
        let (status, ready) = operator.get("/readyz").unwrap();
        assert!(status == 200 && ready.contains("missing.wasm"), "{ready}");
        let refused = "podloom_chain_reloads_total{outcome=\"invalid_bundle\"}";
        assert_eq!(operator.metric(refused), 1.0);
        let lines = operator.logged(&["rejected the new plugin chain", "missing.wasm"]);
        assert_eq!(lines.len(), 1, "{lines:#?}");
        assert_eq!(team_of(&pod_of_new(&scene, "during").await), Some("one"));

        bundle.update(&team("two"));
        eventually("the error is gone", async || {
            let plugins = plugins(&operator);
            plugins["lastError"]
                .is_null()
                .then_some(())
                .ok_or_else(|| plugins.to_string())
        })
        .await;
        assert_eq!(team_of(&pod_of_new(&scene, "after").await), Some("two"));
        eventually("there are Events on the operator's own pod", async || {
            let events = scene.events_about_pod("the-operator").await;
            let expected = [
                "Normal ChainReloaded: chain ",
                "Warning ChainRefused: ",
                "Normal ChainReloaded: chain ",
            ];
            let is_so = events.len() == expected.len()
                && events
                    .iter()
                    .zip(expected)
                    .all(|(event, start)| event.starts_with(start));
            is_so.then_some(()).ok_or_else(|| format!("{events:#?}"))
        })
        .await;
    });
}

#[test]
fn an_operator_that_starts_with_a_broken_bundle_is_ready_when_it_is_fixed() {
    blackbox_on(Cluster::without_operator, "reload-fixed", async |scene| {
        let bundle = MountedBundle::of(MISSING);
        let plugins = bundle.path().to_str().unwrap();
        let operator = scene.spawn_operator(&["--plugins", plugins]);
        scene.behaviours().await;
        let pods = scene.watch_pods().await;
        scene.browser("b", "running").await;
        eventually("/readyz reports why it is not ready", async || {
            let (status, body) = operator.get("/readyz")?;
            let is_reported = status == 503 && body.contains("missing.wasm");
            is_reported.then_some(()).ok_or(body)
        })
        .await;
        assert!(pods.of("b").is_empty());
        bundle.update(&team("one"));
        operator.ready().await;
        let pod = pods.until_is("b", "exists", |_| true).await;
        assert_eq!(team_of(&pod), Some("one"));
    });
}

/// A bundle whose only plugin has two functions that take much memory to compile, and then turns out to be none.
fn costly(directory: &Path) {
    let body = "local.get 0 i32.load local.set 0 ".repeat(37_000);
    let function = format!("(func (local i32) {body})");
    let plugin = format!(
        "(component (core module (memory 1) {function} {function}) (instance $none) (export \"podloom:mutator/plugin@0.1.0\" (instance $none)))"
    );
    let files = [
        ("costly.wasm", wat::parse_str(plugin).unwrap()),
        ("chain.yaml", COSTLY.as_bytes().to_vec()),
    ];
    for (name, bytes) in files {
        fs::write(directory.join(name), bytes).unwrap();
    }
}

const COSTLY: &str = "{ apiVersion: podloom.dev/v1alpha1, kind: MutatorChain, plugins: [{ name: costly, file: costly.wasm }] }";
const MIB: u64 = 1 << 20;

/// The compiler would keep 20 MiB for each function, for the next plugin.
#[test]
fn a_plugin_that_takes_much_memory_to_compile_leaves_none_behind() {
    blackbox_on(Cluster::without_operator, "reload-memory", async |scene| {
        let bundle = MountedBundle::of("[]");
        let operator = start(&scene, &bundle).await;
        let before = usage(operator.id()).unwrap();
        forget_peak(operator.id()).unwrap();
        bundle.swap(costly);
        eventually("the plugin is refused", async || {
            let plugins = plugins(&operator).to_string();
            let is_refused = plugins.contains("does not match the contract");
            is_refused.then_some(()).ok_or(plugins)
        })
        .await;
        let peak = usage(operator.id()).unwrap().peak;
        assert!(peak > before.resident + 60 * MIB, "only {peak} bytes");
        eventually("the memory is given back", async || {
            let now = usage(operator.id()).unwrap().anonymous;
            let is_free = now < before.anonymous + 12 * MIB;
            is_free.then_some(()).ok_or(format!("{now} bytes"))
        })
        .await;
    });
}
