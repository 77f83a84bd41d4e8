//! Many pods: every setting that the standards speak of, at every place where it can be, under both profiles, several versions
//! and all modes; and random mixtures of them.

use podloom_plugin_sdk::Rejection;
use podloom_plugin_sdk::serde_json::{Value, json};
use podloom_plugin_sdk::testing::{self, Submitted};

use super::standard::{LATEST, Standard, containers, failed, ideal};
use super::{merge, run};
use crate::Hardening;

/// Versions in which rules changed, and those before.
const VERSIONS: [u32; 19] = [
    0, 7, 8, 18, 19, 21, 22, 23, 24, 25, 26, 27, 29, 31, 32, 33, 34, 35, LATEST,
];

const PLACES: [&str; 4] = [
    "/spec/containers/0",
    "/spec/containers/1",
    "/spec/initContainers/0",
    "/spec/ephemeralContainers/0",
];

/// Fields of the pod, and of its specification, with values that pass and values that do not.
fn pod_settings() -> Vec<Value> {
    let mut settings = vec![
        json!({}),
        json!({"spec": {"hostNetwork": true}}),
        json!({"spec": {"hostPID": true}}),
        json!({"spec": {"hostIPC": true, "hostNetwork": false}}),
        json!({"spec": {"hostUsers": false}}),
        json!({"spec": {"hostUsers": true}}),
        json!({"spec": {"os": {"name": "linux"}}}),
        json!({"spec": {"os": {"name": "windows"}}}),
        json!({"spec": {"securityContext": null}}),
        json!({"spec": {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem", "value": "1"}]}}}),
        json!({"spec": {"securityContext": {"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]}}}),
        json!({"spec": {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_fin_timeout", "value": "1"}, {"name": "kernel.msgmax", "value": "1"}]}}}),
        json!({"spec": {"volumes": [{"name": "v"}, {"name": "w", "emptyDir": {}}]}}),
        json!({"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}}),
        json!({"spec": {"volumes": [{"name": "v", "nfs": {"server": "s", "path": "/"}}]}}),
        json!({"spec": {"volumes": [{"name": "v", "hostPath": null, "projected": {"sources": [{"secret": {"name": "s"}}]}}]}}),
        json!({"spec": {"volumes": [{"name": "v", "somethingNew": {}}]}}),
    ];
    for (key, value) in [
        (
            "container.apparmor.security.beta.kubernetes.io/app",
            "unconfined",
        ),
        (
            "container.apparmor.security.beta.kubernetes.io/app",
            "localhost/mine",
        ),
        ("container.apparmor.security.beta.kubernetes.io/gone", ""),
        ("seccomp.security.alpha.kubernetes.io/pod", "unconfined"),
        ("seccomp.security.alpha.kubernetes.io/pod", "docker/default"),
        ("seccomp.security.alpha.kubernetes.io/pod", ""),
        (
            "container.seccomp.security.alpha.kubernetes.io/app",
            "unconfined",
        ),
        (
            "container.seccomp.security.alpha.kubernetes.io/gone",
            "unconfined",
        ),
    ] {
        settings.push(json!({"metadata": {"annotations": {key: value}}}));
    }
    let sysctls = "ip_local_port_range tcp_syncookies ping_group_range ip_unprivileged_port_start ip_local_reserved_ports \
        tcp_keepalive_time tcp_keepalive_intvl tcp_keepalive_probes tcp_wmem ip_forward";
    settings.extend(sysctls.split_whitespace().map(|name| {
        json!({"spec": {"securityContext": {"sysctls": [{"name": format!("net.ipv4.{name}"), "value": "1"}]}}})
    }));
    settings.extend(
        context_settings()
            .into_iter()
            .map(|context| json!({"spec": {"securityContext": context}})),
    );
    settings
}

/// Fields of a security context, of the pod or of a container.
fn context_settings() -> Vec<Value> {
    vec![
        json!({"runAsNonRoot": true}),
        json!({"runAsNonRoot": false}),
        json!({"runAsNonRoot": null}),
        json!({"runAsUser": 0}),
        json!({"runAsUser": 4096, "runAsGroup": 0}),
        json!({"seccompProfile": {"type": "RuntimeDefault"}}),
        json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "mine.json"}}),
        json!({"seccompProfile": {"type": "Unconfined"}}),
        json!({"seccompProfile": {}}),
        json!({"seccompProfile": null}),
        json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": "mine"}}),
        json!({"appArmorProfile": {"type": "Unconfined"}}),
        json!({"seLinuxOptions": {"type": "container_engine_t", "level": "s0:c1,c2"}}),
        json!({"seLinuxOptions": {"type": "spc_t", "level": "s0:c1,c2"}}),
        json!({"seLinuxOptions": {"user": "sysadm_u", "role": "sysadm_r", "type": ""}}),
        json!({"windowsOptions": {"hostProcess": true, "runAsUserName": "me"}}),
        json!({"windowsOptions": {"hostProcess": false}}),
    ]
}

/// Fields of a container.
fn container_settings() -> Vec<Value> {
    let contexts = [
        json!({"privileged": true}),
        json!({"privileged": false}),
        json!({"allowPrivilegeEscalation": true}),
        json!({"allowPrivilegeEscalation": false}),
        json!({"allowPrivilegeEscalation": null, "privileged": true}),
        json!({"procMount": "Unmasked"}),
        json!({"procMount": "Default"}),
        json!({"capabilities": {"drop": ["ALL"]}}),
        json!({"capabilities": {"drop": ["all", "NET_RAW"]}}),
        json!({"capabilities": {"drop": ["NET_RAW", "ALL"], "add": ["NET_BIND_SERVICE"]}}),
        json!({"capabilities": {"drop": [], "add": ["CHOWN"]}}),
        json!({"capabilities": {"add": ["CAP_SYS_ADMIN"]}}),
        json!({"capabilities": {"add": ["NET_RAW", "NET_BIND_SERVICE", "CAP_NET_BIND_SERVICE"], "drop": null}}),
        json!({"capabilities": {"add": ["ALL"]}, "allowPrivilegeEscalation": true}),
        json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": true,
               "seccompProfile": {"type": "RuntimeDefault"}}),
    ];
    let mut settings: Vec<Value> = contexts.into_iter().chain(context_settings()).collect();
    for context in &mut settings {
        *context = json!({"securityContext": context.take()});
    }
    settings.extend([
        json!({"ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 0}]}),
        json!({"ports": [{"containerPort": 80, "hostPort": 80}]}),
        json!({"livenessProbe": {"httpGet": {"port": 80, "host": "example.org"}}}),
        json!({"readinessProbe": {"tcpSocket": {"port": 80, "host": ""}}}),
        json!({"startupProbe": {"tcpSocket": {"port": 80, "host": "127.0.0.1"}}}),
        json!({"lifecycle": {"postStart": {"httpGet": {"port": 80, "host": "example.org"}}}}),
        json!({"lifecycle": {"preStop": {"tcpSocket": {"port": 80, "host": "example.org"}}}}),
        json!({"fieldOfTheFuture": {"kept": [1.5, null]}}),
    ]);
    settings
}

/// A pod of four containers. The ephemeral one passes, for nobody may change it.
fn base() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "fieldOfTheFuture": {"kept": true},
            "initContainers": [{"name": "setup", "image": "setup:1"}],
            "containers": [
                {"name": "app", "image": "app:1", "env": [{"name": "A", "value": "1"}]},
                {"name": "proxy", "image": "proxy:1"},
            ],
            "ephemeralContainers": [{
                "name": "debug",
                "image": "debug:1",
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
        },
    })
}

fn config(standard: Standard, mode: &str, force: bool) -> Value {
    let Standard { restricted, minor } = standard;
    json!({
        "mode": mode,
        "profile": if restricted { "restricted" } else { "baseline" },
        "version": if minor == LATEST { "latest".to_owned() } else { format!("v1.{minor}") },
        "force": force,
    })
}

/// Checks everything that must hold of one pod.
#[track_caller]
fn check_pod(standard: Standard, pod: &Value) {
    let warned =
        testing::run::<Hardening>(&config(standard, "warn", false), &Submitted::default(), pod);
    assert_eq!(
        (&warned.result, &warned.pod),
        (&Ok(()), pod),
        "warn changes nothing"
    );

    let mutated = run(&config(standard, "mutate", false), pod);
    assert_eq!(mutated.result, Ok(()), "mutate lets every pod through");
    check_kept(pod, &mutated.pod, "");
    check_valid(pod, &mutated.pod);
    let passes = failed(standard, pod).is_empty();
    assert!(
        !passes || mutated.writes.is_empty(),
        "{standard:?}: {pod} passes and was changed"
    );
    assert_eq!(
        passes,
        warned.remarks().is_empty(),
        "{standard:?}: warn says so: {pod} {:?}",
        warned.remarks()
    );

    let unmet = failed(standard, &mutated.pod);
    let enforced = run(&config(standard, "enforce", false), pod);
    check_enforced(standard, pod, &enforced, &unmet);
    assert!(
        enforced.result.is_err() || enforced.pod == mutated.pod,
        "enforce fills in what mutate does"
    );

    let forced = run(&config(standard, "enforce", true), pod);
    check_enforced(standard, pod, &forced, &failed(standard, &ideal(pod)));
    if forced.result.is_ok() {
        check_valid(pod, &forced.pod);
        assert_eq!(
            failed(standard, &forced.pod),
            [""; 0],
            "{standard:?}: {pod}\nforced to\n{}",
            forced.pod
        );
    }
}

/// Checks that a pod was refused exactly if something stayed unmet.
#[track_caller]
fn check_enforced(standard: Standard, pod: &Value, enforced: &testing::Run, unmet: &[&str]) {
    match &enforced.result {
        Ok(()) => assert_eq!(unmet, [""; 0], "{standard:?}: {pod} was let through"),
        Err(Rejection::Denied(message)) => {
            assert!(
                !unmet.is_empty(),
                "{standard:?}: {pod} was refused: {message}"
            );
            assert!(
                message.contains("/metadata/") || message.contains("/spec/"),
                "names a path: {message}"
            );
        }
        Err(failure) => panic!("{standard:?}: {pod}: {failure}"),
    }
}

/// Checks that all that a pod said it still says, in the same order.
#[track_caller]
fn check_kept(before: &Value, after: &Value, path: &str) {
    match (before, after) {
        (Value::Null, _) => {}
        (Value::Object(before), Value::Object(after)) => {
            for (key, value) in before {
                check_kept(
                    value,
                    after.get(key).unwrap_or(&Value::Null),
                    &format!("{path}/{key}"),
                );
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            assert!(after.len() >= before.len(), "{path} lost elements");
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                check_kept(before, after, &format!("{path}/{index}"));
            }
        }
        _ => assert_eq!(before, after, "{path} was changed"),
    }
}

/// Checks that the API server does not refuse what was written.
#[track_caller]
fn check_valid(before: &Value, after: &Value) {
    let conflicts = |pod: &Value| {
        containers(&pod["spec"])
            .filter(|container| {
                let context = &container["securityContext"];
                let add = context["capabilities"]["add"]
                    .as_array()
                    .into_iter()
                    .flatten();
                let dangerous = context["privileged"] == true
                    || add.into_iter().any(|name| name == "CAP_SYS_ADMIN");
                context["allowPrivilegeEscalation"] == false && dangerous
            })
            .count()
    };
    assert!(
        conflicts(after) <= conflicts(before),
        "conflicting: {before}\nto {after}"
    );
    if after["spec"]["os"]["name"] == "windows" {
        assert!(
            linux_fields(after) <= linux_fields(before),
            "no Windows pod: {before}\nto {after}"
        );
    }
}

/// How many fields a pod has that the API server refuses on Windows pods.
fn linux_fields(pod: &Value) -> usize {
    let of_pod = [
        "appArmorProfile",
        "seccompProfile",
        "seLinuxOptions",
        "fsGroup",
        "runAsUser",
        "runAsGroup",
    ];
    let of_container = [
        "appArmorProfile",
        "seccompProfile",
        "seLinuxOptions",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
        "allowPrivilegeEscalation",
        "procMount",
        "runAsUser",
        "runAsGroup",
    ];
    let count = |context: &Value, fields: &[&str]| {
        fields
            .iter()
            .filter(|field| !context[**field].is_null())
            .count()
    };
    count(&pod["spec"]["securityContext"], &of_pod)
        + containers(&pod["spec"])
            .map(|container| count(&container["securityContext"], &of_container))
            .sum::<usize>()
}

fn standards() -> impl Iterator<Item = Standard> {
    let of = |restricted| {
        VERSIONS
            .into_iter()
            .map(move |minor| Standard { restricted, minor })
    };
    of(true).chain(of(false))
}

/// The base pod with one setting at one place each; and, since these change the rules, with each setting of a container beside
/// a user namespace and beside an operating system.
fn systematic_pods() -> Vec<Value> {
    let mut pods = Vec::new();
    for setting in pod_settings() {
        let mut pod = base();
        merge(&mut pod, setting);
        pods.push(pod);
    }
    for place in PLACES {
        for setting in container_settings() {
            let mut pod = base();
            merge(pod.pointer_mut(place).unwrap(), setting);
            pods.push(pod);
        }
    }
    for spec in [
        json!({"hostUsers": false}),
        json!({"os": {"name": "windows"}}),
        json!({"os": {"name": "linux"}}),
    ] {
        for setting in container_settings() {
            let mut pod = base();
            merge(&mut pod["spec"], spec.clone());
            merge(&mut pod["spec"]["containers"][0], setting);
            pods.push(pod);
        }
    }
    pods
}

#[test]
fn every_setting_at_every_place_is_met_or_refused() {
    let standards: Vec<Standard> = standards().collect();
    for (index, pod) in systematic_pods().iter().enumerate() {
        check_pod(
            Standard {
                restricted: true,
                minor: LATEST,
            },
            pod,
        );
        check_pod(
            Standard {
                restricted: false,
                minor: LATEST,
            },
            pod,
        );
        // The older versions take turns.
        for turn in 0..4 {
            check_pod(standards[(index * 4 + turn) % standards.len()], pod);
        }
    }
}

#[test]
fn every_version_refuses_what_it_forbids_and_nothing_else() {
    for pod in systematic_pods() {
        // Whatever one setting does shows best on a pod that needs nothing else.
        let filled =
            testing::run::<Hardening>(&json!({"mode": "mutate"}), &Submitted::default(), &pod).pod;
        for standard in standards() {
            let config = config(standard, "enforce", false);
            let run = testing::run::<Hardening>(&config, &Submitted::default(), &filled);
            let unmet = failed(standard, &run.pod);
            assert_eq!(
                run.result.is_err(),
                !unmet.is_empty(),
                "{standard:?}: {unmet:?}: {filled}"
            );
        }
    }
}

#[test]
fn random_mixtures_of_settings_are_met_or_refused() {
    let (of_pod, of_container) = (pod_settings(), container_settings());
    let standards: Vec<Standard> = standards().collect();
    let mut random = Random(1);
    for _ in 0..600 {
        let mut pod = base();
        for _ in 0..random.below(4) {
            merge(&mut pod, random.pick(&of_pod).clone());
        }
        for place in PLACES {
            for _ in 0..random.below(3) {
                merge(
                    pod.pointer_mut(place).unwrap(),
                    random.pick(&of_container).clone(),
                );
            }
        }
        check_pod(*random.pick(&standards), &pod);
    }
}

#[test]
fn what_goes_beyond_the_standard_never_breaks_it() {
    let (of_pod, of_container) = (pod_settings(), container_settings());
    let standards: Vec<Standard> = standards().collect();
    let mut random = Random(2);
    for turn in 0..300 {
        let mut pod = base();
        merge(&mut pod, random.pick(&of_pod).clone());
        merge(&mut pod, random.pick(&of_pod).clone());
        for place in PLACES {
            merge(
                pod.pointer_mut(place).unwrap(),
                random.pick(&of_container).clone(),
            );
        }
        let standard = *random.pick(&standards);
        let mut config = config(
            standard,
            if turn % 2 == 0 { "enforce" } else { "mutate" },
            turn % 3 == 0,
        );
        merge(
            &mut config,
            json!({
                "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000,
                "seccompProfile": {"type": "Localhost", "localhostProfile": "default.json"},
                "readOnlyRootFilesystem": {}, "automountServiceAccountToken": false, "enableServiceLinks": false,
                "exemptions": [{"containers": ["proxy"], "reason": "it needs root"}],
                "report": ["resources", "latestTag", "digest", "pullPolicy", "hostUsers"],
            }),
        );
        let run = run(&config, &pod);
        if run.result.is_err() {
            continue;
        }
        check_valid(&pod, &run.pod);
        assert_eq!(
            run.pod["spec"]["containers"][1], pod["spec"]["containers"][1],
            "the exempt container is untouched"
        );
        if turn % 2 == 0 {
            // The exempt container is no part of what the standard is asked about.
            let mut rest = run.pod.clone();
            rest["spec"]["containers"].as_array_mut().unwrap().remove(1);
            assert_eq!(
                failed(standard, &rest),
                [""; 0],
                "{standard:?}: {pod}\nto {}",
                run.pod
            );
        } else if turn % 3 != 0 {
            check_kept(&pod, &run.pod, "");
        }
    }
}

/// A small generator of pseudo-random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }

    fn pick<'t, T>(&mut self, choices: &'t [T]) -> &'t T {
        &choices[self.below(choices.len())]
    }
}
