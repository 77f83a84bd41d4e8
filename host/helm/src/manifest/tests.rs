use crate::manifest::{ChartObjects, ManifestError, read};

fn read_ok(manifest: &str) -> ChartObjects {
    read(manifest, "demo").unwrap()
}

/// The objects that are deleted, as `kind/namespace/name`.
#[track_caller]
fn check(manifest: &str, expected: &[&str]) {
    let objects = read_ok(manifest);
    let found: Vec<String> = objects
        .deleted
        .iter()
        .map(|object| format!("{}/{}/{}", object.kind, object.namespace, object.name))
        .collect();
    assert_eq!(found, expected, "{manifest}");
}

/// The objects that stay, by name.
#[track_caller]
fn check_kept(manifest: &str, expected: &[&str]) {
    let objects = read_ok(manifest);
    let found: Vec<&str> = objects.kept.iter().map(|kept| kept.name.as_str()).collect();
    assert_eq!(found, expected, "{manifest}");
    assert!(objects.deleted.is_empty(), "{:?}", objects.deleted);
}

fn document(kind: &str, name: &str) -> String {
    format!(
        "---\n# Source: shop/templates/a.yaml\napiVersion: v1\nkind: {kind}\nmetadata:\n  name: {name}\n"
    )
}

#[test]
fn a_manifest_has_documents_some_of_them_empty() {
    check("", &[]);
    check(
        "---\n# Source: shop/templates/a.yaml\n---\n\n---\nnull\n",
        &[],
    );
    let two = format!(
        "{}---\n# nothing\n{}",
        document("Secret", "a"),
        document("Secret", "b")
    );
    check(&two, &["Secret/demo/a", "Secret/demo/b"]);
    let windows = two.replace('\n', "\r\n");
    check(&windows, &["Secret/demo/a", "Secret/demo/b"]);
}

#[test]
fn the_namespace_is_that_of_the_release_unless_an_object_has_its_own() {
    check(
        "{ apiVersion: v1, kind: Pod, metadata: { name: a, namespace: other } }",
        &["Pod/other/a"],
    );
    check(
        "{ apiVersion: v1, kind: Pod, metadata: { name: a, namespace: '' } }",
        &["Pod/demo/a"],
    );
    check(
        "{ apiVersion: v1, kind: Pod, metadata: { name: a, namespace: } }",
        &["Pod/demo/a"],
    );
}

#[test]
fn kinds_are_deleted_in_the_order_of_helm() {
    let order = [
        "APIService",
        "Ingress",
        "IngressClass",
        "Service",
        "CronJob",
        "Job",
        "StatefulSet",
        "HorizontalPodAutoscaler",
        "Deployment",
        "ReplicaSet",
        "ReplicationController",
        "Pod",
        "DaemonSet",
        "RoleBinding",
        "Role",
        "ClusterRoleBinding",
        "ClusterRole",
        "CustomResourceDefinition",
        "PersistentVolumeClaim",
        "PersistentVolume",
        "StorageClass",
        "ConfigMap",
        "Secret",
        "ServiceAccount",
        "PodDisruptionBudget",
        "PodSecurityPolicy",
        "LimitRange",
        "ResourceQuota",
        "NetworkPolicy",
        "Namespace",
        "PriorityClass",
        // Others, by their names.
        "Anything",
        "Else",
    ];
    let manifest: String = order.iter().rev().map(|kind| document(kind, "a")).collect();
    let found = read_ok(&manifest).deleted;
    let found: Vec<&str> = found.iter().map(|object| object.kind.as_str()).collect();
    assert_eq!(found, order);
}

#[test]
fn objects_of_one_kind_stay_in_the_order_of_the_chart() {
    let manifest = [
        ("Zoo", "b"),
        ("Pod", "z"),
        ("Zoo", "a"),
        ("Pod", "a"),
        ("Pod", "m"),
    ]
    .map(|(kind, name)| document(kind, name))
    .concat();
    check(
        &manifest,
        &[
            "Pod/demo/z",
            "Pod/demo/a",
            "Pod/demo/m",
            "Zoo/demo/b",
            "Zoo/demo/a",
        ],
    );
}

/// Helm asks for `keep`, in any case; an object with another value is neither kept nor deleted there, which is the same.
#[test]
fn objects_with_a_resource_policy_stay() {
    for value in [
        "keep", "Keep", "delete", "''", "null", "[]", "{ a: b }", "true",
    ] {
        let manifest = format!(
            "{}  annotations:\n    helm.sh/resource-policy: {value}\n",
            document("Secret", "a")
        );
        check_kept(&manifest, &["a"]);
    }
    let other = format!(
        "{}  annotations:\n    helm.sh/policy: keep\n",
        document("Secret", "a")
    );
    check(&other, &["Secret/demo/a"]);
    let none = format!("{}  annotations:\n", document("Secret", "a"));
    check(&none, &["Secret/demo/a"]);
}

#[test]
fn hooks_are_no_objects_and_objects_without_a_name_stay() {
    let hook = format!(
        "{}  annotations:\n    helm.sh/hook: test\n",
        document("Pod", "a")
    );
    check_kept(&hook, &[]);
    check_kept(
        "{ apiVersion: v1, kind: Pod, metadata: { generateName: a- } }",
        &[""],
    );
    check_kept("{ apiVersion: v1, kind: Pod }", &[""]);
}

#[test]
fn lists_are_their_items() {
    let pod = "{ apiVersion: v1, kind: Pod, metadata: { name: a } }";
    let service = "{ apiVersion: v1, kind: Service, metadata: { name: b, namespace: other } }";
    let list = format!("{{ apiVersion: v1, kind: List, items: [{pod}, {service}] }}");
    check(&list, &["Service/other/b", "Pod/demo/a"]);
    let nested = format!("{{ apiVersion: v1, kind: List, items: [{list}] }}");
    check(&nested, &["Service/other/b", "Pod/demo/a"]);
    let typed = "{ apiVersion: v1, kind: ConfigMapList, items: [{ metadata: { name: a } }] }";
    check(typed, &["ConfigMap/demo/a"]);
    check("{ apiVersion: v1, kind: List, items: [] }", &[]);
    // Without items it is an object of a kind that is called so.
    let named = "{ apiVersion: example.com/v1, kind: PriceList, metadata: { name: a } }";
    check(named, &["PriceList/demo/a"]);
    let kept = format!(
        "{{ apiVersion: v1, kind: List, metadata: {{ annotations: {{ helm.sh/resource-policy: keep }} }}, items: [{pod}] }}"
    );
    check_kept(&kept, &["a"]);
    let item = pod.replace(
        "name: a",
        "name: a, annotations: { helm.sh/resource-policy: keep }",
    );
    let kept = format!("{{ apiVersion: v1, kind: List, items: [{item}] }}");
    check_kept(&kept, &["a"]);
}

#[test]
fn documents_are_read_as_helm_reads_them() {
    let twice =
        "{ apiVersion: v1, kind: Pod, metadata: { name: a, labels: { x: 1, x: 2 }, name: b } }";
    check(twice, &["Pod/demo/b"]);
    let number = "{ apiVersion: v1, kind: Pod, metadata: { name: 123 } }";
    check(number, &["Pod/demo/123"]);
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: |\n    ---\n    kind: Pod\n";
    check(text, &["ConfigMap/demo/a"]);
    let alias = "apiVersion: v1\nkind: Pod\nmetadata: &m { name: a }\nspec: { again: *m }\n";
    check(alias, &["Pod/demo/a"]);
}

#[track_caller]
fn refused(manifest: &str) -> ManifestError {
    let error = read(manifest, "demo").unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("hunter2"), "{shown}");
    error
}

/// One mistake anywhere, and nothing is deleted.
#[test]
fn a_manifest_with_a_mistake_is_refused_as_a_whole() {
    let good = document("Secret", "a");
    for bad in [
        "a: [hunter2",
        "a: b: hunter2",
        "\thunter2",
        "hunter2",
        "- hunter2",
        "*hunter2",
        "apiVersion: v1\nkind: [hunter2]",
        "apiVersion: v1\nkind: Pod\nmetadata: hunter2",
        "apiVersion: v1\nkind: Pod\nmetadata: { name: [hunter2] }",
        "apiVersion: v1\nkind: Pod\nmetadata: { annotations: hunter2 }",
        "apiVersion: v1\nkind: List\nitems: hunter2",
    ] {
        let error = refused(&format!("{good}---\n{bad}\n"));
        assert!(
            matches!(error, ManifestError::Syntax { .. }),
            "{bad}: {error:?}"
        );
    }
    for bad in [
        "{}",
        "kind: Pod",
        "apiVersion: v1",
        "{ apiVersion: '', kind: Pod }",
        "hunter2: 1",
    ] {
        let error = refused(&format!("{good}---\n{bad}\n"));
        assert_eq!(error, ManifestError::NoKind(2), "{bad}");
    }
}

#[test]
fn hostile_manifests_are_refused() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let above = format!("*a{}, ", level - 1).repeat(10);
        bomb += &format!("a{level}: &a{level} [{above}]\n");
    }
    let deep = format!("a: {}", "[".repeat(100_000));
    let deep_blocks: String = (0..1000)
        .map(|depth| format!("{}a:\n", " ".repeat(depth)))
        .collect();
    let items = "{},".repeat(600_000);
    for bad in [
        bomb,
        deep,
        deep_blocks,
        "---\n{}\n".repeat(10_001),
        format!("{{ apiVersion: v1, kind: List, items: [{items}] }}"),
        "a: &a [*a]".to_owned(),
    ] {
        let error = refused(&bad);
        assert!(matches!(error, ManifestError::Syntax { .. }), "{error:?}");
    }
}
