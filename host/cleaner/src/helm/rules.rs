//! What the live spec says about the release. The spec may be edited into something that cannot be used; what can be read of it counts.

use std::time::Duration;

use podloom_api::{CleanerSpec, duration};

/// How long a hook may take if the spec does not say it.
const HOOK_TIMEOUT: Duration = Duration::from_mins(5);

/// What the live spec says about the release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HelmRules {
    /// Whether its hooks do not run.
    pub(crate) disables_hooks: bool,
    /// How long each hook may take.
    pub(crate) hook_timeout: Duration,
}

impl HelmRules {
    /// Returns those of a spec for this release; none if the spec does not say that it is uninstalled. Whoever may write the status
    /// could have written its name there.
    pub(crate) fn of(spec: Option<&CleanerSpec>, release: &str) -> Option<Self> {
        let spec = spec?;
        let helm = spec.helm.as_ref()?;
        let is_deleted = helm.delete && helm.release == release && !spec.dry_run;
        is_deleted.then(|| Self {
            disables_hooks: helm.disable_hooks,
            hook_timeout: duration::parse(&helm.hook_timeout).unwrap_or(HOOK_TIMEOUT),
        })
    }
}
