//! Settings of a security context that stand alone, of the pod or of a container: AppArmor, SELinux, Windows' host processes,
//! and those that only containers have.

use podloom_plugin_sdk::json::{Object, Value};

use crate::Plan;
use crate::policy::Policy;
use crate::view::{Container, Context, SecurityContext, View};

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
    if !restricted || has(settings.dropped(), "ALL") {
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
    let conflicts = settings.privileged || has(settings.added(), "CAP_SYS_ADMIN");
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

fn has(capabilities: &[String], name: &str) -> bool {
    capabilities.iter().any(|own| own == name)
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

/// A setting that containers inherit from the pod, and what is asked of it. The pod comes first, then the containers that it does not
/// cover.
struct Setting {
    field: &'static str,
    /// Whether a security context has a good value; none if it has no value.
    is_good: fn(&Policy, &SecurityContext) -> Option<bool>,
    /// Whether the profile asks for it where nothing is said.
    required: bool,
    /// What to fill in.
    fill: Option<Value>,
    /// What to do about a value that is bad, and about none.
    remedy: &'static str,
}

/// Fills in and checks what containers inherit.
pub(crate) fn check_all_inherited(policy: &Policy, view: &View, plan: &mut Plan) {
    let config = policy.config;
    if policy.restricted_since(0) && !policy.relies_on_user_namespace() {
        let setting = Setting {
            field: "runAsNonRoot",
            is_good: |_, settings| settings.run_as_non_root,
            required: true,
            fill: Some(true.into()),
            remedy: "must be true: set it",
        };
        check_setting(policy, &setting, view, plan);
    }
    let linux_id = |id: Option<i64>| id.filter(|_| !policy.windows).map(Value::from);
    let user = Setting {
        field: "runAsUser",
        is_good: |policy, settings| {
            let root_matters = policy.restricted_since(23) && !policy.relies_on_user_namespace();
            settings.run_as_user.map(|user| user != 0 || !root_matters)
        },
        required: false,
        fill: linux_id(config.run_as_user),
        remedy: "must not be 0: choose another user, or remove it",
    };
    check_setting(policy, &user, view, plan);
    let group = Setting {
        field: "runAsGroup",
        is_good: |_, settings| settings.run_as_group.map(|_| true),
        required: false,
        fill: linux_id(config.run_as_group),
        remedy: "",
    };
    check_setting(policy, &group, view, plan);
    // From 1.25 on, restricted asks nothing of the seccomp profile of Windows pods; baseline still does.
    if !(policy.restricted_since(25) && policy.windows) {
        let seccomp = Setting {
            field: "seccompProfile",
            is_good: |policy, settings| {
                let profile = settings.seccomp_profile.as_ref();
                // Before 1.19 the standard looked at annotations instead.
                profile.map(|profile| profile.is_confined() || !policy.since(19))
            },
            required: policy.restricted_since(19),
            fill: policy.seccomp_profile(),
            remedy: policy.remedy("its type must be RuntimeDefault or Localhost: set it"),
        };
        check_setting(policy, &seccomp, view, plan);
    }
}

fn check_setting(policy: &Policy, setting: &Setting, view: &View, plan: &mut Plan) {
    let field = setting.field;
    let is_good = |context: &Context| (setting.is_good)(policy, &context.settings);
    // A container whose bad value is going to be rewritten lacks a value as much as one that has none.
    let lacks = |container: &Container| match is_good(&container.context) {
        None => !container.exempt,
        Some(true) => false,
        Some(false) => !container.exempt && policy.forces(&container.context),
    };
    let context = &view.context;
    let fill = setting.fill.as_ref().filter(|_| policy.pod_level);
    let covered = match (is_good(context), fill) {
        (Some(true), _) => true,
        (None, None) => false,
        (Some(false), _) if policy.is_later => false,
        (None, Some(fill)) => {
            let needed = view.containers.iter().any(lacks);
            if needed {
                plan.fill(context, field, fill.clone());
            }
            needed
        }
        (Some(false), _) if !policy.forces(context) => {
            plan.shortcoming(&context.field(field), setting.remedy);
            // What containers inherit is then the pod's own choice, and its one violation.
            true
        }
        (Some(false), Some(fill)) => {
            plan.fill(context, field, fill.clone());
            true
        }
        (Some(false), None) => {
            plan.remove(context.field(field));
            false
        }
    };
    for container in view.containers.iter().filter(|container| !container.exempt) {
        let context = &container.context;
        check_inherited(policy, setting, (context, is_good(context)), covered, plan);
    }
}

/// Fills in and checks one container; `covered` says that it inherits a value where it has none.
fn check_inherited(
    policy: &Policy,
    setting: &Setting,
    (context, is_good): (&Context, Option<bool>),
    covered: bool,
    plan: &mut Plan,
) {
    let field = setting.field;
    let fill = setting.fill.as_ref().filter(|_| policy.may_write(context));
    match (is_good, fill) {
        (Some(true), _) => {}
        (Some(false), _) if !policy.forces(context) => {
            plan.shortcoming(&context.field(field), setting.remedy);
        }
        (None, _) if covered => {}
        (Some(false), _) if covered => plan.remove(context.field(field)),
        (_, Some(fill)) => plan.fill(context, field, fill.clone()),
        (_, None) if setting.required => {
            plan.shortcoming(&context.field(field), setting.remedy);
        }
        (Some(false), None) => plan.remove(context.field(field)),
        (None, None) => {}
    }
}
