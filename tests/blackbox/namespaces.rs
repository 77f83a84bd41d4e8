//! Namespaces that may not be read, for a moment or for ever: no plugin takes what is not known for "no labels".

use std::time::Duration;

use kube::ResourceExt;
use podloom_api::{Browser, Phase};
use podloom_tests::webhook::{Route, STAMP, Webhook, dry_run, plain_pod};
use podloom_tests::{
    Account, Bundle, Cluster, Operator, Scene, blackbox_on, eventually, eventually_within,
};
use serde_json::{Value, json};

/// Labels the pods of namespaces with the label `team`.
const SELECTS: &str = "[{ name: labels, file: labels.wasm.gz, allow: [/metadata/labels/checked], match: { namespaceSelector: { matchLabels: { team: web } } }, config: { labels: [{ key: checked, value: by-us }] } }]";
/// What `/readyz` says while the right is missing.
const LACKS: &str = "may not list namespaces; the operator shows the labels and annotations of namespaces to plugins; without it, a chain that needs labels";
/// Longer than a watch lasts.
const WATCH: Duration = Duration::from_secs(90);
const MISSING: &str = "podloom_optional_rights_missing{duty=\"browser\"}";

fn team() -> Value {
    json!({ "team": "web" })
}

fn is_about_namespaces(rule: &Value) -> bool {
    rule["resources"] == json!(["namespaces"])
}

/// The account of the operator, with the right to read namespaces or without it.
fn account(scene: &Scene, may_read: bool) -> Account {
    Account::new(scene, "limited", |rule| {
        may_read || !is_about_namespaces(rule)
    })
}

async fn label(scene: &Scene, team: &Value) {
    let patch = json!({ "metadata": { "labels": team } }).to_string();
    let namespace = ["patch", "namespace", &scene.namespace];
    let patch = ["--type", "merge", "--patch", &patch];
    scene.cluster.kubectl(&[&namespace[..], &patch].concat());
}

async fn readiness_says(operator: &Operator, expected: bool) {
    eventually("readiness says whether the right is missing", async || {
        let (status, body) = operator.get("/readyz")?;
        let is_said = status == 200 && body.contains(LACKS) == expected;
        is_said.then_some(()).ok_or(body)
    })
    .await;
}

/// Whether the rule labels a pod. It is an error if the pod is refused, or the API server does not call the webhook yet.
async fn is_checked(scene: &Scene) -> Result<bool, String> {
    let created = scene.pods().create(&dry_run(), &plain_pod("a")).await;
    let created = created.map_err(|error| error.to_string())?;
    match created.annotations().contains_key(STAMP) {
        true => Ok(created.labels().contains_key("checked")),
        false => Err("it did not pass the chain".to_owned()),
    }
}

#[test]
fn a_right_that_is_missing_for_a_moment_switches_no_rule_of_the_webhook_off() {
    blackbox_on(Cluster::without_operator, "unread-webhook", async |scene| {
        label(&scene, &team()).await;
        let bundle = Bundle::of(SELECTS);
        let webhook = Webhook::new(&scene, Route::Url);
        let operator = webhook.operator(bundle.path(), &[]).await;
        assert_eq!(is_checked(&scene).await, Ok(true));
        // What `kubectl replace --force` does first.
        let binding = ["clusterrolebinding", webhook.name.as_str()];
        let saved = [&["get"][..], &binding, &["--output", "json"]].concat();
        let mut saved: Value = serde_json::from_str(&scene.cluster.kubectl(&saved)).unwrap();
        for of_the_old in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
        ] {
            saved["metadata"]
                .as_object_mut()
                .unwrap()
                .remove(of_the_old);
        }
        scene.cluster.kubectl(&[&["delete"][..], &binding].concat());
        readiness_says(&operator, true).await;
        assert!(operator.metric("podloom_optional_rights_missing{duty=\"webhook\"}") > 0.5);
        assert_eq!(
            operator.logged(&["WARN", "may not list namespaces"]).len(),
            1
        );
        assert_eq!(is_checked(&scene).await, Ok(true), "it was known");
        // A watch that goes on still hears of new namespaces; the next one is refused.
        eventually_within("no watch goes on", WATCH, async || {
            let broken = operator.metric("podloom_watch_errors_total{kind=\"Namespace\"}");
            (broken > 0.5).then_some(()).ok_or(broken.to_string())
        })
        .await;
        let new = scene.beside("unread-webhook-new", team()).await;
        selects_both(&scene, &new, &webhook);
        eventually("pods of an unknown namespace are refused", async || {
            let why = match is_checked(&new).await {
                Ok(checked) => panic!("the namespace is not known, and the rule: {checked}"),
                Err(why) => why,
            };
            let is_refused = why.contains("unread-webhook-new: labels: it needs");
            is_refused.then_some(()).ok_or(why)
        })
        .await;
        scene.cluster.apply_text(&saved.to_string());
        eventually("the rule applies there too", async || {
            assert!(is_checked(&new).await?, "a rule was switched off");
            Ok(())
        })
        .await;
        readiness_says(&operator, false).await;
        assert_eq!(
            operator
                .logged(&["is no longer missing", "a chain that needs labels"])
                .len(),
            1
        );
    });
}

/// Sends the pods of both namespaces to the webhook.
fn selects_both(scene: &Scene, new: &Scene, webhook: &Webhook) {
    let names = [&scene.namespace, &new.namespace];
    let name = json!({ "key": "kubernetes.io/metadata.name", "operator": "In", "values": names });
    let patch = json!([{
        "op": "replace", "path": "/webhooks/0/namespaceSelector",
        "value": { "matchExpressions": [name] },
    }]);
    let configuration = ["patch", "mutatingwebhookconfiguration", &webhook.name];
    let patch = ["--type", "json", "--patch", &patch.to_string()];
    scene
        .cluster
        .kubectl(&[&configuration[..], &patch].concat());
}

/// Waits until a session runs, and returns whether its pod has the label.
async fn runs_checked(scene: &Scene, name: &str) -> bool {
    let seen = scene.watch_browsers().await;
    let runs = |browser: &Browser| {
        let status = browser.status.as_ref();
        status.and_then(|status| status.phase) == Some(Phase::Running)
    };
    seen.until_is(name, "runs", runs).await;
    let pod = scene.pods().get(name).await.unwrap();
    pod.labels().contains_key("checked")
}

#[test]
fn a_right_that_is_missing_for_a_moment_switches_no_rule_of_sessions_off() {
    blackbox_on(
        Cluster::without_operator,
        "unread-sessions",
        async |scene| {
            label(&scene, &team()).await;
            scene.behaviours().await;
            let limited = account(&scene, true);
            let (bundle, new) = (Bundle::of(SELECTS), "unread-sessions-new");
            let namespaces = ["--namespace", &scene.namespace, "--namespace", new];
            let plugins = ["--plugins", bundle.path().to_str().unwrap()];
            let arguments = [&namespaces[..], &plugins].concat();
            let operator = Operator::spawn(&scene.cluster, &limited.kubeconfig, &arguments);
            operator.ready().await;
            account(&scene, false);
            readiness_says(&operator, true).await;
            assert!(operator.metric(MISSING) > 0.5);
            scene.browser("known", "running").await;
            assert!(runs_checked(&scene, "known").await);
            let new = scene.beside(new, team()).await;
            new.behaviours().await;
            let seen = new.watch_browsers().await;
            new.browser("unknown", "running").await;
            seen.until_is("unknown", "says what it waits for", |browser| {
                let status = serde_json::to_string(&browser.status).unwrap();
                status.contains("MutationFailed") && status.contains("which could not be read")
            })
            .await;
            assert!(new.pods().get_opt("unknown").await.unwrap().is_none());
            account(&scene, true);
            assert!(runs_checked(&new, "unknown").await);
            readiness_says(&operator, false).await;
            assert!(operator.metric(MISSING) < 0.5);
        },
    );
}

#[test]
fn without_the_right_a_chain_that_needs_it_is_loaded_only_if_that_is_allowed() {
    blackbox_on(Cluster::without_operator, "unread-start", async |scene| {
        label(&scene, &team()).await;
        scene.behaviours().await;
        let limited = account(&scene, false);
        let (needs, other) = (Bundle::of(SELECTS), Bundle::empty());
        let spawn = |bundle: &Bundle, more: &[&str]| {
            let plugins = bundle.path().to_str().unwrap();
            let arguments = ["--namespace", &scene.namespace, "--plugins", plugins];
            let arguments = [&arguments[..], more].concat();
            Operator::spawn(&scene.cluster, &limited.kubeconfig, &arguments)
        };
        // A chain that needs nothing of namespaces needs no right to them.
        let mut operator = spawn(&other, &[]);
        operator.ready().await;
        operator.kill();

        let mut operator = spawn(&needs, &["--allow-unread-namespaces"]);
        operator.ready().await;
        scene.browser("allowed", "running").await;
        assert!(!runs_checked(&scene, "allowed").await, "it has no labels");
        operator.kill();

        let operator = spawn(&needs, &[]);
        let said = "[-]chain failed: ";
        let why = "plugin labels needs the labels or annotations of namespaces, which the operator may not read";
        eventually("readiness says why no chain serves", async || {
            let (status, body) = operator.get("/readyz")?;
            let is_said = status == 503 && body.contains(said) && body.contains(why);
            is_said.then_some(()).ok_or(body)
        })
        .await;
        let reloads = "podloom_chain_reloads_total{outcome=\"unmet\"}";
        assert!(operator.metric(reloads) > 0.5);
        scene.browser("later", "running").await;
        account(&scene, true);
        operator.ready().await;
        assert!(runs_checked(&scene, "later").await);
    });
}
