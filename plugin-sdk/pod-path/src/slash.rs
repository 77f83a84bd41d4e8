//! Finds the path that was meant by one with a plain `/` in a key or in a selector, where `~1` belongs.

use std::fmt;

use crate::path::{segments, unescape};
use crate::schema::{ROOT, Schema, Shape};

/// The path with `~1`, if some of its slashes can only be meant so: below an entry of a map of scalars, such as a label, there is
/// nothing, and a selector ends with `]`.
pub(crate) fn meant(path: &str) -> Option<String> {
    let mut schema = ROOT;
    let mut meant = String::with_capacity(path.len() + 8);
    let mut rest = segments(path);
    while let Some(raw) = rest.next() {
        meant.push('/');
        meant.push_str(raw);
        match (schema, schema.shape()) {
            (Schema::Map(values, _), _) if values.shape() == Shape::Scalar => {
                for raw in rest {
                    meant.extend(["~1", raw]);
                }
                break;
            }
            (_, Shape::List | Shape::Unknown) if raw.starts_with('[') => {
                while !meant.ends_with(']') {
                    meant.extend(["~1", rest.next()?]);
                }
                schema = schema.element();
            }
            (_, Shape::List) => schema = schema.element(),
            (_, Shape::Object | Shape::Unknown) => schema = schema.field(&unescape(raw)),
            (_, Shape::Scalar) => return None,
        }
    }
    (meant != path).then_some(meant)
}

/// The end of a message about a path: what was probably meant, if a slash is wrong.
pub(crate) struct Advice<'p>(pub(crate) &'p str);

impl fmt::Display for Advice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match meant(self.0) {
            Some(meant) => write!(
                f,
                "; a `/` in a key or value is written `~1`: write {meant}"
            ),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::meant;

    #[test]
    fn slashes_of_keys_and_selectors_are_found() {
        for (path, expected) in [
            (
                "/metadata/annotations/example.com/team",
                "/metadata/annotations/example.com~1team",
            ),
            ("/metadata/labels/a/b/c", "/metadata/labels/a~1b~1c"),
            ("/metadata/labels/a~1b/c", "/metadata/labels/a~1b~1c"),
            (
                "/spec/nodeSelector/kubernetes.io/os",
                "/spec/nodeSelector/kubernetes.io~1os",
            ),
            (
                "/spec/overhead/example.com/x",
                "/spec/overhead/example.com~1x",
            ),
            (
                "/spec/containers/*/resources/limits/nvidia.com/gpu",
                "/spec/containers/*/resources/limits/nvidia.com~1gpu",
            ),
            (
                "/spec/containers/0/resources/requests/nvidia.com/gpu",
                "/spec/containers/0/resources/requests/nvidia.com~1gpu",
            ),
            (
                "/spec/containers/*/volumeMounts/[mountPath=/etc/mesh]",
                "/spec/containers/*/volumeMounts/[mountPath=~1etc~1mesh]",
            ),
            (
                "/spec/containers/*/volumeMounts/[mountPath=/]/name",
                "/spec/containers/*/volumeMounts/[mountPath=~1]/name",
            ),
            (
                "/spec/volumes/[name=a]/csi/volumeAttributes/a/b",
                "/spec/volumes/[name=a]/csi/volumeAttributes/a~1b",
            ),
            (
                "/spec/containers/[image=a/b:1]/resources/limits/a/b",
                "/spec/containers/[image=a~1b:1]/resources/limits/a~1b",
            ),
            ("/spec/tomorrow/[path=/a]/b", "/spec/tomorrow/[path=~1a]/b"),
            (
                "/spec/topologySpreadConstraints/0/labelSelector/matchLabels/a/b",
                "/spec/topologySpreadConstraints/0/labelSelector/matchLabels/a~1b",
            ),
        ] {
            assert_eq!(meant(path).as_deref(), Some(expected), "{path}");
            assert_eq!(meant(expected), None, "{expected}");
        }
    }

    #[test]
    fn other_slashes_are_what_they_are() {
        for path in [
            "",
            "/spec",
            "/spec/nodeName/x",
            "/spec/containers/[name=a/b",
            "/spec/tomorrow/a/b",
            "/metadata/annotations/a",
            "/spec/nodeName/[a/b]",
        ] {
            assert_eq!(meant(path), None, "{path}");
        }
    }
}
