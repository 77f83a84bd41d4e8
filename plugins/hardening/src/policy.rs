//! What is asked of one pod: the configuration, and the properties of the pod on which the standard's rules depend.

use crate::config::{Config, Profile, SeccompType};
use crate::view::{Container, Spec};

/// The version since which probes and hooks must not name a host.
pub(crate) const PROBE_HOSTS: u16 = 34;

/// What is asked of one pod.
pub(crate) struct Policy<'c> {
    pub(crate) config: &'c Config,
    /// Whether `spec.os.name` is `windows`.
    pub(crate) windows: bool,
    /// Whether the pod has a user namespace of its own (`hostUsers: false`).
    pub(crate) user_namespace: bool,
    /// Whether the pod may be changed at all: mirror pods may not.
    pub(crate) writable: bool,
    /// Whether what containers inherit may be written to the pod: not if one of them is exempt.
    pub(crate) pod_level: bool,
}

impl<'c> Policy<'c> {
    pub(crate) fn new(
        config: &'c Config,
        spec: &Spec,
        containers: &[Container],
        writable: bool,
    ) -> Self {
        Policy {
            config,
            windows: spec.os.name.as_deref() == Some("windows"),
            user_namespace: spec.host_users == Some(false),
            writable,
            pod_level: writable && !containers.iter().any(|container| container.exempt),
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

    /// Whether explicit settings of this place may be rewritten.
    pub(crate) fn forces(&self, writable: bool) -> bool {
        self.config.force && self.writable && writable
    }

    /// What to do about something that only Linux has.
    pub(crate) fn remedy(&self, remedy: &'static str) -> &'static str {
        if self.windows {
            "no Windows pod can have this, or meet this version of the profile: choose v1.25 or newer"
        } else {
            remedy
        }
    }

    /// The seccomp profile to fill in, as JSON; none if none is asked for.
    pub(crate) fn seccomp_profile(&self) -> Option<String> {
        if self.windows {
            return None;
        }
        match &self.config.seccomp_profile {
            Some(profile) if profile.r#type == SeccompType::Localhost => {
                let file = profile.localhost_profile.as_deref().unwrap_or_default();
                Some([r#"{"localhostProfile":""#, file, r#"","type":"Localhost"}"#].concat())
            }
            None if !self.restricted_since(19) => None,
            _ => Some(r#"{"type":"RuntimeDefault"}"#.to_owned()),
        }
    }
}
