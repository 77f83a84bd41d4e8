use super::*;

#[test]
fn certificates_live_for_two_seconds_at_least() {
    assert_eq!(lifetime("2s"), Ok(Duration::from_secs(2)));
    assert_eq!(lifetime("2160h"), Ok(Duration::from_hours(2160)));
    for short in ["0s", "1ms", "1999ms"] {
        let refused = lifetime(short).unwrap_err();
        assert_eq!(refused, "it must be at least 2s", "{short}");
    }
    assert!(lifetime("2").unwrap_err().contains("the unit is missing"));
}

#[test]
fn other_owners_of_pods_are_read_as_written_in_the_help() {
    let clone_set = pod_owner("CloneSet.v1alpha1.apps.kruise.io=kruise-system/kruise-manager");
    let kind = GroupVersionKind::gvk("apps.kruise.io", "v1alpha1", "CloneSet");
    let account = "system:serviceaccount:kruise-system:kruise-manager".to_owned();
    assert_eq!(clone_set, Ok(OwnerKind::new(&kind, account)));
    for refused in [
        "CloneSet",
        "CloneSet=a/b",
        "CloneSet.v1alpha1=a/b",
        "clonesets.v1alpha1.apps.kruise.io=a/b",
        "CloneSet.v1/x.apps.kruise.io=a/b",
        "CloneSet.v1alpha1.apps.kruise.io=b",
    ] {
        let message = pod_owner(refused).unwrap_err();
        assert!(message.starts_with("write "), "{refused}: {message}");
    }
}

/// Seen: it was accepted, and had no effect.
#[test]
fn a_built_in_owner_of_pods_is_refused() {
    for built_in in ["ReplicaSet.v1.apps=a/b", "Job.v1beta1.batch=a/b"] {
        let message = pod_owner(built_in).unwrap_err();
        assert!(message.contains("is built in"), "{message}");
        assert!(message.ends_with("--controller-user"), "{message}");
    }
    assert!(pod_owner("StatefulSet.v1beta1.apps.kruise.io=a/b").is_ok());
}
