//! Namespaces whose labels and annotations are not known: no plugin takes that for "it has none".

use podloom_mutation::{CallFailure, Dimension, PluginOutcome, PodRequest};
use podloom_mutators::Chain;

use super::support::{assemble, complete, componentized, load, pod, request};

/// Asks for one of these of the namespace, whatever the pod is like.
fn asking(import: &str) -> Vec<u8> {
    let asks = r#"
(data (i32.const 1024) "team")
(func $mutate (param $pod i32) (result i32)
  (call $asked (i32.const 1024) (i32.const 4) (i32.const 512))
  (call $ok))"#;
    let kind = r#"(import "podloom:mutator/request@0.1.0" "kind""#;
    let asked = format!(
        r#"(import "podloom:mutator/request@0.1.0" "{import}" (func $asked (param i32 i32 i32)))"#
    );
    assemble(&complete(asks).replace(kind, &format!("{asked}\n{kind}")))
}

fn chain(wasm: &[u8], lines: &str) -> Chain {
    let plugins = format!("\n- name: it\n  file: it.wasm\n  {lines}");
    load(&plugins, &[("it.wasm", wasm)]).expect("the chain loads")
}

/// What the plugin came to where the namespace is not known, under either policy.
#[track_caller]
fn check(wasm: &[u8], lines: &str, expected: &PluginOutcome) {
    for policy in ["Fail", "Ignore"] {
        let chain = chain(wasm, &format!("failurePolicy: {policy}\n  {lines}"));
        let unread = PodRequest {
            is_namespace_unread: true,
            ..request()
        };
        let runs = match chain.mutate(pod(), unread) {
            Ok(mutation) => mutation.runs,
            Err(rejected) => rejected.runs,
        };
        let outcomes: Vec<&PluginOutcome> = runs.iter().map(|run| &run.outcome).collect();
        assert_eq!(outcomes, [expected], "{policy}: {lines}");
        assert!(chain.mutate(pod(), request()).is_ok(), "{lines}");
    }
}

const UNREAD: PluginOutcome = PluginOutcome::Failed(CallFailure::NamespaceUnread);

#[test]
fn what_is_not_known_of_a_namespace_fails_who_asks_for_it() {
    for import in ["namespace-label", "namespace-annotation"] {
        let module = asking(import);
        check(&module, "", &UNREAD);
        check(&componentized(&module), "", &UNREAD);
        check(
            &module,
            "match: { namespaces: [team-b] }",
            &PluginOutcome::Skipped(Dimension::Namespaces),
        );
    }
    check(&assemble(&complete("")), "", &PluginOutcome::Unchanged);
}

#[test]
fn a_namespace_that_is_not_known_is_neither_selected_nor_excluded() {
    let wasm = assemble(&complete(""));
    for selector in [
        "matchLabels: { team: web }",
        "matchExpressions: [{ key: team, operator: DoesNotExist }]",
        "matchExpressions: [{ key: team, operator: NotIn, values: [web] }]",
    ] {
        let selector = format!("namespaceSelector: {{ {selector} }}");
        check(&wasm, &format!("match: {{ {selector} }}"), &UNREAD);
        for (other, dimension) in [
            ("kinds: [Browser]", Dimension::Kinds),
            ("namespaces: [team-b]", Dimension::Namespaces),
            (
                "selector: { matchLabels: { app: db } }",
                Dimension::Selector,
            ),
        ] {
            let lines = format!("match: {{ {selector}, {other} }}");
            check(&wasm, &lines, &PluginOutcome::Skipped(dimension));
        }
    }
    let everything = "match: { namespaceSelector: {} }";
    check(&wasm, everything, &PluginOutcome::Unchanged);
    let pods = "match: { selector: { matchLabels: { app: db } } }";
    check(&wasm, pods, &PluginOutcome::Skipped(Dimension::Selector));
}

#[test]
fn a_proof_shows_which_plugins_need_namespaces() {
    let needs = |wasm: &[u8], lines: &str| {
        let chain = chain(wasm, lines);
        assert_eq!(chain.prove(), []);
        chain.plugins()[0].needs_namespaces()
    };
    let (asking, quiet) = (asking("namespace-label"), assemble(&complete("")));
    assert!(needs(&asking, ""));
    assert!(!needs(&quiet, ""));
    let team = "match: { namespaceSelector: { matchLabels: { team: web } } }";
    assert!(needs(&quiet, team));
    assert!(!needs(&quiet, "match: { namespaceSelector: {} }"));
    assert!(!needs(&quiet, "match: { namespaces: [team-a] }"));
}
