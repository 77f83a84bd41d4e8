//! Access to a disk that may hang.

use std::sync::Arc;

use podloom_control_loop::BoxError;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Runs blocking accesses to the directory one at a time: on a network file system whose server is gone an access never returns,
/// and each would take another one of the threads that pods are mutated on.
#[derive(Clone, Debug)]
pub(super) struct Disk(Arc<Semaphore>);

impl Default for Disk {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl Disk {
    /// Waits for the access before, runs this one, and returns its result. If the caller gives up, the access runs on.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, BoxError> {
        let turn = Arc::clone(&self.0).acquire_owned().await?;
        let found = spawn_blocking(move || {
            let found = look();
            drop(turn);
            found
        });
        Ok(found.await?)
    }
}

#[cfg(test)]
pub(super) mod tests;
