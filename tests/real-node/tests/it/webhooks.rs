//! The admission webhooks are installed, rolled and uninstalled as deploy/README.md says. While none answers, the cluster goes on.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::cluster::{Cluster, SYSTEM, cluster};
use crate::guide;

/// The namespace that the guide labels.
pub(crate) const TEAM: &str = "my-team";

/// A namespace without the label.
const OTHER: &str = "default";

/// The API server's names of the webhook and of the annotation that a pod gets from the chain.
const WEBHOOK: &str = "pods.podloom.dev";
const STAMP: &str = "--output=jsonpath={.metadata.annotations.podloom\\.dev/chain}";

pub(crate) const CONFIGURATIONS: [&str; 2] = [
    "mutatingwebhookconfiguration",
    "validatingwebhookconfiguration",
];

/// A pod that every namespace admits, also one that enforces the restricted Pod Security Standard.
pub(crate) fn pod() -> NamedTempFile {
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "small" },
        "spec": {
            "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
            "containers": [{
                "name": "small",
                "image": crate::sessions::IMAGE,
                "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
            }],
        },
    });
    let file = NamedTempFile::new().unwrap();
    fs::write(file.path(), pod.to_string()).unwrap();
    file
}

impl Cluster {
    /// Creates a pod, and returns its stamp: an empty one if it did not pass the chain.
    fn create(&self, pod: &NamedTempFile, namespace: &str, dry: &str) -> Result<String, String> {
        let file = pod.path().to_str().unwrap();
        let dry = format!("--dry-run={dry}");
        let create = ["create", "--namespace", namespace, "--filename", file];
        self.try_kubectl(&[&create[..], &[&dry, STAMP, "--validate=false"]].concat())
    }

    /// Waits until pods of the labelled namespace pass the chain: the API server learns of labels and replicas a moment later.
    #[track_caller]
    pub(crate) fn until_stamped(&self, pod: &NamedTempFile) {
        self.eventually("pods pass the chain", || {
            match self.create(pod, TEAM, "server")? {
                stamp if stamp.is_empty() => Err("no stamp".to_owned()),
                _ => Ok(()),
            }
        });
    }

    #[track_caller]
    fn until_pod_runs(&self, namespace: &str, name: &str) -> Value {
        self.eventually(&format!("pod {name} runs in {namespace}"), || {
            let pod = self.get(&["pod", name, "--namespace", namespace]);
            match pod["status"]["phase"].as_str() {
                Some("Running") => Ok(pod),
                _ => Err(pod["status"].to_string()),
            }
        })
    }

    /// The UIDs of all pods of the webhooks, also of those that terminate.
    #[track_caller]
    fn replicas(&self) -> Vec<String> {
        let selector = "--selector=app.kubernetes.io/name=podloom-webhook";
        let template = "--output=jsonpath={.items[*].metadata.uid}";
        let list = self.kubectl(&["get", "pods", "--namespace", SYSTEM, selector, template]);
        list.split_whitespace().map(str::to_owned).collect()
    }

    #[track_caller]
    fn until_replicas_are_ready(&self) {
        self.shell("kubectl rollout status deployment/podloom-webhook --namespace podloom-system --timeout 150s");
    }

    fn set_failure_policy(&self, policy: &str) {
        let patch =
            json!([{ "op": "replace", "path": "/webhooks/0/failurePolicy", "value": policy }]);
        let configuration = ["mutatingwebhookconfiguration", "podloom-webhook"];
        let patch = ["--type=json", "--patch", &patch.to_string()];
        self.kubectl(&[&["patch"], &configuration[..], &patch].concat());
    }

    /// The pod of the Deployment that waits at the gate.
    fn gated(&self) -> Result<Value, String> {
        let list = ["pods", "--namespace", TEAM, "--selector=app=gated"];
        let mut pods = self.get(&list)["items"].take();
        let pods = pods.as_array_mut().ok_or("no list")?;
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods.pop().ok_or_else(|| "no pod".to_owned())
    }

    /// Takes away all replicas, and waits until they are gone.
    #[track_caller]
    fn stop_replicas(&self) {
        self.scale("0");
        self.until_replicas_are("no replica is left", <[String]>::is_empty);
    }

    #[track_caller]
    fn start_replicas(&self) {
        self.scale("2");
        self.until_replicas_are_ready();
    }

    #[track_caller]
    fn scale(&self, replicas: &str) {
        let (of, replicas) = (
            "deployment/podloom-webhook",
            format!("--replicas={replicas}"),
        );
        self.kubectl(&["scale", of, "--namespace", SYSTEM, &replicas]);
    }

    #[track_caller]
    fn until_replicas_are(&self, what: &str, is_wanted: impl Fn(&[String]) -> bool) {
        self.eventually(what, || {
            let pods = self.replicas();
            is_wanted(&pods)
                .then_some(())
                .ok_or_else(|| format!("{pods:?}"))
        });
    }
}

#[test]
fn webhooks_of_the_guide_admit_all_while_they_roll_and_the_cluster_starts_without_them() {
    let Some(cluster) = cluster() else { return };
    let pod = pod();
    let (install, tries) = guide::webhooks();
    cluster.kubectl(&["create", "namespace", TEAM]);
    for line in install {
        cluster.shell(&line);
    }
    assert_eq!(cluster.replicas().len(), 2);
    cluster.until_stamped(&pod);
    for line in tries {
        cluster.shell(&line);
    }
    a_pod_of_kubectl_is_hardened_or_denied(&cluster);
    a_job_with_a_sidecar_finishes(&cluster);
    the_authority_is_that_of_the_secret(&cluster);
    no_admission_fails_while_they_roll(&cluster, &pod);
    pods_wait_at_the_gate_without_them(&cluster, &pod);
    the_cluster_starts_without_them(&cluster, &pod);
    nothing_of_them_is_left(&cluster, &pod);
}

#[track_caller]
fn a_pod_of_kubectl_is_hardened_or_denied(cluster: &Cluster) {
    let pod = cluster.until_pod_runs(TEAM, "test");
    let annotations = &pod["metadata"]["annotations"];
    assert!(annotations["podloom.dev/chain"].is_string(), "{pod}");
    let mutations = annotations["podloom.dev/mutations"].as_str().unwrap();
    assert!(mutations.contains("hardening"), "{mutations}");
    assert_eq!(pod["metadata"]["labels"]["submitted-as"], "Pod");
    assert_eq!(pod["spec"]["securityContext"]["runAsNonRoot"], true);
    let container = &pod["spec"]["containers"][0];
    assert_eq!(
        container["securityContext"]["capabilities"]["drop"],
        json!(["ALL"])
    );
    let process = cluster.process(&pod);
    let status = cluster.inside(&["cat", &format!("/proc/{process}/status")]);
    for line in [
        "Uid:\t65535\t65535\t65535\t65535",
        "CapBnd:\t0000000000000000",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
    ] {
        assert!(status.lines().any(|found| found == line), "{status}");
    }

    let image = "--image=registry.k8s.io/pause:3.10";
    let bad = ["run", "bad", "--namespace", TEAM, image, "--privileged"];
    let denied = cluster.try_kubectl(&bad).unwrap_err();
    let start = format!(
        "Error from server (Forbidden): admission webhook \"{WEBHOOK}\" denied the request: "
    );
    assert!(
        denied.contains(&start) && denied.contains("privileged"),
        "{denied}"
    );
}

/// A sidecar that is an ordinary container goes on when the job is done, and the Job never ends: istio/istio#11045.
#[track_caller]
fn a_job_with_a_sidecar_finishes(cluster: &Cluster) {
    let container = json!({ "name": "a", "image": crate::sessions::IMAGE, "args": ["end"] });
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "report", "namespace": TEAM },
        "spec": { "template": {
            "metadata": { "labels": { "sidecar.podloom.dev/inject": "true" } },
            "spec": { "restartPolicy": "Never", "containers": [container] },
        } },
    });
    let file = NamedTempFile::new().unwrap();
    fs::write(&file, job.to_string()).unwrap();
    cluster.kubectl(&["create", "-f", file.path().to_str().unwrap()]);
    cluster.eventually("the Job is complete", || {
        let job = cluster.get(&["job", "report", "--namespace", TEAM]);
        let is_done =
            job["status"]["succeeded"] == 1 && job["status"]["completionTime"].is_string();
        is_done
            .then_some(())
            .ok_or_else(|| job["status"].to_string())
    });
    let pods = cluster.get(&["pods", "--namespace", TEAM, "--selector=job-name=report"]);
    let sidecar = &pods["items"][0]["status"]["initContainerStatuses"][0];
    assert_eq!(sidecar["name"], "companion", "{pods}");
    assert!(sidecar["state"]["terminated"].is_object(), "{pods}");
    cluster.kubectl(&["delete", "job", "report", "--namespace", TEAM]);
}

/// The operator wrote its authority into all webhooks, with no other rights than those of deploy/.
#[track_caller]
fn the_authority_is_that_of_the_secret(cluster: &Cluster) {
    let secret = cluster.get(&["secret", "podloom-webhook-tls", "--namespace", SYSTEM]);
    for kind in CONFIGURATIONS {
        let configuration = cluster.get(&[kind, "podloom-webhook"]);
        for webhook in configuration["webhooks"].as_array().unwrap() {
            let bundle = &webhook["clientConfig"]["caBundle"];
            assert!(bundle.is_string(), "{webhook}");
            assert_eq!(*bundle, secret["data"]["ca.crt"], "{webhook}");
        }
    }
}

/// Creates pods with dry runs, a few a second, while the Deployment replaces its pods.
#[track_caller]
fn no_admission_fails_while_they_roll(cluster: &Cluster, pod: &NamedTempFile) {
    let before = cluster.replicas();
    let is_over = AtomicBool::new(false);
    let answers = thread::scope(|scope| {
        let create = scope.spawn(|| {
            let mut answers = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                answers.push(cluster.create(pod, TEAM, "server"));
            }
            answers
        });
        // Also if something fails here, the other thread ends.
        let end = End(&is_over);
        let restart = [
            "rollout",
            "restart",
            "deployment/podloom-webhook",
            "--namespace",
            SYSTEM,
        ];
        cluster.kubectl(&restart);
        cluster.until_replicas_are_ready();
        cluster.until_replicas_are("the old pods are gone", |pods| {
            pods.len() == 2 && pods.iter().all(|pod| !before.contains(pod))
        });
        drop(end);
        create.join().unwrap()
    });
    let count = answers.len();
    let is_stamped =
        |answer: &Result<String, String>| answer.as_ref().is_ok_and(|stamp| !stamp.is_empty());
    let failed: Vec<_> = answers
        .iter()
        .filter(|answer| !is_stamped(answer))
        .collect();
    assert!(failed.is_empty(), "{} of {count}: {failed:?}", failed.len());
    assert!(count > 10, "{count}");
}

/// Sets the flag when it is dropped.
struct End<'flag>(&'flag AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// With no replica, only labelled namespaces wait; when replicas come back, nobody has to do anything.
#[track_caller]
fn the_cluster_starts_without_them(cluster: &Cluster, pod: &NamedTempFile) {
    // By mistake, and without effect.
    for namespace in ["kube-system", SYSTEM] {
        cluster.kubectl(&[
            "label",
            "namespace",
            namespace,
            "podloom.dev/mutate=enabled",
        ]);
    }
    cluster.stop_replicas();
    let error = cluster.eventually(
        "pods of the labelled namespace are refused",
        || match cluster.create(pod, TEAM, "server") {
            Ok(stamp) => Err(format!("created, {stamp}")),
            Err(error) => Ok(error),
        },
    );
    assert!(
        error.contains(&format!("failed calling webhook \"{WEBHOOK}\"")),
        "{error}"
    );
    let others = ["kube-system", SYSTEM, OTHER];
    for namespace in others {
        assert_eq!(cluster.create(pod, namespace, "none"), Ok(String::new()));
    }
    for namespace in others {
        cluster.until_pod_runs(namespace, "small");
        cluster.kubectl(&[
            "delete",
            "pod",
            "small",
            "--namespace",
            namespace,
            "--wait=false",
        ]);
    }
    cluster.until_pod_runs(TEAM, "test");

    cluster.start_replicas();
    cluster.until_stamped(pod);
    let stamp = cluster.create(pod, TEAM, "none").unwrap();
    assert!(!stamp.is_empty());
}

/// What options/gate has, with two files of it. A pod with a gate starts no container; once replicas are back, another one runs.
#[track_caller]
fn pods_wait_at_the_gate_without_them(cluster: &Cluster, pod: &NamedTempFile) {
    const FILES: [&str; 2] = ["gate.yaml", "rbac.yaml"];
    let each = |verb: &str| {
        for file in FILES {
            cluster.kubectl(&[verb, "-f", &format!("deploy/options/gate/{file}")]);
        }
    };
    each("apply");
    cluster.set_failure_policy("Ignore");
    cluster.kubectl(&[
        "set",
        "env",
        "--namespace",
        SYSTEM,
        "deployment/podloom-webhook",
        "PODLOOM_WEBHOOK_GATE=true",
    ]);
    cluster.until_replicas_are_ready();
    cluster.stop_replicas();
    cluster.eventually("the webhook is ignored", || {
        match cluster.create(pod, TEAM, "server")? {
            stamp if stamp.is_empty() => Ok(()),
            stamp => Err(stamp),
        }
    });
    let image = format!("--image={}", crate::sessions::IMAGE);
    cluster.kubectl(&["create", "deployment", "gated", "--namespace", TEAM, &image]);
    let waits = cluster.eventually("a pod waits", || {
        let pod = cluster.gated()?;
        let condition = &pod["status"]["conditions"][0];
        match condition["reason"] == "SchedulingGated" {
            true => Ok(pod),
            false => Err(pod["status"].to_string()),
        }
    });
    assert_eq!(
        waits["spec"]["schedulingGates"][0]["name"],
        "podloom.dev/chain"
    );
    for nothing in [
        &waits["spec"]["nodeName"],
        &waits["status"]["containerStatuses"],
    ] {
        assert!(nothing.is_null(), "{waits}");
    }
    a_static_pod_gets_no_gate(cluster);

    cluster.start_replicas();
    cluster.eventually("a pod that passed the chain runs in its place", || {
        let pod = cluster.gated()?;
        let is_stamped = pod["metadata"]["annotations"]["podloom.dev/chain"].is_string();
        let is_done = is_stamped && pod["status"]["phase"] == "Running";
        is_done.then_some(()).ok_or_else(|| pod.to_string())
    });
    cluster.kubectl(&["delete", "deployment", "gated", "--namespace", TEAM]);
    each("delete");
    cluster.set_failure_policy("Fail");
}

/// A kubelet starts what its files say, and the API server only hears of it.
#[track_caller]
fn a_static_pod_gets_no_gate(cluster: &Cluster) {
    let directory = cluster.node.outside("/var/lib/kubelet/static");
    let file = directory.join("static.json");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "static", "namespace": TEAM },
        "spec": { "containers": [{ "name": "a", "image": crate::sessions::IMAGE }] },
    });
    fs::create_dir_all(directory).unwrap();
    fs::write(&file, pod.to_string()).unwrap();
    let mirror = || {
        let mut pods = cluster.get(&["pods", "--namespace", TEAM])["items"].take();
        let mut pods = pods.as_array_mut().into_iter().flatten();
        let mirror = pods
            .find(|pod| !pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_null());
        mirror.map(Value::take)
    };
    let pod = cluster.eventually("the static pod runs", || {
        let pod = mirror().ok_or("no mirror pod")?;
        let is_running = pod["status"]["phase"] == "Running";
        is_running
            .then_some(pod.clone())
            .ok_or_else(|| pod.to_string())
    });
    for nothing in [
        &pod["spec"]["schedulingGates"],
        &pod["metadata"]["annotations"]["podloom.dev/chain"],
    ] {
        assert!(nothing.is_null(), "{pod}");
    }
    fs::remove_file(file).unwrap();
    cluster.eventually("it is gone", || match mirror() {
        None => Ok(()),
        Some(pod) => Err(pod.to_string()),
    });
}

#[track_caller]
fn nothing_of_them_is_left(cluster: &Cluster, pod: &NamedTempFile) {
    for line in guide::uninstall_webhooks() {
        cluster.shell(&line);
    }
    let labelled = [
        "get",
        "namespaces",
        "--selector=podloom.dev/mutate",
        "--output=name",
    ];
    assert_eq!(cluster.kubectl(&labelled), "");
    let cluster_wide = "mutatingwebhookconfiguration,validatingwebhookconfiguration,clusterrole,clusterrolebinding,flowschema";
    let inside = "all,secret,serviceaccount,role,rolebinding,networkpolicy,pdb,lease";
    for arguments in [
        &["get", cluster_wide][..],
        &["get", inside, "--namespace", SYSTEM],
    ] {
        // The pods terminate a moment longer than their Deployment is there.
        cluster.eventually("nothing is left", || {
            let left = cluster.try_kubectl(&[arguments, &["--output=name"]].concat())?;
            let left: Vec<&str> = left
                .lines()
                .filter(|line| line.contains("podloom"))
                .collect();
            left.is_empty().then_some(()).ok_or_else(|| left.join(" "))
        });
    }
    cluster.kubectl(&["delete", "pod", "small", "--namespace", TEAM, "--now"]);
    assert_eq!(cluster.create(pod, TEAM, "none"), Ok(String::new()));
    cluster.kubectl(&["delete", "namespace", TEAM, SYSTEM]);
}
