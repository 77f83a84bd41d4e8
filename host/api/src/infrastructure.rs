//! Clusters of machines that an Infrastructure Manager (IM) creates, and the clouds and managers that they need.
//!
//! GlobalCloud and GlobalInfrastructureProvider have the types of [`Cloud`] and [`InfrastructureProvider`]; they are cluster-scoped.

mod cloud;
mod cluster;
mod kind;
mod provider;

pub use cloud::{
    ApplicationCredential, Cloud, CloudObject, CloudSpec, CloudState, CloudStatus, GenericCloud,
    IdentityVersion, OpenStackAuth, OpenStackCloud, OpenStackPassword, ProviderKind, ProviderRef,
};
pub use cluster::{
    CloudKind, CloudRef, Cluster, ClusterObject, ClusterOperation, ClusterSpec, ClusterState,
    ClusterStatus, ClusterTimeouts, DeletionPolicy, DriftPolicy, Machines, OperationKind,
};
pub use kind::InfrastructureKind;
pub use provider::{
    ImAccount, ImSpec, InfrastructureProvider, InfrastructureProviderObject,
    InfrastructureProviderSpec, InfrastructureProviderStatus, SecretRef,
};
