//! The CustomResourceDefinitions of our kinds.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use crate::{
    Browser, BrowserConfig, PortalExpose, SelenosisApi, SelenosisKind, TunnelClass, names,
};

/// Returns the CustomResourceDefinitions of Selenosis' kinds in one set of API groups, as `crds/` holds them.
///
/// Both sets come from the same types and differ in group and name alone.
///
/// ```
/// use podloom_api::{SelenosisApi, crds};
///
/// let names: Vec<_> = crds(SelenosisApi::Split)
///     .into_iter()
///     .filter_map(|crd| crd.metadata.name)
///     .collect();
/// assert_eq!(
///     names,
///     ["browsers.browser.selenosis.io", "browserconfigs.browserconfig.selenosis.io"],
/// );
/// ```
pub fn crds(api: SelenosisApi) -> Vec<CustomResourceDefinition> {
    SelenosisKind::ALL
        .into_iter()
        .map(|kind| crd(api, kind))
        .collect()
}

/// Returns the CustomResourceDefinition of one of Selenosis' kinds in a set of API groups.
///
/// It asks Argo CD and Flux not to delete it when it leaves what they apply: all objects of its kind would go with it.
///
/// ```
/// use podloom_api::{SelenosisApi, SelenosisKind, crd, names};
///
/// let annotations = crd(SelenosisApi::Seed, SelenosisKind::Browser).metadata.annotations;
/// assert_eq!(annotations.unwrap_or_default()[names::annotation::ARGO_CD_SYNC_OPTIONS], "Prune=false,Delete=false");
/// ```
pub fn crd(api: SelenosisApi, kind: SelenosisKind) -> CustomResourceDefinition {
    let mut crd = match kind {
        SelenosisKind::Browser => Browser::crd(),
        SelenosisKind::BrowserConfig => BrowserConfig::crd(),
    };
    let group = api.group(kind);
    crd.metadata.name = Some(format!("{}.{group}", kind.plural()));
    crd.spec.group = group.to_owned();
    kept(crd)
}

/// Returns the CustomResourceDefinition of PortalExposes.
///
/// ```
/// assert_eq!(podloom_api::portal_expose_crd().spec.scope, "Namespaced");
/// ```
pub fn portal_expose_crd() -> CustomResourceDefinition {
    kept(PortalExpose::crd())
}

/// Returns the CustomResourceDefinition of TunnelClasses.
///
/// ```
/// assert_eq!(podloom_api::tunnel_class_crd().spec.scope, "Cluster");
/// ```
pub fn tunnel_class_crd() -> CustomResourceDefinition {
    kept(TunnelClass::crd())
}

/// Asks Argo CD and Flux not to delete the definition when it leaves what they apply.
fn kept(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    crd.metadata.annotations = Some(BTreeMap::from(
        [
            (
                names::annotation::ARGO_CD_SYNC_OPTIONS,
                "Prune=false,Delete=false",
            ),
            (names::annotation::FLUX_PRUNE, "disabled"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    ));
    crd
}

#[cfg(test)]
mod tests;
