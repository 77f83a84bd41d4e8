//! Settings of a security context that stand alone, of the pod or of a container: AppArmor, SELinux, Windows' host processes,
//! and those that only containers have.

use std::borrow::Cow;

use crate::inherit::is_confined;
use crate::plan::{Plan, at};
use crate::policy::Policy;
use crate::view::{Options, SecurityContext};

const BASELINE_CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// A security context.
pub(crate) struct Place<'p> {
    pub(crate) context: &'p SecurityContext<'p>,
    /// Whether it may be changed.
    pub(crate) writable: bool,
}

/// Checks what a pod's and a container's security context have in common.
pub(crate) fn check_any(policy: &Policy, place: &Place, plan: &mut Plan) {
    let context = place.context;
    if context.app_armor_profile.present && !is_confined(&context.app_armor_profile) {
        // Not RuntimeDefault instead: a node without AppArmor refuses pods that name a profile.
        forbid(
            policy,
            place,
            "appArmorProfile",
            "its type must be RuntimeDefault or Localhost, or leave it out",
            plan,
        );
    }
    check_se_linux(policy, place, &context.se_linux_options, plan);
    if context.windows_options.host_process == Some(true) {
        forbid(
            policy,
            place,
            "windowsOptions/hostProcess",
            "must not be true: remove it",
            plan,
        );
    }
}

/// Checks and fills in what only a container's security context has.
pub(crate) fn check_container(policy: &Policy, place: &Place, plan: &mut Plan) {
    let context = place.context;
    if context.privileged == Some(true) {
        forbid(
            policy,
            place,
            "privileged",
            "must not be true: remove it",
            plan,
        );
    }
    let unmasked = context
        .proc_mount
        .as_deref()
        .is_some_and(|mount| mount != "Default");
    let relaxed = policy.relies_on_user_namespace() && !policy.restricted_since(35);
    if unmasked && !relaxed {
        forbid(
            policy,
            place,
            "procMount",
            "must be Default: remove it",
            plan,
        );
    }
    if !(policy.restricted_since(25) && policy.windows) {
        check_capabilities(policy, place, plan);
    }
    if policy.restricted_since(8) && !policy.spares_windows() {
        check_privilege_escalation(policy, place, plan);
    }
}

fn check_se_linux(policy: &Policy, place: &Place, options: &Options, plan: &mut Plan) {
    let allowed = match options.r#type.as_deref() {
        None | Some("" | "container_t" | "container_init_t" | "container_kvm_t") => true,
        Some("container_engine_t") => policy.since(31),
        Some(_) => false,
    };
    if !allowed {
        forbid(
            policy,
            place,
            "seLinuxOptions/type",
            "must be one of the types for containers: remove it",
            plan,
        );
    }
    for (field, value) in [
        ("seLinuxOptions/user", &options.user),
        ("seLinuxOptions/role", &options.role),
    ] {
        if value.as_deref().is_some_and(|value| !value.is_empty()) {
            forbid(policy, place, field, "must not be set: remove it", plan);
        }
    }
}

fn check_capabilities(policy: &Policy, place: &Place, plan: &mut Plan) {
    let capabilities = &place.context.capabilities;
    let restricted = policy.restricted_since(22);
    // From the last to the first, so that removing one does not move those that are still to be removed.
    for (index, name) in capabilities.add.iter().enumerate().rev() {
        let name = name.as_deref().unwrap_or_default();
        let (allowed, remedy) = if restricted {
            (
                name == "NET_BIND_SERVICE",
                "only NET_BIND_SERVICE may be added: remove it",
            )
        } else {
            (
                BASELINE_CAPABILITIES.contains(&name),
                "only capabilities that container runtimes give by default may be added, NET_RAW excepted: remove it",
            )
        };
        if !allowed {
            let field = ["capabilities/add/", &index.to_string()].concat();
            forbid(policy, place, &field, remedy, plan);
        }
    }
    if !restricted || names(&capabilities.drop, "ALL") {
        return;
    }
    if !place.writable || policy.windows {
        let path = at(&place.context.path, "capabilities/drop");
        plan.violation(&path, policy.remedy("must contain ALL: add it"));
    } else if capabilities.present {
        plan.set(at(&place.context.path, "capabilities/drop/-"), r#""ALL""#);
    } else {
        plan.fill(place.context, "capabilities", r#"{"drop":["ALL"]}"#);
    }
}

fn check_privilege_escalation(policy: &Policy, place: &Place, plan: &mut Plan) {
    let context = place.context;
    let field = "allowPrivilegeEscalation";
    let path = || at(&context.path, field);
    let force = policy.forces(place.writable);
    let conflicts =
        context.privileged == Some(true) || names(&context.capabilities.add, "CAP_SYS_ADMIN");
    match context.allow_privilege_escalation {
        Some(false) => {}
        Some(true) if !force => plan.violation(
            &path(),
            "must be false: set it, or leave it out and let this plugin set it",
        ),
        // Refused by the API server, so that the reason would be lost behind another.
        _ if conflicts && !force => {
            plan.violation(&path(), "must be false, which it cannot be beside privileged or CAP_SYS_ADMIN: remove these");
        }
        _ if place.writable && !policy.windows => plan.fill(context, field, "false"),
        _ => plan.violation(&path(), policy.remedy("must be false: set it")),
    }
}

fn names(capabilities: &[Option<Cow<'_, str>>], name: &str) -> bool {
    capabilities
        .iter()
        .any(|capability| capability.as_deref() == Some(name))
}

/// Records that a field must not be as it is; with force it is removed.
fn forbid(policy: &Policy, place: &Place, field: &str, remedy: &str, plan: &mut Plan) {
    let path = at(&place.context.path, field);
    if policy.forces(place.writable) {
        plan.remove(path);
    } else {
        plan.violation(&path, remedy);
    }
}
