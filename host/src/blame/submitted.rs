//! The pod as the chain saw it.

#[cfg(test)]
mod tests;

use podloom_pod_path::{Access, Transaction};
use serde_json::Value;

use super::authors::Authors;
use super::proof::Tree;

/// The pod of a template, with the defaults that the API server gave the pod before it passed the chain. Pods get more of them than
/// templates, such as enableServiceLinks. They are what the maker of the pod owns: whatever was written after that has other owners, or
/// none.
pub(super) fn of(template: Value, pod: &Value, authors: &Authors<'_>) -> Value {
    let known = Tree::of(&template);
    let access = Access::unrestricted().into();
    let mut given = Transaction::begin(template, access, [].into());
    for (path, value) in Tree::of(pod).values() {
        let is_default = path.starts_with("/spec/") && !known.has(path);
        if is_default && authors.is_as_made(path) {
            // What cannot be there in a pod of the template, such as an element that it does not have, is left out.
            let _ignored = given.set(path, value.to_string());
        }
    }
    given.commit().0
}
