//! Remembers since when all webhooks trust an authority.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::certificate::Certificate;
use super::world::{Configuration, is_trusted};

/// Since when an authority has been found in the configurations at each look.
#[derive(Default)]
pub(super) struct TrustedSince(Mutex<Option<(Certificate, Instant)>>);

impl TrustedSince {
    /// Looks at the configurations; returns for how long they have been found like this.
    pub(super) fn look(
        &self,
        authority: &Certificate,
        configurations: &[Configuration],
    ) -> Option<Duration> {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_trusted(authority, configurations) {
            *since = None;
            return None;
        }
        match &*since {
            Some((known, at)) if known == authority => Some(at.elapsed()),
            _ => {
                *since = Some((authority.clone(), Instant::now()));
                Some(Duration::ZERO)
            }
        }
    }
}
