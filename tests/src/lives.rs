//! The lives of many sessions at once under one operator, each in a namespace of its own, so that each can have its own faults.

use std::collections::BTreeSet;
use std::env;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use podloom_api::Browser;
use serde_json::json;

use crate::faults::{Proxy, Rule};
use crate::operator::Operator;
use crate::scene::Scene;
use crate::seed::Seed;
use crate::wait::eventually;
use crate::watched::Watched;

/// How many sessions of a series a test has, unless it is whole.
const FEW: usize = 10;

/// How far a test goes in a long series at each step: by one with `PODLOOM_LIVES=all`, else by three.
#[must_use]
pub fn stride() -> usize {
    if is_whole() { 1 } else { 3 }
}

/// Whether tests have all sessions of their series: with `PODLOOM_LIVES=all`.
#[must_use]
pub fn is_whole() -> bool {
    env::var("PODLOOM_LIVES").is_ok_and(|lives| lives == "all")
}

/// The sessions of a series that a test has: a random few, or all.
#[must_use]
pub fn chosen<T>(name: &str, series: Vec<T>) -> Vec<T> {
    let (mut chosen, mut seed) = (series, Seed::new(name));
    while chosen.len() > FEW && !is_whole() {
        chosen.swap_remove(seed.below(chosen.len()));
    }
    chosen
}

/// Sessions and their operator, behind a proxy.
pub struct Lives {
    /// The sessions.
    pub sessions: Vec<Session>,
    /// The operator.
    pub operator: Operator,
    proxy: Proxy,
}

/// A session, and all that its clients have seen.
pub struct Session {
    /// Its namespace. The Browser has the same name.
    pub scene: Scene,
    /// What became of the Browsers of its name.
    pub browsers: Watched<Browser>,
    /// What became of their pods.
    pub pods: Watched<Pod>,
}

impl Lives {
    /// Makes the namespaces of so many sessions, and starts the operator.
    pub async fn new(scene: &Scene, count: usize) -> Self {
        let sessions = join_all((0..count).map(|number| Session::new(scene, number))).await;
        let names: Vec<&str> = sessions.iter().map(Session::name).collect();
        let proxy = scene.proxy();
        let arguments = ["--namespace", &names.join(",")];
        let operator = scene.operator_behind(&proxy, &arguments).await;
        Self {
            sessions,
            operator,
            proxy,
        }
    }

    /// Sets the rules of each session. Those of all sessions have the same length.
    pub fn set_rules<const N: usize>(&self, rules: impl Iterator<Item = [Rule; N]>) {
        let mut all = Vec::new();
        for (session, rules) in self.sessions.iter().zip(rules) {
            for mut rule in rules {
                rule.on.path = format!("/namespaces/{}/{}", session.name(), rule.on.path);
                all.push(rule);
            }
        }
        self.proxy.set_rules(&all);
    }

    /// Removes all rules.
    pub fn heal(&self) {
        self.proxy.set_rules(&[]);
    }

    /// How often each rule of each session was applied.
    pub fn hits<const N: usize>(&self) -> Vec<[u64; N]> {
        self.proxy.hits().as_chunks().0.to_vec()
    }

    /// Waits until something is so of each session, by it and by how often its rules were applied.
    pub async fn until_each<const N: usize>(
        &self,
        what: &str,
        is: impl Fn(&Session, [u64; N]) -> bool,
    ) {
        eventually(what, async || {
            let hits = self.hits::<N>().into_iter();
            let others = self.sessions.iter().zip(hits);
            let others = others.filter(|(session, hits)| !is(session, *hits));
            let others: Vec<_> = others
                .map(|(session, hits)| (session.name(), hits, session.story()))
                .collect();
            let is_so = others.is_empty();
            is_so.then_some(()).ok_or_else(|| format!("{others:?}"))
        })
        .await;
    }
}

impl Session {
    async fn new(scene: &Scene, number: usize) -> Self {
        let name = format!("{}-{number}", scene.namespace);
        let scene = scene.beside(&name, json!({})).await;
        Self {
            browsers: scene.watch_browsers().await,
            pods: scene.watch_pods().await,
            scene,
        }
    }

    /// The name of its namespace, its Browser and its pod.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.scene.namespace
    }

    /// Creates the BrowserConfig and the Browser.
    pub async fn begin(&self, version: &str) {
        self.scene.behaviours().await;
        self.scene.browser(self.name(), version).await;
    }

    /// Whether the Browser runs.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.story().last().map(String::as_str) == Some("Running")
    }

    /// Whether there was a Browser, and now there is none.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.story().last().map(String::as_str) == Some("gone")
    }

    /// What clients have seen of the Browser.
    #[must_use]
    pub fn story(&self) -> Vec<String> {
        self.browsers.story(self.name())
    }

    /// Waits until nothing is left of it, and returns what clients saw. No Browser ever had two pods, and none came back from its end.
    pub async fn ends(&self) -> Vec<String> {
        let story = self.browsers.until_gone(self.name()).await;
        self.scene.nothing_is_left().await;
        let pods = self.pods.of(self.name());
        let owners: BTreeSet<_> = pods.iter().map(|pod| owner(pod.object())).collect();
        let pods = self.pods.uids(self.name());
        assert_eq!(owners.len(), pods.len(), "{}: {story:?}", self.name());
        for life in story.split(|line| line == "gone") {
            let is_end = |line: &String| line.starts_with("Failed") || line.starts_with("Succe");
            let from_end = life.iter().skip_while(|line| !is_end(line));
            assert!(from_end.count() <= 1, "{}: {story:?}", self.name());
        }
        story
    }
}

/// The UID of the Browser that a pod was made for.
fn owner(pod: &Pod) -> Option<String> {
    let owners = pod.metadata.owner_references.as_ref()?;
    owners.first().map(|owner| owner.uid.clone())
}
