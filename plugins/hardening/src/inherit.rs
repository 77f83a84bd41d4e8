//! Settings that containers inherit from the pod: runAsNonRoot, runAsUser, runAsGroup, seccompProfile.
//!
//! The pod comes first, then the containers that it does not cover.

use podloom_plugin_sdk::json::Value;

use crate::plan::Plan;
use crate::policy::Policy;
use crate::view::{Container, Context, SecurityContext, View};

/// What a security context says about a setting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Absent,
    Good,
    Bad,
}

/// Which setting.
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

    fn state(self, policy: &Policy, settings: &SecurityContext) -> State {
        let is_good = match self {
            Self::RunAsNonRoot => settings.run_as_non_root,
            Self::RunAsUser => {
                let root_matters =
                    policy.restricted_since(23) && !policy.relies_on_user_namespace();
                settings.run_as_user.map(|user| user != 0 || !root_matters)
            }
            Self::RunAsGroup => settings.run_as_group.map(|_| true),
            Self::SeccompProfile => {
                let profile = settings.seccomp_profile.as_ref();
                // Before 1.19 the standard looked at annotations instead.
                profile.map(|profile| profile.is_confined() || !policy.since(19))
            }
        };
        match is_good {
            None => State::Absent,
            Some(true) => State::Good,
            Some(false) => State::Bad,
        }
    }
}

/// A setting and what is asked of it.
struct Setting {
    field: Field,
    /// Whether the profile asks for it where nothing is said.
    required: bool,
    /// What to fill in.
    fill: Option<Value>,
    /// What to do about a value that is bad, and about none.
    remedy: &'static str,
}

/// Fills in and checks what containers inherit.
pub(crate) fn check(policy: &Policy, view: &View, plan: &mut Plan) {
    let config = policy.config;
    if policy.restricted_since(0) && !policy.relies_on_user_namespace() {
        let setting = Setting {
            field: Field::RunAsNonRoot,
            required: true,
            fill: Some(true.into()),
            remedy: "must be true: set it",
        };
        check_setting(policy, &setting, view, plan);
    }
    let linux_id = |id: Option<i64>| id.filter(|_| !policy.windows).map(Value::from);
    let user = Setting {
        field: Field::RunAsUser,
        required: false,
        fill: linux_id(config.run_as_user),
        remedy: "must not be 0: choose another user, or remove it",
    };
    check_setting(policy, &user, view, plan);
    let group = Setting {
        field: Field::RunAsGroup,
        required: false,
        fill: linux_id(config.run_as_group),
        remedy: "",
    };
    check_setting(policy, &group, view, plan);
    // From 1.25 on, restricted asks nothing of the seccomp profile of Windows pods; baseline still does.
    if !(policy.restricted_since(25) && policy.windows) {
        let seccomp = Setting {
            field: Field::SeccompProfile,
            required: policy.restricted_since(19),
            fill: policy.seccomp_profile(),
            remedy: policy.remedy("its type must be RuntimeDefault or Localhost: set it"),
        };
        check_setting(policy, &seccomp, view, plan);
    }
}

fn check_setting(policy: &Policy, setting: &Setting, view: &View, plan: &mut Plan) {
    let field = setting.field.name();
    let state_of = |context: &Context| setting.field.state(policy, &context.settings);
    // A container whose bad value is going to be rewritten lacks a value as much as one that has none.
    let lacks = |container: &Container| match state_of(&container.context) {
        State::Absent => !container.exempt,
        State::Good => false,
        State::Bad => !container.exempt && policy.forces(&container.context),
    };
    let context = &view.context;
    let fill = setting.fill.as_ref().filter(|_| policy.pod_level);
    let covered = match (state_of(context), fill) {
        (State::Good, _) => true,
        (State::Absent, None) => false,
        (State::Absent, Some(fill)) => {
            let needed = view.containers.iter().any(lacks);
            if needed {
                plan.fill(context, field, fill.clone());
            }
            needed
        }
        (State::Bad, _) if !policy.forces(context) => {
            plan.shortcoming(&context.field(field), setting.remedy);
            // What containers inherit is then the pod's own choice, and its one violation.
            true
        }
        (State::Bad, Some(fill)) => {
            plan.fill(context, field, fill.clone());
            true
        }
        (State::Bad, None) => {
            plan.remove(context.field(field));
            false
        }
    };
    for container in view.containers.iter().filter(|container| !container.exempt) {
        let context = &container.context;
        check_container(policy, setting, (context, state_of(context)), covered, plan);
    }
}

/// Fills in and checks one container; `covered` says that it inherits a value where it has none.
fn check_container(
    policy: &Policy,
    setting: &Setting,
    (context, state): (&Context, State),
    covered: bool,
    plan: &mut Plan,
) {
    let field = setting.field.name();
    let fill = setting.fill.as_ref().filter(|_| policy.may_write(context));
    match (state, fill) {
        (State::Good, _) => {}
        (State::Bad, _) if !policy.forces(context) => {
            plan.shortcoming(&context.field(field), setting.remedy);
        }
        (State::Absent, _) if covered => {}
        (State::Bad, _) if covered => plan.remove(context.field(field)),
        (_, Some(fill)) => plan.fill(context, field, fill.clone()),
        (_, None) if setting.required => {
            plan.shortcoming(&context.field(field), setting.remedy);
        }
        (State::Bad, None) => plan.remove(context.field(field)),
        (State::Absent, None) => {}
    }
}
