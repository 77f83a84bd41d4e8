//! Whether a Service can be exposed.

use k8s_openapi::api::core::v1::{Service, ServicePort};
use podloom_api::PortalService;
use podloom_api::names::portal::{condition, reason};
use podloom_engine::shown::shown;

use super::check::Blocker;

/// Returns why the Service that a PortalExpose names cannot be exposed, if it cannot; none was found if it does not exist.
pub(crate) fn check(wanted: &PortalService, found: Option<&Service>) -> Option<Blocker> {
    let PortalService { name, port } = wanted;
    let name = shown(name);
    let (reason, message) = match found {
        None => (
            reason::SERVICE_NOT_FOUND,
            format!("Service {name} does not exist; create it, or correct spec.app.service.name"),
        ),
        Some(service) if has_port(service, *port) => return None,
        Some(_) => (
            reason::SERVICE_PORT_NOT_FOUND,
            format!(
                "Service {name} has no TCP port {port}; add it, or correct spec.app.service.port"
            ),
        ),
    };
    Some(Blocker::new(condition::SERVICE_EXISTS, reason, message))
}

/// Whether a Service has a TCP port of this number. One that is only another name in DNS need not list its ports.
fn has_port(service: &Service, number: i32) -> bool {
    let Some(spec) = &service.spec else {
        return false;
    };
    let is_it = |port: &ServicePort| {
        port.port == number && port.protocol.as_deref().unwrap_or("TCP") == "TCP"
    };
    spec.type_.as_deref() == Some("ExternalName") || spec.ports.iter().flatten().any(is_it)
}

#[cfg(test)]
mod tests;
