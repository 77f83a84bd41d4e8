//! What to do about pods of an owner: new ones pass the chain.

use super::findings::{MORE_OWNERS, Row};

/// The longest name of an object.
const NAME: usize = 253;

/// How to replace the pods of an owner.
pub(super) fn mend(row: &Row) -> String {
    if row.kind == MORE_OWNERS {
        return "look at their owners: there are too many to list them".to_owned();
    }
    if row.is_template_changed {
        return "undo the change in its template: a restart would only roll that out again"
            .to_owned();
    }
    // Who writes a pod names its owner, and people copy commands into their shells.
    let named = [&row.namespace, &row.name].into_iter().chain(&row.names);
    if !named.into_iter().all(|name| is_name(name)) {
        return "look at its owner: a name is not one that Kubernetes allows".to_owned();
    }

    let Row {
        namespace,
        kind,
        name,
        ..
    } = row;
    match kind.as_str() {
        "Deployment" | "StatefulSet" | "DaemonSet" => {
            let kind = kind.to_lowercase();
            format!("kubectl rollout restart {kind}/{name} -n {namespace}")
        }
        "ReplicaSet" | "ReplicationController" => {
            let more = if row.unnamed() > 0 { ", and so on" } else { "" };
            let names = row.names.join(" ");
            format!("kubectl delete pod {names} -n {namespace}{more}")
        }
        "Pod" => {
            format!("kubectl get pod {name} -n {namespace} -o yaml | kubectl replace --force -f -")
        }
        "CronJob" => "wait for its next Job".to_owned(),
        "Job" => "let it end, or create it again".to_owned(),
        "Browser" => "let the session end; a new Browser gets a new pod".to_owned(),
        _ => format!("delete its pods, which {kind} {name} creates again"),
    }
}

/// Whether a text can be the name of an object.
fn is_name(text: &str) -> bool {
    let is_inner = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.' | b':')
    };
    text.len() <= NAME
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.bytes().all(is_inner)
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn a_name_is_no_part_of_a_command() {
        for name in ["web", "web-5d9f.1", "system:node"] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "",
            "-n",
            "web; sh",
            "web -n kube-system",
            "$(sh)",
            "web\n",
            "w|sh",
            "Wéb",
        ] {
            assert!(!is_name(name), "{name:?}");
        }
        assert!(is_name(&"a".repeat(253)) && !is_name(&"a".repeat(254)));
    }
}
