//! The names on and around ChainRollouts.

/// Their group.
pub const GROUP: &str = "chain.podloom.dev";
/// Their version.
pub const VERSION: &str = "v1alpha1";
/// The field manager of what the leader writes into their status.
pub const FIELD_MANAGER: &str = "podloom-rollout";
/// The field manager of what each replica writes about itself.
pub const REPLICA_FIELD_MANAGER: &str = "podloom-rollout-replica";

/// Reasons in the status and of Events.
pub mod reason {
    /// No replica has a candidate.
    pub const NO_CANDIDATE: &str = "NoCandidate";
    /// The candidate is the serving chain.
    pub const SAME_CHAIN: &str = "SameChain";
    /// Replicas have different chains, or none.
    pub const REPLICAS_DIFFER: &str = "ReplicasDiffer";
    /// No replica of the operator reports.
    pub const NO_REPLICAS: &str = "NoReplicas";
    /// Another ChainRollout is older.
    pub const ANOTHER_ROLLOUT: &str = "AnotherRollout";
    /// The spec is invalid.
    pub const INVALID: &str = "Invalid";
    /// The candidate was taken back or given up before.
    pub const REJECTED: &str = "Rejected";
    /// A step is under way.
    pub const STEP_BEGUN: &str = "StepBegun";
    /// A person holds the step.
    pub const PAUSED: &str = "Paused";
    /// All steps were taken.
    pub const ALL_STEPS: &str = "AllSteps";
    /// A person wants it.
    pub const PROMOTED: &str = "Promoted";
    /// A person gave it up.
    pub const ABORTED: &str = "AbortedByHand";
    /// The serving chain was changed meanwhile.
    pub const SERVING_CHANGED: &str = "ServingChainChanged";
    /// The candidate denies too many pods.
    pub const DENIED: &str = "TooManyDenied";
    /// The candidate fails on too many pods.
    pub const FAILED: &str = "TooManyFailed";
    /// Too many pods do not become Ready.
    pub const UNREADY: &str = "TooManyUnready";
    /// Containers of too many pods restart.
    pub const RESTARTED: &str = "TooManyRestarted";
    /// The candidate takes too long.
    pub const SLOW: &str = "TooSlow";
}
