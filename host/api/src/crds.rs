//! The CustomResourceDefinitions of our kinds.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use crate::{Browser, BrowserConfig, Kind, SelenosisApi};

/// Returns the CustomResourceDefinitions of one set of API groups, as `crds/` holds them.
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
    Kind::ALL
        .into_iter()
        .map(|kind| {
            let mut crd = match kind {
                Kind::Browser => Browser::crd(),
                Kind::BrowserConfig => BrowserConfig::crd(),
            };
            let group = api.group(kind);
            crd.metadata.name = Some(format!("{}.{group}", kind.plural()));
            crd.spec.group = group.to_owned();
            crd
        })
        .collect()
}

#[cfg(test)]
mod tests;
