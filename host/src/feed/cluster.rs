//! The pods of a cluster, read by pages with the user's own rights.

mod objects;

use std::collections::BTreeMap;

use kube::Client;
use podloom_api::{BrowserConfigObject, BrowserObject, SelenosisApi, SelenosisKind};
use podloom_controllers::render::ConfigRef;
use serde_json::Value;
use tokio::sync::mpsc::Sender;

use self::objects::{KINDS, Listed, submitted};
use super::{Candidate, Skipped};
use crate::cli::PodArguments;
use crate::error::CommandError;
use crate::lists::{self, Connection, Pages, Place, Trouble};
use crate::render::browser::{Unmade, subject_of};
use crate::render::pod;
use crate::render::{Metadata, Namespaces};

/// What to read of a cluster.
pub(super) struct Cluster {
    /// None for that of the kubeconfig's context.
    namespace: Option<String>,
    is_all: bool,
    namespace_selector: Option<String>,
    selector: Option<String>,
}

/// A cluster that is being read.
struct Reading {
    client: Client,
    /// None for all.
    namespace: Option<String>,
    /// Whether namespaces that are not known are left out.
    is_selective: bool,
    selector: Option<String>,
    namespaces: Namespaces,
    skipped: Vec<Skipped>,
    candidates: Sender<Candidate>,
}

/// Nobody takes pods any more.
struct Closed;

/// Why reading ended early.
enum Ended {
    Closed,
    Failed(CommandError),
}

impl From<Closed> for Ended {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}

impl From<CommandError> for Ended {
    fn from(error: CommandError) -> Self {
        Self::Failed(error)
    }
}

impl Cluster {
    pub(super) fn of(arguments: &PodArguments) -> Self {
        Self {
            namespace: arguments.namespace.clone(),
            is_all: arguments.all_namespaces,
            namespace_selector: arguments.namespace_selector.clone(),
            selector: arguments.selector.clone(),
        }
    }

    pub(super) async fn send(
        self,
        candidates: Sender<Candidate>,
    ) -> Result<Vec<Skipped>, CommandError> {
        let Connection { client, namespace } = lists::connect().await?;
        let mut reading = Reading {
            client,
            namespace: (!self.is_all).then(|| self.namespace.unwrap_or(namespace)),
            is_selective: self.namespace_selector.is_some(),
            selector: self.selector,
            namespaces: Namespaces::default(),
            skipped: Vec::new(),
            candidates,
        };
        reading.read_namespaces(self.namespace_selector).await?;
        match reading.read_objects().await {
            Ok(()) | Err(Ended::Closed) => Ok(reading.skipped),
            Err(Ended::Failed(error)) => Err(error),
        }
    }
}

impl Reading {
    /// Reads the labels and annotations of namespaces, once. Without the right to, plugins know no more than their names, as in the
    /// webhook.
    async fn read_namespaces(&mut self, selector: Option<String>) -> Result<(), CommandError> {
        let mut place = Place::new("v1", "namespaces");
        place.fields = self
            .namespace
            .as_ref()
            .map(|name| format!("metadata.name={name}"));
        place.labels = selector;
        let mut pages = Pages::of_metadata(&self.client, &place);
        loop {
            match pages.next().await {
                Ok(None) => return Ok(()),
                Ok(Some(page)) => {
                    for namespace in page {
                        let metadata = Metadata {
                            labels: texts(&namespace, "labels"),
                            annotations: texts(&namespace, "annotations"),
                        };
                        self.namespaces.insert(name(&namespace), metadata);
                    }
                }
                Err(Trouble::Forbidden(message)) if !self.is_selective => {
                    let why = format!(
                        "you may not list them ({message}), so namespaceSelector and plugins see only the label with their name"
                    );
                    self.skip("labels of namespaces", why);
                    return Ok(());
                }
                Err(trouble) => return Err(trouble.into_error("namespaces")),
            }
        }
    }

    async fn read_objects(&mut self) -> Result<(), Ended> {
        let client = self.client.clone();
        for kind in KINDS {
            let mut place = Place::new(kind.api_version, kind.plural);
            place.namespace.clone_from(&self.namespace);
            place.labels.clone_from(&self.selector);
            let mut pages = Pages::of(&client, &place);
            while let Some(page) = self.next(&mut pages, &format!("{}s", kind.kind)).await? {
                for object in page {
                    self.send_object(kind, object).await?;
                }
            }
        }
        for api in [SelenosisApi::Seed, SelenosisApi::Split] {
            self.read_browsers(api).await?;
        }
        Ok(())
    }

    /// The next page; none at the end, and if the kind is not served or may not be listed.
    async fn next(
        &mut self,
        pages: &mut Pages<'_>,
        what: &str,
    ) -> Result<Option<Vec<Value>>, CommandError> {
        match pages.next().await {
            Ok(page) => Ok(page),
            Err(Trouble::NotServed) => Ok(None),
            Err(Trouble::Forbidden(message)) => {
                self.skip(what, format!("you may not list them ({message})"));
                Ok(None)
            }
            Err(trouble) => Err(trouble.into_error(what)),
        }
    }

    async fn send_object(&self, kind: Listed, object: Value) -> Result<(), Closed> {
        let Some(object) = submitted(kind, object) else {
            return Ok(());
        };
        let namespace = field(&object, "namespace");
        if self.is_left_out(&namespace) {
            return Ok(());
        }
        let template = crate::manifest::workload(kind.api_version, kind.kind, &object);
        let subject = pod::subject_of(&object, template.as_ref(), &self.namespaces, &namespace);
        self.send(Candidate {
            name: format!("{} {namespace}/{}", kind.kind, name(&object)),
            namespace,
            subject,
        })
        .await
    }

    async fn send(&self, candidate: Candidate) -> Result<(), Closed> {
        self.candidates.send(candidate).await.map_err(|_| Closed)
    }

    fn is_left_out(&self, namespace: &str) -> bool {
        self.is_selective && !self.namespaces.contains(namespace)
    }

    /// Renders the Browsers of these API groups with the BrowserConfigs of their namespaces.
    async fn read_browsers(&mut self, api: SelenosisApi) -> Result<(), Ended> {
        let place = |kind: SelenosisKind| {
            let mut place = Place::new(&format!("{}/v1", api.group(kind)), kind.plural());
            place.namespace.clone_from(&self.namespace);
            place
        };
        let configs = place(SelenosisKind::BrowserConfig);
        let mut browsers = place(SelenosisKind::Browser);
        browsers.labels.clone_from(&self.selector);
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
                    Ok(Some(candidate)) => self.send(candidate).await?,
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
                let namespace = field(&object, "namespace");
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
    ) -> Result<Option<Candidate>, String> {
        let namespace = field(&object, "namespace");
        if self.is_left_out(&namespace) {
            return Ok(None);
        }
        let title = format!("Browser {namespace}/{}", name(&object));
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
        let subject = subject.map_err(|unmade: Unmade| {
            let finding = unmade.finding().map(|finding| finding.text);
            failed(finding.unwrap_or_default())
        })?;
        Ok(Some(Candidate {
            name: title,
            namespace,
            subject,
        }))
    }

    /// Says once what is skipped: without rights, an API server refuses both groups of Browsers, even those that it does not have.
    fn skip(&mut self, what: &str, why: String) {
        if self.skipped.iter().any(|it| it.what == what) {
            return;
        }
        self.skipped.push(Skipped {
            what: what.to_owned(),
            why,
        });
    }
}

fn name(object: &Value) -> String {
    field(object, "name")
}

/// A field of the metadata.
fn field(object: &Value, field: &str) -> String {
    let text = object
        .get("metadata")
        .and_then(|it| it.get(field)?.as_str());
    text.unwrap_or_default().to_owned()
}

fn texts(object: &Value, field: &str) -> BTreeMap<String, String> {
    let map = object
        .get("metadata")
        .and_then(|it| it.get(field)?.as_object());
    let fields = map.into_iter().flatten();
    let texts = fields.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    texts.collect()
}
