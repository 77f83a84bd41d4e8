//! What OpenTelemetry's semantic conventions call the fields of spans and log lines.

use std::borrow::Cow;

/// Fields of the code for which the conventions have a name. `deploy/METRICS.md` lists them.
const CONVENTIONAL: [(&str, &str); 10] = [
    ("directory", "file.directory"),
    ("error", "exception.message"),
    ("file", "file.path"),
    ("job", "k8s.job.name"),
    ("namespace", "k8s.namespace.name"),
    ("peer", "network.peer.address"),
    ("pod", "k8s.pod.name"),
    ("pod_uid", "k8s.pod.uid"),
    ("url", "url.full"),
    ("user", "user.name"),
];

/// The name of a field in traces and in logs of JSON. One with a dot has it in the code already, such as `error.type`; what the
/// conventions do not know is ours.
pub(crate) fn name(field: &str) -> Cow<'_, str> {
    let mut known = CONVENTIONAL.iter();
    match known.find(|(ours, _)| *ours == field) {
        Some((_, theirs)) => (*theirs).into(),
        None if field.contains('.') => field.into(),
        None => format!("podloom.{field}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::{CONVENTIONAL, name};

    #[test]
    fn what_the_conventions_do_not_know_is_ours() {
        assert_eq!(name("namespace"), "k8s.namespace.name");
        assert_eq!(name("error.type"), "error.type");
        assert_eq!(name("plugin"), "podloom.plugin");
    }

    #[test]
    fn all_names_are_documented() {
        let page = include_str!("../../deploy/METRICS.md");
        for (ours, theirs) in CONVENTIONAL {
            let row = format!("| `{theirs}` | `{ours}` |");
            assert!(page.contains(&row), "deploy/METRICS.md lacks {row}");
        }
    }
}
