//! An operator that asks for a signature uses no chain without one.

use std::fs;

use kube::ResourceExt;
use podloom_tests::{Bundle, Cluster, Operator, blackbox_on, eventually};
use rcgen::{KeyPair, PKCS_ED25519, SigningKey};
use serde_json::Value;

/// A chain that writes this team into a label.
fn team(name: &str, sha256: &str) -> String {
    format!(
        "apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins:\n- {{ name: labels, file: labels.wasm.gz, sha256: {sha256}, allow: [/metadata/labels], config: {{ labels: [{{ key: team, value: {name} }}] }} }}\n"
    )
}

/// The digest of the plugin, as `podloom chain check` prints it.
fn sha256_of(bundle: &Bundle) -> String {
    let checked = std::process::Command::new(podloom_tests::binary().unwrap())
        .args(["plugin", "inspect", "-o", "json"])
        .arg(bundle.path().join("labels.wasm.gz"))
        .output()
        .unwrap();
    let about: Value = serde_json::from_slice(&checked.stdout).unwrap();
    about["sha256"].as_str().unwrap().to_owned()
}

async fn until_error(operator: &Operator, words: &str) {
    eventually(&format!("/plugins says {words:?}"), async || {
        let (_, text) = operator.get("/plugins")?;
        text.contains(words).then_some(()).ok_or(text)
    })
    .await;
}

#[test]
fn a_chain_serves_once_it_is_signed_and_a_change_without_signature_does_not() {
    blackbox_on(Cluster::without_operator, "signed", async |scene| {
        let bundle = Bundle::empty();
        let at = |name: &str| bundle.path().join(name);
        let owner = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let key = tempfile::NamedTempFile::new().unwrap();
        fs::write(key.path(), owner.public_key_pem()).unwrap();
        let digest = sha256_of(&bundle);
        let write = |name: &str, by: &KeyPair| {
            let text = team(name, &digest);
            fs::write(at("chain.yaml.sig"), by.sign(text.as_bytes()).unwrap()).unwrap();
            fs::write(at("chain.yaml"), text).unwrap();
        };

        let plugins = bundle.path().to_str().unwrap();
        let required = key.path().to_str().unwrap();
        let arguments = ["--plugins", plugins, "--require-signature", required];
        let operator = scene.spawn_operator(&arguments);
        until_error(&operator, "the chain is not signed").await;
        let (code, _) = operator.get("/readyz").unwrap();
        assert_eq!(code, 503);

        let stranger = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        write("stranger", &stranger);
        until_error(&operator, "is not that of chain.yaml by the key").await;

        write("one", &owner);
        operator.ready().await;
        scene.behaviours().await;
        let pods = scene.watch_pods().await;
        scene.browser("first", "running").await;
        let pod = pods.until_is("first", "exists", |_| true).await;
        assert_eq!(pod.labels()["team"], "one");

        // The last chain that was signed stays.
        fs::write(at("chain.yaml"), team("two", &digest)).unwrap();
        until_error(&operator, "is not that of chain.yaml by the key").await;
        let refused = operator.metric("podloom_chain_reloads_total{outcome=\"unsigned\"}");
        assert!(refused >= 1.0, "{refused}");
        scene.browser("second", "running").await;
        let pod = pods.until_is("second", "exists", |_| true).await;
        assert_eq!(pod.labels()["team"], "one");
    });
}
