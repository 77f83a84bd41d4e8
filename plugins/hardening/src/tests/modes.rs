//! What the modes do with the same pod.

use podloom_plugin_sdk::serde_json::{Value, json};

use super::{check_denied, check_noted, pod_of, pod_with, run, written};

fn pod() -> Value {
    pod_of(
        json!({"procMount": "Unmasked", "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": true}),
    )
}

#[test]
fn off_does_nothing() {
    let run = run(&json!({"mode": "off", "runAsUser": 1}), &pod());
    assert_eq!(written(&run), [""; 0]);
    check_noted(&run, &[]);
}

#[test]
fn warn_notes_what_is_wrong_and_what_would_be_written() {
    let run = run(&json!({"mode": "warn"}), &pod());
    assert_eq!(written(&run), [""; 0]);
    check_noted(
        &run,
        &[
            "/spec/containers/[name=app]/securityContext/procMount: must be Default: remove it",
            "/spec/securityContext: would be written",
            "/spec/containers/[name=app]/securityContext/allowPrivilegeEscalation: would be written",
        ],
    );
}

#[test]
fn mutate_fills_in_and_notes_what_stays() {
    let run = run(&json!({"mode": "mutate"}), &pod());
    assert_eq!(
        written(&run),
        [
            "/spec/securityContext",
            "/spec/containers/[name=app]/securityContext/allowPrivilegeEscalation",
        ]
    );
    check_noted(
        &run,
        &["/spec/containers/[name=app]/securityContext/procMount: must be Default: remove it"],
    );
}

/// With eleven containers to report on twice, these two were not among the notes that the host keeps.
#[test]
fn what_violates_the_profile_comes_before_all_reports() {
    let containers: Vec<Value> = (0..12)
        .map(|number| json!({"name": format!("c{number}"), "image": "example.com/x:latest"}))
        .collect();
    let mut pod = pod_with(json!({"hostPID": true, "containers": containers}));
    pod["spec"]["containers"][11]["securityContext"] = json!({"privileged": true});
    for mode in ["warn", "mutate"] {
        let config =
            json!({"mode": mode, "report": ["resources", "latestTag", "digest", "pullPolicy"]});
        let run = run(&config, &pod);
        assert_eq!(
            run.warnings,
            [
                "/spec/hostPID: must not be true: remove it",
                "/spec/containers/[name=c11]/securityContext/privileged: must not be true: remove it",
                "/spec/containers/[name=c11]/securityContext/allowPrivilegeEscalation: must be false, which it cannot be beside privileged or CAP_SYS_ADMIN: remove these",
            ]
        );
        let latest = "/spec/containers/[name=c0]/image, /spec/containers/[name=c1]/image, /spec/containers/[name=c2]/image and 9 more: the tag latest, or none, names another image over time";
        assert!(run.notes.contains(&latest.to_owned()), "{:?}", run.notes);
        assert!(run.notes.len() <= 6, "one note for all: {:?}", run.notes);
    }
}

#[test]
fn enforce_is_the_default_and_refuses_what_stays() {
    for config in [json!({}), json!({"mode": "enforce"})] {
        check_denied(
            config,
            pod(),
            &[
                "the pod does not meet the Pod Security Standard restricted: /spec/containers/[name=app]/securityContext/procMount",
            ],
        );
    }
}

#[test]
fn warn_with_force_notes_what_would_be_rewritten() {
    let run = run(&json!({"mode": "warn", "force": true}), &pod());
    let would = "/spec/containers/[name=app]/securityContext/procMount: would be written";
    assert!(run.notes.contains(&would.to_owned()), "{:?}", run.notes);
}

#[test]
fn notes_and_denials_never_carry_values() {
    let secret = "hunter2";
    let pod = pod_of(json!({
        "procMount": secret, "seccompProfile": {"type": secret}, "seLinuxOptions": {"type": secret, "user": secret},
        "capabilities": {"add": [secret]},
    }));
    for mode in ["warn", "mutate", "enforce"] {
        let run = run(&json!({"mode": mode}), &pod);
        let said = format!("{:?} {:?}", run.remarks(), run.result);
        assert!(!said.contains(secret), "{said}");
    }
}
