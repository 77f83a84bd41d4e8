//! Sessions that take pods which wait for them, on a kubelet that needs its time to start one.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::{Cluster, cluster, root};
use crate::sessions::{CALM, IMAGE, NAMESPACE};

/// How many sessions begin, one after the other.
const SESSIONS: usize = 5;
/// A line for each change of a Browser.
const CHANGES: &str = "--output=jsonpath={.metadata.name};{.status.phase}{\"\\n\"}";

/// Starts sessions one after the other. Returns how long each took to run, from when a watch showed it, and its pod.
fn sessions(cluster: &Cluster, prefix: &str) -> Vec<(Duration, Value)> {
    let mut watch = cluster
        .node
        .in_network(&cluster.node.programs().control_plane.kubectl);
    watch.args(["get", "browsers", "--namespace", NAMESPACE]);
    watch.args(["--watch", CHANGES]).stdout(Stdio::piped());
    let mut watch = watch.spawn().unwrap();
    let output = BufReader::new(watch.stdout.take().unwrap());
    let (sender, changes) = mpsc::channel();
    thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            let _nobody_waits = sender.send((Instant::now(), line));
        }
    });
    let names = (0..SESSIONS).map(|number| format!("{prefix}-{number}"));
    let names: Vec<String> = names.collect();
    for name in &names {
        cluster.browse(name, CALM);
        cluster.until_running(NAMESPACE, name);
    }
    let mut begun: HashMap<String, Instant> = HashMap::new();
    let mut times: HashMap<String, Duration> = HashMap::new();
    while !names.iter().all(|name| times.contains_key(name)) {
        let (at, line) = changes.recv_timeout(Duration::from_mins(1)).unwrap();
        let (name, phase) = line.split_once(';').unwrap();
        let since = *begun.entry(name.to_owned()).or_insert(at);
        if phase == "Running" {
            times.entry(name.to_owned()).or_insert(at - since);
        }
    }
    watch.kill().unwrap();
    watch.wait().unwrap();
    let session = |name: &String| {
        let selector = format!("--selector=selenosis.io/browser={name}");
        let pods = cluster.get(&["pods", "--namespace", NAMESPACE, &selector]);
        assert_eq!(pods["items"].as_array().unwrap().len(), 1);
        (times[name], pods["items"][0].clone())
    };
    names.iter().map(session).collect()
}

/// The middle one, in milliseconds.
fn median(sessions: &[(Duration, Value)]) -> u128 {
    let mut times: Vec<Duration> = sessions.iter().map(|(time, _)| *time).collect();
    times.sort_unstable();
    times[times.len() / 2].as_millis()
}

/// How much memory the browser of a pod may have, as its node says.
fn limit(pod: &Value) -> &Value {
    let mut containers = pod["status"]["containerStatuses"]
        .as_array()
        .unwrap()
        .iter();
    let browser = containers.find(|it| it["name"] == "browser").unwrap();
    &browser["resources"]["limits"]["memory"]
}

/// Whether a node says that a pod is ready; until then it does not say what the containers have.
fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|it| it["type"] == "Ready" && it["status"] == "True")
}

/// Waits until the node gives a pod the size of a session.
fn until_whole(cluster: &Cluster, name: &str) {
    cluster.eventually("the pod has the size of a session", || {
        let pod = cluster.get(&["pod", name, "--namespace", NAMESPACE]);
        let is_whole = limit(&pod) == "32Mi";
        is_whole
            .then_some(())
            .ok_or_else(|| pod["status"].to_string())
    });
}

#[test]
fn sessions_take_pods_that_wait() {
    let Some(cluster) = cluster() else { return };
    cluster.install(&root().join("deploy"));
    cluster.configure_sessions();
    let config = ["browserconfig", "small", "--namespace", NAMESPACE];
    let change = |spec: Value| {
        let patch = json!({ "spec": spec }).to_string();
        let how = ["--type=merge", "--patch", &patch];
        cluster.kubectl(&[&["patch"], &config[..], &how].concat());
    };
    // A pod that needs a second to be ready.
    let prepare = json!([{ "name": "prepare", "image": IMAGE, "args": ["prepare"] }]);
    change(json!({ "browsers": { "small": { CALM: { "initContainers": prepare } } } }));
    let cold = sessions(&cluster, "cold");
    let small = json!({ "requests": { "cpu": "5m" }, "limits": { "memory": "24Mi" } });
    let mut times = vec![format!("{} ms without a pod that waits", median(&cold))];
    for (name, resources, memory) in [("warm", Value::Null, "32Mi"), ("small", small, "24Mi")] {
        let pool = json!({ "min": SESSIONS, "max": SESSIONS, "resources": resources });
        change(json!({ "warm": { "small": { CALM: pool } } }));
        let waiting = || {
            let selector = "--selector=selenosis.io/warm";
            let pods = cluster.get(&["pods", "--namespace", NAMESPACE, selector]);
            pods["items"].as_array().unwrap().clone()
        };
        let before = cluster.eventually("the pods are ready", || {
            let pods = waiting();
            let is_of_pool = |pod: &Value| {
                let wanted = &pod["spec"]["containers"][0]["resources"]["limits"]["memory"];
                let is_deleted = !pod["metadata"]["deletionTimestamp"].is_null();
                wanted == memory && !is_deleted && is_ready(pod)
            };
            // The status may be newer than the pods, so it alone does not say that these pods are ready.
            let status = &cluster.get(&config)["status"]["warm"];
            let are_ready = status["ready"] == SESSIONS
                && pods.len() == SESSIONS
                && pods.iter().all(is_of_pool);
            let seen = pods.iter().map(|pod| &pod["status"]["conditions"]);
            let seen = json!([status, seen.collect::<Vec<_>>()]);
            are_ready.then_some(pods).ok_or_else(|| seen.to_string())
        });
        let sessions = sessions(&cluster, name);
        for (_, pod) in &sessions {
            let uid = &pod["metadata"]["uid"];
            let waited = before.iter().find(|it| it["metadata"]["uid"] == *uid);
            assert_eq!(limit(waited.unwrap()), memory);
            let containers = pod["status"]["containerStatuses"].as_array().unwrap();
            assert!(containers.iter().all(|it| it["restartCount"] == 0));
            until_whole(&cluster, pod["metadata"]["name"].as_str().unwrap());
        }
        times.push(format!("{} ms {name}", median(&sessions)));
        change(json!({ "warm": null }));
        cluster.eventually("no pod waits", || match waiting().len() {
            0 => Ok(()),
            count => Err(count.to_string()),
        });
    }
    // For SCALE.md: no test depends on how quick a machine is.
    eprintln!(
        "from a Browser's creation until it runs: {}",
        times.join(", ")
    );
}
