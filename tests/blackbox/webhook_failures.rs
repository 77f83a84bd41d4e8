//! Plugins that fail on a pod of the admission webhook, and webhooks that do not answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::ResourceExt;
use podloom_tests::webhook::{Policy, Route, STAMP, Webhook, dry_run, plain_pod};
use podloom_tests::{Bundle, Cluster, Said, Scene, blackbox_on, eventually, free_address};
use tokio::task::spawn_blocking;

/// The plugins that misbehave, and a label that shows that the next plugin has run.
fn chain(policy: &str) -> Bundle {
    let broken = ["breaks", "loops", "eats"].map(|name| {
        format!("\n- {{ name: {name}, file: {name}.wasm, allow: [/metadata/labels], failurePolicy: {policy} }}")
    });
    let forges = "\n- { name: forges, file: forges.wasm, allow: [/metadata/labels] }";
    let last = "\n- { name: labels, file: labels.wasm.gz, allow: [/metadata/labels/seen], config: { labels: [{ key: seen, value: 'yes' }] } }";
    Bundle::of(&format!("{}{forges}{last}", broken.concat()))
}

/// Creates a pod with a label.
fn run(scene: &Scene, name: &str, label: &str) -> Said {
    run_in(&scene.cluster, &scene.namespace, name, label)
}

fn run_in(cluster: &Cluster, namespace: &str, name: &str, label: &str) -> Said {
    let labels = format!("--labels={label}=please");
    let image = "--image=registry.k8s.io/pause:3.10";
    cluster.ask_kubectl(&["run", name, "--namespace", namespace, image, &labels])
}

/// Each label, the plugin that it breaks, and why it fails.
const BROKEN: [(&str, &str); 3] = [("break", "breaks"), ("loop", "loops"), ("eat", "eats")];

/// What the plugin `forges` writes for everybody, on one line.
const FORGED: &str = r#"fine {"level":"FORGED","fields":{"message":"all is lost"}}"#;

#[test]
fn a_plugin_that_fails_rejects_the_pod_by_name() {
    blackbox_on(
        Cluster::without_operator,
        "webhook-plugin-fails",
        async |scene| {
            let webhook = Webhook::new(&scene, Route::Url);
            let bundle = chain("Fail");
            let operator = webhook.operator(bundle.path(), &[]).await;
            for (label, plugin) in BROKEN {
                let said = run(&scene, plugin, label);
                let start = format!(
                    "Error from server (InternalError): admission webhook \"pods.podloom.dev\" denied the request: plugin {plugin}: "
                );
                assert!(
                    !said.is_done && said.error.starts_with(&start),
                    "{}",
                    said.error
                );
                assert_eq!(said.error.lines().count(), 1, "{}", said.error);
                let pod = scene.pods().get_opt(plugin).await.unwrap();
                assert!(pod.is_none(), "no pod is created without the plugin");
            }
            let said = run(&scene, "forged", "forge");
            let line = format!("denied the request: forges: {FORGED}");
            let last = said.error.lines().last().unwrap_or_default();
            assert!(!said.is_done && last.contains(&line), "{}", said.error);
            // The note, and the error.
            assert_eq!(said.error.lines().count(), 2, "{}", said.error);
            let said = run(&scene, "whole", "fine");
            assert_eq!(said.out, "pod/whole created\n");
            assert!(
                said.error
                    .starts_with(&format!("Warning: forges: {FORGED}")),
                "{}",
                said.error
            );
            assert!(operator.log().iter().all(|line| line["level"] != "FORGED"));
        },
    );
}

#[test]
fn a_plugin_whose_failure_is_ignored_leaves_a_warning() {
    blackbox_on(
        Cluster::without_operator,
        "webhook-plugin-ignored",
        async |scene| {
            let webhook = Webhook::new(&scene, Route::Url);
            let bundle = chain("Ignore");
            let _operator = webhook.operator(bundle.path(), &[]).await;
            for (label, plugin) in BROKEN {
                let said = run(&scene, plugin, label);
                assert_eq!(
                    said.out,
                    format!("pod/{plugin} created\n"),
                    "{}",
                    said.error
                );
                let warning = format!("Warning: plugin {plugin} failed and was ignored: ");
                let is_warned = said.error.lines().any(|line| line.starts_with(&warning));
                assert!(is_warned, "{}", said.error);
                let pod = scene.pods().get(plugin).await.unwrap();
                assert_eq!(
                    pod.labels().get("seen").map(String::as_str),
                    Some("yes"),
                    "{plugin}"
                );
                let ran = pod
                    .annotations()
                    .get("podloom.dev/mutations")
                    .cloned()
                    .unwrap_or_default();
                assert!(!ran.contains(&format!("\"name\":\"{plugin}\"")), "{ran}");
            }
        },
    );
}

/// How long a plugin may run in the next test: long enough to create other pods meanwhile.
const LIMIT: Duration = Duration::from_secs(4);

/// Creates a pod on which a plugin hangs, and other pods for as long as that takes. Returns what kubectl said about the first.
async fn hang(scene: &Scene, policy: &str) -> Said {
    let last = "{ name: labels, file: labels.wasm.gz, allow: [/metadata/labels/seen], config: { labels: [{ key: seen, value: 'yes' }] } }";
    let bundle = Bundle::of(&format!(
        "\n- {{ name: loops, file: loops.wasm, allow: [/metadata/labels], failurePolicy: {policy}, limits: {{ timeout: 4s }} }}\n- {last}"
    ));
    let webhook = Webhook::new(scene, Route::Url);
    let operator = webhook.operator(bundle.path(), &[]).await;
    let (cluster, namespace) = (Arc::clone(&scene.cluster), scene.namespace.clone());
    let began = Instant::now();
    let hangs = spawn_blocking(move || run_in(&cluster, &namespace, "hangs", "loop"));
    let mut others = 0;
    while !hangs.is_finished() {
        let asked = Instant::now();
        let other = scene.pods().create(&dry_run(), &plain_pod("other")).await;
        let is_seen = other.unwrap().labels().contains_key("seen");
        assert!(is_seen, "another pod did not pass the whole chain");
        assert!(asked.elapsed() < LIMIT, "another pod had to wait");
        others += 1;
    }
    assert!(began.elapsed() >= LIMIT, "the plugin did not hang");
    assert!(others > 1, "no other pod was created meanwhile");
    assert!(operator.metric("podloom_plugin_traps_total{plugin=\"loops\"") >= 1.0);
    hangs.await.unwrap()
}

#[test]
fn a_plugin_that_hangs_rejects_its_pod_and_delays_no_other() {
    blackbox_on(
        Cluster::without_operator,
        "webhook-plugin-hangs",
        async |scene| {
            let said = hang(&scene, "Fail").await;
            let error = "denied the request: plugin loops: it ran longer than its limit of 4 s";
            assert!(
                !said.is_done && said.error.contains(error),
                "{}",
                said.error
            );
            let pod = scene.pods().get_opt("hangs").await.unwrap();
            assert!(pod.is_none(), "no pod is created without the plugin");
        },
    );
}

#[test]
fn a_plugin_that_hangs_and_is_ignored_delays_only_its_pod() {
    blackbox_on(
        Cluster::without_operator,
        "webhook-hangs-ignored",
        async |scene| {
            let said = hang(&scene, "Ignore").await;
            let warning =
                "Warning: plugin loops failed and was ignored: it ran longer than its limit of 4 s";
            assert!(said.error.contains(warning), "{}", said.error);
            let pod = scene.pods().get("hangs").await.unwrap();
            let seen = pod.labels().get("seen").map(String::as_str);
            assert_eq!(seen, Some("yes"), "the next plugin has run");
        },
    );
}

/// Waits until new pods are refused with these words.
async fn are_refused(scene: &Scene, words: &[&str]) {
    eventually(
        &format!("pods are refused: {words:?}"),
        async || match scene.pods().create(&dry_run(), &plain_pod("probe")).await {
            Ok(_) => Err("the pod was admitted".to_owned()),
            Err(error) => {
                let error = error.to_string();
                let is_so = words.iter().all(|word| error.contains(word));
                is_so.then_some(()).ok_or(error)
            }
        },
    )
    .await;
}

/// Waits until new pods are admitted without the chain.
async fn are_admitted(scene: &Scene) {
    eventually("pods are admitted without the chain", async || {
        let created = scene.pods().create(&dry_run(), &plain_pod("probe")).await;
        let created = created.map_err(|error| error.to_string())?;
        let is_untouched = !created.annotations().contains_key(STAMP);
        is_untouched
            .then_some(())
            .ok_or_else(|| format!("{created:?}"))
    })
    .await;
}

#[test]
fn without_an_answer_the_policy_of_the_configuration_decides() {
    blackbox_on(Cluster::without_operator, "webhook-down", async |scene| {
        let webhook = Webhook::new(&scene, Route::Url);
        let address = free_address();
        let listen = address.to_string();
        let failed = "failed calling webhook \"pods.podloom.dev\"";
        // Nobody answers.
        webhook.configure(address, Policy::Fail);
        are_refused(&scene, &[failed, "connection refused"]).await;
        webhook.configure(address, Policy::Ignore);
        are_admitted(&scene).await;
        // An operator without a chain answers.
        let bundle = Bundle::of("[{ name: missing, file: missing.wasm, allow: [] }]");
        let mut broken = webhook.spawn(bundle.path(), &["--webhook", &listen]);
        eventually("the certificate serves", async || {
            let lines = broken.logged(&["serves another certificate"]);
            (!lines.is_empty())
                .then_some(())
                .ok_or_else(|| broken.tail(""))
        })
        .await;
        are_admitted(&scene).await;
        webhook.configure(address, Policy::Fail);
        are_refused(&scene, &[failed, "chain"]).await;
        assert!(
            broken.metric(
                "podloom_webhook_requests_total{endpoint=\"mutate/pods\",outcome=\"no_chain\""
            ) >= 1.0
        );
        broken.kill();
        are_refused(&scene, &[failed, "connection refused"]).await;
        // With a chain, pods are created again at once.
        let bundle = chain("Fail");
        let operator = webhook.spawn(bundle.path(), &["--webhook", &listen]);
        operator.ready().await;
        webhook.serves().await;
    });
}
