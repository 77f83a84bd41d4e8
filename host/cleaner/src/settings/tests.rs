use super::GroupResource;

#[track_caller]
fn check(text: &str, expected: Option<(&str, &str)>) {
    let read = text.parse::<GroupResource>();
    let found = read
        .as_ref()
        .ok()
        .map(|it| (it.plural.as_str(), it.group.as_str()));
    assert_eq!(found, expected);
    if let Ok(read) = read {
        assert_eq!(read.to_string(), text);
    }
}

#[test]
fn kinds_are_written_as_kubectl_writes_them() {
    check("namespaces", Some(("namespaces", "")));
    check(
        "clusterroles.rbac.authorization.k8s.io",
        Some(("clusterroles", "rbac.authorization.k8s.io")),
    );
    check("namespaces.", None);
    check("Namespaces", None);
    check("", None);
    check("rbac.authorization.k8s.io/clusterroles", None);
}
