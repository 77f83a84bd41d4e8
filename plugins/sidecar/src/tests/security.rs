//! The restricted Pod Security Standard.

use podloom_plugin_sdk::serde_json::{Value, json};

use super::{container, inject, pod, proxy, with};
use crate::Plugin;

#[test]
fn injected_container_passes_restricted_by_itself() {
    assert_eq!(
        inject(&proxy(), &pod())["spec"]["initContainers"][0]["securityContext"],
        json!({
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": true,
            "seccompProfile": {"type": "RuntimeDefault"},
        })
    );
}

#[test]
fn configured_security_context_is_completed_not_overwritten() {
    let context = json!({
        "runAsUser": 1337,
        "capabilities": {"add": ["NET_BIND_SERVICE"]},
        "seccompProfile": {"type": "Localhost", "localhostProfile": "p.json"},
        "readOnlyRootFilesystem": true,
        "futureField": 1,
    });
    let config = json!({"containers": [{"container": with(container("proxy"), "", json!({"securityContext": context}))}]});
    assert_eq!(
        inject(&config, &pod())["spec"]["initContainers"][0]["securityContext"],
        json!({
            "runAsUser": 1337,
            "runAsNonRoot": true,
            "allowPrivilegeEscalation": false,
            "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
            "seccompProfile": {"type": "Localhost", "localhostProfile": "p.json"},
            "readOnlyRootFilesystem": true,
            "futureField": 1,
        })
    );
}

#[test]
fn windows_container_gets_only_what_windows_has() {
    let config = with(proxy(), "", json!({"os": "windows"}));
    let windows = with(pod(), "", json!({"spec": {"os": {"name": "windows"}}}));
    assert_eq!(
        inject(&config, &windows)["spec"]["initContainers"][0]["securityContext"],
        json!({"runAsNonRoot": true})
    );
}

#[test]
fn unrestricted_container_is_left_as_it_is_written() {
    let privileged = json!({"securityContext": {"privileged": true}});
    let config = json!({"containers": [{"container": with(container("proxy"), "", privileged), "restricted": false}]});
    assert_eq!(
        inject(&config, &pod())["spec"]["initContainers"][0]["securityContext"],
        json!({"privileged": true})
    );
}

/// What validation says to a container with these fields.
fn violations(fields: Value) -> Vec<String> {
    let config = json!({"containers": [{"container": with(container("proxy"), "", fields)}]});
    podloom_plugin_sdk::testing::configure::<Plugin>(&config)
        .err()
        .unwrap_or_default()
}

#[test]
fn each_check_of_the_standard_refuses_the_configuration() {
    let context = |context: Value| json!({"securityContext": context});
    for (fields, message) in [
        (context(json!({"privileged": true})), "privileged"),
        (
            context(json!({"allowPrivilegeEscalation": true})),
            "allowPrivilegeEscalation",
        ),
        (context(json!({"runAsNonRoot": false})), "runAsNonRoot"),
        (context(json!({"runAsUser": 0})), "runAsUser"),
        (context(json!({"procMount": "Unmasked"})), "procMount"),
        (
            context(json!({"seccompProfile": {"type": "Unconfined"}})),
            "seccompProfile",
        ),
        (
            context(json!({"appArmorProfile": {"type": "Unconfined"}})),
            "appArmorProfile",
        ),
        (
            context(json!({"seLinuxOptions": {"type": "spc_t"}})),
            "seLinuxOptions.type",
        ),
        (
            context(json!({"seLinuxOptions": {"user": "u"}})),
            "seLinuxOptions.user",
        ),
        (
            context(json!({"seLinuxOptions": {"role": "r"}})),
            "seLinuxOptions.role",
        ),
        (
            context(json!({"windowsOptions": {"hostProcess": true}})),
            "hostProcess",
        ),
        (
            context(json!({"capabilities": {"add": ["NET_ADMIN"]}})),
            "capabilities.add",
        ),
        (
            context(json!({"capabilities": {"add": ["CAP_NET_BIND_SERVICE"]}})),
            "capabilities.add",
        ),
        (
            context(json!({"capabilities": {"drop": ["NET_RAW"]}})),
            "capabilities.drop",
        ),
        (
            context(json!({"capabilities": {"drop": ["all"]}})),
            "capabilities.drop",
        ),
        (
            json!({"ports": [{"containerPort": 1, "hostPort": 1}]}),
            "hostPort",
        ),
        (
            json!({"livenessProbe": {"httpGet": {"host": "x", "port": 1}}}),
            "host",
        ),
        (
            json!({"lifecycle": {"preStop": {"tcpSocket": {"host": "x", "port": 1}}}}),
            "host",
        ),
    ] {
        let found = violations(fields);
        assert_eq!(found.len(), 1, "{message}: {found:?}");
        assert!(found[0].contains(message), "{found:?}");
    }
    for fields in [
        context(
            json!({"privileged": false, "runAsUser": 1, "procMount": "Default", "capabilities": {"add": [], "drop": ["ALL", "X"]}}),
        ),
        context(
            json!({"seLinuxOptions": {"type": "container_t", "level": "s0"}, "appArmorProfile": {"type": "Localhost"}}),
        ),
        json!({"ports": [{"containerPort": 1, "hostPort": 0}], "startupProbe": {"httpGet": {"port": 1}}}),
    ] {
        assert!(violations(fields).is_empty());
    }
}

#[test]
fn a_setting_of_the_wrong_kind_is_refused_too() {
    for (context, message) in [
        (json!({"privileged": "true"}), "privileged"),
        (json!({"procMount": 1}), "procMount"),
        (
            json!({"windowsOptions": {"hostProcess": "true"}}),
            "hostProcess",
        ),
        (
            json!({"capabilities": {"add": "SYS_ADMIN"}}),
            "capabilities.add",
        ),
        (
            json!({"capabilities": {"drop": "ALL"}}),
            "capabilities.drop",
        ),
    ] {
        let found = violations(json!({"securityContext": context}));
        assert_eq!(found.len(), 1, "{message}: {found:?}");
        assert!(found[0].contains(message), "{found:?}");
    }
}
