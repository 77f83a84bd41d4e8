use super::first_version;

#[track_caller]
fn check(text: &str, expected: &str) {
    let found = first_version(text).map_or_else(String::new, |version| version.to_string());
    assert_eq!(found, expected, "{text}");
}

#[test]
fn every_way_to_print_a_version_is_understood() {
    check(
        "etcd Version: 3.6.8\nGit SHA: abc\nGo Version: go1.26.8",
        "3.6.8",
    );
    check("Kubernetes v1.36.3", "1.36.3");
    check(
        "Client Version: v1.32.4-dispatcher\nKustomize Version: v5.5.0",
        "1.32.4",
    );
    check("kwok version v0.8.0 go1.26 (linux/amd64)", "0.8.0");
    check("go version go1.26 linux/amd64", "1.26.0");
    check("Kubernetes v1.37.0-alpha.1+build", "1.37.0");
    check("version: none", "");
    check("", "");
}
