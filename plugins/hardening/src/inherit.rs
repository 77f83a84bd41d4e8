//! Settings that containers inherit from the pod: runAsNonRoot, runAsUser, runAsGroup, seccompProfile.
//!
//! The pod comes first, then the containers that it does not cover.

use crate::plan::{Plan, at};
use crate::policy::Policy;
use crate::view::{Container, Options, SecurityContext, Spec};

/// What a place says about a setting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Absent,
    Good,
    Bad,
}

/// Which setting. A function that is called by pointer is looked up anew in each sandbox, so there is none.
#[derive(Clone, Copy)]
enum Field {
    RunAsNonRoot,
    RunAsUser,
    RunAsGroup,
    SeccompProfile,
}

impl Field {
    fn name(self) -> &'static str {
        match self {
            Self::RunAsNonRoot => "runAsNonRoot",
            Self::RunAsUser => "runAsUser",
            Self::RunAsGroup => "runAsGroup",
            Self::SeccompProfile => "seccompProfile",
        }
    }

    fn state(self, policy: &Policy, context: &SecurityContext) -> State {
        match self {
            Self::RunAsNonRoot => run_as_non_root(context),
            Self::RunAsUser => run_as_user(policy, context),
            Self::RunAsGroup => run_as_group(context),
            Self::SeccompProfile => seccomp_profile(policy, context),
        }
    }
}

/// A setting and what is asked of it.
struct Setting {
    field: Field,
    /// Whether the profile asks for it where nothing is said.
    required: bool,
    /// What to fill in, as JSON.
    fill: Option<String>,
    /// What to do about a value that is bad, and about none.
    remedy: &'static str,
}

/// Fills in and checks what containers inherit.
pub(crate) fn check(policy: &Policy, spec: &Spec, containers: &[Container], plan: &mut Plan) {
    let config = policy.config;
    let users_matter = !policy.relies_on_user_namespace();
    if policy.restricted_since(0) && users_matter {
        let setting = Setting {
            field: Field::RunAsNonRoot,
            required: true,
            fill: Some("true".to_owned()),
            remedy: "must be true: set it",
        };
        check_setting(policy, &setting, spec, containers, plan);
    }
    let linux_id = |id: Option<i64>| id.filter(|_| !policy.windows).map(|id| id.to_string());
    let user = Setting {
        field: Field::RunAsUser,
        required: false,
        fill: linux_id(config.run_as_user),
        remedy: "must not be 0: choose another user, or remove it",
    };
    check_setting(policy, &user, spec, containers, plan);
    let group = Setting {
        field: Field::RunAsGroup,
        required: false,
        fill: linux_id(config.run_as_group),
        remedy: "",
    };
    check_setting(policy, &group, spec, containers, plan);
    // From 1.25 on, restricted asks nothing of the seccomp profile of Windows pods; baseline still does.
    if !(policy.restricted_since(25) && policy.windows) {
        let seccomp = Setting {
            field: Field::SeccompProfile,
            required: policy.restricted_since(19),
            fill: policy.seccomp_profile(),
            remedy: policy.remedy("its type must be RuntimeDefault or Localhost: set it"),
        };
        check_setting(policy, &seccomp, spec, containers, plan);
    }
}

fn check_setting(
    policy: &Policy,
    setting: &Setting,
    spec: &Spec,
    containers: &[Container],
    plan: &mut Plan,
) {
    let state_of = |context: &SecurityContext| setting.field.state(policy, context);
    // A container whose bad value is going to be rewritten lacks a value as much as one that has none.
    let lacks = |container: &Container| match state_of(&container.security_context) {
        State::Absent => !container.exempt,
        State::Good => false,
        State::Bad => !container.exempt && policy.forces(container.writable),
    };
    let context = &spec.security_context;
    let fill = setting.fill.as_deref().filter(|_| policy.pod_level);
    let covered = match (state_of(context), fill) {
        (State::Good, _) => true,
        (State::Absent, None) => false,
        (State::Absent, Some(fill)) => {
            let needed = containers.iter().any(lacks);
            if needed {
                plan.fill(context, setting.field.name(), fill);
            }
            needed
        }
        (State::Bad, _) if !policy.forces(true) => {
            plan.violation(&at(&context.path, setting.field.name()), setting.remedy);
            // What containers inherit is then the pod's own choice, and its one violation.
            true
        }
        (State::Bad, Some(fill)) => {
            plan.fill(context, setting.field.name(), fill);
            true
        }
        (State::Bad, None) => {
            plan.remove(at(&context.path, setting.field.name()));
            false
        }
    };
    for container in containers.iter().filter(|container| !container.exempt) {
        let state = state_of(&container.security_context);
        check_container(policy, setting, (container, state), covered, plan);
    }
}

/// Fills in and checks one container; `covered` says that it inherits a value where it has none.
fn check_container(
    policy: &Policy,
    setting: &Setting,
    (container, state): (&Container, State),
    covered: bool,
    plan: &mut Plan,
) {
    let context = &container.security_context;
    let path = || at(&context.path, setting.field.name());
    let fill = setting
        .fill
        .as_deref()
        .filter(|_| policy.writable && container.writable);
    match (state, fill) {
        (State::Good, _) => {}
        (State::Bad, _) if !policy.forces(container.writable) => {
            plan.violation(&path(), setting.remedy)
        }
        (State::Absent, _) if covered => {}
        (State::Bad, _) if covered => plan.remove(path()),
        (_, Some(fill)) => plan.fill(context, setting.field.name(), fill),
        (_, None) if setting.required => plan.violation(&path(), setting.remedy),
        (State::Bad, None) => plan.remove(path()),
        (State::Absent, None) => {}
    }
}

fn run_as_non_root(context: &SecurityContext) -> State {
    match context.run_as_non_root {
        None => State::Absent,
        Some(true) => State::Good,
        Some(false) => State::Bad,
    }
}

fn run_as_user(policy: &Policy, context: &SecurityContext) -> State {
    match context.run_as_user {
        None => State::Absent,
        Some(0) if policy.restricted_since(23) && !policy.relies_on_user_namespace() => State::Bad,
        Some(_) => State::Good,
    }
}

fn run_as_group(context: &SecurityContext) -> State {
    if context.run_as_group.is_some() {
        State::Good
    } else {
        State::Absent
    }
}

fn seccomp_profile(policy: &Policy, context: &SecurityContext) -> State {
    let profile = &context.seccomp_profile;
    if !profile.present {
        State::Absent
    } else if is_confined(profile) || !policy.since(19) {
        // Before 1.19 the standard looked at annotations instead.
        State::Good
    } else {
        State::Bad
    }
}

/// Whether a seccomp or AppArmor profile is one that the standards allow.
pub(crate) fn is_confined(profile: &Options) -> bool {
    matches!(
        profile.r#type.as_deref(),
        Some("RuntimeDefault" | "Localhost")
    )
}
