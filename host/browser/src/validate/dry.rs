//! The pods that a BrowserConfig would give, to be tried on the plugin chain before it is stored.
//!
//! A pod as JSON takes many times the memory of its text, and a BrowserConfig may define thousands of large ones. So each is made when it
//! is its turn, and its bytes are counted.

use std::collections::BTreeSet;
use std::iter::FusedIterator;
use std::vec;

use kube::core::ObjectMeta;
use podloom_api::{BrowserConfigObject, BrowserConfigSpec, SelenosisApi, SelenosisKind};
use podloom_mutation::PodRequest;
use serde_json::Value;

use super::asking_for;
use crate::render::{
    ConfigRef, EffectiveDigest, MERGED_MAX, Pair, Resolved, browser_labels, merged_size,
    render_pod, resolve_pair,
};

/// How many pods of one BrowserConfig are tried.
pub const DRY_PODS: usize = 32;
/// How many bytes these pods are made from, with those of the stored object.
pub(super) const DRY_BYTES: usize = 2 << 20;
/// The name of the Browser whose pod is tried.
const NAME: &str = "dry-run";

/// The pods to try, at most [`DRY_PODS`], each only once; those of versions that are new or changed come first. Versions from which no
/// pod can be made are left out.
///
/// Each pod is made by [`next`](Iterator::next), which takes time: drop one before asking for another.
pub struct DryPods {
    api: SelenosisApi,
    metadata: ObjectMeta,
    spec: BrowserConfigSpec,
    old: Old,
    versions: vec::IntoIter<Version>,
    /// What the pods so far were made from, by browser.
    known: BTreeSet<(String, EffectiveDigest)>,
    /// How many pods were made.
    made: usize,
    /// How many bytes they were made from.
    bytes: usize,
    /// How many versions were too large to be tried.
    too_large: usize,
}

/// What is stored of the BrowserConfig.
enum Old {
    Absent,
    /// It is too large or cannot be read, so any version may be in it as it is now.
    Unknown,
    Known(Box<BrowserConfigSpec>),
}

/// One version of a BrowserConfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The browser's name.
    pub browser: String,
    /// The version's name.
    pub version: String,
}

impl Version {
    /// The browser and the version.
    pub fn pair(&self) -> Pair<'_> {
        Pair {
            browser: &self.browser,
            version: &self.version,
        }
    }
}

/// One pod to try.
#[derive(Debug)]
pub struct DryPod {
    /// The version that gives it.
    pub of: Version,
    /// The pod, as it is before any plugin sees it.
    pub pod: Value,
    /// What plugins may ask for; the caller adds the namespace's labels and annotations, and the deadline.
    pub request: PodRequest,
}

/// What the stored object gives for a version.
#[derive(Debug, PartialEq)]
pub enum Before {
    /// Nothing, since the version is new or no pod could be made from it: a denial refuses the object.
    Absent,
    /// The same pod, or one that is not known: a denial only warns.
    Same,
    /// Another pod: if it is denied too, a denial only warns.
    Other(Value),
}

impl DryPods {
    /// Finds the versions to try. Without an old object, everything is new.
    pub fn of(
        api: SelenosisApi,
        new: BrowserConfigObject,
        old: Option<BrowserConfigObject>,
    ) -> Self {
        let is_unchanged = old.as_ref().is_some_and(|old| old.spec == new.spec);
        let is_going = new.metadata.deletion_timestamp.is_some();
        let versions = match is_unchanged || is_going || merged_size(&new.spec) > MERGED_MAX {
            true => Vec::new(),
            false => changed_first(&new.spec, old.as_ref().map(|old| &old.spec)),
        };
        let old = match old {
            None => Old::Absent,
            Some(old) if merged_size(&old.spec) > MERGED_MAX => Old::Unknown,
            Some(old) => Old::Known(Box::new(old.spec)),
        };
        Self {
            api,
            metadata: new.metadata,
            spec: new.spec,
            old,
            versions: versions.into_iter(),
            known: BTreeSet::new(),
            made: 0,
            bytes: 0,
            too_large: 0,
        }
    }

    /// Takes every pod for one that may be stored as it is, for an old object that cannot be read.
    #[must_use]
    pub fn with_unknown_old(self) -> Self {
        Self {
            old: Old::Unknown,
            ..self
        }
    }

    /// Returns how many versions were not looked at so far.
    pub fn left(&self) -> usize {
        self.versions.len()
    }

    /// Returns how many versions were not tried since they are too many or too large, once there is no further pod.
    pub fn untried(&self) -> usize {
        self.left() + self.too_large
    }

    /// Returns what the stored object gives for a version. Its bytes count too: a pod beyond them is taken for the same.
    pub fn before(&mut self, version: &Version) -> Before {
        let pair = version.pair();
        let old = match &self.old {
            Old::Absent => return Before::Absent,
            Old::Unknown => return Before::Same,
            Old::Known(old) => ConfigRef {
                metadata: &self.metadata,
                spec: old,
            },
        };
        let Some(resolved) = resolve_pair(old, pair) else {
            return Before::Absent;
        };
        let digest = EffectiveDigest::of(&resolved.effective);
        let is_same = resolve_pair(self.config(), pair)
            .is_some_and(|new| EffectiveDigest::of(&new.effective) == digest);
        if is_same || self.bytes + digest.bytes > DRY_BYTES {
            return Before::Same;
        }
        let pod = self.pod(&resolved);
        self.bytes += digest.bytes;
        pod.map_or(Before::Absent, Before::Other)
    }

    fn config(&self) -> ConfigRef<'_> {
        ConfigRef {
            metadata: &self.metadata,
            spec: &self.spec,
        }
    }

    /// The pod that a Browser without anything of its own gets.
    fn pod(&self, resolved: &Resolved<'_>) -> Option<Value> {
        let metadata = ObjectMeta {
            name: Some(NAME.to_owned()),
            namespace: self.metadata.namespace.clone(),
            ..ObjectMeta::default()
        };
        let pod = render_pod(self.api, &metadata, &asking_for(resolved.pair), resolved).ok()?;
        serde_json::to_value(pod).ok()
    }

    /// What plugins may ask for, as the operator passes it.
    fn request(&self, pair: Pair<'_>) -> PodRequest {
        let labels = browser_labels(NAME, &asking_for(pair)).into_iter();
        PodRequest {
            kind: SelenosisKind::Browser.name(),
            name: NAME.to_owned(),
            namespace: self.metadata.namespace.clone().unwrap_or_default(),
            labels: labels
                .map(|(label, value)| (label.to_owned(), value))
                .collect(),
            dry_run: true,
            ..PodRequest::default()
        }
    }
}

impl Iterator for DryPods {
    type Item = DryPod;

    fn next(&mut self) -> Option<DryPod> {
        while self.made < DRY_PODS {
            let of = self.versions.next()?;
            let Some(resolved) = resolve_pair(self.config(), of.pair()) else {
                continue;
            };
            let digest = EffectiveDigest::of(&resolved.effective);
            let bytes = self.bytes + digest.bytes;
            let key = (of.browser.clone(), digest);
            if self.known.contains(&key) {
                continue;
            }
            if bytes > DRY_BYTES {
                self.too_large += 1;
                continue;
            }
            let Some(pod) = self.pod(&resolved) else {
                continue;
            };
            let request = self.request(of.pair());
            self.known.insert(key);
            (self.made, self.bytes) = (self.made + 1, bytes);
            return Some(DryPod { of, pod, request });
        }
        None
    }
}

impl FusedIterator for DryPods {}

/// All versions: first those that the update adds or changes. If the template changes, it may change all.
fn changed_first(new: &BrowserConfigSpec, old: Option<&BrowserConfigSpec>) -> Vec<Version> {
    let same_template = old.filter(|old| old.template == new.template);
    let versions = new.browsers.iter().flat_map(|(browser, versions)| {
        let pair = move |version| Pair { browser, version };
        versions
            .iter()
            .map(move |(version, settings)| (pair(version), settings))
    });
    let (same, changed): (Vec<_>, Vec<_>) = versions.partition(|(pair, settings)| {
        let stored = same_template.and_then(|old| old.browsers.get(pair.browser));
        stored.and_then(|versions| versions.get(pair.version)) == Some(*settings)
    });
    let sorted = changed.into_iter().chain(same);
    sorted
        .map(|(Pair { browser, version }, _)| Version {
            browser: browser.to_owned(),
            version: version.to_owned(),
        })
        .collect()
}
