use podloom_api::{PodSettings, VersionConfig};

use super::{is_env_name, is_qualified_name, problems};
use crate::render::merge;

#[track_caller]
fn check(template: &str, version: &str, expected: &[&str]) {
    let template: PodSettings = serde_saphyr::from_str(template).unwrap();
    let version: VersionConfig =
        serde_saphyr::from_str(&format!("{{ image: example/chrome, {version} }}")).unwrap();
    let effective = merge(Some(&template), &version);
    assert_eq!(problems(Some(&template), &version, &effective), expected);
}

#[test]
fn a_complete_configuration_has_no_problem() {
    check(
        "{ volumes: [{ name: tmp, emptyDir: {} }], labels: { example.com/app: browser, empty: '' } }",
        "volumeMounts: [{ name: tmp, mountPath: /tmp }], sidecars: [{ name: seleniferous, image: s, ports: [{ containerPort: 1, name: a }, { containerPort: 65535, name: b }] }], initContainers: [{ name: tunnel, image: t, restartPolicy: Always }]",
        &[],
    );
}

#[test]
fn containers_have_names_of_their_own() {
    check(
        "{ sidecars: [{ name: browser, image: s }] }",
        "",
        &[
            "a sidecar or init container is called browser, rename it: the browser container has that name",
        ],
    );
    check(
        "{ sidecars: [{ name: tunnel, image: s }] }",
        "initContainers: [{ name: tunnel, image: s }]",
        &["a sidecar and an init container are both called tunnel, rename one"],
    );
    check(
        "{ sidecars: [{ name: Proxy_1, image: s }] }",
        "",
        &[
            r#"container name "Proxy_1" is invalid, use at most 63 lower-case letters, digits and dashes, a letter or digit at both ends"#,
        ],
    );
}

#[test]
fn an_entry_twice_in_one_list_is_not_merged_away() {
    check(
        "{ sidecars: [{ name: a, image: s }, { name: a, image: t }, { name: a, image: u }] }",
        "",
        &["sidecars names a twice, rename or remove one"],
    );
    check(
        "{}",
        "volumes: [{ name: v, emptyDir: {} }, { name: v, emptyDir: {} }], initContainers: [{ name: a, image: s, volumeMounts: [{ name: v, mountPath: /v }, { name: v, mountPath: /v }] }]",
        &[
            "volumes names v twice, rename or remove one",
            "volumeMounts of container a names /v twice, rename or remove one",
        ],
    );
}

#[test]
fn every_mount_has_its_volume() {
    check(
        "{ sidecars: [{ name: vnc, image: s, volumeMounts: [{ name: tmp, mountPath: /tmp }] }], initContainers: [{ name: init, image: s, volumeMounts: [{ name: tmp, mountPath: /t }] }] }",
        "volumeMounts: [{ name: dshm, mountPath: /dev/shm }], volumes: [{ name: other, emptyDir: {} }]",
        &[
            "container browser mounts volume dshm at /dev/shm, add it to volumes",
            "container init mounts volume tmp at /t, add it to volumes",
            "container vnc mounts volume tmp at /tmp, add it to volumes",
        ],
    );
}

#[test]
fn ports_are_in_range_and_their_names_differ() {
    check(
        "{ sidecars: [{ name: vnc, image: s, ports: [{ containerPort: 5900, name: vnc }] }] }",
        "sidecars: [{ name: vnc, image: s, ports: [{ containerPort: 5901, name: vnc }, { containerPort: 0 }] }]",
        &[
            "container vnc has port 0, use 1 to 65535",
            "container vnc has two ports called vnc, rename one",
        ],
    );
}

#[test]
fn only_init_containers_are_kept_running() {
    check(
        "{ sidecars: [{ name: vnc, image: s, restartPolicy: Always }] }",
        "",
        &[
            "sidecar vnc has a restartPolicy, move it to initContainers to keep it running or remove the policy",
        ],
    );
}

#[test]
fn labels_annotations_and_variables_are_valid() {
    check(
        "{ labels: { 'a b': x, team: 'Team A' }, annotations: { 'Example.com/Note': any thing, '/x': y }, nodeSelector: { pool: -a } }",
        "env: [{ name: 'A=B', value: x }]",
        &[
            r#""/x" is not a valid annotation key"#,
            r#""a b" is not a valid label key"#,
            "the value of label team is invalid, use at most 63 letters, digits, dashes, dots and underscores, a letter or digit at both ends",
            "the value of nodeSelector pool is invalid, use at most 63 letters, digits, dashes, dots and underscores, a letter or digit at both ends",
            r#"container browser has an environment variable called "A=B", use printable characters without ="#,
        ],
    );
}

#[test]
fn keys_are_told_from_what_is_none() {
    for key in [
        "app",
        "app.kubernetes.io/name",
        "A_b.c-d",
        "0",
        "example.com/A",
    ] {
        assert!(is_qualified_name(key), "{key}");
    }
    let long = "a".repeat(64);
    for key in [
        "",
        "/",
        "a/",
        "/a",
        "a/b/c",
        "Example.com/a",
        "-a",
        "a b",
        "é",
        "a..b/c",
        &long,
    ] {
        assert!(!is_qualified_name(key), "{key}");
    }
    for name in ["A", "a b", "my.var-1", "_"] {
        assert!(is_env_name(name), "{name}");
    }
    for name in ["", "A=B", "a\n", "é"] {
        assert!(!is_env_name(name), "{name}");
    }
}

#[test]
fn a_resource_has_a_name_that_kubernetes_knows() {
    check(
        "{ resources: { limits: { cpu: 1, example.com/gpu: 1, hugepages-2Mi: 2Mi } } }",
        "sidecars: [{ name: vnc, image: s, resources: { requests: { 'c p u': 1 } } }]",
        &[
            r#"container vnc has a resource called "c p u", use a name such as cpu or example.com/gpu"#,
        ],
    );
}

/// One name is in the problem of each of its mounts.
#[test]
fn what_is_said_of_a_version_has_a_limit() {
    let name = "n\n".repeat(250_000);
    let mounts: Vec<_> = (0..1000)
        .map(|number| serde_json::json!({ "name": name, "mountPath": format!("/{number}") }))
        .collect();
    let mounted = serde_json::json!({
        "image": "c", "volumeMounts": mounts[..1],
        "sidecars": [{ "name": name, "image": "s", "volumeMounts": mounts }],
    });
    let version: VersionConfig = serde_json::from_value(mounted).unwrap();
    let found = problems(None, &version, &version);
    assert_eq!(found.len(), 256);
    for problem in found {
        assert!(problem.len() < 1024 && !problem.contains('\n'), "{problem}");
    }
}
