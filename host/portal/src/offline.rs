//! The tunnel of a PortalExpose in a file: what an operator would make of it.
//!
//! Files have no UID and no key, so the Deployment has no owner, no hash of the identity, and none of the hashes that the operator
//! compares.

use podloom_api::PortalExposeObject;
use podloom_engine::finding::{FieldPath, Finding, Subject};
use podloom_mutation::PodRequest;
use serde_json::Value;

use super::check::check;
use super::class::choose;
use super::naming;
pub use super::render::NoTunnel;
use super::render::{Tunnel, put_back, tunnel};
use super::settings::TunnelSettings;
use super::validate::{Around, portal_expose};

/// The tunnel of a PortalExpose in a file.
pub struct OfflineTunnel {
    tunnel: Tunnel,
    /// The name of the Secret with the identity, which its pods need.
    pub secret: String,
    /// What the author should know.
    pub warnings: Vec<Finding>,
}

/// Renders the tunnel of a PortalExpose with an operator's settings, or returns what is wrong with the object or its class.
pub fn render(
    expose: &PortalExposeObject,
    around: &Around<'_>,
    settings: &TunnelSettings,
) -> Result<OfflineTunnel, Vec<Finding>> {
    let findings = portal_expose(expose, None, around);
    if !findings.refusals.is_empty() {
        return Err(findings.refusals);
    }
    let targets = check(&expose.spec).map_err(|problem| vec![problem.into()])?;
    let classes = around.classes.unwrap_or_default().iter().copied();
    let class = choose(expose.spec.class_name(), classes, settings).map_err(|problem| {
        let path = FieldPath::dotted("spec.tunnelClassName");
        vec![Finding::at(path, &problem.message, Subject::Configuration)]
    })?;
    let name = expose.metadata.name.as_deref().unwrap_or_default();
    Ok(OfflineTunnel {
        secret: naming::secret_name(name),
        warnings: findings.warnings,
        tunnel: tunnel(expose, &targets, &class, None, settings),
    })
}

impl OfflineTunnel {
    /// Returns the Deployment before the chain.
    pub fn deployment(&self) -> &Value {
        &self.tunnel.deployment
    }

    /// Returns the pod that goes through the chain.
    pub fn pod(&self) -> Value {
        self.tunnel.pod()
    }

    /// Returns what plugins may ask about that pod; the caller adds what is known of the namespace.
    pub fn request(&self) -> PodRequest {
        self.tunnel.request()
    }

    /// Returns the Deployment with the pod that came out of the chain.
    pub fn with_pod(&self, pod: Value) -> Result<Value, NoTunnel> {
        put_back(&self.tunnel, pod)
    }
}

#[cfg(test)]
mod tests;
