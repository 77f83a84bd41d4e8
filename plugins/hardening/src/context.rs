//! Settings of a security context that stand alone, of the pod or of a container: AppArmor, SELinux, Windows' host processes,
//! and those that only containers have.

use podloom_plugin_sdk::json::Object;

use crate::plan::Plan;
use crate::policy::Policy;
use crate::view::Context;

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

/// Checks what a pod's and a container's security context have in common.
pub(crate) fn check_any(policy: &Policy, context: &Context, plan: &mut Plan) {
    let settings = &context.settings;
    let app_armor = settings.app_armor_profile.as_ref();
    if app_armor.is_some_and(|profile| !profile.is_confined()) {
        // Not RuntimeDefault instead: a node without AppArmor refuses pods that name a profile.
        let remedy = "its type must be RuntimeDefault or Localhost, or leave it out";
        forbid(policy, context, "appArmorProfile", remedy, plan);
    }
    check_se_linux(policy, context, plan);
    if settings.windows_options.host_process {
        let field = "windowsOptions/hostProcess";
        forbid(policy, context, field, "must not be true: remove it", plan);
    }
}

/// Checks and fills in what only a container's security context has.
pub(crate) fn check_container(policy: &Policy, context: &Context, plan: &mut Plan) {
    let settings = &context.settings;
    if settings.privileged {
        let remedy = "must not be true: remove it";
        forbid(policy, context, "privileged", remedy, plan);
    }
    let proc_mount = settings.proc_mount.as_deref();
    let unmasked = proc_mount.is_some_and(|mount| mount != "Default");
    let relaxed = policy.relies_on_user_namespace() && !policy.restricted_since(35);
    if unmasked && !relaxed {
        let remedy = "must be Default: remove it";
        forbid(policy, context, "procMount", remedy, plan);
    }
    if !(policy.restricted_since(25) && policy.windows) {
        check_capabilities(policy, context, plan);
    }
    if policy.restricted_since(8) && !policy.spares_windows() {
        check_privilege_escalation(policy, context, plan);
    }
}

fn check_se_linux(policy: &Policy, context: &Context, plan: &mut Plan) {
    let options = &context.settings.se_linux_options;
    let allowed = match options.r#type.as_str() {
        "" | "container_t" | "container_init_t" | "container_kvm_t" => true,
        "container_engine_t" => policy.since(31),
        _ => false,
    };
    if !allowed {
        let remedy = "must be one of the types for containers: remove it";
        forbid(policy, context, "seLinuxOptions/type", remedy, plan);
    }
    for (field, value) in [
        ("seLinuxOptions/user", &options.user),
        ("seLinuxOptions/role", &options.role),
    ] {
        if !value.is_empty() {
            forbid(policy, context, field, "must not be set: remove it", plan);
        }
    }
}

fn check_capabilities(policy: &Policy, context: &Context, plan: &mut Plan) {
    let settings = &context.settings;
    let restricted = policy.restricted_since(22);
    let (allowed, remedy) = if restricted {
        (
            ["NET_BIND_SERVICE"].as_slice(),
            "only NET_BIND_SERVICE may be added: remove it",
        )
    } else {
        (
            BASELINE_CAPABILITIES.as_slice(),
            "only capabilities that container runtimes give by default may be added, NET_RAW excepted: remove it",
        )
    };
    // From the last to the first, so that removing one does not move those that are still to be removed.
    for (index, name) in settings.added().iter().enumerate().rev() {
        if !allowed.contains(&name.as_str()) {
            let field = format!("capabilities/add/{index}");
            forbid(policy, context, &field, remedy, plan);
        }
    }
    if !restricted || names(settings.dropped(), "ALL") {
        return;
    }
    if !policy.may_write(context) || policy.windows {
        let path = context.field("capabilities/drop");
        plan.shortcoming(&path, policy.remedy("must contain ALL: add it"));
    } else if settings.capabilities.is_some() {
        plan.set(context.field("capabilities/drop/-"), "ALL");
    } else {
        plan.fill(context, "capabilities", Object::from([("drop", ["ALL"])]));
    }
}

fn check_privilege_escalation(policy: &Policy, context: &Context, plan: &mut Plan) {
    let settings = &context.settings;
    let field = "allowPrivilegeEscalation";
    let force = policy.forces(context);
    let conflicts = settings.privileged || names(settings.added(), "CAP_SYS_ADMIN");
    let remedy = match settings.allow_privilege_escalation {
        Some(false) => return,
        Some(true) if !force => "must be false: set it, or leave it out and let this plugin set it",
        // Refused by the API server, so that the reason would be lost behind another.
        _ if conflicts && !force => {
            "must be false, which it cannot be beside privileged or CAP_SYS_ADMIN: remove these"
        }
        _ if policy.may_write(context) && !policy.windows => {
            return plan.fill(context, field, false);
        }
        _ => policy.remedy("must be false: set it"),
    };
    plan.shortcoming(&context.field(field), remedy);
}

fn names(capabilities: &[String], name: &str) -> bool {
    capabilities.iter().any(|capability| capability == name)
}

/// Records that a field must not be as it is; with force it is removed.
fn forbid(policy: &Policy, context: &Context, field: &str, remedy: &str, plan: &mut Plan) {
    let path = context.field(field);
    if policy.forces(context) {
        plan.remove(path);
    } else {
        plan.violation(&path, remedy);
    }
}
