//! What Kubernetes itself does with objects on this control plane.

use std::fs;

use serde_json::{Value, json};

use crate::behaviours::pod;
use crate::cluster::{apply, eventually, get, kubectl, shared, try_kubectl};

#[test]
fn a_deployment_runs_with_an_address_per_pod() {
    let plane = shared();
    kubectl(plane, &["create", "namespace", "deployment"]);
    let create = [
        "create",
        "deployment",
        "web",
        "--image=example/web:1",
        "--replicas=3",
    ];
    kubectl(
        plane,
        &[&["--namespace=deployment"], create.as_slice()].concat(),
    );
    eventually("3", || {
        let deployment = get(plane, &["deployment", "web", "--namespace=deployment"]);
        deployment["status"]["availableReplicas"].to_string()
    });
    let pods = get(plane, &["pods", "--namespace=deployment"]);
    let pods = pods["items"].as_array().unwrap();
    let mut addresses: Vec<_> = pods
        .iter()
        .map(|pod| pod["status"]["podIP"].as_str().unwrap())
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), 3, "{addresses:?}");
}

#[test]
fn a_job_completes() {
    let plane = shared();
    kubectl(plane, &["create", "namespace", "job"]);
    kubectl(
        plane,
        &[
            "--namespace=job",
            "create",
            "job",
            "work",
            "--image=example/work:1",
        ],
    );
    eventually("1", || {
        get(plane, &["job", "work", "--namespace=job"])["status"]["succeeded"].to_string()
    });
}

#[test]
fn a_namespace_goes_with_all_that_is_in_it() {
    let plane = shared();
    kubectl(plane, &["create", "namespace", "passing"]);
    apply(plane, &pod("passing", "pod", None));
    kubectl(plane, &["delete", "namespace", "passing", "--timeout=60s"]);
}

#[test]
fn a_service_account_may_do_what_rbac_says() {
    let plane = shared();
    kubectl(plane, &["create", "namespace", "rights"]);
    kubectl(
        plane,
        &["--namespace=rights", "create", "serviceaccount", "robot"],
    );
    let kubeconfig = plane
        .kubeconfig_for_service_account("rights", "robot")
        .unwrap();
    let as_robot = |arguments: &[&str]| {
        let mut kubectl = plane.kubectl();
        kubectl.env("KUBECONFIG", &kubeconfig);
        try_kubectl(&mut kubectl, &[&["--namespace=rights"], arguments].concat())
    };
    let whoami = as_robot(&[
        "auth",
        "whoami",
        "--output=jsonpath={.status.userInfo.username}",
    ]);
    assert_eq!(whoami.as_deref(), Ok("system:serviceaccount:rights:robot"));
    let refused = as_robot(&["get", "pods"]).unwrap_err();
    assert!(refused.contains("is forbidden"), "{refused}");
    let bind = [
        "create",
        "rolebinding",
        "robot",
        "--clusterrole=view",
        "--serviceaccount=rights:robot",
    ];
    kubectl(plane, &[&["--namespace=rights"], bind.as_slice()].concat());
    eventually("", || {
        as_robot(&["get", "pods"]).unwrap_or_else(|error| error)
    });
    assert!(as_robot(&["create", "configmap", "one"]).is_err());
}

#[test]
fn an_unknown_service_account_has_no_kubeconfig() {
    let error = shared()
        .kubeconfig_for_service_account("default", "nobody")
        .unwrap_err();
    assert!(
        error.to_string().contains("\"nobody\" not found"),
        "{error}"
    );
}

#[test]
fn a_restricted_namespace_refuses_a_plain_pod() {
    let plane = shared();
    let namespace = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "name": "restricted", "labels": { "pod-security.kubernetes.io/enforce": "restricted" } },
    });
    apply(plane, &namespace);
    let run = [
        "--namespace=restricted",
        "run",
        "plain",
        "--image=example/plain:1",
    ];
    let refused = try_kubectl(&mut plane.kubectl(), &run).unwrap_err();
    assert!(
        refused.contains("violates PodSecurity \"restricted:latest\""),
        "{refused}"
    );
}

#[test]
fn the_audit_log_shows_who_asked_for_what() {
    let plane = shared();
    kubectl(plane, &["create", "namespace", "audited"]);
    kubectl(
        plane,
        &["--namespace=audited", "create", "serviceaccount", "robot"],
    );
    let kubeconfig = plane
        .kubeconfig_for_service_account("audited", "robot")
        .unwrap();
    let mut as_robot = plane.kubectl();
    as_robot.env("KUBECONFIG", kubeconfig);
    try_kubectl(&mut as_robot, &["--namespace=audited", "get", "configmaps"]).unwrap_err();
    eventually("list configmaps: 403", || {
        let log = fs::read_to_string(plane.audit_log()).unwrap();
        // The last line may be half written.
        let events = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let robots = events
            .filter(|event| event["user"]["username"] == "system:serviceaccount:audited:robot");
        let mut asked = robots.filter_map(|event| {
            let verb = event["verb"].as_str()?;
            let resource = event["objectRef"]["resource"].as_str()?;
            Some(format!(
                "{verb} {resource}: {}",
                event["responseStatus"]["code"]
            ))
        });
        asked.next().unwrap_or_default()
    });
    let log = fs::read_to_string(plane.audit_log()).unwrap();
    assert!(
        !log.contains("\"username\":\"control-plane\""),
        "the audit log has requests of the control plane itself"
    );
}
