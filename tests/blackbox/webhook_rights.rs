//! The rights of the admission webhooks: those in `deploy/` are enough, and what is missing is said.

use std::fs;
use std::path::Path;

use podloom_tests::webhook::{Policy, Route, Webhook, address, dry_run, plain_pod};
use podloom_tests::{AuditedRequest, Cluster, Operator, Scene, blackbox_on, eventually, standard};
use tempfile::TempDir;

#[test]
fn what_deploy_grants_is_enough_for_the_webhooks() {
    blackbox_on(Cluster::without_operator, "webhook-rights", async |scene| {
        let webhook = Webhook::installed(&scene, Route::Service);
        // By default the certificate is for the Service of the same name.
        let operator = webhook
            .operator(&standard(), &["--certificate-lifetime", "9s"])
            .await;
        let renewed = || operator.logged(&["serves another certificate"]).len() > 1;
        eventually("the certificate was renewed", async || {
            renewed()
                .then_some(())
                .ok_or_else(|| operator.tail("certificate"))
        })
        .await;
        let image = "--image=registry.k8s.io/pause:3.10";
        scene
            .cluster
            .kubectl(&["run", "a", "--namespace", &scene.namespace, image]);
        let requests = scene.cluster.requests_of(&webhook.user);
        for (verb, resource) in [
            ("create", "secrets"),
            ("update", "secrets"),
            ("patch", "mutatingwebhookconfigurations"),
            ("get", "validatingwebhookconfigurations"),
            ("update", "leases"),
            ("list", "namespaces"),
            ("list", "browserconfigs"),
        ] {
            let is_such =
                |request: &&AuditedRequest| request.verb == verb && request.resource == resource;
            assert!(
                requests.iter().any(|request| is_such(&request)),
                "{verb} {resource}: {requests:#?}"
            );
        }
        let refused: Vec<_> = requests
            .iter()
            .filter(|request| request.status == 403)
            .collect();
        assert!(refused.is_empty(), "{refused:#?}");
        let lines = operator.logged(&["may not"]);
        assert!(lines.is_empty(), "{lines:#?}");
    });
}

/// Takes away the right to read and update the Secret, and leaves the right to create it.
fn may_not_read_its_secret(scene: &Scene, webhook: &Webhook) {
    let rules =
        r#"{"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]}]}"#;
    let role = ["patch", "role", &webhook.name, "--namespace", &webhook.home];
    let patch = ["--type", "merge", "--patch", rules];
    scene.cluster.kubectl(&[&role[..], &patch].concat());
}

/// Starts an operator with a certificate in a directory, and waits until pods pass its chain.
async fn with_files(webhook: &Webhook, directory: &Path) -> Operator {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let certificate = made.cert.pem();
    fs::write(directory.join("tls.crt"), &certificate).unwrap();
    let key = made.signing_key.serialize_pem();
    fs::write(directory.join("tls.key"), key).unwrap();
    let files = ["--tls-dir", directory.to_str().unwrap()];
    let operator = webhook.spawn(&standard(), &files);
    webhook.configure_trusting(address(&operator).await, &certificate);
    operator.ready().await;
    webhook.serves().await;
    operator
}

#[test]
fn without_the_right_to_its_secret_readiness_says_what_to_do_and_files_serve() {
    blackbox_on(
        Cluster::without_operator,
        "webhook-no-secret",
        async |scene| {
            let webhook = Webhook::new(&scene, Route::Url);
            may_not_read_its_secret(&scene, &webhook);
            let mut operator = webhook.spawn(&standard(), &[]);
            let (name, home) = (webhook.name.as_str(), webhook.home.as_str());
            let words = [
                format!(
                    "[-]webhook/certificate failed: there is no certificate: could not read Secret {home}/{name}-tls: "
                ),
                "cannot get resource \"secrets\"".to_owned(),
                format!(
                    "`podloom rbac --controllers webhook --webhook-name {name}` prints the rights that the operator needs; without them, use --tls-dir"
                ),
            ];
            for path in ["/readyz/webhook", "/readyz"] {
                eventually("readiness names the right", async || {
                    let (status, text) = operator.get(path)?;
                    let is_said = words.iter().all(|word| text.contains(word));
                    (status == 503 && is_said).then_some(()).ok_or(text)
                })
                .await;
            }
            let right = format!("may not get secrets {name}-tls in namespace {home}");
            let logged = || operator.logged(&["an optional right is missing", &right]);
            eventually("the log names the right", async || {
                let is_logged = !logged().is_empty();
                is_logged
                    .then_some(())
                    .ok_or_else(|| operator.tail("may not"))
            })
            .await;
            // What people see meanwhile; TROUBLESHOOTING.md explains it.
            webhook.configure(address(&operator).await, Policy::Fail);
            eventually("pods are refused", async || {
                let created = scene.pods().create(&dry_run(), &plain_pod("a")).await;
                let refused = created.map_err(|error| error.to_string()).err();
                let is_known = |error: &String| error.contains("remote error: tls: access denied");
                let is_refused = refused.as_ref().is_some_and(is_known);
                is_refused
                    .then_some(())
                    .ok_or_else(|| format!("{refused:?}"))
            })
            .await;
            operator.kill();

            let files = TempDir::new().unwrap();
            let _operator = with_files(&webhook, files.path()).await;
            let requests = scene.cluster.requests_of(&webhook.user);
            let written = requests
                .iter()
                .find(|request| request.is_write() && request.resource == "secrets");
            assert!(written.is_none(), "{written:#?}");
        },
    );
}
