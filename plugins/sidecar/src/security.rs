//! What the restricted Pod Security Standard asks of a container.

use podloom_plugin_sdk::json::{Object, Value};

use crate::config::Os;

/// Profiles of seccomp and AppArmor.
const PROFILES: [&str; 2] = ["RuntimeDefault", "Localhost"];

const SELINUX_TYPES: [&str; 5] = [
    "",
    "container_t",
    "container_init_t",
    "container_kvm_t",
    "container_engine_t",
];

/// Fills in what is missing, so that the container passes by itself, whatever the pod says. Outside Linux only what is allowed there.
pub(crate) fn complete(mut context: Object, os: Os) -> Object {
    context.set_if_absent("runAsNonRoot", true);
    if os != Os::Linux {
        return context;
    }
    context.set_if_absent("allowPrivilegeEscalation", false);
    let capabilities = context.get("capabilities").as_object();
    let mut capabilities = capabilities.cloned().unwrap_or_default();
    capabilities.set_if_absent("drop", ["ALL"]);
    context.set("capabilities", capabilities);
    context.set_if_absent("seccompProfile", Object::from([("type", "RuntimeDefault")]));
    context
}

/// What a configured container says against the standard.
pub(crate) fn violations(container: &Object) -> Vec<&'static str> {
    let mut found = context_violations(container.get("securityContext"));
    let mut ports = container.objects("ports").map(|port| port.get("hostPort"));
    if ports.any(|port| !port.is_null() && port.as_i64() != Some(0)) {
        found.push("hostPort must be unset");
    }
    if names_host(container) {
        found.push("probes and hooks must not name a host");
    }
    found
}

fn context_violations(context: &Value) -> Vec<&'static str> {
    let is_unless = |field: &Value, value: bool| field.is_null() || field.as_bool() == Some(value);
    let is_one_of = |field: &Value, allowed: &[&str]| {
        field.is_null() || field.as_str().is_some_and(|text| allowed.contains(&text))
    };
    let seccomp = context.get("seccompProfile");
    let app_armor = context.get("appArmorProfile");
    let se_linux = context.get("seLinuxOptions");
    let windows = context.get("windowsOptions");
    let added = context.get("capabilities").get("add");
    let dropped = context.get("capabilities").get("drop");
    let rules = [
        (
            is_unless(context.get("privileged"), false),
            "privileged must not be true",
        ),
        (
            is_unless(context.get("allowPrivilegeEscalation"), false),
            "allowPrivilegeEscalation must be false",
        ),
        (
            is_unless(context.get("runAsNonRoot"), true),
            "runAsNonRoot must be true",
        ),
        (
            is_one_of(context.get("procMount"), &["Default"]),
            "procMount must be Default",
        ),
        (
            is_one_of(seccomp.get("type"), &PROFILES),
            "seccompProfile.type must be RuntimeDefault or Localhost",
        ),
        (
            is_one_of(app_armor.get("type"), &PROFILES),
            "appArmorProfile.type must be RuntimeDefault or Localhost",
        ),
        (
            is_one_of(se_linux.get("type"), &SELINUX_TYPES),
            "seLinuxOptions.type must be one for containers",
        ),
        (
            is_one_of(se_linux.get("user"), &[""]),
            "seLinuxOptions.user must be unset",
        ),
        (
            is_one_of(se_linux.get("role"), &[""]),
            "seLinuxOptions.role must be unset",
        ),
        (
            is_unless(windows.get("hostProcess"), false),
            "windowsOptions.hostProcess must not be true",
        ),
        (
            added.is_null() || is_list_of(added, "NET_BIND_SERVICE"),
            "capabilities.add may have NET_BIND_SERVICE only",
        ),
        (
            context.get("runAsUser").as_i64() != Some(0),
            "runAsUser must not be 0",
        ),
        (
            dropped.is_null() || dropped.items().contains(&"ALL".into()),
            "capabilities.drop must have ALL",
        ),
    ];
    let broken = rules.into_iter().filter(|(holds, _)| !holds);
    broken.map(|(_, message)| message).collect()
}

/// Whether this is a list, of nothing but this text.
fn is_list_of(list: &Value, text: &str) -> bool {
    matches!(list, Value::List(items) if items.iter().all(|item| item.as_str() == Some(text)))
}

/// Whether a probe or a hook names a host.
fn names_host(container: &Object) -> bool {
    let lifecycle = container.get("lifecycle");
    let handlers = [
        container.get("livenessProbe"),
        container.get("readinessProbe"),
        container.get("startupProbe"),
        lifecycle.get("postStart"),
        lifecycle.get("preStop"),
    ];
    let addresses = handlers
        .into_iter()
        .flat_map(|handler| [handler.get("httpGet"), handler.get("tcpSocket")]);
    let mut hosts = addresses.filter_map(|address| address.get("host").as_str());
    hosts.any(|host| !host.is_empty())
}
