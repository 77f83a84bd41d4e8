//! Whether a Service can be exposed.

use std::fmt;

use k8s_openapi::api::core::v1::{Service, ServicePort};
use podloom_api::PortalService;
use podloom_api::names::portal::reason;
use podloom_engine::shown::shown;

/// Why a Service cannot be exposed. The display is a sentence that says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServiceProblem {
    /// There is none of this name.
    NotFound(String),
    /// The one of this name has no such port.
    PortNotFound(String, i32),
}

impl ServiceProblem {
    /// Returns the reason of the condition ServiceExists.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::NotFound(_) => reason::SERVICE_NOT_FOUND,
            Self::PortNotFound(..) => reason::SERVICE_PORT_NOT_FOUND,
        }
    }
}

impl fmt::Display for ServiceProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(name) => write!(
                f,
                "Service {} does not exist; create it, or correct spec.app.service.name",
                shown(name)
            ),
            Self::PortNotFound(name, port) => write!(
                f,
                "Service {} has no TCP port {port}; add it, or correct spec.app.service.port",
                shown(name)
            ),
        }
    }
}

/// Checks the Service that a PortalExpose names; none was found if it does not exist.
pub(crate) fn check(wanted: &PortalService, found: Option<&Service>) -> Result<(), ServiceProblem> {
    let PortalService { name, port } = wanted;
    match found {
        None => Err(ServiceProblem::NotFound(name.clone())),
        Some(service) if has_port(service, *port) => Ok(()),
        Some(_) => Err(ServiceProblem::PortNotFound(name.clone(), *port)),
    }
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
