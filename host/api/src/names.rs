//! Every name that Podloom writes on objects or looks for on them, once.

/// Labels.
pub mod label {
    /// On a Browser and its pod: the Browser's name.
    pub const BROWSER: &str = "selenosis.io/browser";
    /// On a Browser and its pod: the browser that was asked for.
    pub const BROWSER_NAME: &str = "selenosis.io/browser.name";
    /// On a Browser and its pod: the version that was asked for.
    pub const BROWSER_VERSION: &str = "selenosis.io/browser.version";
    /// What no plugin may write.
    pub const PREFIX: &str = "selenosis.io/";
}

/// Annotations.
pub mod annotation {
    /// On a Browser: JSON with labels and environment variables for this one session.
    pub const OPTIONS: &str = "selenosis.io/options";
    /// On a pod: which plugins ran, and how many paths each wrote.
    pub const MUTATIONS: &str = "podloom.dev/mutations";
    /// On a pod: the digest of the chain that it went through.
    pub const CHAIN: &str = "podloom.dev/chain";
    /// What the host alone writes.
    pub const PREFIX: &str = "podloom.dev/";
    /// What `kubectl apply` leaves on the object that it was given.
    pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
    /// What Argo CD may do with an object.
    pub const ARGO_CD_SYNC_OPTIONS: &str = "argocd.argoproj.io/sync-options";
    /// Whether Flux may delete an object that is no longer in what it applies.
    pub const FLUX_PRUNE: &str = "kustomize.toolkit.fluxcd.io/prune";
}

/// Finalizers.
pub mod finalizer {
    /// On every Browser, until its pod is gone.
    pub const BROWSER: &str = "browserpod.selenosis.io/finalizer";
    /// Found on old BrowserConfigs only, and removed when they are deleted.
    pub const BROWSER_CONFIG: &str = "browserconfig.selenosis.io/finalizer";
}

/// Field managers: who writes an object and its status.
pub mod field_manager {
    /// Browsers and their pods.
    pub const BROWSER: &str = "podloom-browser";
    /// BrowserConfigs.
    pub const BROWSER_CONFIG: &str = "podloom-browser-config";
}

/// Containers of a Browser's pod that have a meaning of their own.
pub mod container {
    /// The browser itself, first of the pod's containers.
    pub const BROWSER: &str = "browser";
    /// The proxy that ends a session; the session is over when it terminates.
    pub const SELENIFEROUS: &str = "seleniferous";
}

/// Types of conditions.
pub mod condition {
    /// On a Browser: a configuration was found for it.
    pub const CONFIG_RESOLVED: &str = "ConfigResolved";
    /// On a Browser: its pod was created.
    pub const POD_CREATED: &str = "PodCreated";
    /// On a Browser: its pod runs.
    pub const READY: &str = "Ready";
    /// On a pod, and on its Browser as the pod has it: something drives the pod out, as an eviction, a preemption or a lost node.
    pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
    /// On a BrowserConfig: it serves all that it defines.
    pub const ACCEPTED: &str = "Accepted";
}

/// Reasons in a Browser's status and in conditions.
pub mod reason {
    /// A BrowserConfig serves all that it defines.
    pub const VALID: &str = "Valid";
    /// A BrowserConfig holds something that no pod could be made of.
    pub const INVALID_TEMPLATE: &str = "InvalidTemplate";
    /// A BrowserConfig defines what an older one serves already.
    pub const DUPLICATE_BROWSER: &str = "DuplicateBrowser";
    /// No pod can be made for the Browser: its configuration is missing or invalid.
    pub const BROWSER_POD_SPEC: &str = "BrowserPodSpec";
    /// The annotation with the session's options cannot be read.
    pub const INVALID_OPTIONS: &str = "InvalidSelenosisOptions";
    /// Somebody else's pod has the Browser's name.
    pub const POD_NAME_CONFLICT: &str = "PodNameConflict";
    /// The pod vanished after it had run.
    pub const POD_LOST: &str = "PodLost";
    /// A plugin rejected the pod.
    pub const MUTATION_DENIED: &str = "MutationDenied";
    /// A plugin broke on the pod until the creation timeout.
    pub const MUTATION_FAILED: &str = "MutationFailed";
    /// The pod did not start in time.
    pub const CREATION_TIMEOUT: &str = "CreationTimeout";
    /// The API server does not let the pod in, for now.
    pub const POD_FORBIDDEN: &str = "PodForbidden";
    /// The API server does not let the operator set its finalizer and labels.
    pub const METADATA_REFUSED: &str = "MetadataRefused";
    /// The configuration of a Browser was found.
    pub const RESOLVED: &str = "Resolved";
    /// The pod exists.
    pub const POD_CREATED: &str = "PodCreated";
    /// The pod does not yet exist.
    pub const POD_MISSING: &str = "PodMissing";
    /// The pod does not yet run.
    pub const POD_PENDING: &str = "PodPending";
    /// No node takes the pod, for now.
    pub const UNSCHEDULABLE: &str = "Unschedulable";
    /// The pod runs.
    pub const RUNNING: &str = "Running";
    /// The pod's node does not answer.
    pub const NODE_LOST: &str = "NodeLost";
    /// The session ended well.
    pub const COMPLETED: &str = "Completed";
}

/// Reasons of Events; those that are also reasons of a status are in [`reason`].
pub mod event {
    /// On the operator's own pod: another chain of plugins serves.
    pub const CHAIN_RELOADED: &str = "ChainReloaded";
    /// On the operator's own pod: what is in the directory of the plugins now is refused.
    pub const CHAIN_REFUSED: &str = "ChainRefused";
    /// The pod runs, but is not ready any more.
    pub const POD_NOT_READY: &str = "PodNotReady";
    /// Something drives the pod out: an eviction, a preemption, a node that is lost or drained.
    pub const POD_DISRUPTED: &str = "PodDisrupted";
    /// The Browser and its pod are gone.
    pub const DELETED: &str = "Deleted";
    /// No BrowserConfig defines the browser that was asked for.
    pub const CONFIG_NOT_FOUND: &str = "ConfigNotFound";
    /// A BrowserConfig defines the browser that was asked for, but no pod can be made from it.
    pub const CONFIG_INVALID: &str = "ConfigInvalid";
    /// The pod failed.
    pub const POD_FAILED: &str = "PodFailed";
    /// The operator panicked over the object, which is a bug.
    pub const PANICKED: &str = "Panicked";
    /// The operator took too long at an object and tries again.
    pub const TOO_SLOW: &str = "TooSlow";
}

/// The longest value that a label can have.
pub const LABEL_VALUE_MAX: usize = 63;

/// Returns the text as a label value: unchanged if it is one, else the nearest text that is.
///
/// Each bad character becomes a dash, and bad ends are trimmed.
/// What is too long is cut and ends in a hash of the whole, so that two long names that begin alike stay apart.
/// The result depends on the text alone, so whoever selects by the label finds it by the same function.
///
/// ```
/// use podloom_api::names::label_value;
///
/// assert_eq!(label_value("139.0"), "139.0");
/// assert_eq!(label_value("139.0 (beta)"), "139.0--beta");
/// assert_eq!(label_value(&"x".repeat(80)).len(), 63);
/// ```
pub fn label_value(text: &str) -> String {
    let replaced: String = text
        .chars()
        .map(|c| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' => c,
            _ => '-',
        })
        .collect();
    let trimmed = replaced.trim_matches(is_no_end);
    if trimmed.len() <= LABEL_VALUE_MAX {
        return trimmed.to_owned();
    }
    let hash = format!("{:08x}", fnv1a(text));
    let kept: String = trimmed
        .chars()
        .take(LABEL_VALUE_MAX - hash.len() - 1)
        .collect();
    format!("{}-{hash}", kept.trim_end_matches(is_no_end))
}

/// Label values begin and end with a letter or a digit.
fn is_no_end(c: char) -> bool {
    !c.is_ascii_alphanumeric()
}

/// FNV-1a of 32 bits: keeps long names apart, protects against nothing.
fn fnv1a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests;
