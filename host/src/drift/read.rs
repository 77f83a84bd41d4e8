//! Reads a cluster object by object, with the rights of the user, and says what drifted there.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use anyhow::Context;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::{Api, Client};
use podloom_api::ChainException;
use podloom_api::names::annotation::LAST_APPLIED;
use podloom_mutation::{NamespaceMetadata, texts};
use podloom_mutators::Chain;
use serde_json::Value;
use tokio::task::yield_now;
use tokio::time::sleep;

use super::ephemeral::Reviewer;
use super::judge::{Expected, Judge, Passed, Pod, controller};
use super::tally::{Findings, Id, Tally};
use super::webhook::Webhook;
use super::{Reader, Scope};
use crate::error::CommandError;
use crate::exceptions::Exceptions;
use crate::feed::Skipped;
use crate::lists::{self, Objects, Pages, Place, Trouble};
use crate::manifest::metadata;
use crate::render::Namespaces;

/// Where the pod is in a Deployment.
const TEMPLATE: &str = "/spec/template";

/// How long the operator works, and how many times as long it rests then.
const WORK: Duration = Duration::from_millis(5);
const REST: u32 = 3;

/// How many bytes of annotations are kept of a namespace.
const LARGE: usize = 4 << 10;

/// Whether annotations of namespaces are kept: only plugins read them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Annotations {
    Kept,
    LeftOut,
}

/// Lets others work, too.
struct Pace {
    reader: Reader,
    worked: Duration,
}

/// A cluster that is being read.
struct Reading<'s> {
    client: Client,
    scope: &'s Scope,
    skipped: Vec<Skipped>,
    pace: Pace,
}

/// What drifted in a cluster, and what could not be read. If there is no chain, each pod that the webhook selects counts as one
/// that a plugin matches.
pub(crate) async fn scan(
    client: &Client,
    scope: &Scope,
    chain: Option<&Chain>,
) -> Result<Findings, CommandError> {
    let mut reading = Reading::of(client, scope);
    let mut tally = Tally::new(chain.map(|it| it.digest().to_owned()), scope.reader);
    let asked = chain.filter(|it| it.takes_updates());
    let annotations = match asked {
        Some(_) => Annotations::Kept,
        None => Annotations::LeftOut,
    };
    let judge = reading.judge(chain.map(Expected::of), annotations).await?;
    let mut reviewer = asked.map(|chain| Reviewer::new(&judge, chain));
    let count = |pod: Option<Pod<'_>>| {
        let Some(pod) = pod else {
            tally.add_unread();
            return;
        };
        tally.add(&pod, judge.judge(&pod));
        let found = reviewer.as_mut().and_then(|it| it.review(&pod));
        if let Some(found) = found {
            tally.add_ephemeral(&pod, found);
        }
    };
    reading.pods(count).await?;
    reading.owners(&mut tally, "apps/v1", "ReplicaSet").await?;
    reading.owners(&mut tally, "batch/v1", "Job").await?;
    let stamped = reading.deployments(&mut tally).await?;
    Ok(Findings {
        unjudged: judge.unjudged(),
        knows_chain: judge.expected.is_some(),
        skipped: reading.skipped,
        ..tally.finish(&stamped)
    })
}

/// Reads all pods, one after the other, and returns who judged them and what could not be read.
pub(crate) async fn each_pod(
    client: &Client,
    scope: &Scope,
    expected: Option<Expected>,
    mut take: impl FnMut(&Judge, &Pod<'_>),
) -> Result<(Judge, Vec<Skipped>), CommandError> {
    let mut reading = Reading::of(client, scope);
    let judge = reading.judge(expected, Annotations::LeftOut).await?;
    let take = |pod: Option<Pod<'_>>| {
        if let Some(pod) = pod {
            take(&judge, &pod);
        }
    };
    reading.pods(take).await?;
    Ok((judge, reading.skipped))
}

impl<'s> Reading<'s> {
    fn of(client: &Client, scope: &'s Scope) -> Self {
        Self {
            client: client.clone(),
            scope,
            skipped: Vec::new(),
            pace: Pace {
                reader: scope.reader,
                worked: Duration::ZERO,
            },
        }
    }
}

impl Reading<'_> {
    async fn judge(
        &mut self,
        expected: Option<Expected>,
        annotations: Annotations,
    ) -> Result<Judge, CommandError> {
        let webhook = self.webhook().await?;
        let (namespaces, large_namespaces) = self.namespaces(annotations).await?;
        let exceptions = match annotations {
            Annotations::Kept => self.exceptions().await?,
            Annotations::LeftOut => Exceptions::default(),
        };
        Ok(Judge {
            webhook,
            namespaces,
            large_namespaces,
            exceptions,
            expected,
        })
    }

    async fn webhook(&mut self) -> Result<Webhook, CommandError> {
        let name = &self.scope.webhook;
        let configurations: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        let what = format!("MutatingWebhookConfiguration {name}");
        match configurations.get_opt(name).await {
            Ok(Some(found)) => Ok(Webhook::of(&found)),
            Ok(None) => {
                let why = "the cluster has none of this name, so no pod counts as missed; --webhook-configuration names another one";
                self.skip(&what, why.to_owned());
                Ok(Webhook::Absent)
            }
            Err(kube::Error::Api(status)) if status.is_forbidden() => {
                let why = format!(
                    "you may not get it ({}), so it is not known which pods it selects",
                    status.message
                );
                self.skip(&what, why);
                Ok(Webhook::Unread)
            }
            Err(error) => {
                let failed = Err(error).with_context(|| format!("cannot get {what}"));
                failed.map_err(CommandError::Other)
            }
        }
    }

    /// What namespaces say of themselves, and the names of those whose annotations are too large to be kept.
    async fn namespaces(
        &mut self,
        annotations: Annotations,
    ) -> Result<(Namespaces, HashSet<String>), CommandError> {
        let mut place = Place::new("v1", "namespaces");
        let name = self.scope.namespace.as_ref();
        place.fields = name.map(|name| format!("metadata.name={name}"));
        let (mut namespaces, mut large) = (Namespaces::default(), HashSet::new());
        let why = "so only their names are known";
        let take = |namespace: &Value| {
            let name = metadata(namespace, "name").to_owned();
            let mut about = NamespaceMetadata {
                labels: texts(namespace, "labels"),
                ..NamespaceMetadata::default()
            };
            if annotations == Annotations::Kept {
                let mut annotations = texts(namespace, "annotations");
                // It may be long, and plugins never see it.
                annotations.remove(LAST_APPLIED);
                let sizes = annotations.iter().map(|(key, text)| key.len() + text.len());
                match sizes.sum::<usize>() > LARGE {
                    true => drop(large.insert(name.clone())),
                    false => about.annotations = annotations,
                }
            }
            namespaces.insert(name, about);
        };
        self.metadata(&place, "labels of namespaces", why, take)
            .await?;
        Ok((namespaces, large))
    }

    /// Which pods are excepted. Where the kind is not served, none is.
    async fn exceptions(&mut self) -> Result<Exceptions, CommandError> {
        let client = self.client.clone();
        let exceptions = Exceptions::about(&self.scope.webhook);
        let (resource, what) = (ChainException::resource(), "ChainExceptions");
        let place = self.place(&resource.api_version, &resource.plural);
        let mut objects = Objects::of(Pages::of(&client, &place));
        loop {
            let listed = match objects.next().await {
                Ok(Some(listed)) => listed,
                Ok(None) | Err(Trouble::NotServed) => return Ok(exceptions),
                Err(Trouble::Forbidden(message)) => {
                    let why = "so ephemeral containers may be shown that one lets pass";
                    self.skip(what, format!("you may not list them ({message}), {why}"));
                    return Ok(exceptions);
                }
                Err(trouble) => return Err(trouble.into_error(what)),
            };
            let began = Instant::now();
            if let Some(exception) = lists::read(&listed) {
                let namespace = metadata(&exception, "namespace").to_owned();
                exceptions.add(&namespace, exception);
            }
            self.pace.worked(began.elapsed() + objects.worked()).await;
        }
    }

    /// Pods are needed: a report about none must not look as if all were well. Of one that is too large to be read, nothing is known.
    async fn pods(&mut self, mut take: impl FnMut(Option<Pod<'_>>)) -> Result<(), CommandError> {
        let mut place = self.place("v1", "pods");
        place.labels.clone_from(&self.scope.selector);
        let client = self.client.clone();
        let mut pods = Objects::of(Pages::of(&client, &place));
        let failed = |trouble: Trouble| trouble.into_error("pods");
        while let Some(listed) = pods.next().await.map_err(failed)? {
            let began = Instant::now();
            take(lists::read(&listed).as_ref().map(Pod));
            self.pace.worked(began.elapsed() + pods.worked()).await;
        }
        Ok(())
    }

    /// Finds the owners of owners of this kind.
    async fn owners(
        &mut self,
        tally: &mut Tally,
        api_version: &str,
        kind: &str,
    ) -> Result<(), CommandError> {
        let (group, _) = api_version.split_once('/').unwrap_or_default();
        let wanted = tally.owners(group, kind);
        let place = self.place(api_version, &format!("{}s", kind.to_lowercase()));
        let why = format!("so owners are shown as {kind}s");
        let take = |id: Id, object: &Value| {
            if let Some(owner) = controller(object) {
                tally.resolve(&id, owner);
            }
        };
        let is_whole = self
            .wanted(&place, &format!("{kind}s"), (&wanted, why.as_str()), take)
            .await?;
        if !is_whole {
            tally.unread(group, kind);
        }
        Ok(())
    }

    /// The stamps of Deployments. Those of Podloom's own Deployments stand for their pods.
    async fn deployments(
        &mut self,
        tally: &mut Tally,
    ) -> Result<HashMap<Id, Passed>, CommandError> {
        let wanted = tally.deployments();
        let place = self.place("apps/v1", "deployments");
        let why = "so stamps on them are not seen";
        let mut stamped = HashMap::new();
        let take = |id: Id, object: &Value| {
            let passed = Passed::of(object, TEMPLATE);
            stamped.extend(passed.map(|passed| (id, passed)));
        };
        let is_whole = self
            .wanted(&place, "Deployments", (&wanted, why), take)
            .await?;
        if !is_whole {
            tally.unread("apps", "Deployment");
        }
        Ok(stamped)
    }

    /// Reads the metadata of these objects; false if not all could be read. If there are none, nothing is read.
    async fn wanted(
        &mut self,
        place: &Place,
        what: &str,
        (wanted, why): (&HashSet<Id>, &str),
        mut take: impl FnMut(Id, &Value),
    ) -> Result<bool, CommandError> {
        if wanted.is_empty() {
            return Ok(true);
        }
        let take = |object: &Value| {
            let id = ["namespace", "uid"].map(|field| metadata(object, field).to_owned());
            let id: Id = id.into();
            if wanted.contains(&id) {
                take(id, object);
            }
        };
        self.metadata(place, what, why, take).await
    }

    /// Reads the metadata of objects; false if not all could be read.
    async fn metadata(
        &mut self,
        place: &Place,
        what: &str,
        why: &str,
        mut take: impl FnMut(&Value),
    ) -> Result<bool, CommandError> {
        let client = self.client.clone();
        let mut objects = Objects::of(Pages::of_metadata(&client, place));
        let mut unread = 0;
        loop {
            let listed = match objects.next().await {
                Ok(Some(listed)) => listed,
                Ok(None) => break,
                Err(Trouble::Forbidden(message)) => {
                    self.skip(what, format!("you may not list them ({message}), {why}"));
                    return Ok(false);
                }
                Err(trouble) => return Err(trouble.into_error(what)),
            };
            let began = Instant::now();
            match lists::read(&listed) {
                Some(object) => take(&object),
                None => unread += 1,
            }
            self.pace.worked(began.elapsed() + objects.worked()).await;
        }
        if unread > 0 {
            self.skip(
                what,
                format!("{unread} of them are too large to be read, {why}"),
            );
        }
        Ok(unread == 0)
    }

    fn place(&self, api_version: &str, plural: &str) -> Place {
        let mut place = Place::new(api_version, plural);
        place.namespace.clone_from(&self.scope.namespace);
        place
    }

    fn skip(&mut self, what: &str, why: String) {
        self.skipped.push(Skipped {
            what: what.to_owned(),
            why,
        });
    }
}

impl Pace {
    /// Says how long this task has worked. Others run before it goes on, and it can be dropped here.
    async fn worked(&mut self, worked: Duration) {
        self.worked += worked;
        if self.reader != Reader::Person && self.worked >= WORK {
            sleep(self.worked * REST).await;
            self.worked = Duration::ZERO;
        } else {
            yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests;
