//! What is asked of one pod: the configuration, and the properties of the pod on which the standard's rules depend.

use podloom_plugin_sdk::json::{Object, Value};
use podloom_plugin_sdk::{Findings, Operation, Request, note};

use crate::config::{Config, Exemption, Profile, SeccompType};
use crate::view::{Context, View};

/// What is asked of one pod.
pub(crate) struct Policy<'c> {
    pub(crate) config: &'c Config,
    /// Whether `spec.os.name` is `windows`.
    pub(crate) windows: bool,
    /// Whether the pod has a user namespace of its own (`hostUsers: false`).
    pub(crate) user_namespace: bool,
    /// Whether the pod is in the host's network. The API server then gives each port a port of the host.
    pub(crate) host_network: bool,
    /// Whether the pod may be changed at all: mirror pods may not.
    pub(crate) writable: bool,
    /// Whether what containers inherit may be written to the pod: not if one of them is exempt.
    pub(crate) pod_level: bool,
    /// Whether the pod exists already, so that a container does better than what it inherits or is refused.
    pub(crate) is_later: bool,
}

impl<'c> Policy<'c> {
    pub(crate) fn new(config: &'c Config, view: &View, writable: bool) -> Self {
        let mut containers = view.containers.iter();
        Policy {
            config,
            windows: view.spec.os.name == "windows",
            host_network: view.spec.host_network,
            user_namespace: view.spec.host_users == Some(false),
            writable,
            pod_level: writable && !containers.any(|container| container.exempt),
            is_later: false,
        }
    }

    /// Whether the version is this one or a newer one.
    pub(crate) fn since(&self, minor: u16) -> bool {
        self.config.version.0 >= minor
    }

    /// Whether the profile is `restricted`, in this version or a newer one.
    pub(crate) fn restricted_since(&self, minor: u16) -> bool {
        self.config.profile == Profile::Restricted && self.since(minor)
    }

    /// Whether the pod is a Windows pod, and the version one that spares these what only Linux has.
    pub(crate) fn spares_windows(&self) -> bool {
        self.windows && self.since(25)
    }

    /// Whether the standard relies on the pod's user namespace instead of its users.
    pub(crate) fn relies_on_user_namespace(&self) -> bool {
        self.user_namespace && self.since(35)
    }

    /// Whether a security context may be written.
    pub(crate) fn may_write(&self, context: &Context) -> bool {
        self.writable && context.writable
    }

    /// Whether explicit settings of a security context may be rewritten.
    pub(crate) fn forces(&self, context: &Context) -> bool {
        self.config.force && self.may_write(context)
    }

    /// What to do about something that only Linux has.
    pub(crate) fn remedy(&self, remedy: &'static str) -> &'static str {
        if self.windows {
            "no Windows pod can have this, or meet this version of the profile: choose v1.25 or newer"
        } else {
            remedy
        }
    }

    /// The seccomp profile to fill in; none if none is asked for.
    pub(crate) fn seccomp_profile(&self) -> Option<Value> {
        if self.windows {
            return None;
        }
        let profile = match &self.config.seccomp_profile {
            Some(profile) if profile.r#type == SeccompType::Localhost => {
                let file = profile.localhost_profile.as_deref().unwrap_or_default();
                Object::from([("localhostProfile", file), ("type", "Localhost")])
            }
            None if !self.restricted_since(19) => return None,
            _ => Object::from([("type", "RuntimeDefault")]),
        };
        Some(profile.into())
    }
}

/// Marks the containers that are exempt and notes why. Returns whether the whole pod is, which is noted too.
pub(crate) fn apply(exemptions: &[Exemption], request: &Request, view: &mut View) -> bool {
    let mut exempt = Findings::default();
    for exemption in exemptions {
        if !holds(exemption, request, view) {
            continue;
        }
        let reason = &exemption.reason;
        if exemption.containers.is_empty() {
            note(&format!("the pod is exempt: {reason}"));
            return true;
        }
        for container in view.containers.iter_mut() {
            if !container.exempt && matches_any(&exemption.containers, &container.name) {
                exempt.add(&container.path, &format!("exempt: {reason}"));
                container.exempt = true;
            }
        }
    }
    for text in exempt.notes() {
        note(&text);
    }
    false
}

/// Whether all that an exemption asks of the pod holds.
fn holds(exemption: &Exemption, request: &Request, view: &View) -> bool {
    // Anyone who may change a pod can change its labels without a review.
    if request.operation() != Operation::Create && !exemption.match_labels.is_empty() {
        return false;
    }
    let namespaces = &exemption.namespaces;
    if !namespaces.is_empty() && !matches_any(namespaces, &request.namespace()) {
        return false;
    }
    let accounts = &exemption.service_accounts;
    if !accounts.is_empty() && !matches_any(accounts, service_account(view)) {
        return false;
    }
    let labels = &view.metadata.labels;
    let mut expected = exemption.match_labels.iter();
    expected.all(|(key, value)| labels.get(key) == Some(value))
}

/// The name of the pod's service account. An empty name is no name, and the old field counts where the new one is empty: as the
/// API server has it.
pub(crate) fn service_account(view: &View) -> &str {
    let names = [&view.spec.service_account_name, &view.spec.service_account];
    let name = names.into_iter().find(|name| !name.is_empty());
    name.map_or("default", |name| name)
}

/// Whether text matches one of the patterns.
pub(crate) fn matches_any(patterns: &[String], text: &str) -> bool {
    let mut patterns = patterns.iter();
    patterns.any(|pattern| matches(pattern.as_bytes(), text.as_bytes()))
}

/// Whether text matches a pattern, in which `*` stands for any text.
fn matches(mut pattern: &[u8], mut text: &[u8]) -> bool {
    // Where the last star was, and the text that it has not swallowed yet.
    let mut star = None;
    loop {
        match (pattern.split_first(), text.split_first()) {
            (Some((b'*', rest)), _) => {
                star = Some((rest, text));
                pattern = rest;
            }
            (Some((expected, after)), Some((found, rest))) if expected == found => {
                pattern = after;
                text = rest;
            }
            (None, None) => return true,
            _ => {
                let Some((after, [_, rest @ ..])) = star else {
                    return false;
                };
                star = Some((after, rest));
                pattern = after;
                text = rest;
            }
        }
    }
}
