//! What is secret of a Secret. Whoever may create Cleaners need not be allowed to read Secrets, but the operator is, if it uninstalls
//! releases. So conditions do not see these values, and statuses and CloudEvents do not have them.

use super::served::ServedKind;

/// What `kubectl apply` writes: the whole object once more.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Annotations with the whole object once more, as programs write them that apply manifests.
const COPIES: [&str; 4] = [
    LAST_APPLIED,
    "kapp.k14s.io/original",
    "objectset.rio.cattle.io/applied",
    "banzaicloud.com/last-applied",
];

/// Returns whether objects of a kind are Secrets.
pub(super) fn is_secret(kind: &ServedKind) -> bool {
    let resource = &kind.resource;
    resource.group.is_empty() && resource.kind.eq_ignore_ascii_case("Secret")
}

/// Returns whether a value of a Secret, or of a Secret in a list, is secret, by the fields that lead to it.
pub(super) fn is_hidden(path: &[&str]) -> bool {
    let path = match path {
        ["items", of_item @ ..] => of_item,
        path => path,
    };
    match path {
        ["data" | "stringData", _] => true,
        ["metadata", "annotations", annotation] => is_copy(annotation),
        _ => false,
    }
}

/// Returns whether an annotation has the whole object once more.
pub(super) fn is_copy(annotation: &str) -> bool {
    COPIES.contains(&annotation)
}
