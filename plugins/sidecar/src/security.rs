//! What the restricted Pod Security Standard asks of a container.

use crate::config::Os;
use crate::json::{Object, strings};

/// Fills in what is missing, so that the container passes by itself, whatever the pod says. Outside Linux only what is allowed there.
pub(crate) fn complete(mut context: Object, os: Os) -> Object {
    context.fill("runAsNonRoot", "true");
    if os != Os::Linux {
        return context;
    }
    context.fill("allowPrivilegeEscalation", "false");
    let mut capabilities = context.object("capabilities");
    if !capabilities.has("drop") {
        capabilities.set("drop", "[\"ALL\"]");
        context.set("capabilities", &capabilities.text());
    }
    context.fill("seccompProfile", "{\"type\":\"RuntimeDefault\"}");
    context
}

/// Which values a field may have, as they stand in JSON, and what to say otherwise.
struct Rule {
    /// The object in the security context; empty for itself.
    parent: &'static str,
    field: &'static str,
    allowed: &'static [&'static str],
    message: &'static str,
}

const RULES: [Rule; 11] = [
    rule("", "privileged", &["false"], "privileged must not be true"),
    rule(
        "",
        "allowPrivilegeEscalation",
        &["false"],
        "allowPrivilegeEscalation must be false",
    ),
    rule("", "runAsNonRoot", &["true"], "runAsNonRoot must be true"),
    rule(
        "",
        "procMount",
        &["\"Default\""],
        "procMount must be Default",
    ),
    rule(
        "seccompProfile",
        "type",
        &PROFILES,
        "seccompProfile.type must be RuntimeDefault or Localhost",
    ),
    rule(
        "appArmorProfile",
        "type",
        &PROFILES,
        "appArmorProfile.type must be RuntimeDefault or Localhost",
    ),
    rule(
        "seLinuxOptions",
        "type",
        &SELINUX_TYPES,
        "seLinuxOptions.type must be one for containers",
    ),
    rule(
        "seLinuxOptions",
        "user",
        &["\"\""],
        "seLinuxOptions.user must be unset",
    ),
    rule(
        "seLinuxOptions",
        "role",
        &["\"\""],
        "seLinuxOptions.role must be unset",
    ),
    rule(
        "windowsOptions",
        "hostProcess",
        &["false"],
        "windowsOptions.hostProcess must not be true",
    ),
    rule(
        "capabilities",
        "add",
        &["[]", "[\"NET_BIND_SERVICE\"]"],
        "capabilities.add may have NET_BIND_SERVICE only",
    ),
];

const PROFILES: [&str; 2] = ["\"RuntimeDefault\"", "\"Localhost\""];
const SELINUX_TYPES: [&str; 5] = [
    "\"\"",
    "\"container_t\"",
    "\"container_init_t\"",
    "\"container_kvm_t\"",
    "\"container_engine_t\"",
];

const fn rule(
    parent: &'static str,
    field: &'static str,
    allowed: &'static [&'static str],
    message: &'static str,
) -> Rule {
    Rule {
        parent,
        field,
        allowed,
        message,
    }
}

/// What a configured container says against the standard.
pub(crate) fn violations(container: &Object) -> Vec<&'static str> {
    let context = container.object("securityContext");
    let mut found = Vec::new();
    for rule in &RULES {
        let parent = context.object(rule.parent);
        let place = if rule.parent.is_empty() {
            &context
        } else {
            &parent
        };
        if place
            .get(rule.field)
            .is_some_and(|value| value != "null" && !rule.allowed.contains(&value))
        {
            found.push(rule.message);
        }
    }
    if context.get("runAsUser") == Some("0") {
        found.push("runAsUser must not be 0");
    }
    let dropped = context
        .object("capabilities")
        .get("drop")
        .map(|list| strings(list).unwrap_or_default());
    if dropped.is_some_and(|dropped| !dropped.iter().any(|name| name == "ALL")) {
        found.push("capabilities.drop must have ALL");
    }
    let ports = container.objects("ports");
    if ports
        .iter()
        .any(|port| port.get("hostPort").is_some_and(|port| port != "0"))
    {
        found.push("hostPort must be unset");
    }
    let lifecycle = container.object("lifecycle");
    let handlers = [
        container.object("livenessProbe"),
        container.object("readinessProbe"),
        container.object("startupProbe"),
        lifecycle.object("postStart"),
        lifecycle.object("preStop"),
    ];
    let names_host = |kind: &str| {
        handlers
            .iter()
            .any(|handler| !handler.object(kind).string("host").is_empty())
    };
    if names_host("httpGet") || names_host("tcpSocket") {
        found.push("probes and hooks must not name a host");
    }
    found
}
