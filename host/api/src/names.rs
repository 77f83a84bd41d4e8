//! Every name that Podloom writes on objects or looks for on them, once.

pub mod cleaner;
pub mod exception;
pub mod infrastructure;
pub mod portal;
pub mod rollout;

/// Labels.
pub mod label {
    /// On a Browser and its pod: the Browser's name.
    pub const BROWSER: &str = "selenosis.io/browser";
    /// On a Browser, its pod and a warm pod: the requested browser. The operator watches the pods that have it.
    pub const BROWSER_NAME: &str = "selenosis.io/browser.name";
    /// On a Browser, its pod and a warm pod: the requested version.
    pub const BROWSER_VERSION: &str = "selenosis.io/browser.version";
    /// On a warm pod: the name of its BrowserConfig.
    pub const WARM: &str = "selenosis.io/warm";
    /// On the pod of a session that has a NetworkPolicy of its own: the UID of its Browser.
    pub const SESSION: &str = "selenosis.io/session";
}

/// Scheduling gates: a pod with one waits, and nothing of it is started.
pub mod scheduling_gate {
    /// On a new pod, until it passed the plugin chain. A policy of the API server sets it, and the webhook takes it away.
    pub const CHAIN: &str = "podloom.dev/chain";
}

/// Annotations.
pub mod annotation {
    /// On a Browser: JSON with labels and environment variables for this one session.
    pub const OPTIONS: &str = "selenosis.io/options";
    /// On a pod that is or was a warm one: the hash of what it was created from.
    pub const RECIPE: &str = "podloom.dev/recipe";
    /// On a pod: which plugins ran, and how many paths each wrote.
    pub const MUTATIONS: &str = "podloom.dev/mutations";
    /// On a pod: the digest of the plugin chain that it went through.
    pub const CHAIN: &str = "podloom.dev/chain";
    /// On a namespace, or on what controls pods: with `"false"`, its pods are not evicted to have them pass the chain.
    pub const HEAL: &str = "podloom.dev/heal";
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
    /// On old BrowserConfigs only; removed when they are deleted.
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
    /// The proxy of a session; the session is over when it exits.
    pub const SELENIFEROUS: &str = "seleniferous";
}

/// Types of conditions that sum an object up, as kubernetes-sigs/cli-utils (kstatus) reads them, and with it Flux, Argo CD and others.
pub mod summary {
    /// It is as its spec wants it.
    pub const READY: &str = "Ready";
    /// It is on its way there.
    pub const RECONCILING: &str = "Reconciling";
    /// It does not come there by itself: somebody has to change something.
    pub const STALLED: &str = "Stalled";
}

/// Types of conditions.
pub mod condition {
    /// On a Browser: a configuration was found for it.
    pub const CONFIG_RESOLVED: &str = "ConfigResolved";
    /// On a Browser: its pod was created.
    pub const POD_CREATED: &str = "PodCreated";
    /// On a Browser: its pod is running and ready.
    pub const READY: &str = "Ready";
    /// On a pod, and copied to its Browser: the pod is evicted or preempted, or its node is lost.
    pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
    /// On a pod that its node has not resized yet, or cannot resize.
    pub const RESIZE_PENDING: &str = "PodResizePending";
    /// On a pod that its node is resizing; with a reason if that failed.
    pub const RESIZE_IN_PROGRESS: &str = "PodResizeInProgress";
    /// On a BrowserConfig: it serves all that it defines.
    pub const ACCEPTED: &str = "Accepted";
}

/// Reasons in a Browser's status and in conditions.
pub mod reason {
    /// A BrowserConfig serves all that it defines.
    pub const VALID: &str = "Valid";
    /// A BrowserConfig is invalid, at least in part: no pod can be made from that.
    pub const INVALID_TEMPLATE: &str = "InvalidTemplate";
    /// A BrowserConfig defines what an older one serves already.
    pub const DUPLICATE_BROWSER: &str = "DuplicateBrowser";
    /// No pod can be made for the Browser: its configuration is missing or invalid.
    pub const BROWSER_POD_SPEC: &str = "BrowserPodSpec";
    /// The session's options are invalid, or ask for more than the BrowserConfig allows.
    pub const INVALID_OPTIONS: &str = "InvalidSelenosisOptions";
    /// A pod of another owner has the Browser's name.
    pub const POD_NAME_CONFLICT: &str = "PodNameConflict";
    /// The pod disappeared.
    pub const POD_LOST: &str = "PodLost";
    /// A plugin rejected the pod.
    pub const MUTATION_DENIED: &str = "MutationDenied";
    /// A plugin failed on the pod, or there is no chain.
    pub const MUTATION_FAILED: &str = "MutationFailed";
    /// The pod did not start in time.
    pub const CREATION_TIMEOUT: &str = "CreationTimeout";
    /// The API server does not admit the pod, for now.
    pub const POD_FORBIDDEN: &str = "PodForbidden";
    /// The API server does not let the operator set its finalizer and labels.
    pub const METADATA_REFUSED: &str = "MetadataRefused";
    /// A configuration for the Browser was found.
    pub const RESOLVED: &str = "Resolved";
    /// The pod exists.
    pub const POD_CREATED: &str = "PodCreated";
    /// A BrowserConfig cannot have the warm pods that it wants.
    pub const WARM_PODS_FAILED: &str = "WarmPodsFailed";
    /// The pod does not exist yet.
    pub const POD_MISSING: &str = "PodMissing";
    /// The pod is not running yet.
    pub const POD_PENDING: &str = "PodPending";
    /// The pod fits no node, for now.
    pub const UNSCHEDULABLE: &str = "Unschedulable";
    /// The pod is running.
    pub const RUNNING: &str = "Running";
    /// The pod's node does not answer.
    pub const NODE_LOST: &str = "NodeLost";
    /// The session succeeded.
    pub const COMPLETED: &str = "Completed";
}

/// Reasons of Events; those that are also reasons of a status are in [`reason`].
pub mod event {
    /// On the operator's own pod: a new plugin chain was loaded.
    pub const CHAIN_RELOADED: &str = "ChainReloaded";
    /// On the operator's own pod: the content of the plugin directory was rejected.
    pub const CHAIN_REFUSED: &str = "ChainRefused";
    /// The pod is no longer ready.
    pub const POD_NOT_READY: &str = "PodNotReady";
    /// The pod is evicted or preempted, or its node is lost or drained.
    pub const POD_DISRUPTED: &str = "PodDisrupted";
    /// The Browser and its pod are gone.
    pub const DELETED: &str = "Deleted";
    /// No BrowserConfig defines the requested browser and version.
    pub const CONFIG_NOT_FOUND: &str = "ConfigNotFound";
    /// A BrowserConfig defines the requested browser and version, but is invalid there.
    pub const CONFIG_INVALID: &str = "ConfigInvalid";
    /// The pod failed.
    pub const POD_FAILED: &str = "PodFailed";
    /// The operator hit a bug while it worked on the object, and tries again.
    pub const PANICKED: &str = "Panicked";
    /// The operator took too long for the object, and tries again.
    pub const TOO_SLOW: &str = "TooSlow";
    /// The object does not fit the operator's types, which leaves it alone.
    pub const UNREADABLE: &str = "Unreadable";
    /// The pod waited at the gate, and was evicted so that its controller replaces it.
    pub const EVICTED_AT_GATE: &str = "EvictedAtGate";
    /// The pod waits at the gate until a person deletes it.
    pub const WAITS_AT_GATE: &str = "WaitsAtGate";
    /// The pod should have passed the chain, and was evicted so that its controller replaces it.
    pub const EVICTED_TO_HEAL: &str = "EvictedToHeal";
    /// No further pods of this owner are replaced, since the last new one is not as it should be.
    pub const HEAL_STOPPED: &str = "HealStopped";
    /// The ChainException holds, until when it says.
    pub const EXCEPTION_HOLDS: &str = "ExceptionHolds";
    /// The ChainException holds no longer.
    pub const EXCEPTION_ENDED: &str = "ExceptionEnded";
    /// The ChainException does not hold for one of its plugins.
    pub const EXCEPTION_REFUSED: &str = "ExceptionRefused";
}

/// The longest value that a label can have.
const LABEL_VALUE_MAX: usize = 63;

/// Returns the text as a label value: unchanged if it is one, else the nearest text that is.
///
/// Each bad character becomes a dash, and bad ends are trimmed.
/// What is too long is cut and ends in a hash of the whole, so that two long names that begin alike stay apart.
/// The result depends on the text alone, so a client that selects by the label computes it with the same function.
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
