//! The pods of a cluster, read by pages with the user's own rights.

use std::collections::BTreeMap;

use podloom_api::{BrowserConfigObject, BrowserObject, SelenosisApi, SelenosisKind};
use podloom_browser::render::ConfigRef;
use serde_json::Value;
use tokio::sync::mpsc::Sender;

use super::{FoundPod, Reading, Skipped};
use crate::cli::PodArguments;
use crate::error::CommandError;
use crate::lists::{Pages, Place};
use crate::manifest::{controller, metadata, workload};
use crate::render::browser::subject_of;
use crate::render::pod;

/// Why reading ended early; none if nobody takes pods any more.
type Ended = Option<CommandError>;

/// Sends the pods of a cluster; returns what is left out, and why.
pub(super) async fn send(
    scope: &PodArguments,
    pods: Sender<FoundPod>,
) -> Result<Vec<Skipped>, CommandError> {
    let mut reading = Reading::begin(scope).await?;
    match reading.send_all(&pods).await {
        Ok(()) | Err(None) => {
            let left_out = reading.left_out();
            Ok([reading.skipped, left_out].concat())
        }
        Err(Some(error)) => Err(error),
    }
}

impl Reading<'_> {
    async fn send_all(&mut self, pods: &Sender<FoundPod>) -> Result<(), Ended> {
        let client = self.client.clone();
        for kind in KINDS {
            let place = self.selected(kind.api_version, kind.plural);
            let mut pages = Pages::of(&client, &place);
            let what = format!("{}s", kind.kind);
            while let Some(page) = self.next(&mut pages, &what).await? {
                for object in page {
                    if let Some(pod) = self.of_object(kind, object) {
                        pass_on(pods, pod).await?;
                    }
                }
            }
        }
        for api in [SelenosisApi::Seed, SelenosisApi::Split] {
            self.send_browsers(api, pods).await?;
        }
        Ok(())
    }

    /// The pod of an object; none if that is left out.
    fn of_object(&mut self, kind: Listed, object: Value) -> Option<FoundPod> {
        let namespace = metadata(&object, "namespace").to_owned();
        if self.is_left_out(&namespace) {
            return None;
        }
        let object = match submitted(kind, object) {
            Submitted::Itself(object) => object,
            Submitted::OfOwner => return None,
            Submitted::OfUnread(owner) => {
                self.leave_out(owner);
                return None;
            }
        };
        let template = workload(kind.api_version, kind.kind, &object);
        let (template, namespaces) = (template.as_ref(), &self.namespaces);
        let subject = pod::subject_of(&object, template, namespaces, &namespace);
        Some(FoundPod {
            name: format!("{} {namespace}/{}", kind.kind, metadata(&object, "name")),
            place: None,
            subject: subject.excepted(&self.exceptions),
            namespace,
        })
    }

    /// Renders the Browsers of these API groups with the BrowserConfigs of their namespaces.
    async fn send_browsers(
        &mut self,
        api: SelenosisApi,
        pods: &Sender<FoundPod>,
    ) -> Result<(), Ended> {
        let version = |kind: SelenosisKind| format!("{}/v1", api.group(kind));
        let (config, browser) = (SelenosisKind::BrowserConfig, SelenosisKind::Browser);
        let configs = self.place(&version(config), config.plural());
        let browsers = self.selected(&version(browser), browser.plural());
        let client = self.client.clone();
        let mut pages = Pages::of(&client, &browsers);
        let mut known: Option<BTreeMap<String, Vec<BrowserConfigObject>>> = None;
        let mut unmade = Vec::new();
        while let Some(page) = self.next(&mut pages, "Browsers").await? {
            if known.is_none() && !page.is_empty() {
                known = self.read_configs(&configs).await?;
                if known.is_none() {
                    return Ok(());
                }
            }
            for object in page {
                let empty = BTreeMap::new();
                match self.browser(api, object, known.as_ref().unwrap_or(&empty)) {
                    Ok(Some(pod)) => pass_on(pods, pod).await?,
                    Ok(None) => {}
                    Err(why) => unmade.push(why),
                }
            }
        }
        if let Some(first) = unmade.first() {
            let what = crate::explain::count(unmade.len(), "Browser");
            self.skip(&what, format!("no pod can be rendered, as of {first}"));
        }
        Ok(())
    }

    /// None if they may not be read: without them nothing is rendered.
    async fn read_configs(
        &mut self,
        place: &Place,
    ) -> Result<Option<BTreeMap<String, Vec<BrowserConfigObject>>>, CommandError> {
        let client = self.client.clone();
        let mut pages = Pages::of(&client, place);
        let mut configs: BTreeMap<String, Vec<BrowserConfigObject>> = BTreeMap::new();
        let before = self.skipped.len();
        let what = "BrowserConfigs, and so Browsers";
        while let Some(page) = self.next(&mut pages, what).await? {
            for object in page {
                let namespace = metadata(&object, "namespace").to_owned();
                // The operator leaves one alone that does not fit its type.
                if let Ok(config) = serde_json::from_value(object) {
                    configs.entry(namespace).or_default().push(config);
                }
            }
        }
        Ok((self.skipped.len() == before).then_some(configs))
    }

    /// The pod of a Browser; none if its namespace is left out.
    fn browser(
        &self,
        api: SelenosisApi,
        object: Value,
        configs: &BTreeMap<String, Vec<BrowserConfigObject>>,
    ) -> Result<Option<FoundPod>, String> {
        let namespace = metadata(&object, "namespace").to_owned();
        if self.is_left_out(&namespace) {
            return Ok(None);
        }
        let title = format!("Browser {namespace}/{}", metadata(&object, "name"));
        let failed = |why: String| format!("{title}: {why}");
        let mut object = object;
        if let Value::Object(fields) = &mut object {
            fields.remove("status");
        }
        let browser: BrowserObject =
            serde_json::from_value(object).map_err(|error| failed(error.to_string()))?;
        let configs = configs.get(&namespace).into_iter().flatten();
        let configs: Vec<ConfigRef<'_>> = configs
            .map(|config| ConfigRef {
                metadata: &config.metadata,
                spec: &config.spec,
            })
            .collect();
        let about = self.namespaces.get(&namespace);
        let subject = subject_of(api, &browser, &configs, about);
        let subject = subject.map_err(|finding| failed(finding.text))?;
        Ok(Some(FoundPod {
            name: title,
            namespace,
            place: None,
            subject,
        }))
    }
}

async fn pass_on(pods: &Sender<FoundPod>, pod: FoundPod) -> Result<(), Ended> {
    pods.send(pod).await.map_err(|_| None)
}

// Which objects of a cluster are compared, and how they looked before they came into it.

/// A kind of objects with pods.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    owners: Owners,
}

/// Which objects of a kind stand for themselves, besides those without a controller.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Owners {
    /// All.
    Any,
    /// Those whose controller is not read itself, since they have a template.
    Unread,
    /// None: who is not read leaves pods on which a chain has run already.
    None,
}

/// All kinds. What has an owner that is read itself is left out, since it is made of its owner's template.
pub(crate) const KINDS: [Listed; 8] = [
    Listed::new("apps/v1", "Deployment", "deployments", Owners::Any),
    Listed::new("apps/v1", "StatefulSet", "statefulsets", Owners::Any),
    Listed::new("apps/v1", "DaemonSet", "daemonsets", Owners::Any),
    Listed::new("batch/v1", "CronJob", "cronjobs", Owners::Any),
    Listed::new("batch/v1", "Job", "jobs", Owners::Unread),
    Listed::new("apps/v1", "ReplicaSet", "replicasets", Owners::Unread),
    Listed::new(
        "v1",
        "ReplicationController",
        "replicationcontrollers",
        Owners::Unread,
    ),
    Listed::new("v1", "Pod", "pods", Owners::None),
];

/// The metadata that the API server gives, which a pod does not have when the webhook sees it.
const GIVEN: [&str; 6] = [
    "creationTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

impl Listed {
    const fn new(
        api_version: &'static str,
        kind: &'static str,
        plural: &'static str,
        owners: Owners,
    ) -> Self {
        Self {
            api_version,
            kind,
            plural,
            owners,
        }
    }
}

/// What an object of a cluster stands for.
#[derive(Debug, PartialEq)]
pub(crate) enum Submitted {
    /// For itself, as it was submitted.
    Itself(Value),
    /// For nothing: its owner is read.
    OfOwner,
    /// For nothing, and nor does its owner, which is of this kind.
    OfUnread(String),
}

/// What an object stands for.
pub(crate) fn submitted(kind: Listed, object: Value) -> Submitted {
    let controller = controller(&object).filter(|_| kind.owners != Owners::Any);
    if let Some(controller) = controller {
        let text = |field: &str| controller.get(field).and_then(Value::as_str);
        let (api_version, name) = (text("apiVersion"), text("kind").unwrap_or_default());
        // One without replicas makes no pods, like those that a rollout leaves behind.
        if is_read(group(api_version.unwrap_or_default()), name)
            || object.pointer("/spec/replicas") == Some(&0.into())
        {
            return Submitted::OfOwner;
        }
        if kind.owners == Owners::None {
            return Submitted::OfUnread(name.to_owned());
        }
    }
    let Some(mut object) = cleaned(kind.api_version, kind.kind, object) else {
        return Submitted::OfOwner;
    };
    if kind.kind == "Pod"
        && let Some(Value::Object(spec)) = object.get_mut("spec")
    {
        // From the scheduler, which comes after the webhook.
        spec.remove("nodeName");
    }
    Submitted::Itself(object)
}

/// An item of a list without what only the cluster says of it.
pub(crate) fn cleaned(api_version: &str, kind: &str, mut object: Value) -> Option<Value> {
    let fields = object.as_object_mut()?;
    // A list does not say this of its items.
    fields.insert("apiVersion".to_owned(), api_version.into());
    fields.insert("kind".to_owned(), kind.into());
    fields.remove("status");
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        metadata.retain(|field, _| !GIVEN.contains(&field.as_str()));
    }
    Some(object)
}

/// Whether a kind stands for what it owns. A node does so for its static pods, which no webhook can change.
fn is_read(of_group: &str, kind: &str) -> bool {
    let is_browser = |api: SelenosisApi| of_group == api.group(SelenosisKind::Browser);
    KINDS
        .iter()
        .any(|it| it.kind == kind && group(it.api_version) == of_group)
        || (of_group.is_empty() && kind == "Node")
        || kind == SelenosisKind::Browser.name()
            && [SelenosisApi::Seed, SelenosisApi::Split]
                .into_iter()
                .any(is_browser)
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests;
