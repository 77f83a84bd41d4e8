//! Where the Cleaners are, and the operators that work on them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use kube::Api;
use kube::api::ListParams;
use podloom_api::Cleaner;
use podloom_tests::cleaner::Cleaners;
use podloom_tests::steps::{API_SERVER, Requests};
use podloom_tests::{AuditedRequest, Cluster, Operator, Scene, eventually_within};
use tokio::time::sleep;

/// How long a step may take.
pub(crate) const PATIENCE: Duration = Duration::from_mins(10);
/// How many requests of our own are sent at once.
const CONCURRENCY: usize = 16;
/// How often we ask how far the operator is: seldom, since answers take their share of the same processors.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The operator's account.
const ACCOUNT: &str = "system:serviceaccount:podloom-system:podloom-cleaner";

/// A control plane with a few namespaces.
pub(crate) struct Place {
    cluster: Arc<Cluster>,
    scenes: Vec<Scene>,
    /// Options for the operator.
    options: Vec<String>,
}

impl Place {
    pub(crate) async fn new(namespaces: usize, options: Vec<String>) -> Self {
        let cluster = Arc::new(Cluster::installed());
        let mut scenes = Vec::new();
        for number in 0..namespaces.max(1) {
            scenes.push(Scene::new(Arc::clone(&cluster), &format!("cleaner-bench-{number}")).await);
        }
        Self {
            cluster,
            scenes,
            options,
        }
    }

    /// Starts an operator for all namespaces, and waits until it is ready.
    pub(crate) async fn operator(&self) -> Operator {
        let mut arguments = vec!["--controllers", "cleaner"];
        arguments.extend(self.options.iter().map(String::as_str));
        let operator =
            Operator::spawn(&self.cluster, self.cluster.cleaner_kubeconfig(), &arguments);
        operator.ready().await;
        operator
    }

    /// The Cleaners of each namespace.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = Cleaners<'_>> {
        self.scenes.iter().map(Cleaners::new)
    }

    /// The Cleaners of all namespaces.
    pub(crate) fn all(&self) -> Api<Cleaner> {
        Api::all(self.scenes[0].client.clone())
    }

    /// Does something so many times, in one namespace after the other.
    pub(crate) async fn each(&self, count: usize, work: impl AsyncFn(Cleaners<'_>, usize)) {
        let work = &work;
        stream::iter(0..count)
            .map(async |number| {
                let scene = &self.scenes[number % self.scenes.len()];
                work(Cleaners::new(scene), number).await;
            })
            .buffer_unordered(CONCURRENCY)
            .for_each(async |()| ())
            .await;
    }

    /// Waits until there is no Cleaner any more.
    pub(crate) async fn until_none(&self) {
        let (all, one) = (self.all(), ListParams::default().limit(1));
        eventually_within("all are gone", PATIENCE, async || {
            sleep(POLL_INTERVAL).await;
            let page = all.list_metadata(&one).await.unwrap();
            let left = page.metadata.remaining_item_count.unwrap_or_default();
            match page.items.is_empty() {
                true => Ok(()),
                false => Err(format!("{} are left", left + 1)),
            }
        })
        .await;
    }

    /// Waits until so many Cleaners are Ready for one of these reasons, by the operator's own count.
    pub(crate) async fn until_counted(&self, operator: &Operator, count: usize, reasons: &[&str]) {
        eventually_within("all have their status", PATIENCE, async || {
            sleep(POLL_INTERVAL).await;
            let of = |reason: &&str| {
                operator.metric(&format!(
                    "podloom_objects{{controller=\"cleaner\",phase=\"{reason}\"}}"
                ))
            };
            let found: f64 = reasons.iter().map(of).sum();
            match found as usize == count {
                true => Ok(()),
                false => Err(format!("{found} have")),
            }
        })
        .await;
    }

    /// The operator's requests so far, from the API server's audit log. Those that are not answered yet are missing, but watches are there when they begin.
    pub(crate) fn audited(&self) -> Vec<AuditedRequest> {
        self.cluster.requests_of(ACCOUNT)
    }

    /// The number of them.
    pub(crate) fn requests(&self) -> Requests {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for request in self.audited() {
            let mut what = format!("{} {}", request.verb, request.resource);
            if !request.subresource.is_empty() {
                what += &format!("/{}", request.subresource);
            }
            if request.status >= 400 {
                what += &format!(", answered with {}", request.status);
            }
            *counts.entry(what).or_default() += 1;
        }
        Requests::from([(API_SERVER, counts)])
    }
}
