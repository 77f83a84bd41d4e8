//! ChainExceptions: which plugins let which pods pass, and until when.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::core::{Selector, SelectorExt};
use podloom_api::{ChainExceptionObject, ExceptionEffect, SelenosisKind};
use podloom_controllers::ChainExceptions;
use podloom_engine::cache::Seen;
use podloom_engine::clock::Clock;
use podloom_engine::readable::Readable;
use podloom_mutation::{Effect, PodException, PodRequest, named_owner, texts};
use podloom_turns::lock;
use serde_json::Value;

use crate::manifest::{self, Document, DocumentKind};

/// How many of a namespace count, the first by name: each is compared with each pod of the namespace.
pub(crate) const OF_NAMESPACE: usize = 100;

/// The ChainExceptions that there are.
#[derive(Default)]
pub(crate) struct Exceptions {
    /// By namespace and name.
    all: Mutex<BTreeMap<String, BTreeMap<String, Arc<ChainExceptionObject>>>>,
    /// Whose chain they are about; none for those of any.
    webhook: Option<String>,
    /// None if a command has read them.
    cache: Option<ChainExceptions>,
    clock: Clock,
}

impl Exceptions {
    /// Those of a cache, as it is now and later.
    pub(crate) fn watched(cache: &ChainExceptions, webhook: &str, clock: &Clock) -> Arc<Self> {
        let all = Arc::new(Self {
            cache: Some(cache.clone()),
            webhook: Some(webhook.to_owned()),
            clock: clock.clone(),
            ..Self::default()
        });
        let listener = Arc::downgrade(&all);
        cache.listen(move |seen| {
            let Some(all) = listener.upgrade() else {
                return;
            };
            match seen {
                Seen::Coming(_) => {}
                Seen::Changed(change) => match (change.after, change.before) {
                    (Some(Readable(Ok(now))), _) => all.put(now.clone()),
                    // One that does not fit its type holds nowhere.
                    (Some(Readable(Err(it))), _) => all.remove(&it.metadata),
                    (None, Some(before)) => all.remove(kube::Resource::meta(before)),
                    (None, None) => {}
                },
                Seen::Listed(namespace) => {
                    match namespace {
                        Some(namespace) => drop(lock(&all.all).remove(*namespace)),
                        None => lock(&all.all).clear(),
                    }
                    let cache = all.cache.iter();
                    for object in cache.flat_map(|it| it.all_in(*namespace)) {
                        if let Ok(object) = &object.0 {
                            all.put(object.clone());
                        }
                    }
                }
            }
        });
        all
    }

    fn put(&self, object: ChainExceptionObject) {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let mut all = lock(&self.all);
        let here = all.entry(namespace).or_default();
        here.insert(name, Arc::new(object));
    }

    fn remove(&self, metadata: &kube::core::ObjectMeta) {
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let mut all = lock(&self.all);
        if let Some(here) = all.get_mut(namespace) {
            here.remove(metadata.name.as_deref().unwrap_or_default());
            if here.is_empty() {
                all.remove(namespace);
            }
        }
    }

    /// None yet, of those about the chain of these webhooks.
    pub(crate) fn about(webhook: &str) -> Self {
        Self {
            webhook: Some(webhook.to_owned()),
            ..Self::default()
        }
    }

    /// Adds what a command has read.
    pub(crate) fn add(&self, namespace: &str, object: Value) {
        // One that does not fit its type holds nowhere.
        if let Ok(mut object) = serde_json::from_value::<ChainExceptionObject>(object) {
            object.metadata.namespace = Some(namespace.to_owned());
            self.put(object);
        }
    }

    /// Those among documents.
    pub(crate) fn of_documents<'d>(
        documents: impl IntoIterator<Item = &'d Document>,
        namespace: &str,
    ) -> Self {
        let all = Self::default();
        for document in documents {
            if manifest::kind(document) == DocumentKind::ChainException {
                all.add(document.namespace(namespace), document.value.clone());
            }
        }
        all
    }

    /// Those that hold for a pod now, by name. None does for pods of Browsers and tunnels: their own kinds say what they may do.
    pub(crate) fn of(&self, pod: &Value, request: &PodRequest) -> Arc<[PodException]> {
        let browser = SelenosisKind::Browser.name();
        let is_of_browser = request.owner.split('/').next() == Some(browser);
        if request.kind != "Pod" || request.owner.is_empty() || is_of_browser {
            return Arc::default();
        }
        // After a right was taken away, nobody says any more which of them end.
        let mut cache = self.cache.iter();
        if !cache.all(|it| it.is_known(Some(&request.namespace))) {
            return Arc::default();
        }
        let here: Vec<_> = match lock(&self.all).get(&request.namespace) {
            Some(here) => {
                let of_another = |it: &ChainExceptionObject| {
                    let mut webhook = self.webhook.iter();
                    webhook.any(|webhook| *webhook != it.spec.webhook)
                };
                let here = here.values().filter(|it| !of_another(it));
                here.take(OF_NAMESPACE).map(Arc::clone).collect()
            }
            None => return Arc::default(),
        };
        let (labels, now) = (texts(pod, "labels"), self.clock.now());
        let found = here.iter();
        found
            .filter_map(|it| holding(it, (&labels, request), now))
            .collect()
    }
}

/// What plugins are told of a ChainException, if it is about this pod and has not ended.
fn holding(
    exception: &ChainExceptionObject,
    (labels, request): (&BTreeMap<String, String>, &PodRequest),
    now: Timestamp,
) -> Option<PodException> {
    let (metadata, spec) = (&exception.metadata, &exception.spec);
    let is_selected = match (&spec.pods.selector, &spec.pods.owner) {
        (Some(selector), None) => {
            Selector::try_from(selector.clone()).is_ok_and(|selector| selector.matches(labels))
        }
        (None, Some(owner)) => is_of(request, (&owner.kind, &owner.name)),
        _ => false,
    };
    if !is_selected || spec.until.0 <= now || metadata.deletion_timestamp.is_some() {
        return None;
    }
    Some(PodException {
        name: metadata.name.clone()?,
        plugins: spec.plugins.clone(),
        effect: match spec.effect {
            ExceptionEffect::Warn => Effect::Warn,
            ExceptionEffect::Skip => Effect::Skip,
        },
        until: spec.until.0.to_string(),
        lasts: lasts(exception, now),
    })
}

/// Whether a pod belongs to this owner. A Job of a CronJob has its name, a dash, and a number.
fn is_of(request: &PodRequest, (kind, name): (&str, &str)) -> bool {
    let (namespace, owner) = (&request.namespace, &request.owner);
    if kind == "CronJob"
        && let Some(number) = owner.strip_prefix(&named_owner("Job", namespace, name))
        && let Some(number) = number.strip_prefix('-')
    {
        return !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit());
    }
    named_owner(kind, namespace, name) == *owner
}

/// How long it lasts from its creation on; from now on if nobody created it yet.
pub(crate) fn lasts(exception: &ChainExceptionObject, now: Timestamp) -> Duration {
    let created = exception.metadata.creation_timestamp.as_ref();
    let created = created.map_or(now, |it| it.0);
    let lasts = exception.spec.until.0.duration_since(created);
    lasts.try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests;
