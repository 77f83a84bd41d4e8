//! The pods that a chain is tightened on. They are read once, and then tried many times.

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, available_parallelism};

use anyhow::{Context, anyhow};
use podloom_mutation::PodRequest;
use serde_json::Value;
use tokio::sync::mpsc::{self, Receiver};

use crate::cli::PodArguments;
use crate::error::CommandError;
use crate::feed::{Feed, FoundPod, Skipped, no_pod};

/// How many pods wait to be kept.
const QUEUE: usize = 64;
/// How many bytes of pods are kept.
const MOST: usize = 512 << 20;

/// Pods, as text: a tenth of what values take.
pub(super) struct Corpus {
    pods: Vec<Kept>,
    pub(super) skipped: Vec<Skipped>,
}

struct Kept {
    text: String,
    request: Arc<PodRequest>,
}

impl Corpus {
    pub(super) fn read(arguments: &PodArguments) -> Result<Self, CommandError> {
        let feed = Feed::open(arguments)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the runtime")?;
        let (pods, queue) = mpsc::channel(QUEUE);
        let both = async { tokio::try_join!(feed.run(pods), keep(queue)) };
        let (skipped, pods) = runtime.block_on(both)?;
        match pods.is_empty() {
            true => Err(no_pod(&skipped)),
            false => Ok(Self { pods, skipped }),
        }
    }

    #[cfg(test)]
    pub(super) fn of(pods: &[Value], request: &Arc<PodRequest>) -> Self {
        let kept = pods.iter().map(|pod| Kept {
            text: pod.to_string(),
            request: Arc::clone(request),
        });
        Self {
            pods: kept.collect(),
            skipped: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }

    /// Does some work with each pod, on all processors, until it returns false for one.
    pub(super) fn each(
        &self,
        work: impl Fn(Value, &Arc<PodRequest>) -> bool + Sync,
    ) -> Result<(), CommandError> {
        let (next, goes_on) = (AtomicUsize::new(0), AtomicBool::new(true));
        let take = || {
            while goes_on.load(Ordering::Relaxed) {
                let Some(kept) = self.pods.get(next.fetch_add(1, Ordering::Relaxed)) else {
                    return Ok(());
                };
                let pod = serde_json::from_str(&kept.text).context("a kept pod is JSON")?;
                let worked = catch_unwind(AssertUnwindSafe(|| work(pod, &kept.request)));
                match worked {
                    Ok(true) => {}
                    Ok(false) => goes_on.store(false, Ordering::Relaxed),
                    Err(_) => return Err(panicked()),
                }
            }
            Ok(())
        };
        let threads = available_parallelism().map_or(1, NonZeroUsize::get);
        let ended: Result<Vec<()>, anyhow::Error> = thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
            let ends = threads.into_iter().map(|thread| thread.join());
            ends.map(|end| end.unwrap_or_else(|_| Err(panicked())))
                .collect()
        });
        Ok(ended.map(drop)?)
    }
}

fn panicked() -> anyhow::Error {
    anyhow!("the chain panicked, which is a bug of podloom")
}

async fn keep(mut queue: Receiver<FoundPod>) -> Result<Vec<Kept>, CommandError> {
    let (mut pods, mut bytes) = (Vec::new(), 0_usize);
    while let Some(FoundPod { subject, .. }) = queue.recv().await {
        let text = subject.pod.to_string();
        bytes = bytes.saturating_add(text.len());
        if bytes > MOST {
            return Err(CommandError::invalid(format!(
                "the pods take more than {} MiB, and all are kept to be tried again; choose fewer, with -n or -l for a cluster",
                MOST >> 20
            )));
        }
        let request = Arc::new(subject.request);
        pods.push(Kept { text, request });
    }
    Ok(pods)
}
