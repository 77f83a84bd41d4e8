//! Looks at a disk that may not answer.

use std::sync::Arc;

use podloom_control_loop::BoxError;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Blocking looks at the directory, one at a time: on a network file system whose server is gone a look never ends, and each
/// would take one more of the threads that pods are mutated on.
#[derive(Clone, Debug)]
pub(super) struct Disk(Arc<Semaphore>);

impl Default for Disk {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl Disk {
    /// Waits for the look before, looks, and returns what was found. Whoever gives up waiting leaves the look to its end.
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
