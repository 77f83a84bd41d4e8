//! The names on and around Clusters, Clouds and InfrastructureProviders.

/// The group of all five kinds.
pub const GROUP: &str = "infrastructure.podloom.dev";
/// Their version.
pub const VERSION: &str = "v1alpha1";
/// On every Cluster with a template, until its infrastructure is gone.
pub const FINALIZER: &str = "infrastructure.podloom.dev/infrastructure-resources";
/// On what Clusters need, until no Cluster needs it.
pub const IN_USE_FINALIZER: &str = "infrastructure.podloom.dev/in-use";
/// On what no Cluster seems to need any more, in place of the former, for the moment until that is certain.
pub const ENDING_FINALIZER: &str = "infrastructure.podloom.dev/in-use-ending";
/// The field manager of all writes.
pub const FIELD_MANAGER: &str = "podloom-infrastructure";
/// What the names of infrastructures begin with; the UID of the Cluster follows.
pub const INFRASTRUCTURE_PREFIX: &str = "podloom-";
/// What is added to the name of a Cluster for the name of its Secret, unless the spec gives another.
pub const KUBECONFIG_SUFFIX: &str = "-kubeconfig";

/// The keys of Secrets, unless a reference gives another.
pub mod key {
    /// The password of an account.
    pub const PASSWORD: &str = "password";
    /// The token of an account.
    pub const TOKEN: &str = "token";
    /// The secret of an application credential.
    pub const SECRET: &str = "secret";
    /// The value of a parameter.
    pub const VALUE: &str = "value";
    /// A kubeconfig.
    pub const KUBECONFIG: &str = "kubeconfig";
}

/// Labels.
pub mod label {
    /// On a Secret with a kubeconfig: the name of its Cluster.
    pub const CLUSTER: &str = "infrastructure.podloom.dev/cluster";
}

/// Annotations.
pub mod annotation {
    /// On a Secret with a kubeconfig: the operation that it is from, as `<clusterId>/<startedAt>`.
    pub const OPERATION: &str = "infrastructure.podloom.dev/operation";
    /// On a Cluster that is being deleted: `force` or `abandon`.
    pub const ON_DELETE: &str = "infrastructure.podloom.dev/on-delete";
    /// Its value that makes the Infrastructure Manager give up what it cannot delete.
    pub const FORCE: &str = "force";
    /// Its value that makes the operator forget the infrastructure.
    pub const ABANDON: &str = "abandon";
}

/// Types of conditions.
pub mod condition {
    /// On a Cluster: it is bound to a cloud, and all that this needs exists.
    pub const SCHEDULED: &str = "Scheduled";
    /// On a Cluster: the Infrastructure Manager has its template.
    pub const TEMPLATE_APPLIED: &str = "TemplateApplied";
    /// On a Cluster: its machines are configured.
    pub const INFRASTRUCTURE_READY: &str = "InfrastructureReady";
    /// On a Cluster: its kubeconfig is stored.
    pub const KUBECONFIG_READY: &str = "KubeconfigReady";
    /// On a Cluster: its API server answers.
    pub const CONNECTED: &str = "Connected";
    /// On a Cluster: trying again is useless until something changes.
    pub const STALLED: &str = "Stalled";
    /// On all kinds: it can be used.
    pub const READY: &str = "Ready";
    /// On a provider and a cloud: it answers.
    pub const REACHABLE: &str = "Reachable";
    /// On a provider: it accepts the account.
    pub const AUTHENTICATED: &str = "Authenticated";
    /// On a cloud: its provider and all Secrets exist.
    pub const RESOLVED: &str = "Resolved";
}

/// Reasons of conditions; those that say what is wrong are reasons of Events too.
pub mod reason {
    /// The Cluster is bound to a cloud.
    pub const BOUND: &str = "Bound";
    /// The Cluster is bound to another cloud than its machines run on.
    pub const MOVE_NOT_SUPPORTED: &str = "MoveNotSupported";
    /// The Cluster is bound to no cloud.
    pub const UNBOUND: &str = "Unbound";
    /// There is no cloud of that kind and name.
    pub const CLOUD_NOT_FOUND: &str = "CloudNotFound";
    /// The Cloud or its provider is being deleted, and takes nothing new.
    pub const CLOUD_DELETING: &str = "CloudDeleting";
    /// There is no provider of that kind and name.
    pub const PROVIDER_NOT_FOUND: &str = "ProviderNotFound";
    /// There is no Secret of that name, or no value under the key.
    pub const SECRET_NOT_FOUND: &str = "SecretNotFound";
    /// The provider and all Secrets exist.
    pub const RESOLVED: &str = "Resolved";
    /// The provider of a cloud cannot be used now.
    pub const PROVIDER_NOT_READY: &str = "ProviderNotReady";
    /// What a provider says about its Infrastructure Manager cannot be used.
    pub const ENDPOINT_INVALID: &str = "EndpointInvalid";

    /// The Infrastructure Manager has the template.
    pub const APPLIED: &str = "Applied";
    /// The template was not sent yet.
    pub const PENDING: &str = "Pending";
    /// The template cannot be sent.
    pub const TEMPLATE_INVALID: &str = "TemplateInvalid";
    /// The Infrastructure Manager cannot read the template.
    pub const TEMPLATE_REJECTED: &str = "TemplateRejected";
    /// The Infrastructure Manager does not take the changed template now.
    pub const UPDATE_REFUSED: &str = "UpdateRefused";
    /// The template has a change that the Infrastructure Manager would ignore.
    pub const UNSUPPORTED_CHANGE: &str = "UnsupportedChange";

    /// All machines are configured.
    pub const CONFIGURED: &str = "Configured";
    /// The machines are being created.
    pub const CREATING: &str = "Creating";
    /// The template is being changed.
    pub const UPDATING: &str = "Updating";
    /// The machines are being configured again.
    pub const RECONFIGURING: &str = "Reconfiguring";
    /// Machines could not be configured.
    pub const UNCONFIGURED: &str = "Unconfigured";
    /// Machines could not be created.
    pub const FAILED: &str = "Failed";
    /// The machines are stopped.
    pub const STOPPED: &str = "Stopped";
    /// The Infrastructure Manager does not know how the machines are, or nobody asked it yet.
    pub const UNKNOWN: &str = "Unknown";
    /// Machines are gone, and those that are left are configured.
    pub const MACHINES_MISSING: &str = "MachinesMissing";
    /// The infrastructure is gone.
    pub const VANISHED: &str = "Vanished";
    /// The provider has another URL, and the infrastructure is not there.
    pub const ENDPOINT_CHANGED: &str = "EndpointChanged";
    /// The infrastructure to take over does not exist, or is another Cluster's.
    pub const ADOPTION_FAILED: &str = "AdoptionFailed";
    /// Two infrastructures have the name of this Cluster.
    pub const DUPLICATE_INFRASTRUCTURES: &str = "DuplicateInfrastructures";
    /// The Infrastructure Manager or the cloud does not answer as it should.
    pub const UNREACHABLE: &str = "Unreachable";
    /// The Infrastructure Manager answers.
    pub const REACHABLE: &str = "Reachable";
    /// The Infrastructure Manager accepts no changes now.
    pub const READ_ONLY: &str = "ReadOnly";
    /// The Infrastructure Manager does not accept the account.
    pub const CREDENTIALS_REJECTED: &str = "CredentialsRejected";
    /// The Infrastructure Manager accepts the account.
    pub const AUTHENTICATED: &str = "Authenticated";
    /// The operation takes longer than the spec allows.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
    /// The infrastructure was deleted more than once, and is there as before.
    pub const DELETION_UNDONE: &str = "DeletionUndone";
    /// The infrastructure is being deleted.
    pub const DELETING: &str = "Deleting";

    /// The kubeconfig is stored.
    pub const STORED: &str = "Stored";
    /// The machines are not configured yet.
    pub const WAITING: &str = "Waiting";
    /// The template's output has no kubeconfig yet.
    pub const OUTPUT_MISSING: &str = "OutputMissing";
    /// The kubeconfig cannot be used.
    pub const KUBECONFIG_INVALID: &str = "KubeconfigInvalid";
    /// The kubeconfig names files or programs.
    pub const KUBECONFIG_UNSAFE: &str = "KubeconfigUnsafe";
    /// The Secret for the kubeconfig is somebody else's.
    pub const SECRET_CONFLICT: &str = "SecretConflict";
    /// The API server does not accept the Secret for the kubeconfig.
    pub const SECRET_REJECTED: &str = "SecretRejected";

    /// The API server of the cluster answers.
    pub const PROBE_SUCCEEDED: &str = "ProbeSucceeded";
    /// The API server of the cluster does not answer.
    pub const PROBE_FAILED: &str = "ProbeFailed";
    /// A flag of the operator turns the check off.
    pub const PROBE_DISABLED: &str = "ProbeDisabled";

    /// The object can be used.
    pub const READY: &str = "Ready";
    /// Nothing is done, since the spec says so.
    pub const PAUSED: &str = "Paused";
    /// Retrying may help.
    pub const NOT_STALLED: &str = "NotStalled";
    /// Credentials are sent without encryption.
    pub const INSECURE_ENDPOINT: &str = "InsecureEndpoint";
    /// The operator may not keep Secrets from being deleted.
    pub const UNGUARDED: &str = "Unguarded";
}

/// Reasons of Events; those that are also reasons of conditions are in [`reason`].
pub mod event {
    /// The Infrastructure Manager accepted the creation.
    pub const CREATED: &str = "InfrastructureCreated";
    /// An infrastructure was taken over.
    pub const ADOPTED: &str = "InfrastructureAdopted";
    /// The Infrastructure Manager accepted a changed template.
    pub const TEMPLATE_APPLIED: &str = "TemplateApplied";
    /// The Infrastructure Manager was asked to configure the machines again.
    pub const RECONFIGURE_REQUESTED: &str = "ReconfigureRequested";
    /// All machines are configured.
    pub const CONFIGURED: &str = "InfrastructureConfigured";
    /// The kubeconfig was stored.
    pub const KUBECONFIG_STORED: &str = "KubeconfigStored";
    /// The infrastructure is gone.
    pub const DELETED: &str = "InfrastructureDeleted";
    /// The machines are not as they were.
    pub const DRIFT_DETECTED: &str = "DriftDetected";
    /// The operator has forgotten the infrastructure, which may still exist.
    pub const ABANDONED: &str = "InfrastructureAbandoned";
}
