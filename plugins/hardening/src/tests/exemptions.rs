//! What is spared, and that the reason is noted.

use podloom_plugin_sdk::serde_json::{Value, json};
use podloom_plugin_sdk::testing::Submitted;

use super::{check_denied, check_noted, merge, pod_with, run, run_for, written};

const REASON: &str = "its driver needs the host, see SEC-7";

fn exempting(dimensions: Value) -> Value {
    let mut exemption = json!({"reason": REASON});
    merge(&mut exemption, dimensions);
    json!({"exemptions": [exemption]})
}

fn host_pod() -> Value {
    let mut pod = pod_with(json!({"hostNetwork": true, "serviceAccountName": "driver"}));
    pod["metadata"]["labels"] = json!({"app": "driver", "example.com/tier": "node"});
    pod
}

fn monitoring() -> Submitted {
    Submitted {
        namespace: "team-monitoring".to_owned(),
        ..Submitted::default()
    }
}

#[test]
fn a_pod_is_spared_where_all_that_is_given_holds() {
    let cases = [
        json!({"namespaces": ["team-monitoring"]}),
        json!({"namespaces": ["other", "team-*"]}),
        json!({"serviceAccounts": ["driver"]}),
        json!({"matchLabels": {"app": "driver", "example.com/tier": "node"}}),
        json!({"namespaces": ["*-monitoring"], "serviceAccounts": ["d*r"], "matchLabels": {"app": "driver"}}),
    ];
    for dimensions in cases {
        let run = run_for(&exempting(dimensions), &monitoring(), &host_pod());
        assert_eq!(run.result, Ok(()));
        assert_eq!(written(&run), [""; 0]);
        check_noted(
            &run,
            &["the pod is exempt: its driver needs the host, see SEC-7"],
        );
    }
}

#[test]
fn a_pod_is_not_spared_where_something_does_not_hold() {
    let cases = [
        json!({"namespaces": ["team", "monitoring", "*-monitor", "team-*-x"]}),
        json!({"serviceAccounts": ["default"]}),
        json!({"matchLabels": {"app": "driver", "missing": "x"}}),
        json!({"matchLabels": {"app": "other"}}),
        json!({"namespaces": ["team-*"], "serviceAccounts": ["other"]}),
    ];
    for dimensions in cases {
        let run = run_for(&exempting(dimensions.clone()), &monitoring(), &host_pod());
        assert!(run.result.is_err(), "{dimensions}");
    }
}

#[test]
fn a_pod_without_a_service_account_has_the_default_one() {
    let spared = exempting(json!({"serviceAccounts": ["default"]}));
    for spec in [
        json!({}),
        json!({"serviceAccountName": ""}),
        json!({"serviceAccount": ""}),
    ] {
        assert_eq!(written(&run(&spared, &pod_with(spec))), [""; 0]);
    }
    let old = run(
        &exempting(json!({"serviceAccounts": ["old"]})),
        &pod_with(json!({"serviceAccount": "old"})),
    );
    assert_eq!(written(&old), [""; 0]);
}

#[test]
fn a_spared_container_is_left_alone_and_inherits_nothing_new() {
    let pod = pod_with(json!({
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "initContainers": [{"name": "net-setup", "securityContext": {"runAsUser": 0, "capabilities": {"add": ["NET_ADMIN"]}}}],
    }));
    let mut config = exempting(json!({"containers": ["net-*"]}));
    config["runAsUser"] = json!(4096);
    config["readOnlyRootFilesystem"] = json!({"emptyDirs": []});
    let run = run(&config, &pod);
    check_noted(
        &run,
        &["/spec/initContainers/[name=net-setup]: exempt: its driver needs the host, see SEC-7"],
    );
    assert_eq!(
        written(&run),
        ["/spec/containers/[name=app]/securityContext"]
    );
    assert_eq!(
        run.pod["spec"]["containers"][0]["securityContext"],
        json!({
            "runAsNonRoot": true, "runAsUser": 4096, "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
        })
    );
}

#[test]
fn a_forced_pod_setting_moves_to_the_containers_that_are_not_spared() {
    let mut config = exempting(json!({"containers": ["root"]}));
    config["force"] = json!(true);
    let pod = pod_with(json!({
        "securityContext": {"runAsNonRoot": false},
        "containers": [{"name": "root"}, {"name": "app"}],
    }));
    let run = run(&config, &pod);
    assert!(
        run.pod["spec"]["securityContext"]
            .get("runAsNonRoot")
            .is_none()
    );
    assert!(
        run.pod["spec"]["containers"][0]
            .get("securityContext")
            .is_none()
    );
    assert_eq!(
        run.pod["spec"]["containers"][1]["securityContext"]["runAsNonRoot"],
        true
    );
}

#[test]
fn a_spared_container_does_not_spare_the_pod() {
    check_denied(
        exempting(json!({"containers": ["app"]})),
        host_pod(),
        &["/spec/hostNetwork"],
    );
}

#[test]
fn the_annotation_of_a_spared_container_is_spared() {
    let mut pod = pod_with(json!({}));
    pod["metadata"]["annotations"] =
        json!({"container.apparmor.security.beta.kubernetes.io/app": "unconfined"});
    assert_eq!(
        run(&exempting(json!({"containers": ["app"]})), &pod).result,
        Ok(())
    );
    check_denied(
        exempting(json!({"containers": ["other"]})),
        pod,
        &["/metadata/annotations/container.apparmor.security.beta.kubernetes.io~1app"],
    );
}

#[test]
fn a_spared_container_without_a_name_spares_no_annotation() {
    let mut pod = pod_with(json!({"containers": [{"image": "app:1"}]}));
    let key = "container.apparmor.security.beta.kubernetes.io/";
    pod["metadata"]["annotations"] = json!({key: "unconfined"});
    check_denied(
        exempting(json!({"containers": ["*"]})),
        pod,
        &["/metadata/annotations/container.apparmor.security.beta.kubernetes.io~1"],
    );
}
