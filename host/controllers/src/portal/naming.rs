//! The names of what belongs to a PortalExpose.

use std::collections::BTreeMap;

use podloom_api::names::portal::label;

use super::digest;

/// The longest name that is kept as it is: it must be the value of a label.
const BASE_MAX: usize = 63;
/// How much of a longer name is kept. A dash and a hash follow it.
const KEPT: usize = 54;
/// How many hex digits of the hash are used.
const HASH: usize = 8;

/// Returns the name of a PortalExpose as a label has it: a long one is cut, and ends in a hash of the whole.
pub(crate) fn base(name: &str) -> String {
    if name.len() <= BASE_MAX {
        return name.to_owned();
    }
    let kept: String = name.chars().take(KEPT).collect();
    let hash: String = digest::sha256(name.as_bytes()).chars().take(HASH).collect();
    format!("{}-{hash}", kept.trim_end_matches(['-', '.']))
}

/// Returns the name of the Deployment of a PortalExpose.
pub(crate) fn deployment_name(name: &str) -> String {
    format!("{}-tunnel", base(name))
}

/// Returns the name of the Secret that has the identity of a PortalExpose.
pub(crate) fn secret_name(name: &str) -> String {
    format!("{}-tunnel-identity", base(name))
}

/// Returns the four labels of everything that belongs to a PortalExpose. The Deployment's selector matches them.
pub(crate) fn labels(name: &str) -> BTreeMap<String, String> {
    let fixed = [label::NAME, label::COMPONENT, label::MANAGED_BY];
    let fixed = fixed.map(|(key, value)| (key.to_owned(), value.to_owned()));
    fixed
        .into_iter()
        .chain([(label::EXPOSE.to_owned(), base(name))])
        .collect()
}

#[cfg(test)]
mod tests;
