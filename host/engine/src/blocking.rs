//! Work that takes long, on blocking threads.

use std::future;
use std::panic::resume_unwind;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// How much work runs at once. Work cannot be cancelled, so it keeps its permit when its pass is cancelled: otherwise each retry would
/// add a thread.
const PERMITS: usize = 8;

/// Threads for work that takes long. Cheap to clone; all clones share the permits.
#[derive(Clone, Debug)]
pub struct BlockingThreads(Arc<Semaphore>);

impl BlockingThreads {
    /// Returns threads with all permits free. A process needs only one of these.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Semaphore::new(PERMITS)))
    }

    /// Runs work on a blocking thread: on a thread of the async runtime, probes and the Lease would wait for it.
    ///
    /// It cannot be cancelled, so it must end by itself. If it panics, so does this.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let Ok(permit) = Arc::clone(&self.0).acquire_owned().await else {
            // The semaphore is never closed.
            return future::pending().await;
        };
        let work = move || {
            let done = work();
            drop(permit);
            done
        };
        match spawn_blocking(work).await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The runtime is shutting down, and drops this future too.
                Err(_) => future::pending().await,
            },
        }
    }
}

impl Default for BlockingThreads {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use tokio::sync::mpsc;
    use tokio::time::timeout;

    use super::{BlockingThreads, PERMITS};

    /// A pass that took too long is cancelled, but its work goes on. Retries must not pile up more work without end.
    #[tokio::test]
    async fn abandoned_work_is_bounded() {
        let (began, mut begun) = mpsc::unbounded_channel();
        let (end, ended) = channel::<()>();
        let ended = Arc::new(std::sync::Mutex::new(ended));
        let blocking = BlockingThreads::new();
        let start = || {
            let (began, ended) = (began.clone(), Arc::clone(&ended));
            let blocking = blocking.clone();
            let work = move || {
                began.send(()).unwrap();
                let _ended = ended.lock().unwrap().recv();
            };
            async move { blocking.run(work).await }
        };
        for _ in 0..PERMITS {
            let given_up = tokio::spawn(start());
            begun.recv().await.unwrap();
            given_up.abort();
            assert!(given_up.await.unwrap_err().is_cancelled());
        }
        let mut waiting = std::pin::pin!(start());
        assert!(futures::poll!(&mut waiting).is_pending());
        tokio::task::spawn_blocking(|| {}).await.unwrap();
        assert!(begun.try_recv().is_err());
        drop(end);
        timeout(Duration::from_secs(10), waiting).await.unwrap();
        begun.recv().await.unwrap();
    }
}
