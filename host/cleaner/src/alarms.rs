//! Wakes Cleaners whose targets have changed.

use std::sync::Arc;

use podloom_engine::wakes::Wakes;

use super::memory::Memory;
use super::who::CleanerId;

/// Where Cleaners are woken. Cheap to clone.
#[derive(Clone)]
pub(super) struct Alarms {
    memory: Memory,
    scopes: Arc<[ScopeWakes]>,
}

/// Where the Cleaners of a watch scope are woken.
#[derive(Clone)]
pub(super) struct ScopeWakes {
    /// The namespace; none for all.
    pub(super) namespace: Option<String>,
    /// Where they are noted.
    pub(super) wakes: Wakes,
}

impl Alarms {
    /// Returns one for the watch scopes with these namespaces.
    pub(super) fn new(
        memory: Memory,
        namespaces: impl IntoIterator<Item = Option<String>>,
    ) -> Self {
        let scopes = namespaces.into_iter().map(|namespace| ScopeWakes {
            namespace,
            wakes: Wakes::default(),
        });
        Self {
            memory,
            scopes: scopes.collect(),
        }
    }

    /// Returns where the Cleaners of each scope are woken, in the order of the scopes.
    pub(super) fn scopes(&self) -> &[ScopeWakes] {
        &self.scopes
    }

    /// Counts an event of a target of each Cleaner, and wakes them.
    pub(super) fn ring(&self, cleaners: &[CleanerId]) {
        for id in cleaners {
            self.memory.event(&id.uid);
            self.wake(&id.namespace, &id.name);
        }
    }

    /// Wakes a Cleaner.
    pub(super) fn wake(&self, namespace: &str, name: &str) {
        for scope in &*self.scopes {
            if scope.namespace.as_deref().is_none_or(|it| it == namespace) {
                scope.wakes.wake(namespace, name);
            }
        }
    }
}
