//! Chains of plugins: order, match, policies, stamps, proofs, configuration and grants.

use std::collections::HashSet;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use podloom_mutation::{
    Dimension, Note, PluginOutcome, PluginRun, PodRequest, RejectedPod, Write, runs,
};
use podloom_mutators::{Bundle, Chain, Form, PluginMetrics, Values, inspect};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use crate::support::{chain_of, directory, engine, load, mutate, plugin, pod, request};

fn outcomes(runs: &[PluginRun]) -> Vec<&PluginOutcome> {
    runs.iter().map(|run| &run.outcome).collect()
}

const _: () = {
    const fn shared_between_threads<T: Send + Sync>() {}
    shared_between_threads::<Chain>();
    shared_between_threads::<podloom_mutators::Engine>();
};

#[test]
fn each_plugin_works_on_the_result_of_those_before_it() {
    let mutation = mutate(&chain_of(&[
        ("good", ""),
        ("says-other", ""),
        ("tolerant", ""),
    ]))
    .expect("a pod");
    assert_eq!(mutation.pod["metadata"]["labels"]["fixture"], "other");
    assert_eq!(
        outcomes(&mutation.runs),
        [
            &PluginOutcome::Mutated,
            &PluginOutcome::Mutated,
            &PluginOutcome::Unchanged
        ]
    );
    let second = &mutation.runs[1].writes[0];
    assert_eq!(second.path, "/metadata/labels/fixture");
    assert_eq!(
        (second.old.as_ref(), second.new.as_deref()),
        (Some(&json!("good")), Some("\"other\""))
    );
    let tolerant = &mutation.runs[2];
    assert_eq!(
        (tolerant.refused_writes, tolerant.notes.as_slice()),
        (1, [Note::normal("could not choose the node")].as_slice())
    );
}

#[test]
fn a_failure_under_ignore_leaves_the_pod_to_the_next() {
    let chain = chain_of(&[
        ("good", ""),
        ("write-then-trap", "failurePolicy: Ignore"),
        ("tolerant", ""),
    ]);
    let mutation = mutate(&chain).expect("a pod");
    assert_eq!(mutation.pod["metadata"]["labels"]["fixture"], "good");
    let stamp = mutation.pod["metadata"]["annotations"]["podloom.dev/mutations"]
        .as_str()
        .expect("a stamp");
    let names: Vec<Value> = serde_json::from_str::<Vec<Value>>(stamp)
        .expect("JSON")
        .iter()
        .map(|run| run["name"].clone())
        .collect();
    assert_eq!(names, ["good", "tolerant"]);
}

/// A value may be secret, and what is not passed on cannot be logged.
#[test]
fn values_are_shown_only_for_a_diff() {
    for (last, passes) in [("tolerant", true), ("deny", false)] {
        let chain = chain_of(&[("good", ""), ("says-other", ""), (last, "")]);
        let pass = |values| {
            let passed = chain.finish(chain.begin(pod(), request(), values)?);
            assert_eq!(passed.is_ok(), passes);
            let patch = passed.as_ref().map(|mutated| mutated.patch.clone());
            let writes = runs(&passed).iter().flat_map(|run| run.writes.clone());
            Ok::<_, RejectedPod>((writes.collect::<Vec<_>>(), patch.ok().flatten()))
        };
        let (shown, patch) = pass(Values::Shown).expect("a pod");
        let (hidden, same) = pass(Values::Hidden).expect("a pod");
        assert_eq!((patch.is_some(), &patch), (passes, &same));
        assert!(shown.iter().all(|write| write.new.is_some()), "{shown:?}");
        let without = shown.into_iter().map(|write| Write {
            old: None,
            new: None,
            ..write
        });
        assert_eq!(hidden, without.collect::<Vec<_>>());
    }
}

#[test]
fn a_rejection_has_the_runs_until_then() {
    let chain = chain_of(&[("good", ""), ("tolerant", ""), ("deny", ""), ("fail", "")]);
    let rejected = mutate(&chain).expect_err("a refusal");
    let [good, tolerant, deny] = rejected.runs.as_slice() else {
        panic!("{:?}", rejected.runs);
    };
    assert_eq!(
        outcomes(&rejected.runs),
        [
            &PluginOutcome::Mutated,
            &PluginOutcome::Unchanged,
            &PluginOutcome::Denied("this pod is not allowed".to_owned())
        ]
    );
    assert_eq!(good.writes[0].path, "/metadata/labels/fixture");
    assert_eq!(tolerant.notes, [Note::normal("could not choose the node")]);
    assert!(deny.writes.is_empty() && deny.memory > 0 && deny.duration > Duration::ZERO);

    let chain = chain_of(&[("good", ""), ("write-then-trap", "")]);
    let rejected = mutate(&chain).expect_err("a refusal");
    let trap = rejected.runs.last().expect("the plugin that failed");
    assert!(matches!(trap.outcome, PluginOutcome::Failed(_)) && trap.writes.is_empty());
}

#[test]
fn metrics_count_the_plugins_of_rejected_pods_too() {
    let mut registry = Registry::default();
    let metrics = PluginMetrics::register(&mut registry);
    metrics.mutated(&mutate(&chain_of(&[("good", ""), ("deny", "")])));
    metrics.mutated(&mutate(&chain_of(&[("good", ""), ("write-then-trap", "")])));
    let mut text = String::new();
    encode(&mut text, &registry).expect("text takes everything");
    for line in [
        "plugin_calls_total{plugin=\"good\",outcome=\"mutated\"} 2",
        "plugin_calls_total{plugin=\"deny\",outcome=\"denied\"} 1",
        "plugin_calls_total{plugin=\"write-then-trap\",outcome=\"failed\"} 1",
        "plugin_traps_total{plugin=\"write-then-trap\",reason=\"trap\"} 1",
        "plugin_call_duration_seconds_count{plugin=\"deny\"} 1",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn an_ancestor_cannot_be_written_even_if_much_below_it_was_granted() {
    let chain = chain_of(&[(
        "write-ancestor",
        "allow: [/spec/volumes, '/spec/containers/*', /spec/nodeName]",
    )]);
    let rejected = mutate(&chain).expect_err("a refusal").to_string();
    assert!(
        rejected.starts_with("plugin write-ancestor failed: "),
        "{rejected}"
    );
}

#[test]
fn a_plugin_is_matched_against_the_labels_that_earlier_plugins_wrote() {
    let after = "match: { selector: { matchLabels: { fixture: good } } }";
    let mutation = mutate(&chain_of(&[
        ("says-other", after),
        ("good", ""),
        ("persists", after),
    ]))
    .expect("a pod");
    let skipped = PluginOutcome::Skipped(Dimension::Selector);
    assert_eq!(
        outcomes(&mutation.runs),
        [&skipped, &PluginOutcome::Mutated, &PluginOutcome::Mutated]
    );
}

#[test]
fn a_second_pass_changes_no_byte() {
    let chain = chain_of(&[("good", ""), ("persists", "")]);
    let first = mutate(&chain).expect("a pod").pod;
    let second = chain.mutate(first.clone(), request()).expect("a pod");
    assert_eq!(second.pod.to_string(), first.to_string());
}

#[test]
fn a_plugin_that_a_second_pass_skips_leaves_the_stamp_and_nothing_else() {
    let first_only =
        "match: { selector: { matchExpressions: [{ key: fixture, operator: DoesNotExist }] } }";
    let chain = chain_of(&[("good", first_only), ("persists", "")]);
    let first = mutate(&chain).expect("a pod").pod;
    let mut second = chain.mutate(first.clone(), request()).expect("a pod").pod;
    let listed = |pod: &Value| pod["metadata"]["annotations"]["podloom.dev/mutations"].clone();
    let names = |pod: &Value| -> Vec<Value> {
        let entries: Vec<Value> =
            serde_json::from_str(listed(pod).as_str().expect("a stamp")).expect("JSON");
        entries.iter().map(|entry| entry["name"].clone()).collect()
    };
    assert_eq!(names(&first), ["good", "persists"]);
    assert_eq!(names(&second), ["persists"]);
    second["metadata"]["annotations"]["podloom.dev/mutations"] = listed(&first);
    assert_eq!(second, first);
}

#[test]
fn nothing_survives_a_call_in_the_guest() {
    let chain = chain_of(&[("persists", "")]);
    for _ in 0..3 {
        assert_eq!(
            mutate(&chain).expect("a pod").pod["metadata"]["labels"]["runs"],
            "1"
        );
    }
}

#[test]
fn labels_of_a_workloads_selector_are_kept() {
    let chain = chain_of(&[("relabels", "")]);
    assert_eq!(
        mutate(&chain).expect("a pod").pod["metadata"]["labels"]["app"],
        "other"
    );
    let request = PodRequest {
        selector: ["app".to_owned()].into(),
        ..request()
    };
    let rejected = chain
        .mutate(pod(), request)
        .expect_err("a refusal")
        .to_string();
    assert!(
        rejected.starts_with("plugin relabels failed: "),
        "{rejected}"
    );
}

#[test]
fn a_chain_without_plugins_only_stamps() {
    let chain = load(" []", &[]).expect("a chain");
    let mutation = mutate(&chain).expect("a pod");
    let annotations = json!({ "podloom.dev/chain": chain.digest(), "podloom.dev/mutations": "[]" });
    assert_eq!(mutation.pod["metadata"]["annotations"], annotations);
    assert_eq!(chain.prove(), []);
}

#[test]
fn chains_that_make_different_pods_have_different_digests() {
    let plugin = plugin("good");
    let digest = |plugins: &str| {
        let files = [("a.wasm", plugin.as_slice()), ("b.wasm", plugin.as_slice())];
        load(plugins, &files)
            .unwrap_or_else(|error| panic!("{error}"))
            .digest()
            .to_owned()
    };
    let base = digest("\n- { name: a, file: a.wasm, allow: [/metadata/labels] }");
    assert_eq!(base.len(), 64);
    assert_eq!(
        digest(
            "\n- name: a\n  file: b.wasm # elsewhere\n  allow: ['/metadata/labels']\n  match: {}"
        ),
        base
    );
    for other in [
        " []",
        "\n- { name: b, file: a.wasm, allow: [/metadata/labels] }",
        "\n- { name: a, file: a.wasm, allow: [/metadata/annotations] }",
        "\n- { name: a, file: a.wasm, allow: [/metadata/labels], read: [/spec] }",
        "\n- { name: a, file: a.wasm, allow: [/metadata/labels], match: { kinds: [Pod] } }",
        "\n- { name: a, file: a.wasm, allow: [/metadata/labels], failurePolicy: Ignore }",
        "\n- { name: a, file: a.wasm, allow: [/metadata/labels], limits: { memory: 2Mi } }",
    ] {
        assert_ne!(digest(other), base, "{other}");
    }
}

#[test]
fn proofs_find_what_is_not_idempotent() {
    let texts = |chain: &Chain| {
        chain
            .prove()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<String>>()
    };
    let containers = "allow: ['/spec/containers/*']";
    assert!(texts(&chain_of(&[("good", ""), ("persists", ""), ("deny", "")])).is_empty());
    assert!(
        texts(&chain_of(&[(
            "adds-up",
            &format!("{containers}\n  idempotent: false")
        )]))
        .is_empty()
    );
    let cases = [
        chain_of(&[("adds-up", containers)]),
        chain_of(&[("good", ""), ("says-other", "")]),
        chain_of(&[("fail", "failurePolicy: Ignore"), ("good", "")]),
        chain_of(&[("trap", "match: { kinds: [Browser] }")]),
    ];
    insta::assert_debug_snapshot!(cases.iter().map(texts).collect::<Vec<_>>());
}

#[track_caller]
fn check_refused(fixture: &str, lines: &str, expected: &str) {
    let plugins = format!("\n- name: it\n  file: it.wasm\n  {lines}");
    let error = load(&plugins, &[("it.wasm", &plugin(fixture))]).expect_err("a refusal");
    assert_eq!(
        error,
        format!("chain.yaml:4: plugin it (it.wasm) {expected}")
    );
}

#[test]
fn a_plugin_that_needs_more_than_it_gets_is_not_loaded() {
    assert!(
        load(
            "\n- { name: it, file: it.wasm, allow: [/metadata/labels, /spec] }",
            &[("it.wasm", &plugin("needy"))]
        )
        .is_ok()
    );
    check_refused(
        "needy",
        "allow: []",
        "needs to write /metadata/labels, /spec/containers, but `allow` grants nothing; add /metadata/labels and /spec/containers",
    );
    check_refused(
        "needy",
        "allow: [/metadata/labels, '/spec/containers/*']",
        "needs to write /metadata/labels, /spec/containers, but `allow` grants only /metadata/labels, /spec/containers/*; add /spec/containers",
    );
    check_refused(
        "needy",
        "{ allow: [/metadata/labels, /spec/containers], read: [/metadata] }"
            .trim_matches(['{', '}', ' '])
            .replace(", read", "\n  read")
            .as_str(),
        "needs to read /spec, but `read` and `allow` grant only /metadata, /metadata/labels, /spec/containers; add /spec",
    );
    check_refused(
        "needy",
        "allow: [/metadata]",
        "has an invalid path in `allow`: \"/metadata\" cannot be granted: it would also grant /metadata/name, which plugins never write; grant what the plugin needs below it, of /metadata/labels and /metadata/annotations",
    );
    check_refused(
        "needy",
        "allow: [/spec/containers/0]",
        "has an invalid path in `allow`: \"/spec/containers/0\" cannot be granted: `0` is an index, which shifts when elements are added or removed; write `[name=...]` for one element, or `*` for all",
    );
    check_refused(
        "reads-all",
        "allow: [/metadata/labels]",
        "needs to read the whole pod, which only chain.yaml can grant; to allow it, add the line `read: [\"\"]`",
    );
    check_refused(
        "needy",
        "read: [spec]",
        "has an invalid path in `read`: \"spec\" cannot be granted: it must start with `/`; write /spec",
    );
}

#[test]
fn a_configuration_is_checked_by_schema_and_plugin() {
    let lines = |config: &str| format!("allow: [/metadata/annotations]\n  config: {config}");
    check_refused(
        "good",
        "config: { a: 1, b: 2 }",
        "takes no configuration, but chain.yaml sets a and b; remove `config`",
    );
    check_refused(
        "complains",
        "config: {}",
        "has an invalid configuration: first wrong; second wrong",
    );
    check_refused(
        "configured",
        &lines("{ size: 0, name: UP }"),
        "has an invalid configuration: line 7, config/name: value does not match \"^[a-z]+$\"; line 7, config/size: value is less than the minimum of 1, found 0",
    );
    check_refused(
        "configured",
        &lines("{ sized: 1 }"),
        "has an invalid configuration: line 7, config: unknown field sized; did you mean size?",
    );
    let configured = chain_of(&[("configured", &lines("{ size: 1 }"))]);
    assert_eq!(
        mutate(&configured).expect("a pod").pod["metadata"]["annotations"]["config"],
        "10"
    );
}

#[test]
fn all_entries_of_a_file_keep_one_schema() {
    let plugins = ["one", "two", "three"].map(|name| {
        format!("\n- {{ name: {name}, file: it.wasm, allow: [/metadata/annotations] }}")
    });
    let chain = load(&plugins.concat(), &[("it.wasm", &plugin("configured"))]).expect("a chain");
    let schemas = chain.plugins().iter().map(|plugin| {
        let schema = plugin.description.config_schema.as_ref();
        Arc::as_ptr(schema.expect("a schema"))
    });
    let schemas: HashSet<*const str> = schemas.collect();
    assert_eq!(schemas.len(), 1);
}

#[test]
fn components_and_gzip_are_plugins_too() {
    let module = plugin("good");
    let component = wit_component::ComponentEncoder::default()
        .module(&module)
        .and_then(|encoder| encoder.encode())
        .expect("a component");
    let chain = load(
        "\n- { name: it, file: it.wasm, allow: [/metadata/labels] }",
        &[("it.wasm", &component)],
    )
    .expect("a chain");
    assert_eq!(
        mutate(&chain).expect("a pod").pod["metadata"]["labels"]["fixture"],
        "good"
    );
    let forms =
        [module, component].map(|file| inspect(engine(), &file, None).expect("a plugin").form);
    assert_eq!(forms, [Form::CoreModule, Form::Component]);
}

#[test]
fn a_file_alone_can_be_inspected() {
    let inspection = inspect(engine(), &plugin("needy"), None).expect("a plugin");
    assert_eq!(inspection.description.name, "fixture");
    assert_eq!(
        inspection.description.writes,
        ["/metadata/labels", "/spec/containers"]
    );
    assert_eq!(inspection.contract, "0.1.0");
    assert_eq!(
        inspection.imports,
        [
            "podloom:mutator/host@0.1.0",
            "podloom:mutator/request@0.1.0",
            "podloom:mutator/pods@0.1.0"
        ]
    );
    assert_eq!(
        (inspection.shipped_bytes, inspection.sha256.len()),
        (inspection.wasm_bytes, 64)
    );
    let config = json!({ "size": "big" });
    let error =
        inspect(engine(), &plugin("configured"), config.as_object()).expect_err("a refusal");
    assert_eq!(
        error.to_string(),
        "has an invalid configuration: config/size: expected an integer, found a string"
    );
}

#[test]
fn the_next_chain_reuses_compiled_code() {
    let plugins = "\n- { name: it, file: it.wasm, allow: [/metadata/labels] }";
    let first = load(plugins, &[("it.wasm", &plugin("good"))]).expect("a chain");
    let directory = directory(plugins, &[("it.wasm", &plugin("says-other"))]);
    let bundle = Bundle::read(directory.path()).expect("a bundle");
    let second = Chain::load_after(&first, &bundle).expect("a chain");
    assert_ne!(first.digest(), second.digest());
    assert_eq!(
        mutate(&second).expect("a pod").pod["metadata"]["labels"]["fixture"],
        "other"
    );
    assert_eq!(
        mutate(&first).expect("a pod").pod["metadata"]["labels"]["fixture"],
        "good"
    );
}

#[test]
fn many_pods_pass_at_the_same_time() {
    let chain = chain_of(&[
        ("good", ""),
        ("trap", "failurePolicy: Ignore"),
        ("persists", ""),
    ]);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let labels = mutate(&chain).expect("a pod").pod["metadata"]["labels"].take();
                    assert_eq!(
                        labels,
                        json!({ "app": "web", "fixture": "good", "runs": "1" })
                    );
                }
            });
        }
    });
}

#[test]
fn fields_that_no_schema_knows_survive() {
    let mut pod = pod();
    pod["spec"]["fieldOfANewerKubernetes"] = json!({ "kept": [1, 2.5, null] });
    let mutation = chain_of(&[("good", "")])
        .mutate(pod.clone(), request())
        .expect("a pod");
    assert_eq!(mutation.pod["spec"], pod["spec"]);
}

#[test]
fn a_plugin_may_read_what_it_describes_unless_the_manifest_lists_other_paths() {
    let chain = |fixture: &str, lines: &str| {
        let plugins = format!("\n- name: it\n  file: it.wasm\n  {lines}");
        load(&plugins, &[("it.wasm", &plugin(fixture))]).expect("the chain loads")
    };
    let declared = chain("needy", "allow: [/metadata/labels, /spec/containers]");
    assert_eq!(declared.plugins()[0].read, ["/spec"]);
    assert_eq!(
        declared.plugins()[0].allow,
        ["/metadata/labels", "/spec/containers"]
    );
    let listed = chain(
        "needy",
        "allow: [/metadata/labels, /spec]\n  read: [/metadata]",
    );
    assert_eq!(listed.plugins()[0].read, ["/metadata"]);
    // One that describes no reads may read nothing.
    let run = mutate(&chain("read-ungranted", "failurePolicy: Ignore")).expect("it is ignored");
    assert_eq!((run.runs[0].reads, run.runs[0].refused_reads), (1, 1));
    let run = mutate(&chain("reads-all", "read: ['']")).expect("it may");
    assert_eq!((run.runs[0].reads, run.runs[0].refused_reads), (1, 0));
}

/// What runs when a session gets its pod finds a pod that may run already.
#[test]
fn a_plugin_that_would_change_the_spec_of_a_running_pod_is_not_loaded() {
    check_refused(
        "needy",
        "match: { operations: [CREATE, CLAIM] }\n  allow: [/metadata/labels, /spec/containers]",
        "runs at CLAIM, when the pod may run already, but `allow` grants /spec/containers; then only /metadata/annotations, /metadata/labels can change, so list it a second time, under another name, for what it does at CREATE",
    );
    let plugins = "\n- { name: it, file: it.wasm, allow: [/metadata/labels], match: { operations: [CLAIM] } }";
    let chain = load(plugins, &[("it.wasm", &plugin("good"))]).expect("a chain");
    assert!(chain.takes_claims());
}
