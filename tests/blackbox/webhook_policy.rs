//! What the policy in `deploy/` keeps from the account of the webhooks, which has the right to change their configurations.

use std::fs;
use std::path::Path;

use podloom_tests::webhook::{Policy, Route, Webhook};
use podloom_tests::{Cluster, Said, Scene, blackbox_on, eventually};
use serde_json::{Value, json};

const MUTATING: &str = "mutatingwebhookconfiguration";
const VALIDATING: &str = "validatingwebhookconfiguration";
const TOKEN: &str = "kubernetes.io/service-account-token";
/// Helm trusts what it finds there at the next rollback.
const RELEASE: &str = "sh.helm.release.v1.a.v1";

/// The policy for the account of one test.
fn policy(webhook: &Webhook) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../deploy/controllers/webhook/policy/policy.yaml");
    let text = fs::read_to_string(file).unwrap();
    let text = text.replace(
        "system:serviceaccount:podloom-system:podloom-webhook",
        &webhook.user,
    );
    text.replace("podloom-webhook", &webhook.name)
}

/// Runs kubectl as the account of the webhooks. Nothing is stored.
fn ask(scene: &Scene, webhook: &Webhook, arguments: &[&str]) -> Said {
    let kubeconfig = webhook.kubeconfig.to_str().unwrap();
    let account = ["--dry-run=server", "--kubeconfig", kubeconfig];
    scene.cluster.ask_kubectl(&[arguments, &account].concat())
}

fn patch(scene: &Scene, webhook: &Webhook, kind: &str, patch: &Value) -> Said {
    let patch = json!([patch]).to_string();
    ask(
        scene,
        webhook,
        &[
            "patch",
            kind,
            &webhook.name,
            "--type=json",
            "--patch",
            &patch,
        ],
    )
}

/// What would make the API server send other requests, or send them elsewhere, or hide who is to blame.
fn forbidden() -> Vec<Value> {
    let replace =
        |path: &str, value: Value| json!({ "op": "replace", "path": path, "value": value });
    let add = |path: &str, value: Value| json!({ "op": "add", "path": path, "value": value });
    let first = |field: &str| format!("/webhooks/0/{field}");
    let whole = json!({
        "name": "more.podloom.dev", "clientConfig": { "url": "https://example.com/" }, "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    let all = json!([{ "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"] }]);
    vec![
        replace(&first("rules"), all),
        add(&first("rules/0/resources/-"), json!("secrets")),
        replace(&first("clientConfig/url"), json!("https://example.com/")),
        replace(
            &first("clientConfig"),
            json!({ "service": { "name": "a", "namespace": "default" } }),
        ),
        replace(&first("namespaceSelector"), json!({})),
        add(
            &first("objectSelector"),
            json!({ "matchLabels": { "a": "b" } }),
        ),
        add(
            &first("matchConditions"),
            json!([{ "name": "a", "expression": "false" }]),
        ),
        replace(&first("matchPolicy"), json!("Exact")),
        replace(&first("failurePolicy"), json!("Ignore")),
        replace(&first("timeoutSeconds"), json!(1)),
        replace(&first("admissionReviewVersions"), json!(["v1", "v1beta1"])),
        replace(&first("sideEffects"), json!("NoneOnDryRun")),
        replace(&first("name"), json!("other.podloom.dev")),
        add("/webhooks/-", whole),
        json!({ "op": "remove", "path": "/webhooks" }),
        add("/metadata/labels", json!({ "a": "b" })),
        json!({ "op": "remove", "path": "/metadata/labels" }),
        add("/metadata/annotations/a", json!("b")),
        add("/metadata/finalizers", json!(["a.example.com/b"])),
        add(
            "/metadata/ownerReferences",
            json!([{ "apiVersion": "v1", "kind": "Namespace", "name": "a", "uid": "a" }]),
        ),
    ]
}

#[test]
fn the_account_of_the_webhooks_changes_nothing_but_the_ca_bundle() {
    blackbox_on(Cluster::without_operator, "webhook-policy", async |scene| {
        let webhook = Webhook::new(&scene, Route::Url);
        let nobody = "127.0.0.1:1".parse().unwrap();
        webhook.configure(nobody, Policy::Fail);
        webhook.configure_validation(nobody);
        for kind in [MUTATING, VALIDATING] {
            let name = webhook.name.as_str();
            scene.cluster.kubectl(&["label", kind, name, "made=here"]);
            scene
                .cluster
                .kubectl(&["annotate", kind, name, "made=here"]);
            for forbidden in forbidden() {
                let said = patch(&scene, &webhook, kind, &forbidden);
                assert!(
                    said.is_done,
                    "without the policy RBAC allows it: {forbidden} {}",
                    said.error
                );
            }
        }
        scene.cluster.apply_text(&policy(&webhook));
        let rules = &forbidden()[0];
        eventually("the API server knows the policy", async || {
            let said = patch(&scene, &webhook, MUTATING, rules);
            (!said.is_done).then_some(()).ok_or(said.out)
        })
        .await;
        for kind in [MUTATING, VALIDATING] {
            for forbidden in forbidden() {
                let said = patch(&scene, &webhook, kind, &forbidden);
                let is_refused = said.error.contains("changes nothing but caBundle");
                assert!(
                    !said.is_done && is_refused,
                    "{kind} {forbidden}: {} {}",
                    said.out,
                    said.error
                );
            }
            // Somebody else may.
            let label = ["label", kind, &webhook.name, "--overwrite", "a=b"];
            scene.cluster.kubectl(&label);
            let path = "/webhooks/0/clientConfig/caBundle";
            for bundle in [
                json!({ "op": "add", "path": path, "value": "" }),
                json!({ "op": "add", "path": path, "value": authority() }),
            ] {
                let said = patch(&scene, &webhook, kind, &bundle);
                assert!(said.is_done, "{kind} {bundle}: {}", said.error);
            }
        }
        secrets(&scene, &webhook);
    });
}

/// The account creates the Secret of its certificates, and no other.
fn secrets(scene: &Scene, webhook: &Webhook) {
    let own = format!("{}-tls", webhook.name);
    for (name, type_, refusal) in [
        (own.as_str(), TOKEN, "creates no Secrets for tokens"),
        (RELEASE, "helm.sh/release.v1", "writes no Secret but that"),
        (RELEASE, "Opaque", "writes no Secret but that"),
    ] {
        let said = secret(scene, webhook, name, type_);
        let is_refused = said.error.contains(refusal);
        assert!(is_refused, "{name}: {} {}", said.out, said.error);
    }
    let said = secret(scene, webhook, &own, "Opaque");
    assert!(said.is_done, "{}", said.error);
    let home = ["--namespace", webhook.home.as_str()];
    let create = ["create", "secret", "generic", own.as_str()];
    scene.cluster.kubectl(&[&create[..], &home].concat());
    let said = write(scene, webhook, "replace", (&own, "Opaque", "others"));
    assert!(said.is_done, "{}", said.error);
    // Helm finds its releases by this label.
    let said = write(scene, webhook, "replace", (&own, "Opaque", "helm"));
    let is_refused = said.error.contains("makes no releases of Helm");
    assert!(is_refused, "{} {}", said.out, said.error);
}

fn secret(scene: &Scene, webhook: &Webhook, name: &str, type_: &str) -> Said {
    write(scene, webhook, "create", (name, type_, "others"))
}

/// Writes a Secret of this name, type and owner, in which the API server would put a token if it has the type for that.
fn write(
    scene: &Scene,
    webhook: &Webhook,
    verb: &str,
    (name, type_, owner): (&str, &str, &str),
) -> Said {
    let annotations = json!({ "kubernetes.io/service-account.name": webhook.name });
    let text = json!({
        "apiVersion": "v1", "kind": "Secret", "type": type_,
        "metadata": {
            "name": name, "namespace": webhook.home, "annotations": annotations, "labels": { "owner": owner },
        },
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text.to_string()).unwrap();
    let path = file.path().to_str().unwrap();
    ask(scene, webhook, &[verb, "--filename", path])
}

/// A certificate, in Base64.
fn authority() -> Value {
    let made = rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap();
    json!(k8s_openapi::ByteString(made.cert.pem().into_bytes()))
}
