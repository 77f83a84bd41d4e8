//! Secrets that were read lately, so that the Clusters of an account do not all read the same one at the same time.
//!
//! A value is kept for some seconds, and counts only while the watch of metadata shows the very version that it is from. Where Secrets
//! may not be watched, nothing is kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::core::ObjectMeta;
use podloom_turns::lock;
use tokio::time::{Instant, sleep};

use super::Entries;
use crate::resolve::SecretKey;
use crate::secret_metas::SecretMetas;

/// How long a value counts. A watch that has stopped shows an old version, so this is short.
const KEPT: Duration = Duration::from_secs(10);

/// How large a Secret may be that is kept, in bytes. Those with passwords are small.
const LARGEST: usize = 16 * 1024;

/// Secrets that were read lately. Cheap to clone; all clones share them.
#[derive(Clone)]
pub(super) struct Lately {
    /// Which versions there are.
    metas: SecretMetas,
    all: Arc<Mutex<HashMap<SecretKey, Kept>>>,
}

struct Kept {
    version: Version,
    entries: Entries,
    until: Instant,
}

/// The UID and the resource version of a Secret.
#[derive(PartialEq, Eq)]
struct Version(String, String);

fn size(entries: &Entries) -> usize {
    entries.values().map(|value| value.0.len()).sum()
}

impl Version {
    fn of(secret: &ObjectMeta) -> Option<Self> {
        let version = secret.resource_version.clone()?;
        Some(Self(secret.uid.clone()?, version))
    }
}

impl Lately {
    pub(super) fn new(metas: SecretMetas) -> Self {
        Self {
            metas,
            all: Arc::default(),
        }
    }

    /// Returns the values of a Secret, if they were read lately and it did not change since.
    pub(super) fn get(&self, secret: &SecretKey) -> Option<Entries> {
        let seen = self.seen(secret)?;
        let all = lock(&self.all);
        let kept = all.get(secret)?;
        let counts = kept.version == seen && Instant::now() < kept.until;
        counts.then(|| kept.entries.clone())
    }

    /// Keeps the values of a Secret, if the watch shows the version that was read.
    pub(super) fn put(&self, secret: &SecretKey, read: &ObjectMeta, entries: &Entries) {
        let Some(version) = Version::of(read).filter(|_| size(entries) <= LARGEST) else {
            return;
        };
        if self.seen(secret).as_ref() == Some(&version) {
            let kept = Kept {
                version,
                entries: entries.clone(),
                until: Instant::now() + KEPT,
            };
            lock(&self.all).insert(secret.clone(), kept);
        }
    }

    /// Forgets what does not count any more, again and again.
    pub(super) async fn forget(&self) {
        loop {
            sleep(KEPT).await;
            let now = Instant::now();
            lock(&self.all).retain(|_, kept| now < kept.until);
        }
    }

    /// The version that the watch shows.
    fn seen(&self, secret: &SecretKey) -> Option<Version> {
        Version::of(&self.metas.get(secret)?.metadata)
    }

    /// How many are kept.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        lock(&self.all).len()
    }
}

#[cfg(test)]
mod tests;
