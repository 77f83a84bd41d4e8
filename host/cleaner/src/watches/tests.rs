use std::sync::Arc;
use std::time::Duration;

use podloom_engine::kind::ResourceScope;
use podloom_engine::outbound::OutboundMetrics;
use podloom_scripted::{Broken, broken};
use prometheus_client::registry::Registry;
use tokio::time::timeout;

use super::super::watches;
use super::{Answer, Kinds, Watched, Watches};
use crate::discovery::ServedKind;
use crate::fixtures::kind;
use crate::memory::{Alarms, Memory};
use crate::metrics::CleanerMetrics;

/// The kinds of a test, whose watches do nothing.
struct Running {
    kinds: Kinds,
    pods: Arc<ServedKind>,
}

impl Running {
    fn new(is_wide: bool) -> Self {
        Self {
            kinds: Kinds::new(is_wide),
            pods: kind("Pod", "pods"),
        }
    }

    /// Adds a user, and returns where watches begin: `*` is everywhere.
    fn add(&mut self, namespace: &str, uid: &str) -> Vec<String> {
        let starts = self.kinds.add(&self.pods, &namespace.into(), &uid.into());
        self.started(starts)
    }

    fn remove(&mut self, namespace: &str, uid: &str) {
        let place = (self.pods.key(), namespace.into());
        self.kinds.remove(&place, &uid.into());
    }

    fn answered(&mut self, namespace: Option<&str>, answer: Answer) -> Vec<String> {
        let namespace = namespace.map(Arc::from);
        let starts = self.kinds.answered(&self.pods.key(), &namespace, answer);
        self.started(starts)
    }

    fn started(&mut self, starts: Vec<Watched>) -> Vec<String> {
        let names = starts
            .iter()
            .map(|it| it.1.as_deref().unwrap_or("*").to_owned())
            .collect();
        self.kinds.start(starts, |_| std::future::pending());
        names
    }

    fn answer(&self, namespace: &str) -> Answer {
        self.kinds.answer(&(self.pods.key(), namespace.into()))
    }

    fn tell(&mut self, namespace: &str) -> Answer {
        self.kinds.tell(&(self.pods.key(), namespace.into()))
    }

    fn surprises(&mut self) -> Vec<String> {
        let surprises = self.kinds.surprises(&self.pods.key());
        surprises
            .into_iter()
            .map(|(_, namespace)| namespace.to_string())
            .collect()
    }
}

#[tokio::test]
async fn a_kind_has_one_watch_as_long_as_it_is_used() {
    let mut it = Running::new(true);
    assert_eq!(it.add("a", "1"), ["*"]);
    assert!(it.add("b", "2").is_empty() && it.add("a", "3").is_empty());
    assert_eq!(it.answer("a"), Answer::Pending);
    it.answered(None, Answer::Watching);
    assert_eq!(it.answer("b"), Answer::Watching);
    for (namespace, uid) in [("a", "1"), ("b", "2"), ("b", "2")] {
        it.remove(namespace, uid);
        assert_eq!(it.kinds.count(), 1);
    }
    it.remove("a", "3");
    assert_eq!(it.kinds.count(), 0);
    assert_eq!(it.add("a", "1"), ["*"]);
}

#[tokio::test]
async fn what_may_not_be_watched_everywhere_is_watched_where_it_is_used() {
    let mut it = Running::new(true);
    it.add("a", "1");
    assert_eq!(it.answered(None, Answer::Forbidden), ["a"]);
    assert_eq!(it.add("b", "2"), ["b"]);
    assert_eq!(it.answer("a"), Answer::Pending);
    it.answered(Some("a"), Answer::Watching);
    it.answered(Some("b"), Answer::Forbidden);
    assert_eq!(
        (it.answer("a"), it.answer("b")),
        (Answer::Watching, Answer::Forbidden)
    );
    // The right is granted later.
    assert!(it.answered(None, Answer::Watching).is_empty());
    assert_eq!(
        (it.answer("a"), it.answer("b")),
        (Answer::Watching, Answer::Watching)
    );
}

#[tokio::test]
async fn an_operator_of_some_namespaces_watches_only_there() {
    let mut it = Running::new(false);
    assert_eq!(it.add("a", "1"), ["a"]);
    assert_eq!(it.add("b", "2"), ["b"]);
    it.remove("a", "1");
    assert_eq!(it.add("a", "1"), ["a"]);
}

#[tokio::test]
async fn cluster_scoped_kinds_are_watched_once() {
    let mut it = Running::new(false);
    let mut nodes = (*it.pods).clone();
    nodes.scope = ResourceScope::Cluster;
    it.pods = Arc::new(nodes);
    assert_eq!(it.add("", "1"), ["*"]);
    assert!(it.answered(None, Answer::Forbidden).is_empty());
    assert_eq!(it.answer(""), Answer::Forbidden);
}

#[tokio::test]
async fn who_was_told_something_else_is_woken_once() {
    let mut it = Running::new(true);
    it.add("a", "1");
    assert_eq!(it.tell("a"), Answer::Pending);
    it.answered(None, Answer::Watching);
    assert!(it.surprises().is_empty(), "pending counts as watching");
    it.answered(None, Answer::Forbidden);
    it.answered(Some("a"), Answer::Forbidden);
    assert_eq!(it.surprises(), ["a"]);
    assert!(it.surprises().is_empty());
    assert_eq!(it.tell("a"), Answer::Forbidden);
    it.answered(None, Answer::Watching);
    assert_eq!(it.surprises(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_fails_is_asked_for_targets_every_few_seconds() {
    for how in Broken::ALL {
        let (client, requests) = broken(how);
        let metrics = {
            let mut registry = Registry::default();
            let outbound = OutboundMetrics::register(&mut registry);
            CleanerMetrics::register(&mut registry, outbound)
        };
        let alarms = Alarms {
            memory: Memory::default(),
            wake: Arc::new(|_| {}),
        };
        let watches = Watches::new(client, true, alarms, metrics);
        let watched = (kind("Pod", "pods"), None);
        let running = watches::run(Arc::downgrade(&watches.0), watched);
        let _never_ends = timeout(Duration::from_mins(10), running).await;
        let asked = requests.made().len();
        assert!((75..=160).contains(&asked), "{how:?}: {asked} requests");
    }
}
