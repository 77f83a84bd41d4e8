//! The names on and around Cleaners.

/// Their group.
pub const GROUP: &str = "cleaner.vtex.dev";
/// Their version.
pub const VERSION: &str = "v1alpha";
/// On a Cleaner from just before it begins to delete until all is done; never while it waits.
pub const FINALIZER: &str = "cleaner.vtex.dev/deletion";
/// The field manager of all writes.
pub const FIELD_MANAGER: &str = "podloom-cleaner";

/// Labels.
pub mod label {
    /// On a ClusterRole, with the value `true`: the operator has its rights when it looks at targets and deletes them.
    pub const AGGREGATE: &str = "rbac.podloom.dev/aggregate-to-cleaner";
    /// On a Cleaner that the operator has made.
    pub const MADE_FROM: &str = "cleaner.vtex.dev/made-from";
    /// Its value, if it was made from the lifetime that another object has as an annotation or a label.
    pub const MADE_FROM_TTL: &str = "ttl";
}

/// Annotations. The first two have an effect only if their value is `true`.
pub mod annotation {
    /// On any object: a Cleaner that would delete it deletes nothing.
    pub const PROTECT: &str = "cleaner.vtex.dev/protect";
    /// On a Cleaner that is being deleted: what is left to do is dropped.
    pub const ABANDON: &str = "cleaner.vtex.dev/abandon";
    /// On the object of a Helm hook: the UID of the Cleaner that has created it, and when the hook began.
    pub const HOOK_RUN: &str = "cleaner.vtex.dev/hook-run";
}

/// What other controllers understand of an object's lifetime, and what this operator understands too, if a flag says so.
pub mod lifetime {
    /// An annotation of hjacobs/kube-janitor: how old the object becomes.
    pub const JANITOR_TTL: &str = "janitor/ttl";
    /// An annotation of hjacobs/kube-janitor: when the object is deleted.
    pub const JANITOR_EXPIRES: &str = "janitor/expires";
    /// A label of kyverno/kyverno: how old the object becomes, or when it is deleted.
    pub const KYVERNO_TTL: &str = "cleanup.kyverno.io/ttl";
    /// An annotation of kyverno/kyverno: when what the object owns is deleted.
    pub const KYVERNO_PROPAGATION: &str = "cleanup.kyverno.io/propagation-policy";
}

/// Types of conditions.
pub mod condition {
    /// The Cleaner works as configured.
    pub const READY: &str = "Ready";
    /// All conditions of the spec are true.
    pub const CONDITIONS_MET: &str = "ConditionsMet";
    /// The operator notices when targets change.
    pub const TARGETS_WATCHED: &str = "TargetsWatched";
    /// The targets are being deleted, or what follows is being done.
    pub const DELETING: &str = "Deleting";
}

/// Reasons of conditions.
pub mod reason {
    /// The Cleaner is not old enough.
    pub const NOT_EXPIRED: &str = "NotExpired";
    /// The spec has a value that cannot be used.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// A condition cannot be compiled.
    pub const CONDITION_COMPILE_ERROR: &str = "ConditionCompileError";
    /// A target is missing, or cannot be read.
    pub const TARGET_RESOLVE_ERROR: &str = "TargetResolveError";
    /// A condition cannot be evaluated.
    pub const CONDITION_EVALUATION_ERROR: &str = "ConditionEvaluationError";
    /// A condition is neither true nor false.
    pub const CONDITION_RESULT_NOT_BOOLEAN: &str = "ConditionResultNotBoolean";
    /// The conditions take too many steps or too long.
    pub const CONDITION_BUDGET_EXCEEDED: &str = "ConditionBudgetExceeded";
    /// Not all conditions are true.
    pub const WAITING_FOR_CONDITIONS: &str = "WaitingForConditions";
    /// More objects would be deleted than the spec allows.
    pub const BLAST_RADIUS_EXCEEDED: &str = "BlastRadiusExceeded";
    /// An object that would be deleted is protected.
    pub const TARGET_PROTECTED: &str = "TargetProtected";
    /// Everything would be deleted now, but the spec says to delete nothing.
    pub const DRY_RUN: &str = "DryRun";
    /// The Cleaner is being deleted.
    pub const TERMINATING: &str = "Terminating";

    /// All conditions are true.
    pub const ALL_TRUE: &str = "AllTrue";
    /// At least one condition is false.
    pub const NOT_ALL_TRUE: &str = "NotAllTrue";
    /// The conditions have no result.
    pub const NOT_EVALUATED: &str = "NotEvaluated";

    /// The kinds of all targets are watched.
    pub const WATCHING: &str = "Watching";
    /// The operator may not watch the kind of a target.
    pub const WATCH_FORBIDDEN: &str = "WatchForbidden";

    /// The targets are being deleted.
    pub const DELETING_TARGETS: &str = "DeletingTargets";
    /// The Helm release is being uninstalled.
    pub const UNINSTALLING_RELEASE: &str = "UninstallingRelease";
    /// The CloudEvent is being delivered.
    pub const DELIVERING_EVENT: &str = "DeliveringEvent";
    /// It takes longer than the spec allows.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
}

/// Reasons of Events.
pub mod event {
    /// All conditions are true: the deletion begins.
    pub const CONDITIONS_MET: &str = "ConditionsMet";
    /// An object was deleted, or many.
    pub const TARGET_DELETED: &str = "TargetDeleted";
    /// The Helm release is uninstalled.
    pub const HELM_RELEASE_UNINSTALLED: &str = "HelmReleaseUninstalled";
    /// The CloudEvent was delivered.
    pub const EVENT_DELIVERED: &str = "EventDelivered";
    /// All conditions are true, but nothing is deleted: too many objects, or a protected one.
    pub const TRIGGER_REFUSED: &str = "TriggerRefused";
    /// An object cannot be deleted.
    pub const DELETE_TARGET_FAILED: &str = "DeleteTargetFailed";
    /// The Helm release cannot be uninstalled.
    pub const HELM_UNINSTALL_FAILED: &str = "HelmUninstallFailed";
    /// The CloudEvent cannot be delivered.
    pub const EVENT_DELIVERY_FAILED: &str = "EventDeliveryFailed";
    /// On an object with a lifetime: it has no Cleaner.
    pub const LIFETIME_IGNORED: &str = "LifetimeIgnored";
}

/// The CloudEvent about a deletion.
pub mod cloud_event {
    /// Its source.
    pub const SOURCE: &str = "cleaner.vtex.dev/controller";
    /// Its type.
    pub const TYPE: &str = "dev.vtex.cleaner.deleted";
}
