//! The pods of a cluster, read by pages with the user's own rights.

use std::collections::BTreeMap;

use podloom_api::{BrowserConfigObject, BrowserObject, SelenosisApi, SelenosisKind};
use podloom_controllers::render::ConfigRef;
use serde_json::Value;
use tokio::sync::mpsc::Sender;

use super::objects::{KINDS, Listed, Submitted, submitted};
use super::scope::{Reading, Scope, field, name};
use super::{FoundPod, Skipped};
use crate::error::CommandError;
use crate::lists::{Pages, Place};
use crate::render::browser::{Unmade, subject_of};
use crate::render::pod;

/// A cluster whose pods are sent.
struct Sending {
    reading: Reading,
    pods: Sender<FoundPod>,
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

/// Sends the pods of a cluster; returns what is left out, and why.
pub(super) async fn send(
    scope: Scope,
    pods: Sender<FoundPod>,
) -> Result<Vec<Skipped>, CommandError> {
    let reading = Reading::begin(scope).await?;
    let mut sending = Sending { reading, pods };
    match sending.send_all().await {
        Ok(()) | Err(Ended::Closed) => {
            let left_out = sending.reading.left_out();
            Ok([sending.reading.skipped, left_out].concat())
        }
        Err(Ended::Failed(error)) => Err(error),
    }
}

impl Sending {
    async fn send_all(&mut self) -> Result<(), Ended> {
        let client = self.reading.client.clone();
        for kind in KINDS {
            let place = self.reading.selected(kind.api_version, kind.plural);
            let mut pages = Pages::of(&client, &place);
            let what = format!("{}s", kind.kind);
            while let Some(page) = self.reading.next(&mut pages, &what).await? {
                for object in page {
                    self.send_object(kind, object).await?;
                }
            }
        }
        for api in [SelenosisApi::Seed, SelenosisApi::Split] {
            self.send_browsers(api).await?;
        }
        Ok(())
    }

    async fn send_object(&mut self, kind: Listed, object: Value) -> Result<(), Closed> {
        let namespace = field(&object, "namespace");
        if self.reading.is_left_out(&namespace) {
            return Ok(());
        }
        let object = match submitted(kind, object) {
            Submitted::Itself(object) => object,
            Submitted::OfOwner => return Ok(()),
            Submitted::OfUnread(owner) => {
                self.reading.leave_out(owner);
                return Ok(());
            }
        };
        let template = crate::manifest::workload(kind.api_version, kind.kind, &object);
        let subject = pod::subject_of(
            &object,
            template.as_ref(),
            &self.reading.namespaces,
            &namespace,
        );
        self.send(FoundPod {
            name: format!("{} {namespace}/{}", kind.kind, name(&object)),
            namespace,
            subject,
        })
        .await
    }

    async fn send(&self, pod: FoundPod) -> Result<(), Closed> {
        self.pods.send(pod).await.map_err(|_| Closed)
    }

    /// Renders the Browsers of these API groups with the BrowserConfigs of their namespaces.
    async fn send_browsers(&mut self, api: SelenosisApi) -> Result<(), Ended> {
        let version = |kind: SelenosisKind| format!("{}/v1", api.group(kind));
        let (config, browser) = (SelenosisKind::BrowserConfig, SelenosisKind::Browser);
        let configs = self.reading.place(&version(config), config.plural());
        let browsers = self.reading.selected(&version(browser), browser.plural());
        let client = self.reading.client.clone();
        let mut pages = Pages::of(&client, &browsers);
        let mut known: Option<BTreeMap<String, Vec<BrowserConfigObject>>> = None;
        let mut unmade = Vec::new();
        while let Some(page) = self.reading.next(&mut pages, "Browsers").await? {
            if known.is_none() && !page.is_empty() {
                known = self.read_configs(&configs).await?;
                if known.is_none() {
                    return Ok(());
                }
            }
            for object in page {
                let empty = BTreeMap::new();
                match self.browser(api, object, known.as_ref().unwrap_or(&empty)) {
                    Ok(Some(pod)) => self.send(pod).await?,
                    Ok(None) => {}
                    Err(why) => unmade.push(why),
                }
            }
        }
        if let Some(first) = unmade.first() {
            let what = crate::explain::count(unmade.len(), "Browser");
            self.reading
                .skip(&what, format!("no pod can be rendered, as of {first}"));
        }
        Ok(())
    }

    /// None if they may not be read: without them nothing is rendered.
    async fn read_configs(
        &mut self,
        place: &Place,
    ) -> Result<Option<BTreeMap<String, Vec<BrowserConfigObject>>>, CommandError> {
        let client = self.reading.client.clone();
        let mut pages = Pages::of(&client, place);
        let mut configs: BTreeMap<String, Vec<BrowserConfigObject>> = BTreeMap::new();
        let before = self.reading.skipped.len();
        let what = "BrowserConfigs, and so Browsers";
        while let Some(page) = self.reading.next(&mut pages, what).await? {
            for object in page {
                let namespace = field(&object, "namespace");
                // The operator leaves one alone that does not fit its type.
                if let Ok(config) = serde_json::from_value(object) {
                    configs.entry(namespace).or_default().push(config);
                }
            }
        }
        Ok((self.reading.skipped.len() == before).then_some(configs))
    }

    /// The pod of a Browser; none if its namespace is left out.
    fn browser(
        &self,
        api: SelenosisApi,
        object: Value,
        configs: &BTreeMap<String, Vec<BrowserConfigObject>>,
    ) -> Result<Option<FoundPod>, String> {
        let namespace = field(&object, "namespace");
        if self.reading.is_left_out(&namespace) {
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
        let about = self.reading.namespaces.get(&namespace);
        let subject = subject_of(api, &browser, &configs, about);
        let subject = subject.map_err(|unmade: Unmade| {
            let finding = unmade.finding().map(|finding| finding.text);
            failed(finding.unwrap_or_default())
        })?;
        Ok(Some(FoundPod {
            name: title,
            namespace,
            subject,
        }))
    }
}
