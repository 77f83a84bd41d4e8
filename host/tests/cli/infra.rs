//! `podloom infra check`.

use serde_json::{Value, json};

use super::{Ran, fixtures, podloom, podloom_in, root};

const EXAMPLE: &str = "deploy/examples/infrastructure";

fn check(arguments: &[&str]) -> Ran {
    podloom(&[&["infra", "check"], arguments].concat())
}

fn check_input(arguments: &[&str], input: &str) -> Ran {
    podloom_in(
        &fixtures(),
        &[&["infra", "check"], arguments].concat(),
        input,
    )
}

fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).expect("YAML")
}

/// A Cluster whose template imports a file of the Infrastructure Manager.
const IMPORTS: &str = "\
apiVersion: infrastructure.podloom.dev/v1alpha1
kind: Cluster
metadata: {name: a, namespace: team}
spec:
  cloudRef: {kind: GlobalCloud, name: cloud}
  tosca: {imports: [/types.yaml], topology_template: {outputs: {kubeconfig: {}}}}
---
apiVersion: infrastructure.podloom.dev/v1alpha1
kind: GlobalCloud
metadata: {name: cloud}
spec:
  providerRef: {kind: GlobalInfrastructureProvider, name: im}
  generic: {type: Dummy}
---
";

fn provider(allows: bool) -> String {
    format!(
        "\
apiVersion: infrastructure.podloom.dev/v1alpha1
kind: GlobalInfrastructureProvider
metadata: {{name: im, namespace: ignored}}
spec: {{im: {{url: 'https://im.example.com', tokenSecretRef: {{name: t}}, allowFileReferences: {allows}}}}}
"
    )
}

#[test]
fn the_example_has_no_mistake_and_shows_what_is_sent() {
    let ran = podloom_in(&root(), &["infra", "check", "--strict", "-f", EXAMPLE], "");
    assert_eq!(ran.code, 0, "{}", ran.text());
    insta::assert_snapshot!(ran.text());
    // What is printed is the template of the file, and nothing else but the name.
    let file = std::fs::read_to_string(root().join(EXAMPLE).join("cluster.yaml")).unwrap();
    let mut objects = documents(&file);
    let mut template = objects.pop().unwrap()["spec"]["tosca"].take();
    template["metadata"] = json!({ "infra_name": "podloom-<uid>" });
    assert_eq!(documents(&ran.stdout), [template]);
}

#[test]
fn a_change_of_the_example_is_an_update() {
    let changed = format!("{EXAMPLE}/changed");
    let arguments = [
        "infra",
        "check",
        "-f",
        &changed,
        "--previous",
        EXAMPLE,
        "-o",
        "json",
    ];
    let ran = podloom_in(&root(), &arguments, "");
    assert_eq!(ran.code, 0, "{}", ran.text());
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let cluster = &report["clusters"][0];
    assert_eq!(cluster["request"], "Update");
    let count =
        "/template/topology_template/node_templates/server/capabilities/scalable/properties/count";
    assert_eq!(cluster.pointer(count), Some(&json!(3)));
}

#[test]
fn all_mistakes_are_listed_at_once() {
    let ran = check(&["-f", "infra/mistakes.yaml"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert!(!ran.stderr.contains("hunter2"), "{}", ran.text());
    insta::assert_snapshot!(ran.text());
}

#[test]
fn an_update_is_shown_as_it_would_be_sent() {
    let previous = ["--previous", "infra/before.yaml"];
    let ran = check(&[&["-f", "infra/after.yaml", "--strict"], &previous[..]].concat());
    assert_eq!(ran.code, 0, "{}", ran.text());
    insta::assert_snapshot!(ran.text());
    // Objects may be new; but if all are, the previous ones are those of something else.
    let example = root().join(EXAMPLE);
    let others = [
        "-f",
        "infra/after.yaml",
        "--strict",
        "--previous",
        example.to_str().unwrap(),
    ];
    let ran = check(&others);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{}", ran.text());
    assert!(
        ran.stderr.contains("no object is in --previous"),
        "{}",
        ran.text()
    );
}

#[test]
fn programs_get_one_object() {
    let arguments = [
        "-f",
        "infra/after.yaml",
        "--previous",
        "infra/before.yaml",
        "-o",
        "json",
    ];
    let ran = check(&arguments);
    assert_eq!(ran.code, 0, "{}", ran.text());
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let clusters = report["clusters"].as_array().unwrap();
    let requests: Vec<_> = clusters
        .iter()
        .map(|it| {
            (
                it["name"].as_str().unwrap(),
                it["request"].as_str().unwrap(),
            )
        })
        .collect();
    let expected = [
        ("demo", "Update"),
        ("same", "None"),
        ("less", "None"),
        ("new", "Adopt"),
        ("registered", "None"),
    ];
    assert_eq!(requests, expected);
    assert_eq!(clusters[0]["retiredNodes"], json!(["workers"]));
    assert_eq!(clusters[1]["template"], Value::Null);
    let yaml = check(&arguments[..4]);
    let sent: Vec<Value> = clusters
        .iter()
        .map(|it| it["template"].clone())
        .filter(|it| !it.is_null())
        .collect();
    assert_eq!(documents(&yaml.stdout), sent);
}

#[test]
fn what_would_be_ignored_is_an_error_for_each_path() {
    let ran = check(&[
        "-f",
        "infra/impossible.yaml",
        "--previous",
        "infra/before.yaml",
    ]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    insta::assert_snapshot!(ran.text());
    // The same objects are fine if they are new.
    let ran = check(&["-f", "infra/impossible.yaml"]);
    assert_eq!(ran.code, 0, "{}", ran.text());
}

/// As `kubectl get -o yaml` prints it.
#[test]
fn the_status_of_what_is_applied_counts() {
    let cluster = |nodes: &str, more: &str| {
        format!(
            "\
apiVersion: infrastructure.podloom.dev/v1alpha1
kind: Cluster
metadata: {{name: a, namespace: team, creationTimestamp: '2026-01-01T00:00:00Z'}}
spec: {{tosca: {{topology_template: {{node_templates: {{{nodes}}}, outputs: {{kubeconfig: {{}}}}}}}}}}
{more}"
        )
    };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("new.yaml");
    let node = "gone: {type: tosca.nodes.Compute}";
    std::fs::write(
        &file,
        cluster(node, "status: {state: ONLINE, retiredNodes: [gone]}\n"),
    )
    .unwrap();
    let file = file.to_str().unwrap();
    let arguments = ["-f", file, "--previous", "-"];
    let status = "\
status:
  state: ONLINE
  retiredNodes: [gone]
  lastAppliedTosca: {topology_template: {node_templates: {}, outputs: {kubeconfig: {}}}}
";
    let ran = check_input(&arguments, &cluster(node, status));
    assert_eq!(ran.code, 1, "{}", ran.text());
    let expected =
        "spec.tosca.topology_template.node_templates.gone: a node of this name was removed before";
    assert!(ran.stderr.contains(expected), "{}", ran.text());
    let ran = check_input(&arguments, &cluster(node, ""));
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert!(
        ran.stderr.contains("its template is the same"),
        "{}",
        ran.text()
    );
    let both = check_input(&["-f", "-", "--previous", "-"], "");
    assert_eq!(both.code, 2, "{}", both.text());
}

#[test]
fn files_of_the_infrastructure_manager_are_the_providers_affair() {
    let refers = "spec.tosca.imports[0]: it names a file of the Infrastructure Manager by its path";
    let (error, warning) = (format!(", {refers}"), "warning: -:6:");
    let unknown = check_input(&["-f", "-"], IMPORTS);
    assert_eq!(unknown.code, 0, "{}", unknown.text());
    assert!(unknown.stderr.starts_with(warning) && unknown.stderr.contains(&error));
    let strict = check_input(&["-f", "-", "--strict"], IMPORTS);
    assert_eq!(
        (strict.code, strict.stdout.as_str()),
        (1, ""),
        "{}",
        strict.text()
    );
    let assumed = check_input(&["-f", "-", "--strict", "--allow-file-references"], IMPORTS);
    assert_eq!(assumed.code, 0, "{}", assumed.text());
    for (allows, code) in [(true, 0), (false, 1)] {
        let input = [IMPORTS, &provider(allows)].concat();
        for more in [&[][..], &["--allow-file-references"]] {
            let ran = check_input(&[&["-f", "-"], more].concat(), &input);
            assert_eq!(ran.code, code, "{}", ran.text());
            assert_eq!(ran.stderr.contains(&error), !allows, "{}", ran.text());
            assert!(!ran.stderr.contains("warning:"), "{}", ran.text());
        }
    }
}

#[test]
fn a_check_of_nothing_is_an_error() {
    let pod = "apiVersion: v1\nkind: Pod\n";
    let ran = check_input(&["-f", "-"], pod);
    assert_eq!(ran.code, 1);
    let expected = "error: no Cluster, Cloud or InfrastructureProvider in -: ";
    assert!(ran.stderr.starts_with(expected), "{}", ran.text());
    assert_eq!(check(&[]).code, 2);
    let gone = check(&["-f", "infra/after.yaml", "--previous", "gone.yaml"]);
    assert_eq!((gone.code, gone.stdout.as_str()), (1, ""));
    assert!(
        gone.stderr
            .contains("error: gone.yaml: no such file or directory"),
        "{}",
        gone.text()
    );
}

/// They are printed as they are, but not if the API server would refuse them.
#[test]
fn render_checks_them_against_their_schemas_and_rules() {
    let ran = podloom(&["render", "-f", "infra/mistakes.yaml"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    let expected =
        "spec.im.insecureSkipTlsVerif: unknown field; did you mean insecureSkipTlsVerify?";
    assert!(ran.stderr.contains(expected), "{}", ran.text());
    let rule = "spec.openstack.auth: give exactly one of password and applicationCredential";
    assert!(ran.stderr.contains(rule), "{}", ran.text());
    let before = podloom(&["render", "-f", "infra/before.yaml"]);
    let text = std::fs::read_to_string(fixtures().join("infra/before.yaml")).unwrap();
    assert_eq!((before.code, before.stdout), (0, text), "{}", before.stderr);
}

/// A rule that cannot be evaluated is no second mistake.
#[test]
fn a_cluster_without_a_name_is_told_so_and_nothing_else() {
    let nameless = IMPORTS.replacen("name: a, ", "", 1) + &provider(true);
    let ran = check_input(&["-f", "-"], &nameless);
    let text = ran.text();
    assert_eq!(ran.code, 1, "{text}");
    assert!(text.contains("the name is missing"), "{text}");
    assert!(!text.contains("evaluating"), "{text}");
}
