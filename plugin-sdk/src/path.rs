//! Builds paths: RFC 6901 JSON Pointers, with selectors for list elements.
//!
//! ```
//! use podloom_plugin_sdk::path;
//!
//! let container = path::element("/spec/containers", "name", "browser");
//! assert_eq!(container, "/spec/containers/[name=browser]");
//!
//! let mount = path::element(&path::field(&container, "volumeMounts"), "mountPath", "/var/run");
//! assert_eq!(mount, "/spec/containers/[name=browser]/volumeMounts/[mountPath=~1var~1run]");
//!
//! assert!(path::covers(&container, &mount));
//! ```

/// Returns the path of a field of an object, or of an element of a list by its index.
#[must_use]
pub fn field(object: &str, key: &str) -> String {
    let mut path = String::with_capacity(object.len() + key.len() + 4);
    path.push_str(object);
    path.push('/');
    push_escaped(&mut path, key);
    path
}

/// Returns the path of the list element whose field `key` has this value.
#[must_use]
pub fn element(list: &str, key: &str, value: &str) -> String {
    let mut path = String::with_capacity(list.len() + key.len() + value.len() + 8);
    path.push_str(list);
    path.push_str("/[");
    push_escaped(&mut path, key);
    path.push('=');
    push_escaped(&mut path, value);
    path.push(']');
    path
}

/// Returns the path of what lies below another path, written as it is: keys in it are escaped already.
///
/// ```
/// use podloom_plugin_sdk::path;
///
/// assert_eq!(path::join("/spec/containers/0", "resources/limits"), "/spec/containers/0/resources/limits");
/// ```
#[must_use]
pub fn join(path: &str, below: &str) -> String {
    let mut joined = String::with_capacity(path.len() + below.len() + 1);
    joined.push_str(path);
    joined.push('/');
    joined.push_str(below);
    joined
}

/// Returns whether a path is `prefix` or lies below it.
///
/// Both are compared as they are written: a selector and an index are never the same. Paths in a container's file system work, too.
///
/// ```
/// use podloom_plugin_sdk::path::covers;
///
/// assert!(covers("/metadata/labels", "/metadata/labels/team"));
/// assert!(covers("/metadata/labels", "/metadata/labels"));
/// assert!(!covers("/metadata/labels", "/metadata/labelsAndMore"));
/// ```
#[must_use]
pub fn covers(prefix: &str, path: &str) -> bool {
    path.strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Appends a key, with `~` and `/` escaped.
pub(crate) fn push_escaped(path: &mut String, key: &str) {
    let mut start = 0;
    for (at, byte) in key.bytes().enumerate() {
        let escaped = match byte {
            b'~' => "~0",
            b'/' => "~1",
            _ => continue,
        };
        path.push_str(key.get(start..at).unwrap_or_default());
        path.push_str(escaped);
        start = at + 1;
    }
    path.push_str(key.get(start..).unwrap_or_default());
}
