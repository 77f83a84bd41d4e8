//! `podloom chain export`, and the conditions of `podloom chain check`.

use std::fs;

use tempfile::TempDir;

use super::tighten::chain;
use super::{Ran, podloom_in};

/// All that a policy can say.
const LABELS: &str = "\
- name: labels
  file: labels.wasm.gz
  allow: [/metadata/labels, /metadata/annotations]
  match:
    namespaces: [shop, 'team-*']
    namespaceSelector: {matchLabels: {labels: wanted}}
    selector: {matchExpressions: [{key: alone, operator: NotIn, values: ['yes']}]}
  config:
    labels:
    - {key: example.com/kind, value: $(request/kind)}
    - {key: team, value: a-$(namespace/labels/team), default: nobody}
    - {key: cost, value: $(namespace/annotations/cost)}
    - {key: tier, value: batch, mode: overwrite}
    - {key: debug, mode: remove}
    annotations:
    - {key: says, value: \"it's \\\\ $$(\\u00e9) $(namespace/name)\", mode: overwrite}
    - {key: old, mode: remove}
    inheritLabels: [owner]
    inheritAnnotations: [example.com/contact]
";

const POD: &str = "spec: {containers: [{name: a, image: example.com/a:1}]}";

/// Pods in namespaces that differ in what the rules look at.
fn corpus(pods: &str) -> String {
    let namespace = |name: &str, metadata: &str| {
        format!("---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}, {metadata}}}\n")
    };
    let long = "x".repeat(62);
    let all = namespace(
        "shop",
        "labels: {labels: wanted, team: web, owner: ''}, annotations: {cost: '12 EUR', example.com/contact: us}",
    );
    let few = namespace(
        "team-a",
        &format!("labels: {{labels: wanted, team: {long}}}"),
    );
    let mut text = all + &few + &namespace("other", "labels: {labels: wanted}");
    for namespace in ["shop", "team-a", "team-b", "other"] {
        for (number, metadata) in pods.lines().enumerate() {
            text += &format!(
                "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p{number}, namespace: {namespace}, {metadata}}}\n{POD}\n"
            );
        }
    }
    text
}

const PODS: &str = "\
labels: {app: web}
labels: {debug: ''}
labels: {debug: x, team: own, tier: web}, annotations: {old: gone, says: hello}
labels: {owner: me, alone: 'no'}, annotations: {old: gone}
labels: {alone: 'yes', debug: ''}
annotations: {example.com/contact: me}";

fn export(directory: &TempDir, arguments: &[&str]) -> Ran {
    let export = ["chain", "export", ".", "--map"];
    podloom_in(directory.path(), &[&export[..], arguments].concat(), "")
}

const UNSELECTED: [&str; 4] = ["--unselected", "tier", "--unselected", "debug"];

fn write(directory: &TempDir, text: &str) {
    let corpus = directory.path().join("corpus");
    fs::create_dir_all(&corpus).expect("the directory is new");
    fs::write(corpus.join("pods.yaml"), text).expect("the corpus is written");
}

#[test]
fn a_policy_makes_the_pods_that_the_plugin_makes() {
    let Some(directory) = chain(LABELS) else {
        return;
    };
    write(&directory, &corpus(PODS));
    let ran = export(
        &directory,
        &[&UNSELECTED[..], &["--corpus", "corpus"]].concat(),
    );
    assert_eq!(ran.code, 0, "{}", ran.text());
    let tried =
        "labels: plugin and policy make the same of 24 pods, of which the plugin takes 10\n";
    assert_eq!(ran.stderr, tried);
    let (_, objects) = ran.stdout.split_once("\napiVersion").unwrap();
    insta::assert_snapshot!(format!("apiVersion{objects}"));
    let on_samples = export(&directory, &UNSELECTED);
    assert_eq!(on_samples.stdout, ran.stdout, "{}", on_samples.text());
}

#[test]
fn what_a_policy_cannot_say_is_an_error() {
    let Some(directory) = chain(LABELS) else {
        return;
    };
    let ran = export(&directory, &["--unselected", "tier"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    let refused = "error: ./chain.yaml: labels: label debug: the plugin leaves labels alone";
    assert!(ran.stderr.starts_with(refused), "{}", ran.text());
}

#[test]
fn what_a_policy_does_not_know_shows_on_the_pods() {
    let Some(directory) = chain(
        "- name: tiers\n  file: labels.wasm.gz\n  allow: [/metadata/labels]\n  config: {labels: [{key: tier, value: batch, mode: overwrite}]}\n",
    ) else {
        return;
    };
    let labels = "{matchLabels: {tier: web}}";
    let deployment = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec: {{selector: {labels}, template: {{metadata: {{labels: {{tier: web}}}}, {POD}}}}}\n"
    );
    write(&directory, &deployment);
    let ran = export(&directory, &["--unselected", "tier", "--corpus", "corpus"]);
    let expected = "error: Deployment default/web: the policy makes another pod than the plugin, at /metadata/labels/tier\n";
    assert_eq!(
        (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
        (1, "", expected)
    );
}

#[test]
fn pods_that_no_plugin_takes_need_no_webhook() {
    let Some(directory) = chain(LABELS) else {
        return;
    };
    let ran = podloom_in(directory.path(), &["chain", "check", "."], "");
    let (_, printed) = ran.stdout.split_once("matchConditions:\n").unwrap();
    let lines: Vec<&str> = printed.lines().take(2).collect();
    insta::assert_snapshot!(lines.join("\n"));
}
