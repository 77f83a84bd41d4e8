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
