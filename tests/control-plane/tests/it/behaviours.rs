//! Each file in `stages/` does what its comment says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use podloom_control_plane::{BEHAVIOUR_LABEL, ControlPlane};
use serde_json::{Value, json};

use crate::cluster::{apply, eventually, get, kubectl, shared};

/// The final status of a pod with an init container `prepare`, a native sidecar `agent`, and the containers `browser`, `seleniferous`
/// and `proxy`: its phase, reason, IP and readiness, then each container's state.
const BEHAVIOURS: [(&str, &str); 22] = [
    (
        "browser-completes",
        "Running ip | prepare=0:Completed agent=running | browser=0:Completed seleniferous=running proxy=running",
    ),
    (
        "browser-exits",
        "Running ip | prepare=0:Completed agent=running | browser=1:Error seleniferous=running proxy=running",
    ),
    (
        "crash-loop",
        "Pending ip | prepare=0:Completed agent=running | browser=CrashLoopBackOff seleniferous=running proxy=running",
    ),
    (
        "create-container-config-error",
        "Pending ip | prepare=0:Completed agent=running | browser=CreateContainerConfigError seleniferous=running proxy=running",
    ),
    (
        "err-image-pull",
        "Pending ip | prepare=0:Completed agent=running | browser=ErrImagePull seleniferous=running proxy=running",
    ),
    (
        "evicted",
        "Failed Evicted: The node was low on resource: memory. | |",
    ),
    (
        "failed",
        "Failed ip | prepare=0:Completed agent=0:Completed | browser=1:Error seleniferous=0:Completed proxy=0:Completed",
    ),
    (
        "failed-oom",
        "Failed ip | prepare=0:Completed agent=0:Completed | browser=137:OOMKilled seleniferous=0:Completed proxy=0:Completed",
    ),
    (
        "image-pull-backoff",
        "Pending ip | prepare=0:Completed agent=running | browser=ImagePullBackOff seleniferous=running proxy=running",
    ),
    (
        "init-failed",
        "Pending ip | prepare=1:Error agent=running | browser=PodInitializing seleniferous=PodInitializing proxy=PodInitializing",
    ),
    (
        "init-image-pull-backoff",
        "Pending ip | prepare=ImagePullBackOff agent=running | browser=PodInitializing seleniferous=PodInitializing proxy=PodInitializing",
    ),
    (
        "oom-killed",
        "Pending ip | prepare=0:Completed agent=running | browser=137:OOMKilled seleniferous=running proxy=running",
    ),
    (
        "pending",
        "Pending | prepare=PodInitializing agent=PodInitializing | browser=ContainerCreating seleniferous=ContainerCreating proxy=ContainerCreating",
    ),
    ("running", RUNS),
    (
        "seleniferous-completes",
        "Running ip | prepare=0:Completed agent=running | browser=running seleniferous=0:Completed proxy=running",
    ),
    (
        "seleniferous-exits",
        "Running ip | prepare=0:Completed agent=running | browser=running seleniferous=1:Error proxy=running",
    ),
    (
        "sidecar-exits",
        "Running ip | prepare=0:Completed agent=running | browser=running seleniferous=running proxy=1:Error",
    ),
    (
        "sidecar-image-pull-backoff",
        "Pending ip | prepare=0:Completed agent=running | browser=running seleniferous=ImagePullBackOff proxy=ImagePullBackOff",
    ),
    ("stuck-terminating", RUNS),
    (
        "succeeded",
        "Succeeded ip | prepare=0:Completed agent=0:Completed | browser=0:Completed seleniferous=0:Completed proxy=0:Completed",
    ),
    (
        "succeeds-later",
        "Succeeded ip | prepare=0:Completed agent=running | browser=0:Completed seleniferous=0:Completed proxy=0:Completed",
    ),
    ("unheard-of", "Pending | |"),
];

const RUNS: &str = "Running ip ready | prepare=0:Completed agent=running | browser=running seleniferous=running proxy=running";

/// Files that no pod chooses by its label.
const OTHERS: [&str; 3] = ["job-completes", "node", "pod-delete"];

pub(crate) fn pod(namespace: &str, name: &str, behaviour: Option<&str>) -> Value {
    let container = |name: &str| json!({ "name": name, "image": format!("example/{name}:1") });
    let labels: BTreeMap<&str, &str> = behaviour
        .map(|name| (BEHAVIOUR_LABEL, name))
        .into_iter()
        .collect();
    let mut agent = container("agent");
    agent["restartPolicy"] = "Always".into();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "namespace": namespace, "name": name, "labels": labels },
        "spec": {
            "restartPolicy": "Never",
            "initContainers": [container("prepare"), agent],
            "containers": [container("browser"), container("seleniferous"), container("proxy")],
        },
    })
}

fn summary(pod: &Value) -> String {
    let status = &pod["status"];
    let mut words = vec![text(&status["phase"])];
    if let Some(reason) = status["reason"].as_str() {
        words.push(format!("{reason}: {}", text(&status["message"])));
    }
    if status["podIP"]
        .as_str()
        .is_some_and(|ip| ip.starts_with("10.1."))
    {
        words.push("ip".into());
    }
    if is_ready(pod) {
        words.push("ready".into());
    }
    for field in ["initContainerStatuses", "containerStatuses"] {
        words.push("|".into());
        words.extend(
            status[field]
                .as_array()
                .into_iter()
                .flatten()
                .map(container),
        );
    }
    words.join(" ")
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let ready = json!("Ready");
    let mut ready = conditions
        .into_iter()
        .flatten()
        .filter(|condition| condition["type"] == ready);
    ready.any(|condition| condition["status"] == "True")
}

fn container(status: &Value) -> String {
    let state = &status["state"];
    let name = text(&status["name"]);
    if let Some(reason) = state["waiting"]["reason"].as_str() {
        format!("{name}={reason}")
    } else if state["terminated"].is_object() {
        let terminated = &state["terminated"];
        format!(
            "{name}={}:{}",
            terminated["exitCode"],
            text(&terminated["reason"])
        )
    } else if state["running"]["startedAt"].is_string() {
        format!("{name}=running")
    } else {
        format!("{name}=?")
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or("?").to_owned()
}

fn summaries(plane: &ControlPlane, namespace: &str) -> String {
    let pods = get(plane, &["pods", "--namespace", namespace]);
    let line = |pod: &Value| format!("{}: {}\n", text(&pod["metadata"]["name"]), summary(pod));
    pods["items"].as_array().unwrap().iter().map(line).collect()
}

#[test]
fn every_behaviour_is_what_its_file_says() {
    let plane = shared();
    kubectl(plane, &["create", "namespace", "behaviours"]);
    let pods: Vec<Value> = BEHAVIOURS
        .iter()
        .map(|(behaviour, _)| pod("behaviours", behaviour, Some(behaviour)))
        .collect();
    apply(
        plane,
        &json!({ "apiVersion": "v1", "kind": "List", "items": pods }),
    );
    let expected: String = BEHAVIOURS
        .iter()
        .map(|(name, line)| format!("{name}: {line}\n"))
        .collect();
    eventually(&expected, || summaries(plane, "behaviours"));
    // KWOK chooses a stage again whenever a pod changes; now no stage must apply any more. It handles changes in their order, so when
    // the last pod runs, it has handled all earlier ones.
    kubectl(
        plane,
        &[
            "annotate",
            "pods",
            "--all",
            "--namespace=behaviours",
            "seen=again",
        ],
    );
    apply(plane, &pod("behaviours", "zz-last", None));
    let expected = format!("{expected}zz-last: {RUNS}\n");
    eventually(&expected, || summaries(plane, "behaviours"));
}

#[test]
fn every_file_has_a_row() {
    let stages = Path::new(env!("CARGO_MANIFEST_DIR")).join("stages");
    let files: BTreeSet<String> = fs::read_dir(stages)
        .unwrap()
        .map(|entry| {
            entry
                .unwrap()
                .path()
                .file_stem()
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    let rows = BEHAVIOURS
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| *name != "unheard-of");
    let rows: BTreeSet<String> = rows.chain(OTHERS).map(str::to_owned).collect();
    assert_eq!(files, rows);
}

#[test]
fn a_pod_that_fits_no_node_is_never_scheduled() {
    let plane = shared();
    kubectl(plane, &["create", "namespace", "unschedulable"]);
    let mut pod = pod("unschedulable", "nowhere", None);
    pod["spec"]["nodeSelector"] = json!({ "no": "such-node" });
    apply(plane, &pod);
    eventually("Unschedulable", || {
        let pod = get(plane, &["pod", "nowhere", "--namespace=unschedulable"]);
        text(&pod["status"]["conditions"][0]["reason"])
    });
    assert_eq!(summaries(plane, "unschedulable"), "nowhere: Pending | |\n");
}

#[test]
fn a_stuck_pod_goes_only_by_force() {
    let plane = shared();
    kubectl(plane, &["create", "namespace", "stuck"]);
    apply(plane, &pod("stuck", "stuck", Some("stuck-terminating")));
    eventually(&format!("stuck: {RUNS}\n"), || summaries(plane, "stuck"));
    kubectl(
        plane,
        &[
            "delete",
            "pod",
            "stuck",
            "--namespace=stuck",
            "--wait=false",
        ],
    );
    let not_ready = RUNS.replace(" ready", "");
    eventually(&format!("stuck: {not_ready}\n"), || {
        summaries(plane, "stuck")
    });
    let force = ["--grace-period=0", "--force", "--wait=false"];
    kubectl(
        plane,
        &[
            &["delete", "pod", "stuck", "--namespace=stuck"],
            force.as_slice(),
        ]
        .concat(),
    );
    eventually("", || summaries(plane, "stuck"));
}
