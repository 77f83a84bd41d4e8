mod backoff;
mod shortage;

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use podloom_api::ClusterObject;
use podloom_api::names::infrastructure::annotation;
use podloom_model::process::Hashed;
use podloom_model::ticks_until;
use podloom_turns::lock;
use serde_json::json;

use super::{Inputs, Known, Memory};
use crate::cluster::plan::tests::setting::Case;

/// For the search through all histories.
impl Memory {
    /// Returns a copy that changes independently.
    pub(crate) fn copied(&self) -> Self {
        Self(Arc::new(Mutex::new(lock(&self.0).clone())))
    }

    /// Hashes what is known.
    pub(crate) fn hash(&self, hasher: &mut DefaultHasher) {
        let all = lock(&self.0);
        let mut all: Vec<_> = all.iter().collect();
        all.sort_unstable_by_key(|(uid, _)| *uid);
        for (uid, known) in all {
            uid.hash(hasher);
            known.hash(hasher);
        }
    }
}

impl Known {
    /// Hashes it. Of waits it counts after how many ticks they are over; Cloud and provider stay the same.
    pub(crate) fn hash(&self, hasher: &mut DefaultHasher) {
        let mut known = self.clone();
        let next = known.kubeconfig.as_mut().map(|it| &mut it.next);
        let ends = [known.rest.as_mut(), known.quiet.as_mut(), next];
        let ends = ends.map(|end| {
            let end = end.map(|it| std::mem::replace(it, Timestamp::UNIX_EPOCH));
            end.map(ticks_until)
        });
        if let Some(inputs) = &mut known.inputs {
            inputs.backend = None;
        }
        let _ = write!(Hashed(hasher), "{ends:?}{known:?}");
    }
}

fn cluster(reason: &str, of_generation: i64) -> ClusterObject {
    let condition = |type_: &str, status: &str, reason: &str| {
        json!({
            "type": type_,
            "status": status,
            "reason": reason,
            "message": "what it said",
            "observedGeneration": of_generation,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let cluster = json!({
        "metadata": { "name": "a", "generation": 2 },
        "spec": { "tosca": {} },
        "status": { "conditions": [
            condition("TemplateApplied", "False", reason),
            condition("Connected", "True", "ProbeSucceeded"),
        ] },
    });
    serde_json::from_value(cluster).unwrap()
}

#[test]
fn after_a_restart_the_status_says_what_was_refused() {
    let refusal = |reason, generation| {
        let known = Known::of(&cluster(reason, generation));
        assert!(known.probe.answers);
        known.refusal.map(|it| it.reason)
    };
    assert_eq!(refusal("TemplateRejected", 2), Some("TemplateRejected"));
    assert_eq!(refusal("UpdateRefused", 2), Some("UpdateRefused"));
    assert_eq!(refusal("Pending", 2), None);
    // Another template was refused.
    assert_eq!(refusal("TemplateRejected", 1), None);
}

#[test]
fn after_a_restart_the_status_says_how_often_a_deletion_was_undone() {
    let times = |message: &str| {
        let status = json!({ "conditions": [{ "type": "InfrastructureReady", "status": "False", "reason": "DeletionUndone",
            "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z" }] });
        let cluster =
            json!({ "metadata": { "name": "a" }, "spec": { "tosca": {} }, "status": status });
        Known::of(&serde_json::from_value(cluster).unwrap())
            .undone
            .times
    };
    let text = "deletions that the Infrastructure Manager accepted since then were undone";
    assert_eq!(times(&format!("12 {text}")), 12);
    assert_eq!(
        times(&format!("delete takes longer than 60 s; 3 {text}")),
        3
    );
    assert_eq!(
        times("the Infrastructure Manager deletes the infrastructure"),
        0
    );
}

#[test]
fn a_change_of_what_an_answer_depends_on_ends_all_waits() {
    let Case { mut world, now } = Case::read("known: { rest: 100, trouble: Unreachable }");
    let inputs = world.inputs(Vec::new());
    world.known.refresh(&inputs);
    assert_eq!(
        world.known.rest,
        Some(now + jiff::SignedDuration::from_secs(100))
    );
    world.known.refresh(&inputs);
    assert!(world.known.rest.is_some(), "nothing changed");
    let edited = Inputs {
        generation: Some(2),
        ..inputs
    };
    world.known.refresh(&edited);
    assert_eq!((world.known.rest, world.known.trouble), (None, None));
}

#[test]
fn an_annotation_about_the_deletion_ends_all_waits() {
    let Case { mut world, .. } = Case::read("known: { rest: 100, trouble: Unreachable }");
    let inputs = world.inputs(Vec::new());
    world.known.refresh(&inputs);
    let annotations = [(annotation::ON_DELETE, annotation::ABANDON)];
    let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let metadata = &mut Arc::make_mut(&mut world.cluster).metadata;
    metadata.annotations = Some(annotations.into());
    let inputs = world.inputs(Vec::new());
    world.known.refresh(&inputs);
    assert_eq!((world.known.rest, world.known.trouble), (None, None));
}

#[test]
fn a_reading_that_somebody_doubts_is_made_again() {
    let Case { world, .. } = Case::read("known: { reading: { state: configured } }");
    let memory = Memory::default();
    memory.begin("a", world.known);
    assert!(memory.reading("a").is_some());
    memory.doubt("a");
    assert!(memory.reading("a").is_none());
    memory.forget("a");
    assert_eq!(memory.len(), 0);
}

/// A pass that began before the doubt still knows the reading.
#[test]
fn a_doubt_outlives_the_pass_that_did_not_see_it() {
    let Case { world, .. } = Case::read("known: { reading: { state: configured } }");
    let memory = Memory::default();
    memory.begin("a", world.known.clone());
    let of_pass = memory.of("a", &world.cluster);
    memory.doubt("a");
    memory.keep("a", of_pass.clone());
    memory.keep("a", of_pass);
    assert!(memory.reading("a").is_none());
    // The next pass reads the state.
    let mut of_next = memory.of("a", &world.cluster);
    of_next.reading = world.known.reading;
    memory.keep("a", of_next);
    assert!(memory.reading("a").is_some());
}

/// A Cluster without our finalizer can go in the middle of a pass.
#[test]
fn a_pass_brings_no_forgotten_cluster_back() {
    let Case { world, .. } = Case::read("{}");
    let memory = Memory::default();
    memory.begin("a", world.known.clone());
    memory.forget("a");
    memory.keep("a", world.known);
    assert_eq!(memory.len(), 0);
}
