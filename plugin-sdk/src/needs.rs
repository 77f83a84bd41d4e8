//! What a plugin needs to read and write.

use crate::path;

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

    /// Adds what [`Pod::all_containers`](crate::Pod::all_containers) reads: names, and which init containers are sidecars.
    #[must_use]
    pub fn read_all_containers(mut self) -> Self {
        let paths = [
            "containers/*/name",
            "initContainers/*/name",
            "initContainers/*/restartPolicy",
        ];
        self.reads.extend(paths.map(|path| format!("/spec/{path}")));
        self
    }

    /// Adds a path prefix below each container, regular or init, to write, and to read: `image`, `resources/requests`.
    ///
    /// ```
    /// use podloom_plugin_sdk::Needs;
    ///
    /// let needs = Needs::default().write_in_all_containers("image");
    /// assert_eq!(needs.writes, ["/spec/containers/*/image", "/spec/initContainers/*/image"]);
    /// ```
    #[must_use]
    pub fn write_in_all_containers(mut self, below: &str) -> Self {
        let lists = ["/spec/containers/*", "/spec/initContainers/*"];
        self.writes
            .extend(lists.map(|list| path::join(list, below)));
        self
    }
}
