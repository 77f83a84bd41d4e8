//! The policies of the README: which pods they deny, in each list of containers, and which they let pass.

use podloom_plugin_sdk::Rejection;
use podloom_plugin_sdk::serde_json::{Value, json};
use podloom_plugin_sdk::testing;

use super::{config, submitted};
use crate::Script;

const LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
const DIGEST: &str = "@sha256:2d0e3a6e0b0d6a8f1f7f4c1f5e0d2c9b8a7f6e5d4c3b2a190807060504030201";

/// The program under a heading of the README.
#[track_caller]
fn policy(title: &str) -> String {
    let readme = include_str!("../../README.md");
    let (_, section) = readme.split_once("\n## Ten policies\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    assert_eq!(section.matches("\n### ").count(), 10);
    let (_, page) = section.split_once(&format!("\n### {title}\n")).unwrap();
    let (_, program) = page.split_once("\n```rust\n").unwrap();
    program.split_once("```").unwrap().0.to_owned()
}

/// A container that every policy lets pass.
fn container() -> Value {
    json!({
        "name": "fine",
        "image": format!("registry.example/app{DIGEST}"),
        "restartPolicy": "Always",
        "resources": { "requests": { "memory": "256Mi" }, "limits": { "memory": "512Mi" } },
        "securityContext": {
            "runAsUser": 1000,
            "capabilities": { "drop": ["ALL"], "add": ["NET_BIND_SERVICE"] },
        },
        "readinessProbe": { "tcpSocket": { "port": 8080 } },
    })
}

/// A pod that every policy lets pass.
fn pod() -> Value {
    json!({
        "metadata": { "name": "web-1", "labels": { "app.kubernetes.io/name": "web", "team": "web" } },
        "spec": {
            "containers": [container()],
            "initContainers": [container()],
            "ephemeralContainers": [container()],
            "volumes": [{ "name": "work", "emptyDir": {} }],
            "tolerations": [{ "key": "dedicated", "operator": "Equal", "value": "web" }],
        },
    })
}

/// The pod with one more container in a list.
fn with(list: &str, change: impl Fn(&mut Value)) -> Value {
    let (mut pod, mut container) = (pod(), container());
    container["name"] = json!("other");
    change(&mut container);
    pod["spec"][list].as_array_mut().unwrap().push(container);
    pod
}

fn judged(title: &str, pod: &Value) -> Result<(), Rejection> {
    let config = config(&policy(title));
    testing::check_laws::<Script>(&config, &submitted(), pod);
    testing::run::<Script>(&config, &submitted(), pod).result
}

#[track_caller]
fn denies(title: &str, pod: &Value, words: &str) {
    match judged(title, pod) {
        Err(Rejection::Denied(reason)) => assert!(reason.contains(words), "{title}: {reason}"),
        other => panic!("{title}: {other:?}: {pod}"),
    }
}

#[track_caller]
fn passes(title: &str, pod: &Value) {
    assert_eq!(judged(title, pod), Ok(()), "{title}: {pod}");
}

/// Denied in each list of containers, by name.
#[track_caller]
fn denies_everywhere(title: &str, change: impl Fn(&mut Value) + Copy) {
    for list in LISTS {
        denies(title, &with(list, change), "container other");
    }
}

#[track_caller]
fn passes_everywhere(title: &str, change: impl Fn(&mut Value) + Copy) {
    for list in LISTS {
        passes(title, &with(list, change));
    }
}

#[test]
fn limits() {
    let title = "Limits";
    for limit in [
        json!("10Gi"),
        json!("4.5Gi"),
        json!("5e9"),
        json!(5_000_000_000_i64),
    ] {
        denies_everywhere(title, |it| {
            it["resources"]["limits"]["memory"] = limit.clone()
        });
    }
    denies_everywhere(title, |it| {
        it["resources"]["limits"] = json!({ "cpu": "1" })
    });
    denies_everywhere(title, |it| it["resources"] = json!(null));
    for limit in [
        json!("512Mi"),
        json!("4Gi"),
        json!("4e9"),
        json!("500m"),
        json!(1.5),
    ] {
        passes_everywhere(title, |it| {
            it["resources"]["limits"]["memory"] = limit.clone()
        });
    }
}

#[test]
fn registries() {
    let title = "Registries";
    for image in [
        "nginx",
        "docker.io/library/nginx:1",
        "registry.example.evil/app:1",
    ] {
        denies_everywhere(title, |it| it["image"] = json!(image));
    }
    passes_everywhere(title, |it| {
        it["image"] = json!("registry.example/team/app:1")
    });
}

#[test]
fn users() {
    let title = "Users";
    denies_everywhere(title, |it| {
        it["securityContext"] = json!({ "runAsUser": 0 })
    });
    denies_everywhere(title, |it| it["securityContext"] = json!(null));
    denies_everywhere(title, |it| {
        it["securityContext"] = json!({ "runAsNonRoot": false })
    });
    passes_everywhere(title, |it| {
        it["securityContext"] = json!({ "runAsNonRoot": true })
    });
    let of_pod = |context: Value| {
        let mut pod = with("initContainers", |it| it["securityContext"] = json!(null));
        pod["spec"]["securityContext"] = context;
        pod
    };
    passes(title, &of_pod(json!({ "runAsUser": 7 })));
    passes(title, &of_pod(json!({ "runAsNonRoot": true })));
    denies(
        title,
        &of_pod(json!({ "runAsUser": 0, "runAsNonRoot": true })),
        "container other",
    );
}

#[test]
fn host_paths() {
    let title = "Host paths";
    let with = |volume: Value| {
        let mut pod = pod();
        pod["spec"]["volumes"] = json!([{ "name": "work", "emptyDir": {} }, volume]);
        pod
    };
    denies(
        title,
        &with(json!({ "name": "root", "hostPath": { "path": "/" } })),
        "volume root",
    );
    denies(
        title,
        &with(json!({ "name": "none", "hostPath": {} })),
        "volume none",
    );
    passes(
        title,
        &with(json!({ "name": "more", "configMap": { "name": "more" } })),
    );
    let mut none = pod();
    none["spec"]["volumes"] = json!(null);
    passes(title, &none);
}

#[test]
fn capabilities() {
    let title = "Capabilities";
    denies_everywhere(title, |it| {
        it["securityContext"]["capabilities"]["add"] = json!(["NET_BIND_SERVICE", "SYS_ADMIN"]);
    });
    denies_everywhere(title, |it| {
        it["securityContext"]["capabilities"]["drop"] = json!(["KILL"])
    });
    denies_everywhere(title, |it| {
        it["securityContext"]["capabilities"] = json!(null)
    });
    passes_everywhere(title, |it| {
        it["securityContext"]["capabilities"] = json!({ "drop": ["KILL", "ALL"] });
    });
}

#[test]
fn tolerations() {
    let title = "Tolerations";
    let with = |toleration: Value| {
        let mut pod = pod();
        pod["spec"]["tolerations"] =
            json!([{ "key": "dedicated", "operator": "Exists" }, toleration]);
        pod
    };
    denies(title, &with(json!({ "operator": "Exists" })), "every taint");
    let key = "node-role.kubernetes.io/control-plane";
    denies(
        title,
        &with(json!({ "key": key, "operator": "Exists" })),
        key,
    );
    passes(title, &with(json!({ "key": "spot", "operator": "Exists" })));
    let mut none = pod();
    none["spec"]["tolerations"] = json!(null);
    passes(title, &none);
}

#[test]
fn probes() {
    let title = "Probes";
    let no_probe = |it: &mut Value| it["readinessProbe"] = json!(null);
    denies(title, &with("containers", no_probe), "container other");
    denies(title, &with("initContainers", no_probe), "container other");
    // What ends, and what the API server gives no probe, needs none.
    passes(title, &with("ephemeralContainers", no_probe));
    passes(
        title,
        &with("initContainers", |it| {
            no_probe(it);
            it["restartPolicy"] = json!(null);
        }),
    );
    passes_everywhere(title, |it| {
        it["readinessProbe"] = json!({ "exec": { "command": ["/ok"] } })
    });
}

#[test]
fn labels() {
    let title = "Labels";
    let with = |labels: Value| {
        let mut pod = pod();
        pod["metadata"]["labels"] = labels;
        pod
    };
    denies(title, &with(json!(null)), "app.kubernetes.io/name");
    denies(
        title,
        &with(json!({ "app.kubernetes.io/name": "", "team": "web" })),
        "app.kubernetes.io/name",
    );
    denies(
        title,
        &with(json!({ "app.kubernetes.io/name": "web" })),
        "team",
    );
    denies(
        title,
        &with(json!({ "app.kubernetes.io/name": "web", "team": "Web" })),
        "team",
    );
    passes(
        title,
        &with(json!({ "app.kubernetes.io/name": "web", "team": "data", "tier": "a" })),
    );
}

#[test]
fn multiples_of_a_quantity() {
    let title = "Multiples of a quantity";
    for limit in ["513Mi", "1Gi", "0.6G"] {
        denies_everywhere(title, |it| {
            it["resources"]["limits"]["memory"] = json!(limit)
        });
    }
    for limit in [json!("512Mi"), json!("0.5Gi"), json!("300M"), json!(null)] {
        passes_everywhere(title, |it| {
            it["resources"]["limits"]["memory"] = limit.clone()
        });
    }
    // The API server makes the request that is missing of the limit.
    passes_everywhere(title, |it| {
        it["resources"] = json!({ "limits": { "memory": "8Gi" } })
    });
}

#[test]
fn digests() {
    let title = "Digests";
    for image in ["registry.example/app", "registry.example/app:1", "sha256:1"] {
        denies_everywhere(title, |it| it["image"] = json!(image));
    }
    passes_everywhere(title, |it| {
        it["image"] = json!(format!("other.example/app:1{DIGEST}"))
    });
}
