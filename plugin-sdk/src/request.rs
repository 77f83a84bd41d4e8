//! For whom the pod is being mutated.

use crate::backend;

/// What is being mutated, and for whom.
#[derive(Clone, Debug)]
pub struct Request {
    pub(crate) inner: backend::Request,
}

impl Request {
    /// Returns the kind of the object that was submitted: one of Podloom's own (`Browser`, ...), else `Pod`, for templates too.
    #[must_use]
    pub fn kind(&self) -> String {
        self.inner.kind()
    }

    /// Returns the submitted object's name; empty when only the API server will choose it.
    #[must_use]
    pub fn name(&self) -> String {
        self.inner.name()
    }

    /// Returns the namespace the pod will live in.
    #[must_use]
    pub fn namespace(&self) -> String {
        self.inner.namespace()
    }

    /// Returns a label of the submitted object.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<String> {
        self.inner.label(key)
    }

    /// Returns an annotation of the submitted object; `None` for `kubectl.kubernetes.io/last-applied-configuration`, which holds the
    /// whole object.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<String> {
        self.inner.annotation(key)
    }

    /// Returns a label of the namespace. If the host does not know the namespace, the plugin is stopped here, and the pod is refused for
    /// now.
    #[must_use]
    pub fn namespace_label(&self, key: &str) -> Option<String> {
        self.inner.namespace_label(key)
    }

    /// Returns an annotation of the namespace, likewise; `None` for `kubectl.kubernetes.io/last-applied-configuration`.
    #[must_use]
    pub fn namespace_annotation(&self, key: &str) -> Option<String> {
        self.inner.namespace_annotation(key)
    }

    /// Returns whether the result will be thrown away.
    #[must_use]
    pub fn dry_run(&self) -> bool {
        self.inner.dry_run()
    }
}
