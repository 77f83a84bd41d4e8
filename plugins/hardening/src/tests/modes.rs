//! What the modes do with the same pod.

use podloom_plugin_sdk::serde_json::{Value, json};

use super::{check_denied, check_noted, pod_of, run, written};

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
            "would write /spec/securityContext",
            "would write /spec/containers/[name=app]/securityContext/allowPrivilegeEscalation",
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
    let would = "would write /spec/containers/[name=app]/securityContext/procMount".to_owned();
    assert!(run.notes.contains(&would), "{:?}", run.notes);
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
        let said = format!("{:?} {:?}", run.notes, run.result);
        assert!(!said.contains(secret), "{said}");
    }
}
