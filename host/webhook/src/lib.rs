//! Podloom's admission webhooks: they pass pods of other controllers through the plugin chain, and check objects of our kinds.
//!
//! [`router`] answers the API server's reviews; the listener is the host's. Nothing that a request contains can stop the process, and
//! what would take too much time or memory is refused at once.

mod budget;
mod certificates;
mod gate;
mod metrics;
mod mutate;
mod namespaces;
mod owners;
mod review;
mod server;
mod validate;
mod workloads;

pub use certificates::{
    CertificateMetrics, CertificateSlot, Clients, OwnSetup, issue, parse_hosts, serve_files,
    serve_own, server_config,
};
pub use metrics::WebhookMetrics;
pub use mutate::{Namespaces, PodWebhook};
pub use namespaces::ClusterNamespaces;
pub use owners::{OwnerKind, Owners, UnknownOwners, pod_maker};
pub use server::{Webhook, network, router};
pub use validate::ObjectWebhook;
pub use workloads::{FindTemplates, Template, WorkloadMode, WorkloadWebhook};

/// Turns that are shared by peer (none for the operator itself), and for each peer by the namespace that it speaks for.
pub type PeerTurns = podloom_turns::Turns<Option<std::net::IpAddr>, String>;
