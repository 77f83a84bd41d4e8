//! The pods that a BrowserConfig would give, to be tried on the plugin chain before it is stored.

use std::collections::BTreeSet;

use kube::core::ObjectMeta;
use podloom_api::{BrowserConfigObject, SelenosisApi, SelenosisKind};
use serde_json::Value;

use super::asking_for;
use crate::browser::render::{
    ConfigRef, EffectiveDigest, MERGED_MAX, Pair, Resolved, browser_labels, merged_size,
    render_pod, resolve_pair,
};
use crate::mutator::PodRequest;

/// How many pods of one BrowserConfig are tried.
pub const DRY_PODS: usize = 32;
/// How many bytes these pods are made from; the last one may exceed it.
const DRY_BYTES: usize = 4 << 20;
/// The name of the Browser whose pod is tried.
const NAME: &str = "dry-run";

/// The pods to try.
#[derive(Debug, Default)]
pub struct DryPods {
    /// Those of versions that are new or changed come first.
    pub pods: Vec<DryPod>,
    /// How many versions were not looked at.
    pub untried: usize,
}

/// One pod to try.
#[derive(Debug)]
pub struct DryPod {
    /// The browser's name.
    pub browser: String,
    /// The version's name.
    pub version: String,
    /// The pod, as it is before any plugin sees it.
    pub pod: Value,
    /// What plugins may ask for; the caller adds the namespace's labels and annotations, and the deadline.
    pub request: PodRequest,
    /// What the stored object gives for the version.
    pub before: Before,
}

/// What the stored object gives for a version.
#[derive(Debug, PartialEq)]
pub enum Before {
    /// Nothing, since the version is new: a denial refuses the object.
    Absent,
    /// The same pod, or none that could be made: a denial only warns.
    Same,
    /// Another pod: if it is denied too, a denial only warns.
    Other(Value),
}

impl DryPod {
    /// The browser and the version.
    pub fn pair(&self) -> Pair<'_> {
        Pair {
            browser: &self.browser,
            version: &self.version,
        }
    }
}

/// Returns the pods of a BrowserConfig's versions, at most [`DRY_PODS`] of them, each only once. Versions from which no pod can be
/// made are left out.
pub fn dry_pods(
    api: SelenosisApi,
    new: &BrowserConfigObject,
    old: Option<&BrowserConfigObject>,
) -> DryPods {
    let is_unchanged = old.is_some_and(|old| old.spec == new.spec);
    let is_going = new.metadata.deletion_timestamp.is_some();
    if is_unchanged || is_going || merged_size(&new.spec) > MERGED_MAX {
        return DryPods::default();
    }
    let config = ConfigRef::from(new);
    let old = old.map(ConfigRef::from);
    let mut known: BTreeSet<(&str, EffectiveDigest)> = BTreeSet::new();
    let (mut pods, mut bytes) = (Vec::new(), 0);
    let mut versions = changed_first(config, old).into_iter();
    while pods.len() < DRY_PODS && bytes < DRY_BYTES {
        let Some(pair) = versions.next() else { break };
        let Some(resolved) = resolve_pair(config, pair) else {
            continue;
        };
        let digest = EffectiveDigest::of(&resolved.effective);
        let size = digest.bytes;
        if !known.insert((pair.browser, digest)) {
            continue;
        }
        if let Some(pod) = pod(api, config, &resolved) {
            bytes += size;
            pods.push(DryPod {
                browser: pair.browser.to_owned(),
                version: pair.version.to_owned(),
                before: before(api, old, pair, &pod),
                request: request(config, pair),
                pod,
            });
        }
    }
    DryPods {
        pods,
        untried: versions.count(),
    }
}

/// All versions: first those that the update adds or changes. If the template changes, it may change all.
fn changed_first<'a>(config: ConfigRef<'a>, old: Option<ConfigRef<'_>>) -> Vec<Pair<'a>> {
    let same_template = old.filter(|old| old.spec.template == config.spec.template);
    let versions = config.spec.browsers.iter().flat_map(|(browser, versions)| {
        let pair = move |version| Pair { browser, version };
        versions
            .iter()
            .map(move |(version, settings)| (pair(version), settings))
    });
    let (same, changed): (Vec<_>, Vec<_>) = versions.partition(|(pair, settings)| {
        let stored = same_template.and_then(|old| old.spec.browsers.get(pair.browser));
        stored.and_then(|versions| versions.get(pair.version)) == Some(*settings)
    });
    changed
        .into_iter()
        .chain(same)
        .map(|(pair, _)| pair)
        .collect()
}

/// The pod that a Browser without anything of its own gets.
fn pod(api: SelenosisApi, config: ConfigRef<'_>, resolved: &Resolved<'_>) -> Option<Value> {
    let metadata = ObjectMeta {
        name: Some(NAME.to_owned()),
        namespace: config.metadata.namespace.clone(),
        ..ObjectMeta::default()
    };
    let pod = render_pod(api, &metadata, &asking_for(resolved.pair), resolved).ok()?;
    serde_json::to_value(pod).ok()
}

fn before(api: SelenosisApi, old: Option<ConfigRef<'_>>, pair: Pair<'_>, new: &Value) -> Before {
    let is_stored = |old: &ConfigRef<'_>| {
        let versions = old.spec.browsers.get(pair.browser);
        versions.is_some_and(|versions| versions.contains_key(pair.version))
    };
    let Some(old) = old.filter(is_stored) else {
        return Before::Absent;
    };
    let resolved = resolve_pair(old, pair);
    match resolved.and_then(|resolved| pod(api, old, &resolved)) {
        Some(other) if other != *new => Before::Other(other),
        Some(_) | None => Before::Same,
    }
}

/// What plugins may ask for, as the operator passes it.
fn request(config: ConfigRef<'_>, pair: Pair<'_>) -> PodRequest {
    let labels = browser_labels(NAME, &asking_for(pair)).into_iter();
    PodRequest {
        kind: SelenosisKind::Browser.name(),
        name: NAME.to_owned(),
        namespace: config.metadata.namespace.clone().unwrap_or_default(),
        labels: labels
            .map(|(label, value)| (label.to_owned(), value))
            .collect(),
        dry_run: true,
        ..PodRequest::default()
    }
}
