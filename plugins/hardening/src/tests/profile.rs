//! What is filled in, refused and rewritten for a profile.

use podloom_plugin_sdk::Operation;
use podloom_plugin_sdk::serde_json::{Value, json};
use podloom_plugin_sdk::testing::{Run, Submitted};

use super::standard::{LATEST, Standard, failed};
use super::{check_denied, check_written, denial, pod_of, pod_with, run, run_for, written};

const RESTRICTED: Standard = Standard {
    restricted: true,
    minor: LATEST,
};

/// A container's security context with nothing to fill in but what the pod may give it.
fn own() -> Value {
    json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}})
}

#[test]
fn absent_settings_are_filled_in_the_pod_first() {
    check_written(
        json!({}),
        pod_with(json!({"initContainers": [{"name": "setup"}]})),
        &[
            "/spec/securityContext",
            "/spec/initContainers/[name=setup]/securityContext",
            "/spec/containers/[name=app]/securityContext",
        ],
    );
}

#[test]
fn absent_settings_of_a_context_that_is_there_are_filled_in_one_by_one() {
    let mut pod = pod_of(json!({"procMount": "Default", "capabilities": {}}));
    pod["spec"]["securityContext"] = json!({"fsGroup": 1});
    check_written(
        json!({}),
        pod,
        &[
            "/spec/securityContext/runAsNonRoot",
            "/spec/securityContext/seccompProfile",
            "/spec/containers/[name=app]/securityContext/capabilities/drop/0",
            "/spec/containers/[name=app]/securityContext/allowPrivilegeEscalation",
        ],
    );
}

#[test]
fn containers_that_speak_for_themselves_leave_the_pod_alone() {
    let mut context = own();
    context["runAsNonRoot"] = json!(true);
    context["seccompProfile"] = json!({"type": "Localhost", "localhostProfile": "mine.json"});
    check_written(json!({}), pod_of(context), &[]);
}

#[test]
fn a_container_without_what_the_others_have_gets_it_from_the_pod() {
    let pod = pod_with(json!({"containers": [
        {"name": "app", "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"},
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}},
        {"name": "proxy", "securityContext": own()},
    ]}));
    check_written(json!({}), pod, &["/spec/securityContext"]);
}

#[test]
fn a_pods_explicit_choice_is_not_overridden_in_its_containers() {
    let pod = pod_with(json!({
        "securityContext": {"runAsNonRoot": false, "seccompProfile": {"type": "Unconfined"}},
        "containers": [{"name": "app", "securityContext": own()}],
    }));
    check_written(json!({"mode": "mutate"}), pod, &[]);
}

#[test]
fn other_drops_are_kept_when_all_is_added() {
    let pod = pod_of(json!({"capabilities": {"drop": ["NET_RAW", "all"]}}));
    let run = run(&json!({}), &pod);
    assert_eq!(
        run.pod
            .pointer("/spec/containers/0/securityContext/capabilities/drop"),
        Some(&json!(["NET_RAW", "all", "ALL"]))
    );
}

#[test]
fn every_reason_is_given_at_once_with_path_and_remedy() {
    check_denied(
        json!({}),
        pod_with(json!({
            "hostNetwork": true,
            "securityContext": {"runAsNonRoot": false, "sysctls": [{"name": "kernel.msgmax", "value": "1"}]},
            "volumes": [{"name": "root", "hostPath": {"path": "/"}}, {"name": "share", "nfs": {}}],
            "containers": [{
                "name": "app",
                "ports": [{"containerPort": 80, "hostPort": 80}],
                "livenessProbe": {"httpGet": {"port": 80, "host": "example.org"}},
                "lifecycle": {"preStop": {"tcpSocket": {"port": 80, "host": "example.org"}}},
                "securityContext": {
                    "privileged": true,
                    "procMount": "Unmasked",
                    "runAsUser": 0,
                    "seccompProfile": {"type": "Unconfined"},
                    "appArmorProfile": {"type": "Unconfined"},
                    "seLinuxOptions": {"type": "spc_t", "user": "u", "role": "r"},
                    "capabilities": {"add": ["NET_ADMIN", "NET_BIND_SERVICE"]},
                },
            }],
        })),
        &[
            "/spec/hostNetwork: must not be true: remove it",
            "/spec/volumes/[name=root]/hostPath: this kind of volume is forbidden: use another",
            "/spec/volumes/[name=share]/nfs: this kind of volume is forbidden",
            "/spec/securityContext/sysctls/[name=kernel.msgmax]: this sysctl is not a safe one: remove it",
            "/spec/securityContext/runAsNonRoot: must be true: set it",
            "/spec/containers/[name=app]/securityContext/runAsUser: must not be 0",
            "/spec/containers/[name=app]/securityContext/seccompProfile: its type must be RuntimeDefault or Localhost: set it",
            "/spec/containers/[name=app]/securityContext/appArmorProfile: its type must be RuntimeDefault or Localhost",
            "/spec/containers/[name=app]/securityContext/seLinuxOptions/type: must be one of the types for containers",
            "/spec/containers/[name=app]/securityContext/seLinuxOptions/user: must not be set: remove it",
            "/spec/containers/[name=app]/securityContext/seLinuxOptions/role: must not be set: remove it",
            "/spec/containers/[name=app]/securityContext/privileged: must not be true: remove it",
            "/spec/containers/[name=app]/securityContext/procMount: must be Default: remove it",
            "/spec/containers/[name=app]/securityContext/capabilities/add/0: only NET_BIND_SERVICE may be added: remove it",
            "/spec/containers/[name=app]/securityContext/allowPrivilegeEscalation: must be false, which it cannot be beside privileged",
            "/spec/containers/[name=app]/ports/0/hostPort: must not be set: remove it, and use a Service",
            "/spec/containers/[name=app]/livenessProbe/httpGet/host: must not be set",
            "/spec/containers/[name=app]/lifecycle/preStop/tcpSocket/host: must not be set",
        ],
    );
}

#[test]
fn an_explicit_false_on_the_pod_fails_though_all_containers_say_true() {
    let mut context = own();
    context["runAsNonRoot"] = json!(true);
    let mut pod = pod_of(context);
    pod["spec"]["securityContext"] = json!({"runAsNonRoot": false});
    check_denied(
        json!({}),
        pod,
        &["/spec/securityContext/runAsNonRoot: must be true"],
    );
}

#[test]
fn force_rewrites_what_can_be_rewritten() {
    let pod = pod_with(json!({
        "securityContext": {
            "runAsNonRoot": false, "runAsUser": 0, "supplementalGroups": [7],
            "seccompProfile": {"type": "Unconfined"},
            "seLinuxOptions": {"type": "spc_t", "level": "s0:c1,c2"},
        },
        "containers": [{"name": "app", "securityContext": {
            "privileged": true, "allowPrivilegeEscalation": true, "procMount": "Unmasked", "runAsUser": 0,
            "runAsNonRoot": false,
            "seccompProfile": {"type": "Localhost", "localhostProfile": "mine.json"},
            "appArmorProfile": {"type": "Unconfined"},
            "capabilities": {"add": ["SYS_ADMIN", "NET_BIND_SERVICE", "CHOWN"], "drop": ["NET_RAW"]},
        }}],
    }));
    let run = run(&json!({"force": true, "runAsUser": 4096}), &pod);
    assert_eq!(run.result, Ok(()));
    assert_eq!(
        run.pod["spec"]["securityContext"],
        json!({
            "runAsNonRoot": true, "runAsUser": 4096, "supplementalGroups": [7],
            "seccompProfile": {"type": "RuntimeDefault"},
            "seLinuxOptions": {"level": "s0:c1,c2"},
        })
    );
    assert_eq!(
        run.pod["spec"]["containers"][0]["securityContext"],
        json!({
            "allowPrivilegeEscalation": false,
            "seccompProfile": {"type": "Localhost", "localhostProfile": "mine.json"},
            "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["NET_RAW", "ALL"]},
        })
    );
}

#[test]
fn a_forced_user_gives_way_to_the_pods_own() {
    let mut pod = pod_of(json!({"runAsUser": 0}));
    pod["spec"]["securityContext"] = json!({"runAsUser": 7});
    let run = run(&json!({"force": true, "runAsUser": 4096}), &pod);
    assert_eq!(run.pod["spec"]["securityContext"]["runAsUser"], 7);
    assert!(
        run.pod["spec"]["containers"][0]["securityContext"]
            .get("runAsUser")
            .is_none()
    );
}

#[test]
fn localhost_profiles_are_kept() {
    let context = json!({
        "seccompProfile": {"type": "Localhost", "localhostProfile": "mine.json"},
        "appArmorProfile": {"type": "Localhost", "localhostProfile": "mine"},
    });
    for force in [false, true] {
        let mut pod = pod_of(context.clone());
        pod["spec"]["securityContext"] = context.clone();
        let run = run(&json!({"force": force}), &pod);
        let paths = [
            "/spec/securityContext",
            "/spec/containers/0/securityContext",
        ];
        for (path, field) in paths
            .iter()
            .flat_map(|path| [(path, "seccompProfile"), (path, "appArmorProfile")])
        {
            assert_eq!(run.pod.pointer(path).unwrap()[field], context[field]);
        }
    }
}

#[test]
fn what_cannot_be_mended_is_refused_though_forced() {
    let cases = [
        (json!({"hostNetwork": true}), "/spec/hostNetwork"),
        (json!({"hostPID": true}), "/spec/hostPID"),
        (json!({"hostIPC": true}), "/spec/hostIPC"),
        (
            json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}),
            "/spec/volumes/[name=v]/hostPath",
        ),
        (
            json!({"volumes": [{"name": "v", "iscsi": {}}]}),
            "/spec/volumes/[name=v]/iscsi",
        ),
        (
            json!({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}),
            "/spec/securityContext/sysctls",
        ),
        (
            json!({"containers": [{"name": "app", "ports": [{"hostPort": 80}]}]}),
            "/spec/containers/[name=app]/ports/0/hostPort",
        ),
    ];
    for (spec, reason) in cases {
        check_denied(json!({"force": true}), pod_with(spec), &[reason]);
    }
}

#[test]
fn annotations_that_name_profiles_are_refused() {
    let mut pod = pod_with(json!({}));
    pod["metadata"]["annotations"] =
        json!({"container.apparmor.security.beta.kubernetes.io/app": "unconfined"});
    check_denied(
        json!({"force": true}),
        pod,
        &[
            "/metadata/annotations/container.apparmor.security.beta.kubernetes.io~1app: must be runtime/default or localhost/<profile>: remove it",
        ],
    );
}

#[test]
fn escalation_is_not_forbidden_where_the_api_server_would_refuse_it() {
    for context in [
        json!({"privileged": true}),
        json!({"capabilities": {"add": ["CAP_SYS_ADMIN"], "drop": ["ALL"]}}),
    ] {
        let run = run(&json!({"mode": "mutate"}), &pod_of(context));
        assert!(
            run.pod["spec"]["containers"][0]["securityContext"]
                .get("allowPrivilegeEscalation")
                .is_none()
        );
        assert!(
            run.warnings
                .iter()
                .any(|note| note.contains("which it cannot be beside privileged or CAP_SYS_ADMIN")),
            "{:?}",
            run.warnings
        );
    }
}

#[test]
fn ephemeral_containers_are_checked_and_never_changed() {
    let pod = pod_with(
        json!({"ephemeralContainers": [{"name": "debug", "securityContext": {"privileged": true}}]}),
    );
    check_denied(
        json!({"force": true}),
        pod,
        &[
            "/spec/ephemeralContainers/[name=debug]/securityContext/privileged: must not be true: remove it",
            "/spec/ephemeralContainers/[name=debug]/securityContext/capabilities/drop: must contain ALL: add it",
            "/spec/ephemeralContainers/[name=debug]/securityContext/allowPrivilegeEscalation: must be false",
        ],
    );
}

/// What `kubectl debug` adds to a pod that exists.
fn debugged(config: &Value, context: &Value) -> Run {
    let pod = pod_with(json!({
        "hostNetwork": true, "securityContext": {"runAsNonRoot": false},
        "ephemeralContainers": [
            {"name": "earlier", "securityContext": {"privileged": true}},
            {"name": "debug", "securityContext": context},
        ],
    }));
    let submitted = Submitted {
        operation: Operation::EphemeralContainers,
        changes: vec!["/spec/ephemeralContainers/[name=debug]".to_owned()],
        ..Submitted::default()
    };
    run_for(config, &submitted, &pod)
}

#[test]
fn an_ephemeral_container_is_judged_when_it_is_added_and_nothing_else_is() {
    let run = debugged(&json!({}), &json!({"privileged": true}));
    let message = denial(&run);
    assert!(
        message.contains("[name=debug]/securityContext/privileged"),
        "{message}"
    );
    for other in [
        "hostNetwork",
        "earlier",
        "/spec/securityContext",
        "[name=app]",
    ] {
        assert!(!message.contains(other), "{message}");
    }
    let run = debugged(&json!({"ephemeralContainers": "harden"}), &json!({}));
    assert_eq!(
        run.pod["spec"]["ephemeralContainers"][1]["securityContext"],
        json!({
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"},
        })
    );
    let run = debugged(
        &json!({"ephemeralContainers": "harden"}),
        &json!({"privileged": true}),
    );
    let message = denial(&run);
    assert!(
        message.contains("privileged: must not be true"),
        "{message}"
    );
    // It may be rewritten where it says so.
    let run = debugged(
        &json!({"ephemeralContainers": "harden", "force": true}),
        &json!({"privileged": true}),
    );
    assert_eq!(
        run.pod["spec"]["ephemeralContainers"][1]["securityContext"]["privileged"],
        Value::Null
    );
}

#[test]
fn an_update_changes_nothing_that_the_profiles_are_about() {
    let submitted = Submitted {
        operation: Operation::Update,
        changes: vec!["/spec/containers/[name=app]/image".to_owned()],
        ..Submitted::default()
    };
    let run = run_for(
        &json!({}),
        &submitted,
        &pod_with(json!({"hostNetwork": true})),
    );
    assert_eq!((run.result, run.writes.len()), (Ok(()), 0));
}

#[test]
fn native_sidecars_are_covered_as_any_init_container() {
    let pod = pod_with(json!({"initContainers": [{"name": "mesh", "restartPolicy": "Always"}]}));
    let run = run(&json!({}), &pod);
    assert_eq!(
        run.pod["spec"]["initContainers"][0]["securityContext"],
        own()
    );
}

#[test]
fn a_user_namespace_stands_for_the_user_since_1_35() {
    let pod = pod_with(json!({
        "hostUsers": false,
        "securityContext": {"runAsUser": 0, "runAsNonRoot": false, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "app", "securityContext": own()}],
    }));
    check_written(json!({"version": "v1.35"}), pod.clone(), &[]);
    check_denied(
        json!({"version": "v1.34"}),
        pod,
        &[
            "/spec/securityContext/runAsNonRoot",
            "/spec/securityContext/runAsUser",
        ],
    );
}

#[test]
fn a_user_namespace_unmasks_proc_for_baseline_alone() {
    let mut pod = pod_of(json!({"procMount": "Unmasked"}));
    pod["spec"]["hostUsers"] = json!(false);
    check_written(json!({"profile": "baseline"}), pod.clone(), &[]);
    check_denied(
        json!({"profile": "baseline", "version": "v1.34"}),
        pod.clone(),
        &["procMount"],
    );
    check_denied(json!({}), pod, &["procMount"]);
}

#[test]
fn baseline_fills_nothing_in() {
    check_written(json!({"profile": "baseline"}), pod_with(json!({})), &[]);
}

#[test]
fn older_versions_ask_for_less() {
    let pod =
        |version: &str| run(&json!({"version": version}), &pod_with(json!({}))).pod["spec"].take();
    let non_root = json!({"runAsNonRoot": true});
    let both = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    let cases = [
        ("v1.7", &non_root, json!(null)),
        (
            "v1.8",
            &non_root,
            json!({"allowPrivilegeEscalation": false}),
        ),
        ("v1.19", &both, json!({"allowPrivilegeEscalation": false})),
        ("v1.22", &both, own()),
    ];
    for (version, of_pod, of_container) in cases {
        let spec = pod(version);
        assert_eq!(&spec["securityContext"], of_pod, "{version}");
        assert_eq!(
            spec["containers"][0]["securityContext"], of_container,
            "{version}"
        );
    }
}

#[test]
fn null_is_absent() {
    let pod = pod_with(json!({
        "securityContext": null, "volumes": null, "initContainers": null, "hostNetwork": null,
        "containers": [{"name": "app", "ports": null, "lifecycle": null, "securityContext": {"privileged": null, "capabilities": null}}],
    }));
    let run = run(&json!({}), &pod);
    assert_eq!(run.result, Ok(()));
    assert_eq!(failed(RESTRICTED, &run.pod), [""; 0]);
}

#[test]
fn elements_that_are_null_are_passed_over() {
    let pod = pod_with(json!({
        "volumes": [null],
        "containers": [{"name": "app", "ports": [null, {"hostPort": 80}], "volumeMounts": [null]}],
    }));
    let config = json!({"automountServiceAccountToken": false});
    check_denied(
        config,
        pod,
        &["/spec/containers/[name=app]/ports/1/hostPort: must not be set"],
    );
}

#[test]
fn the_users_uid_stays_when_the_plugin_runs_again() {
    let pod = pod_of(json!({"runAsUser": 7}));
    let once = run(&json!({"runAsUser": 4096}), &pod);
    let twice = run(&json!({"runAsUser": 5000}), &once.pod);
    assert_eq!(
        twice.pod["spec"]["containers"][0]["securityContext"]["runAsUser"],
        7
    );
    assert_eq!(written(&twice), [""; 0]);
}

#[test]
fn foreign_init_containers_and_unknown_fields_survive() {
    let pod = pod_with(json!({
        "fieldOfTheFuture": {"deep": [1, {"x": null}]},
        "initContainers": [{"name": "b", "command": ["b"]}, {"name": "a", "fieldOfTheFuture": 1.5}],
    }));
    let run = run(&json!({}), &pod);
    assert_eq!(
        run.pod["spec"]["fieldOfTheFuture"],
        pod["spec"]["fieldOfTheFuture"]
    );
    let mut expected = pod["spec"]["initContainers"].clone();
    for container in expected.as_array_mut().unwrap() {
        container["securityContext"] = own();
    }
    assert_eq!(run.pod["spec"]["initContainers"], expected);
}

#[test]
fn a_container_added_later_is_covered_by_the_next_run() {
    let mut pod = run(&json!({}), &pod_with(json!({}))).pod;
    pod["spec"]["containers"]
        .as_array_mut()
        .unwrap()
        .insert(0, json!({"name": "late"}));
    let run = run(&json!({}), &pod);
    assert_eq!(
        written(&run),
        ["/spec/containers/[name=late]/securityContext"]
    );
    assert_eq!(failed(RESTRICTED, &run.pod), [""; 0]);
}

#[test]
fn output_is_byte_equal_over_100_runs() {
    let pod = pod_with(json!({"initContainers": [{"name": "z"}, {"name": "a"}]}));
    let config = json!({"readOnlyRootFilesystem": {}, "runAsUser": 1});
    let first = run(&config, &pod).pod.to_string();
    for _ in 0..100 {
        assert_eq!(run(&config, &pod).pod.to_string(), first);
    }
}

#[test]
fn a_pod_that_its_node_runs_is_checked_and_never_changed() {
    let mut pod = pod_with(json!({}));
    pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    let config = json!({"force": true, "readOnlyRootFilesystem": {}, "runAsUser": 1});
    check_denied(
        config.clone(),
        pod.clone(),
        &[
            "/spec/containers/[name=app]/securityContext/runAsNonRoot",
            "/spec/containers/[name=app]/securityContext/seccompProfile",
            "/spec/containers/[name=app]/securityContext/capabilities/drop",
            "/spec/containers/[name=app]/securityContext/allowPrivilegeEscalation",
        ],
    );
    let mut hardened = run(&json!({}), &pod_with(json!({}))).pod;
    hardened["metadata"]["annotations"] = pod["metadata"]["annotations"].clone();
    check_written(config, hardened, &[]);
}
