//! Creates, watches and deletes thousands of Browsers, as clients do.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, DeleteParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use kube::{Client, ResourceExt};
use podloom_api::{BrowserConfigObject, BrowserObject, Phase, SelenosisApi, SelenosisKind};
use serde_json::json;
use tokio::time::timeout;

/// How long each step may take before the measurement fails.
pub(crate) const PATIENCE: Duration = Duration::from_mins(10);

/// The BrowserConfig of all Browsers.
const CONFIG: &str = include_str!("browserconfig.yaml");

/// Where to create Browsers, and how many.
#[derive(Clone)]
pub(crate) struct Workplace {
    pub(crate) client: Client,
    pub(crate) api: SelenosisApi,
    pub(crate) browsers: usize,
    pub(crate) concurrency: usize,
}

/// When the last of all Browsers reached each step, measured from the creation of the first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub(crate) last_created: Duration,
    pub(crate) last_pod: Duration,
    pub(crate) last_running: Duration,
}

impl Workplace {
    pub(crate) fn browsers(&self, namespace: &str) -> Api<BrowserObject> {
        let resource = self.api.resource(SelenosisKind::Browser);
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }

    pub(crate) fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }

    pub(crate) fn configs(&self, namespace: &str) -> Api<BrowserConfigObject> {
        let resource = self.api.resource(SelenosisKind::BrowserConfig);
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }

    /// Creates a namespace with the BrowserConfig.
    pub(crate) async fn open(&self, namespace: &str) -> Result<()> {
        let object: Namespace =
            serde_json::from_value(json!({ "metadata": { "name": namespace } }))?;
        Api::all(self.client.clone())
            .create(&PostParams::default(), &object)
            .await?;
        let mut config: BrowserConfigObject = serde_saphyr::from_str(CONFIG)?;
        let resource = self.api.resource(SelenosisKind::BrowserConfig);
        if let Some(types) = &mut config.types {
            types.api_version.clone_from(&resource.api_version);
        }
        let configs = self.configs(namespace);
        configs.create(&PostParams::default(), &config).await?;
        Ok(())
    }

    /// Creates all Browsers with the configured concurrency, and passes each to `made`.
    pub(crate) async fn create(&self, namespace: &str, made: impl Fn(BrowserObject)) -> Result<()> {
        let api = self.browsers(namespace);
        stream::iter(0..self.browsers)
            .map(|number| {
                let api = api.clone();
                async move {
                    api.create(&PostParams::default(), &self.browser(number)?)
                        .await
                        .map_err(anyhow::Error::from)
                }
            })
            .buffer_unordered(self.concurrency)
            .try_for_each(|browser| {
                made(browser);
                futures::future::ready(Ok(()))
            })
            .await
            .context("creating Browsers")
    }

    pub(crate) fn browser(&self, number: usize) -> Result<BrowserObject> {
        let resource = self.api.resource(SelenosisKind::Browser);
        Ok(serde_json::from_value(json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": { "name": format!("session-{number:05}") },
            "spec": { "browserName": "chrome", "browserVersion": "139.0" },
        }))?)
    }

    /// Creates all Browsers and waits until a watching client has seen the last of them run.
    pub(crate) async fn start_all(&self, namespace: &str) -> Result<Progress> {
        let begun = Instant::now();
        let pods = self.until_all_pods(namespace, begun);
        let running = self.until_all_run(namespace, begun);
        let created = async {
            self.create(namespace, drop).await?;
            anyhow::Ok(begun.elapsed())
        };
        let (last_created, last_pod, last_running) =
            timeout(PATIENCE, futures::future::try_join3(created, pods, running))
                .await
                .context("not all Browsers were running in time")??;
        Ok(Progress {
            last_created,
            last_pod,
            last_running,
        })
    }

    async fn until_all_pods(&self, namespace: &str, begun: Instant) -> Result<Duration> {
        let api: Api<PartialObjectMeta<Pod>> = Api::namespaced(self.client.clone(), namespace);
        let mut events = std::pin::pin!(watcher(api, watcher::Config::default()).applied_objects());
        let mut seen = HashSet::new();
        while let Some(pod) = events.try_next().await? {
            seen.insert(pod.name_any());
            if seen.len() == self.browsers {
                return Ok(begun.elapsed());
            }
        }
        bail!("the watch of Pods ended")
    }

    async fn until_all_run(&self, namespace: &str, begun: Instant) -> Result<Duration> {
        let api = self.browsers(namespace);
        let mut events = std::pin::pin!(watcher(api, watcher::Config::default()).applied_objects());
        let mut running = HashSet::new();
        while let Some(browser) = events.try_next().await? {
            let Some(status) = &browser.status else {
                continue;
            };
            if status.phase == Some(Phase::Failed) {
                bail!(
                    "{} failed: {}",
                    browser.name_any(),
                    status.message.as_deref().unwrap_or("?")
                );
            }
            if status.phase == Some(Phase::Running) && status.pod_ip.is_some() {
                running.insert(browser.name_any());
            }
            if running.len() == self.browsers {
                return Ok(begun.elapsed());
            }
        }
        bail!("the watch of Browsers ended")
    }

    /// Deletes all Browsers and waits until they and their pods are gone.
    pub(crate) async fn delete_all(&self, namespace: &str) -> Result<Duration> {
        let begun = Instant::now();
        let api = self.browsers(namespace);
        let all = api.list(&kube::api::ListParams::default()).await?;
        stream::iter(all.items)
            .map(|browser| {
                let api = api.clone();
                async move {
                    api.delete(&browser.name_any(), &DeleteParams::default())
                        .await
                }
            })
            .buffer_unordered(self.concurrency)
            .try_for_each(|_| futures::future::ready(Ok(())))
            .await
            .context("deleting Browsers")?;
        timeout(PATIENCE, self.until_empty(namespace))
            .await
            .context("not all Browsers were gone in time")??;
        Ok(begun.elapsed())
    }

    /// Waits until no Browser and no pod is left.
    pub(crate) async fn until_empty(&self, namespace: &str) -> Result<()> {
        until_none(self.browsers(namespace)).await?;
        until_none(self.pods(namespace)).await
    }
}

/// Waits until a watch shows that no object is left.
async fn until_none<K>(api: Api<K>) -> Result<()>
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let mut events = std::pin::pin!(watcher(api, watcher::Config::default()));
    let mut names = HashSet::new();
    let mut listed = false;
    while let Some(event) = events.try_next().await? {
        match event {
            watcher::Event::Init => names.clear(),
            watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
                names.insert(object.name_any());
            }
            watcher::Event::Delete(object) => {
                names.remove(&object.name_any());
            }
            watcher::Event::InitDone => listed = true,
        }
        if listed && names.is_empty() {
            return Ok(());
        }
    }
    bail!("a watch ended")
}
