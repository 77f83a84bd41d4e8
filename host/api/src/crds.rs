//! The CustomResourceDefinitions of our kinds.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition,
};
use kube::CustomResourceExt;

use crate::{
    Browser, BrowserConfig, ChainException, ChainRollout, Cleaner, Cloud, Cluster,
    InfrastructureKind, InfrastructureProvider, PortalExpose, SelenosisApi, SelenosisKind,
    TunnelClass, names, schema,
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

/// Returns the CustomResourceDefinition of Cleaners.
///
/// ```
/// assert_eq!(podloom_api::cleaner_crd().spec.scope, "Namespaced");
/// ```
pub fn cleaner_crd() -> CustomResourceDefinition {
    kept(Cleaner::crd())
}

/// Returns the CustomResourceDefinition of ChainRollouts.
///
/// ```
/// assert_eq!(podloom_api::chain_rollout_crd().spec.scope, "Namespaced");
/// ```
pub fn chain_rollout_crd() -> CustomResourceDefinition {
    kept(ChainRollout::crd())
}

/// Returns the CustomResourceDefinition of ChainExceptions.
///
/// ```
/// assert_eq!(podloom_api::chain_exception_crd().spec.scope, "Namespaced");
/// ```
pub fn chain_exception_crd() -> CustomResourceDefinition {
    kept(ChainException::crd())
}

/// Returns the CustomResourceDefinition of one of the kinds of infrastructure.
///
/// ```
/// use podloom_api::{InfrastructureKind, infrastructure_crd};
///
/// assert_eq!(infrastructure_crd(InfrastructureKind::GlobalCloud).spec.scope, "Cluster");
/// ```
pub fn infrastructure_crd(kind: InfrastructureKind) -> CustomResourceDefinition {
    let mut crd = match kind {
        InfrastructureKind::Cluster => Cluster::crd(),
        InfrastructureKind::Cloud | InfrastructureKind::GlobalCloud => Cloud::crd(),
        InfrastructureKind::InfrastructureProvider
        | InfrastructureKind::GlobalInfrastructureProvider => InfrastructureProvider::crd(),
    };
    if kind.is_global() {
        globalize(&mut crd, kind);
    }
    kept(crd)
}

/// Makes the definition of a namespaced kind that of its cluster-scoped counterpart.
fn globalize(crd: &mut CustomResourceDefinition, kind: InfrastructureKind) {
    crd.metadata.name = Some(format!("{}.{}", kind.plural(), crd.spec.group));
    crd.spec.scope = "Cluster".to_owned();
    let names = &mut crd.spec.names;
    names.kind = kind.name().to_owned();
    names.plural = kind.plural().to_owned();
    names.singular = Some(kind.name().to_lowercase());
    names.short_names = None;
    if kind == InfrastructureKind::GlobalCloud {
        schema::only_global_providers(crd);
    }
}

/// What all definitions have: the column with the age, behind the others that are always shown; and annotations that ask Argo CD and Flux
/// not to delete the definition when it leaves what they apply.
fn kept(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        let columns = version.additional_printer_columns.get_or_insert_default();
        let is_seldom = |it: &CustomResourceColumnDefinition| it.priority.is_some_and(|it| it > 0);
        let end = columns.iter().position(is_seldom).unwrap_or(columns.len());
        let age = CustomResourceColumnDefinition {
            name: "Age".to_owned(),
            type_: "date".to_owned(),
            json_path: ".metadata.creationTimestamp".to_owned(),
            ..CustomResourceColumnDefinition::default()
        };
        columns.insert(end, age);
    }
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
