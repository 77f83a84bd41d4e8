//! The names on and around PortalExposes and TunnelClasses.

/// The group of both kinds.
pub const GROUP: &str = "portal.gosuda.org";
/// Their version.
pub const VERSION: &str = "v1alpha1";
/// On every PortalExpose, until its Deployment is gone.
pub const FINALIZER: &str = "portal.gosuda.org/cleanup-tunnel-deployment";
/// The field manager of tunnels and of the status of PortalExposes.
pub const FIELD_MANAGER: &str = "podloom-portal";
/// The field manager of the status of TunnelClasses.
pub const CLASS_FIELD_MANAGER: &str = "podloom-tunnel-class";
/// The container of a tunnel's pod.
pub const CONTAINER: &str = "tunnel";
/// The key of the identity in its Secret.
pub const IDENTITY_KEY: &str = "identity.json";

/// Labels on a tunnel's Deployment, pods and Secret, and their values where they are fixed.
pub mod label {
    /// The name of the application.
    pub const NAME: (&str, &str) = ("app.kubernetes.io/name", "portal-tunnel");
    /// Its part.
    pub const COMPONENT: (&str, &str) = ("app.kubernetes.io/component", "tunnel");
    /// Who manages it. As in gosuda/portal-expose, so that its Deployments are adopted.
    pub const MANAGED_BY: (&str, &str) =
        ("app.kubernetes.io/managed-by", "portal-expose-controller");
    /// The name of the PortalExpose, cut if it is long.
    pub const EXPOSE: &str = "portal.gosuda.org/portalexpose";
}

/// Annotations.
pub mod annotation {
    /// On a TunnelClass: it is the default, if the value is `true`.
    pub const IS_DEFAULT_CLASS: &str = "portal.gosuda.org/is-default-class";
    /// On a Secret: the full name of its PortalExpose.
    pub const IDENTITY_FOR: &str = "portal.gosuda.org/identity-for";
    /// On a pod template: a hash of the identity, so that a new one rolls the Deployment.
    pub const IDENTITY_CHECKSUM: &str = "portal.gosuda.org/identity-checksum";
    /// On a Deployment: a hash of what was rendered, before the plugins.
    pub const INPUT_HASH: &str = "portal.gosuda.org/input-hash";
    /// On a Deployment: a hash of the pod template, after the plugins.
    pub const TEMPLATE_HASH: &str = "portal.gosuda.org/template-hash";
}

/// Types of conditions.
pub mod condition {
    /// On a PortalExpose: at least one relay serves it.
    pub const AVAILABLE: &str = "Available";
    /// On a PortalExpose: its Deployment changes.
    pub const PROGRESSING: &str = "Progressing";
    /// On a PortalExpose: all of its pods are ready.
    pub const TUNNEL_DEPLOYMENT_READY: &str = "TunnelDeploymentReady";
    /// On a PortalExpose: all relays serve it.
    pub const RELAY_CONNECTED: &str = "RelayConnected";
    /// On a PortalExpose: the Service exists and has the port.
    pub const SERVICE_EXISTS: &str = "ServiceExists";
    /// On a PortalExpose: its TunnelClass exists and is usable.
    pub const TUNNEL_CLASS_EXISTS: &str = "TunnelClassExists";
    /// On a PortalExpose: its spec is valid.
    pub const SPEC_VALID: &str = "SpecValid";
    /// On a PortalExpose: no older one has the same hostname.
    pub const HOSTNAME_UNIQUE: &str = "HostnameUnique";
    /// On a PortalExpose: its pods went through the plugin chain.
    pub const MUTATORS_APPLIED: &str = "MutatorsApplied";
    /// On a TunnelClass: its spec is usable.
    pub const VALID: &str = "Valid";
    /// On a TunnelClass: it is the default.
    pub const DEFAULT: &str = "Default";
    /// On a TunnelClass: its tunnels have several pods, which share one hostname.
    pub const REPLICAS_SHARE_HOSTNAME: &str = "ReplicasShareHostname";
}

/// Reasons of conditions; those that say what is wrong are reasons of Events too.
pub mod reason {
    /// The spec of a PortalExpose or TunnelClass is valid.
    pub const VALID: &str = "Valid";
    /// The spec has a value that today's schema does not allow.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// The URL of a relay is none.
    pub const INVALID_RELAY_URL: &str = "InvalidRelayURL";
    /// Two targets are the same relay, or have the same name.
    pub const DUPLICATE_RELAY: &str = "DuplicateRelay";
    /// Application and relay make a hostname that is too long for DNS.
    pub const HOSTNAME_TOO_LONG: &str = "HostnameTooLong";

    /// The TunnelClass exists and is usable.
    pub const TUNNEL_CLASS_FOUND: &str = "TunnelClassFound";
    /// Several TunnelClasses ask to be the default; the oldest is used.
    pub const MULTIPLE_DEFAULT_CLASSES: &str = "MultipleDefaultClasses";
    /// There is no TunnelClass of that name, or no default.
    pub const TUNNEL_CLASS_NOT_FOUND: &str = "TunnelClassNotFound";
    /// No tunnel can be made from the TunnelClass.
    pub const TUNNEL_CLASS_INVALID: &str = "TunnelClassInvalid";

    /// The Service exists and has the port.
    pub const SERVICE_FOUND: &str = "ServiceFound";
    /// There is no Service of that name.
    pub const SERVICE_NOT_FOUND: &str = "ServiceNotFound";
    /// The Service has no TCP port of that number.
    pub const SERVICE_PORT_NOT_FOUND: &str = "ServicePortNotFound";

    /// No older PortalExpose has the hostname.
    pub const UNIQUE: &str = "Unique";
    /// An older PortalExpose has the hostname.
    pub const HOSTNAME_CONFLICT: &str = "HostnameConflict";

    /// The Secret of the identity's name belongs to somebody else.
    pub const IDENTITY_NOT_OWNED: &str = "IdentityNotOwned";
    /// The identity in the Secret cannot be used.
    pub const IDENTITY_INVALID: &str = "IdentityInvalid";
    /// The API server rejected the Secret.
    pub const IDENTITY_REJECTED: &str = "IdentityRejected";
    /// The namespace is being deleted.
    pub const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";
    /// The Deployment of the tunnel's name belongs to somebody else.
    pub const DEPLOYMENT_NOT_OWNED: &str = "DeploymentNotOwned";
    /// The API server rejected the Deployment.
    pub const DEPLOYMENT_REJECTED: &str = "DeploymentRejected";
    /// All pods are ready, and are of the newest template.
    pub const ALL_PODS_READY: &str = "AllPodsReady";
    /// Some pods are not ready, or are of an older template.
    pub const PODS_NOT_READY: &str = "PodsNotReady";

    /// The pods went through the plugin chain.
    pub const CHAIN_APPLIED: &str = "ChainApplied";
    /// The pods went through an earlier plugin chain.
    pub const CHAIN_OUTDATED: &str = "ChainOutdated";
    /// A plugin denied the pods.
    pub const MUTATOR_DENIED: &str = "MutatorDenied";
    /// A plugin failed on the pods, or there is no chain.
    pub const MUTATOR_FAILED: &str = "MutatorFailed";
    /// The pods that the chain made are no tunnel any more.
    pub const MUTATOR_RESULT_INVALID: &str = "MutatorResultInvalid";

    /// The Deployment was created.
    pub const DEPLOYMENT_CREATED: &str = "DeploymentCreated";
    /// The Deployment was written, and its controller has not seen that yet.
    pub const DEPLOYMENT_UPDATING: &str = "DeploymentUpdating";
    /// The Deployment replaces its pods.
    pub const ROLLING_UPDATE: &str = "RollingUpdate";
    /// The Deployment waits until fewer others replace their pods.
    pub const ROLLOUT_QUEUED: &str = "RolloutQueued";
    /// The Deployment does not change.
    pub const DEPLOYMENT_STABLE: &str = "DeploymentStable";
    /// The Deployment has made no progress for too long.
    pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
    /// Another condition forbids to write the Deployment.
    pub const BLOCKED: &str = "Blocked";

    /// All relays serve the hostname.
    pub const ALL_RELAYS_CONNECTED: &str = "AllRelaysConnected";
    /// Relays are not observed; they are assumed to serve the hostname of a ready pod.
    pub const RELAYS_ASSUMED: &str = "RelaysAssumed";
    /// Some relays serve the hostname.
    pub const PARTIAL_RELAY_CONNECTION: &str = "PartialRelayConnection";
    /// No relay serves the hostname.
    pub const NO_RELAY_CONNECTED: &str = "NoRelayConnected";
    /// Nobody knows yet whether relays serve the hostname.
    pub const NOT_OBSERVED: &str = "NotObserved";

    /// At least one relay serves the application.
    pub const PORTAL_EXPOSE_AVAILABLE: &str = "PortalExposeAvailable";
    /// Nothing serves the application.
    pub const PORTAL_EXPOSE_NOT_AVAILABLE: &str = "PortalExposeNotAvailable";

    /// The TunnelClass names a client whose flags are not known.
    pub const CLIENT_TOO_OLD: &str = "ClientTooOld";
    /// The TunnelClass is the default.
    pub const EFFECTIVE_DEFAULT: &str = "EffectiveDefault";
    /// The TunnelClass asks to be the default, but an older one does too.
    pub const SHADOWED_DEFAULT: &str = "ShadowedDefault";
    /// The TunnelClass does not ask to be the default.
    pub const NOT_DEFAULT: &str = "NotDefault";
    /// The tunnels of the class have several pods.
    pub const SEVERAL_REPLICAS: &str = "SeveralReplicas";
    /// The tunnels of the class have one pod.
    pub const ONE_REPLICA: &str = "OneReplica";
}

/// Reasons of Events; those that are also reasons of conditions are in [`reason`].
pub mod event {
    /// The Deployment was created.
    pub const CREATED: &str = "Created";
    /// The Deployment was changed.
    pub const UPDATED: &str = "Updated";
    /// All pods are ready, and all relays connected.
    pub const READY: &str = "Ready";
    /// Some pods are not ready, or some relays not connected.
    pub const DEGRADED: &str = "Degraded";
    /// Nothing is reachable, or the Service is missing.
    pub const FAILED: &str = "Failed";
    /// The Deployment is gone.
    pub const DELETED: &str = "Deleted";
}
