//! Reads a cluster by pages, with the rights of the user, and says what drifted there.

use std::collections::{HashMap, HashSet};

use anyhow::Context;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::{Api, Client};
use serde_json::Value;

use super::Scope;
use super::findings::Findings;
use super::judge::{Expected, Judge, Passed};
use super::namespaces::Namespaces;
use super::pod::{Pod, controller, text, texts};
use super::tally::Tally;
use super::webhook::{Installed, Webhook};
use crate::error::CommandError;
use crate::feed::Skipped;
use crate::lists::{Pages, Place, Trouble};

/// Where the pod is in a Deployment.
const TEMPLATE: &str = "/spec/template";

/// A cluster that is being read.
struct Reading<'s> {
    client: Client,
    scope: &'s Scope,
    skipped: Vec<Skipped>,
}

/// What drifted, and what could not be read.
pub(super) async fn read(
    client: &Client,
    scope: &Scope,
    expected: Option<Expected>,
) -> Result<(Findings, Vec<Skipped>), CommandError> {
    let mut reading = Reading {
        client: client.clone(),
        scope,
        skipped: Vec::new(),
    };
    let mut tally = Tally::new(expected.as_ref().map(|it| it.digest.clone()));
    let judge = Judge {
        webhook: reading.webhook().await?,
        namespaces: reading.namespaces().await?,
        expected,
    };
    reading.pods(&judge, &mut tally).await?;
    reading.owners(&mut tally, "apps/v1", "ReplicaSet").await?;
    reading.owners(&mut tally, "batch/v1", "Job").await?;
    let stamped = reading.deployments(&mut tally).await?;
    Ok((tally.finish(&stamped), reading.skipped))
}

impl Reading<'_> {
    async fn webhook(&mut self) -> Result<Webhook, CommandError> {
        let name = &self.scope.webhook;
        let configurations: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        let what = format!("MutatingWebhookConfiguration {name}");
        match configurations.get_opt(name).await {
            Ok(Some(found)) => Ok(Webhook::Installed(Installed::of(&found))),
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

    async fn namespaces(&mut self) -> Result<Namespaces, CommandError> {
        let mut place = Place::new("v1", "namespaces");
        let name = self.scope.namespace.as_ref();
        place.fields = name.map(|name| format!("metadata.name={name}"));
        let mut namespaces = Namespaces::default();
        let client = self.client.clone();
        let mut pages = Pages::of_metadata(&client, &place);
        let why = "so only their names are known";
        while let Some(page) = self.next(&mut pages, "labels of namespaces", why).await? {
            for namespace in page {
                let name = text(&namespace, "name").to_owned();
                namespaces.insert(name, texts(&namespace, "labels"));
            }
        }
        Ok(namespaces)
    }

    /// Pods are needed: a report about none must not look as if all were well.
    async fn pods(&self, judge: &Judge, tally: &mut Tally) -> Result<(), CommandError> {
        let mut place = self.place("v1", "pods");
        place.labels.clone_from(&self.scope.selector);
        let mut pages = Pages::of(&self.client, &place);
        let failed = |trouble: Trouble| trouble.into_error("pods");
        while let Some(page) = pages.next().await.map_err(failed)? {
            for pod in &page {
                let pod = Pod(pod);
                tally.add(&pod, judge.judge(&pod));
            }
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
        let take = |uid: &str, object: &Value| {
            if let Some(owner) = controller(object) {
                tally.resolve(uid, owner);
            }
        };
        if !self
            .take(&place, &format!("{kind}s"), (&wanted, why.as_str()), take)
            .await?
        {
            tally.unread(group, kind);
        }
        Ok(())
    }

    /// The stamps of Deployments, by UID. Those of Podloom's own Deployments stand for their pods.
    async fn deployments(
        &mut self,
        tally: &mut Tally,
    ) -> Result<HashMap<String, Passed>, CommandError> {
        let wanted = tally.deployments();
        let place = self.place("apps/v1", "deployments");
        let why = "so stamps on them are not seen";
        let mut stamped = HashMap::new();
        let take = |uid: &str, object: &Value| {
            let passed = Passed::of(object, TEMPLATE);
            stamped.extend(passed.map(|passed| (uid.to_owned(), passed)));
        };
        if !self
            .take(&place, "Deployments", (&wanted, why), take)
            .await?
        {
            tally.unread("apps", "Deployment");
        }
        Ok(stamped)
    }

    /// Reads the metadata of the objects with these UIDs; false if they may not be listed. If there are none, nothing is read.
    async fn take(
        &mut self,
        place: &Place,
        what: &str,
        (wanted, why): (&HashSet<String>, &str),
        mut take: impl FnMut(&str, &Value),
    ) -> Result<bool, CommandError> {
        if wanted.is_empty() {
            return Ok(true);
        }
        let client = self.client.clone();
        let before = self.skipped.len();
        let mut pages = Pages::of_metadata(&client, place);
        while let Some(page) = self.next(&mut pages, what, why).await? {
            for object in page {
                let uid = text(&object, "uid");
                if wanted.contains(uid) {
                    take(uid, &object);
                }
            }
        }
        Ok(self.skipped.len() == before)
    }

    /// The next page; none at the end, and if the objects may not be listed.
    async fn next(
        &mut self,
        pages: &mut Pages<'_>,
        what: &str,
        why: &str,
    ) -> Result<Option<Vec<Value>>, CommandError> {
        match pages.next().await {
            Ok(page) => Ok(page),
            Err(Trouble::Forbidden(message)) => {
                self.skip(what, format!("you may not list them ({message}), {why}"));
                Ok(None)
            }
            Err(trouble) => Err(trouble.into_error(what)),
        }
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
