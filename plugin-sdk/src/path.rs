//! Builds paths: RFC 6901 JSON Pointers, with selectors for list elements.
//!
//! ```
//! use podloom_plugin_sdk::path;
//!
//! let mut path = String::from("/spec/containers");
//! path::push_element(&mut path, "name", "browser");
//! path::push(&mut path, "volumeMounts");
//! path::push_element(&mut path, "mountPath", "/var/run");
//! assert_eq!(path, "/spec/containers/[name=browser]/volumeMounts/[mountPath=~1var~1run]");
//! ```

/// Appends an object's key (or a list's index) to a path, escaped.
pub fn push(path: &mut String, key: &str) {
    path.push('/');
    escape(path, key);
}

/// Appends the selector of the list element whose field `key` has this value, escaped.
pub fn push_element(path: &mut String, key: &str, value: &str) {
    path.push_str("/[");
    escape(path, key);
    path.push('=');
    escape(path, value);
    path.push(']');
}

fn escape(path: &mut String, text: &str) {
    let mut start = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escaped = match byte {
            b'~' => "~0",
            b'/' => "~1",
            _ => continue,
        };
        path.push_str(text.get(start..at).unwrap_or_default());
        path.push_str(escaped);
        start = at + 1;
    }
    path.push_str(text.get(start..).unwrap_or_default());
}
