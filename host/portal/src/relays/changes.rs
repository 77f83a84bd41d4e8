//! Who is to be woken because a result changed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use futures::{Stream, stream};
use podloom_turns::lock;
use tokio::sync::Notify;

use super::UserId;

/// PortalExposes with a changed result, each once, so there are never more than there are PortalExposes.
#[derive(Clone, Default)]
pub(super) struct Changes(Arc<Shared>);

#[derive(Default)]
struct Shared {
    pending: Mutex<BTreeSet<UserId>>,
    pushed: Notify,
}

impl Changes {
    /// Adds PortalExposes.
    pub(super) fn push(&self, users: impl IntoIterator<Item = UserId>) {
        self.pending().extend(users);
        self.0.pushed.notify_one();
    }

    /// Returns those that were added and those that will be, without an end.
    pub(super) fn stream(&self) -> impl Stream<Item = UserId> + Send + use<> {
        stream::unfold(self.clone(), |changes| async move {
            loop {
                let next = changes.pending().pop_first();
                if let Some(user) = next {
                    return Some((user, changes));
                }
                changes.0.pushed.notified().await;
            }
        })
    }

    fn pending(&self) -> MutexGuard<'_, BTreeSet<UserId>> {
        lock(&self.0.pending)
    }
}
