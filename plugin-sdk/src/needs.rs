//! What a plugin needs to read and write.

/// The paths that a plugin needs with its present configuration.
///
/// A path is a prefix: it covers everything below it. On a list, a segment is `*` (any element) or `[key=value]` (only that
/// element, which the plugin may also create).
///
/// ```
/// use podloom_plugin_sdk::Needs;
///
/// let needs = Needs::default()
///     .read("/spec/containers")
///     .write("/spec/containers/*/securityContext")
///     .write("/spec/volumes/[name=tmp]");
/// assert_eq!(needs.writes.len(), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Path prefixes to read, besides those it writes.
    pub reads: Vec<String>,
    /// Path prefixes to write; reading them is included.
    pub writes: Vec<String>,
}

impl Needs {
    /// Adds a path prefix to read.
    #[must_use]
    pub fn read(mut self, path: impl Into<String>) -> Self {
        self.reads.push(path.into());
        self
    }

    /// Adds a path prefix to write, and to read.
    #[must_use]
    pub fn write(mut self, path: impl Into<String>) -> Self {
        self.writes.push(path.into());
        self
    }
}
