//! Podloom's Kubernetes kinds: pure types, and every label, annotation and finalizer name.
//!
//! Two kinds describe browser sessions: a [`Browser`] is a request for one session, a [`BrowserConfig`] defines what its pod
//! looks like. Installations of Selenosis serve them in one of two sets of API groups, [`SelenosisApi`]; spec and status are the
//! same in both. Code that works on either set therefore uses [`BrowserObject`] and [`BrowserConfigObject`], whose group is known
//! at run time.
//!
//! ```
//! use podloom_api::{BrowserObject, SelenosisApi, SelenosisKind};
//!
//! let browser: BrowserObject = serde_json::from_str(
//!     r#"{
//!         "apiVersion": "selenosis.io/v1",
//!         "kind": "Browser",
//!         "metadata": { "name": "session-1" },
//!         "spec": { "browserName": "chrome", "browserVersion": "139.0" }
//!     }"#,
//! )?;
//! assert_eq!(browser.spec.browser_name, "chrome");
//! assert_eq!(
//!     SelenosisApi::recognize("selenosis.io/v1", "Browser"),
//!     Some((SelenosisApi::Seed, SelenosisKind::Browser)),
//! );
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! Two more kinds expose Services through relays: a [`PortalExpose`] and the [`TunnelClass`] of its pods. A [`Cluster`] has
//! machines on a [`Cloud`], which an [`InfrastructureProvider`] creates. A [`Cleaner`] deletes objects once they are old enough
//! and conditions hold. A [`ChainRollout`] says how a new chain of plugins comes to serve, and a [`ChainException`]
//! which pods a plugin lets pass for a while.
//!
//! A BrowserConfig names each version's image, and whatever else its pod needs:
//!
//! ```
//! use podloom_api::BrowserConfigSpec;
//!
//! let spec: BrowserConfigSpec = serde_json::from_str(
//!     r#"{
//!         "template": { "workingDir": "/home/user" },
//!         "browsers": { "chrome": { "139.0": { "image": "example/chrome:139.0" } } }
//!     }"#,
//! )?;
//! assert_eq!(spec.browsers["chrome"]["139.0"].image, "example/chrome:139.0");
//! # Ok::<(), serde_json::Error>(())
//! ```
#![deny(missing_docs)]

/// Gives an enum a text for each variant.
macro_rules! texts {
    ($type:ident, $function:ident, $doc:literal: $($variant:ident = $text:expr),+) => {
        impl $type {
            #[doc = $doc]
            pub const fn $function(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }
    };
}

/// Gives an enum its list of variants, and their texts: the names of the variants unless there are others.
macro_rules! written {
    ($type:ident: $($variant:ident),+) => { written!($type: $($variant = stringify!($variant)),+); };
    ($type:ident: $($variant:ident = $text:expr),+) => {
        written!($type, as_str, "Returns the text that objects have.": $($variant = $text),+);
    };
    ($type:ident, $function:ident, $doc:literal: $($variant:ident = $text:expr),+) => {
        texts!($type, $function, $doc: $($variant = $text),+);

        impl $type {
            /// All of them.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.$function())
            }
        }
    };
}

mod browser;
mod browser_config;
mod chain_exception;
mod chain_rollout;
mod cleaner;
mod crds;
pub mod duration;
mod group;
mod infrastructure;
pub mod intern;
pub mod names;
mod portal_expose;
mod schema;

pub use browser::{
    Browser, BrowserObject, BrowserSpec, BrowserStatus, ContainerState, ContainerStatus,
    ExposedPort, Mutations, Phase, PluginMutation,
};
pub use browser_config::{
    BrowserConfig, BrowserConfigObject, BrowserConfigSpec, BrowserConfigStatus,
    ContainerRestartPolicy, ImagePullPolicy, PodSettings, PolicyType, SessionNetworkPolicy,
    SessionOptions, SidecarContainer, VersionConfig, Versions, WarmPool, WarmPools, WarmStatus,
};
pub use chain_exception::{
    ChainException, ChainExceptionObject, ChainExceptionSpec, ChainExceptionStatus, ExceptedPods,
    ExceptionEffect, PodOwner,
};
pub use chain_rollout::{
    ChainRollout, ChainRolloutObject, ChainRolloutSpec, ChainRolloutStatus, PassedPods,
    RolloutCounts, RolloutDecision, RolloutLimits, RolloutPhase, RolloutPods, RolloutReplica,
    RolloutShare, RolloutStep, RolloutVerdict, ShareLimit, SlowLimit, UnjudgedPolicy,
};
pub use cleaner::{
    Cleaner, CleanerDeletion, CleanerDelivery, CleanerHelm, CleanerObject, CleanerRetry,
    CleanerSpec, CleanerStatus, CleanerTarget, ConditionResult, ConditionVerdict, DeletionPhase,
    DeletionProgress, DeliveryPolicy, DeliveryProgress, HelmHookRun, HelmProgress, HelmStep,
    ObjectOutcome, PlannedObject, PropagationPolicy, TIME_VARIABLE, TargetReference,
    TargetSnapshot, is_variable_name,
};
pub use crds::{
    chain_exception_crd, chain_rollout_crd, cleaner_crd, crd, crds, infrastructure_crd,
    portal_expose_crd, tunnel_class_crd,
};
pub use group::{InfrastructureKind, SelenosisApi, SelenosisKind, UnknownSelenosisApi};
pub use infrastructure::{
    ApplicationCredential, Cloud, CloudKind, CloudObject, CloudRef, CloudSpec, CloudState,
    CloudStatus, Cluster, ClusterObject, ClusterOperation, ClusterSpec, ClusterState,
    ClusterStatus, ClusterTimeouts, DeletionPolicy, DriftPolicy, GenericCloud, IdentityVersion,
    ImAccount, ImSpec, InfrastructureProvider, InfrastructureProviderObject,
    InfrastructureProviderSpec, InfrastructureProviderStatus, Machines, OpenStackAuth,
    OpenStackCloud, OpenStackPassword, OperationKind, ProviderKind, ProviderRef, SecretRef,
};
pub use portal_expose::{
    AppliedTunnel, IdentityPolicy, PortalApp, PortalExpose, PortalExposeObject, PortalExposeSpec,
    PortalExposeStatus, PortalPhase, PortalRelays, PortalService, RelayConnection, RelayState,
    RelayStates, RelayTarget, TunnelClass, TunnelClassObject, TunnelClassSpec, TunnelClassStatus,
    TunnelClient, TunnelPods, TunnelRollout, TunnelSize, asks_to_be_default,
};
pub use schema::{DNS_SUBDOMAIN, ENTRIES_MAX, IM_URL, NAME_MAX, UUID};
