//! No secret is found in anything that the operator writes, at any log level.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kube::api::{Patch, PatchParams};
use podloom_api::ClusterState;
use podloom_tests::im::{ImOptions, ImServer, templates};
use podloom_tests::infrastructure::{CLUSTER, Infrastructure, TOKEN, kubeconfig};
use podloom_tests::{Cluster, Operator, Scene, blackbox_on, eventually};
use serde_json::{Value, json};

/// Values of Secrets, with the characters that are written in another way in JSON, in a header, and in a URL.
const WRONG: &str = "wr0ng \"pa55\\word\"/+&%ü";
const PARAMETER: &str = "cl0ud-parameter/with+signs=";
const BEARER: &str = "bearer-t0ken-of-another-account";

#[test]
fn no_secret_is_written_anywhere() {
    blackbox_on(Cluster::without_operator, "infra-secrets", async |scene| {
        let infrastructure = Infrastructure::bare(&scene, ImServer::shared().await);
        let (user, password) = (scene.namespace.clone(), infrastructure.password());
        let options = ImOptions {
            users: vec![(user, password.clone())],
            ..ImOptions::default()
        };
        let im = ImServer::start(&options).await;
        let infrastructure = Infrastructure::bare(&scene, &im);
        let operator = infrastructure
            .operator(&["--log", "trace", "--probe-clusters", "true"])
            .await;
        build(&infrastructure, &im).await;
        break_it(&infrastructure, &password).await;
        let secrets = [WRONG, PARAMETER, BEARER, TOKEN, &password];
        are_nowhere(&scene, &operator, &secrets).await;
        infrastructure.until_gone().await;
        are_nowhere(&scene, &operator, &secrets).await;
    });
}

/// Logs in with a wrong password and then the right one, with a token that nobody knows, and with a parameter of the cloud.
async fn build(infrastructure: &Infrastructure<'_>, im: &ImServer) {
    infrastructure
        .secret("im", json!({ "password": WRONG }))
        .await;
    infrastructure
        .secret("parameter", json!({ "value": PARAMETER }))
        .await;
    infrastructure
        .secret("bearer", json!({ "token": BEARER }))
        .await;
    infrastructure
        .provider("im", infrastructure.basic(&im.url()))
        .await;
    infrastructure
        .provider(
            "token",
            json!({ "url": im.url(), "tokenSecretRef": { "name": "bearer" } }),
        )
        .await;
    infrastructure.cloud("token", "token").await;
    infrastructure.cloud("local", "im").await;
    let parameter = json!({ "api_key": { "name": "parameter" } });
    let change = Patch::Merge(json!({ "spec": { "generic": { "secretParameters": parameter } } }));
    infrastructure
        .clouds()
        .patch("local", &PatchParams::default(), &change)
        .await
        .unwrap();
    let template = templates::single_node(&kubeconfig());
    infrastructure.cluster(&template).await;
    let spec = json!({ "tosca": template, "cloudRef": { "kind": "Cloud", "name": "token" } });
    infrastructure.cluster_with("other", spec).await;
    for (name, state) in [
        (CLUSTER, ClusterState::Failed),
        // IM does not know the token, and says it in another way.
        ("other", ClusterState::FailingReconciliation),
    ] {
        infrastructure
            .until_of(name, "is refused", |status| status.state == Some(state))
            .await;
    }
    let right = json!({ "stringData": { "password": infrastructure.password() } });
    infrastructure
        .secrets()
        .patch("im", &PatchParams::default(), &Patch::Merge(right))
        .await
        .unwrap();
    infrastructure
        .until("has an infrastructure", |status| {
            status.cluster_id.is_some()
        })
        .await;
    eventually("the kubeconfig is stored", async || {
        let stored = infrastructure.stored().await;
        stored.map(|_| ()).ok_or_else(|| "it is not".to_owned())
    })
    .await;
}

/// Makes IM repeat secrets in what it says: it names types that it does not know.
async fn break_it(infrastructure: &Infrastructure<'_>, password: &str) {
    for secret in [password, PARAMETER] {
        let mut wrong = templates::single_node(&kubeconfig());
        let nodes = &mut wrong["topology_template"]["node_templates"];
        nodes["another"] = json!({ "type": format!("podloom.test.{secret}") });
        infrastructure.replace_template(&wrong).await;
        infrastructure
            .until("is refused", |status| {
                let text = podloom_tests::infrastructure::message(status, "TemplateApplied");
                let applied = podloom_tests::infrastructure::condition(status, "TemplateApplied");
                applied != "True/Applied" && text.contains("podloom.test.")
            })
            .await;
    }
}

async fn are_nowhere(scene: &Scene, operator: &Operator, secrets: &[&str]) {
    let (_, metrics) = operator.get("/metrics").unwrap();
    let objects = scene.cluster.kubectl(&[
        "get",
        "clusters,clouds,infrastructureproviders,events",
        "--namespace",
        &scene.namespace,
        "--output",
        "json",
        "--show-managed-fields",
    ]);
    let mut objects: Value = serde_json::from_str(&objects).unwrap();
    for object in objects["items"].as_array_mut().unwrap() {
        // A template is the user's own text. It has the secrets only because this test wrote them there.
        object["spec"]["tosca"].take();
        object["status"]["lastAppliedTosca"].take();
    }
    let printed = operator.printed();
    // What is searched is what was written: all levels, and each part of the operator.
    for word in [r#""TRACE""#, CLUSTER, "podloom_infrastructure"] {
        assert!(printed.contains(word), "the log lacks {word}");
    }
    let places = [
        ("the log", printed),
        ("the metrics", metrics),
        ("the objects", objects.to_string()),
    ];
    for (place, text) in places {
        for secret in secrets {
            for form in forms(secret) {
                let found = text.find(&form).map(|at| {
                    let from = text.floor_char_boundary(at.saturating_sub(400));
                    let to = text.ceil_char_boundary(at + form.len() + 200);
                    &text[from..to]
                });
                assert_eq!(found, None, "{place} has {form}");
            }
        }
    }
}

/// A secret as it is, in JSON, twice in JSON, in base64, and with the escapes of IM's header.
fn forms(secret: &str) -> Vec<String> {
    let json = |text: &str| {
        let quoted = Value::from(text).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    };
    let once = json(secret);
    let twice = json(&once);
    let mut forms = vec![
        secret.to_owned(),
        once,
        twice,
        BASE64_STANDARD.encode(secret),
    ];
    forms.sort_unstable();
    forms.dedup();
    forms
}
