//! Windows pods: the API server refuses what only Linux has.

use podloom_plugin_sdk::serde_json::{Value, json};

use super::{check_denied, check_noted, check_written, pod_of, pod_with, run};

fn windows(context: Value) -> Value {
    let mut pod = pod_of(context);
    pod["spec"]["os"] = json!({"name": "windows"});
    pod
}

#[test]
fn a_windows_pod_gets_nothing_but_run_as_non_root() {
    let everything = json!({
        "runAsUser": 1, "runAsGroup": 1, "fsGroup": 1, "seccompProfile": {"type": "RuntimeDefault"},
        "readOnlyRootFilesystem": {}, "automountServiceAccountToken": false,
    });
    check_written(
        everything,
        windows(json!({})),
        &[
            "/spec/securityContext",
            "/spec/automountServiceAccountToken",
        ],
    );
}

#[test]
fn a_windows_pod_is_not_exempt_from_run_as_non_root() {
    check_denied(
        json!({}),
        windows(json!({"runAsNonRoot": false})),
        &["/spec/containers/[name=app]/securityContext/runAsNonRoot"],
    );
}

#[test]
fn no_windows_pod_meets_restricted_before_1_25() {
    for version in ["v1.22", "v1.24"] {
        check_denied(
            json!({"version": version}),
            windows(json!({})),
            &[
                "securityContext/seccompProfile: no Windows pod can have this, or meet this version of the profile: choose v1.25 or newer",
                "securityContext/capabilities/drop: no Windows pod",
                "securityContext/allowPrivilegeEscalation: no Windows pod",
            ],
        );
    }
}

#[test]
fn host_processes_are_refused() {
    check_denied(
        json!({}),
        windows(json!({"windowsOptions": {"hostProcess": true}})),
        &[
            "/spec/containers/[name=app]/securityContext/windowsOptions/hostProcess: must not be true: remove it",
        ],
    );
}

#[test]
fn force_removes_what_windows_has_no_use_for_instead_of_setting_it() {
    let run = run(
        &json!({"profile": "baseline", "force": true}),
        &windows(json!({
            "privileged": true, "procMount": "Unmasked", "seccompProfile": {"type": "Unconfined"},
            "windowsOptions": {"hostProcess": true, "runAsUserName": "me"},
        })),
    );
    assert_eq!(
        run.pod["spec"]["containers"][0]["securityContext"],
        json!({"windowsOptions": {"runAsUserName": "me"}})
    );
}

#[test]
fn a_windows_selector_without_an_os_is_noted_and_not_guessed() {
    let selected = pod_with(json!({"nodeSelector": {"kubernetes.io/os": "windows"}}));
    let result = run(&json!({}), &selected);
    check_noted(
        &result,
        &[
            "/spec/nodeSelector asks for Windows, but /spec/os/name does not say windows: treated as a Linux pod, set it",
        ],
    );
    assert_eq!(
        result.pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"],
        false
    );
}

#[test]
fn a_linux_pod_gets_no_windows_options() {
    let mut pod = pod_of(json!({}));
    pod["spec"]["os"] = json!({"name": "linux"});
    let run = run(&json!({"force": true}), &pod);
    assert!(!run.pod.to_string().contains("windowsOptions"));
}
