use std::fs;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use podloom_mutation::{PodMutator, PodRequest};
use podloom_mutators::{Chain, Slot};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::super::Worker;
use crate::load;
use crate::mutator::{ChainMutator, Witness};
use crate::run::candidate::CandidateMetrics;
use crate::run::candidate::results::Results;

/// A chain without plugins.
fn chain() -> Chain {
    let directory = tempfile::tempdir().unwrap();
    let manifest = "apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins: []\n";
    fs::write(directory.path().join("chain.yaml"), manifest).unwrap();
    let Ok(chain) = load::chain(directory.path()) else {
        panic!("a good chain")
    };
    chain
}

struct Tried {
    mutator: ChainMutator,
    results: Arc<Mutex<Results>>,
    metrics: CandidateMetrics,
    thread: thread::JoinHandle<()>,
}

impl Tried {
    /// With the slot of the chain that serves now, of which the pods come.
    fn new(serving: impl Fn(&Arc<Slot>) -> Arc<Slot>) -> Self {
        let metrics = CandidateMetrics::register(&mut Registry::default());
        let candidate: Arc<Slot> = Arc::default();
        candidate.swap(Arc::new(chain()));
        let (witness, seen) = Witness::new(Arc::clone(&candidate), metrics.dropped());
        let mut mutator = ChainMutator::of(Some(chain()));
        mutator.witness = Some(Arc::new(witness));
        let results: Arc<Mutex<Results>> = Arc::default();
        let worker = Worker {
            serving: serving(&mutator.slot),
            engine: None,
            candidate,
            split: None,
            results: Arc::clone(&results),
            notes: None,
            metrics: metrics.clone(),
        };
        Self {
            mutator,
            results,
            metrics,
            thread: thread::spawn(move || worker.run(seen)),
        }
    }

    async fn pass(&self, metadata: Value) {
        let name = metadata["name"].as_str().unwrap_or_default().to_owned();
        let request = PodRequest {
            kind: "Pod",
            namespace: "shop".to_owned(),
            name,
            ..PodRequest::default()
        };
        let pod = json!({ "metadata": metadata });
        assert!(self.mutator.mutate(pod, request).await.is_ok());
    }

    /// Waits until so many pods were compared or dropped.
    fn until(&self, pods: u64) {
        let patience = Instant::now() + Duration::from_secs(20);
        while self.results.lock().unwrap().groups.all.pods + self.metrics.dropped().get() < pods {
            assert!(Instant::now() < patience, "{:?}", self.results);
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[tokio::test]
async fn pods_are_compared_until_nobody_sends_them_any_more() {
    let tried = Tried::new(Arc::clone);
    for _ in 0..3 {
        tried.pass(json!({ "generateName": "web-" })).await;
    }
    tried.until(3);
    let results = tried.results.lock().unwrap();
    assert_eq!(results.counts["same"], 3, "{results:?}");
    assert!(results.mean().is_some_and(|mean| mean > Duration::ZERO));
    let digest = tried.mutator.chain();
    assert_eq!(results.pair.as_ref().unwrap().serving, digest);
    drop(results);
    let Tried {
        mutator, thread, ..
    } = tried;
    drop(mutator);
    thread.join().unwrap();
}

/// What another chain made of a pod says nothing about the one that serves now.
#[tokio::test]
async fn pods_of_an_earlier_chain_are_dropped() {
    let tried = Tried::new(|_| Arc::default());
    tried.pass(json!({ "name": "web" })).await;
    tried.until(1);
    assert_eq!(tried.metrics.dropped().get(), 1);
    assert_eq!(tried.results.lock().unwrap().groups.all.pods, 0);
}
