//! Random guests, each called both as a core module and as the component that is encoded from it. Both must give the same pod, the
//! same messages and the same limits.
//!
//! Most guests are scripts: an annotation of the pod says what the plugin does, so one compiled plugin runs them all. The others are
//! modules with the code of a script. `cargo xtask soak --only guests` runs a hundred times as many.

mod assembly;
mod patch;
mod script;

use std::sync::OnceLock;

use podloom_mutation::{MutatedPod, RejectedPod};
use podloom_mutators::Chain;
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, proptest};
use serde_json::{Value, json};

use self::assembly::{interpreter, module};
use self::script::{Allocator, DROP, DRY_RUN, GuestAction, action, allocator, encode};
use crate::support::{check_host_is_unharmed, componentized, load, request};

/// The limits and grants of each guest. The timeout is long, since time is not compared.
const ENTRY: &str = "\n- name: guest\n  file: guest.wasm\n  failurePolicy: Ignore\n  limits: { memory: 2Mi, timeout: 10s }\n  \
    allow: [/metadata/labels, '/spec/containers/*/env/[name=A]', '/spec/containers/[name=new]', /spec/volumes]\n  \
    read: [/metadata/annotations, '/spec/containers/*/image']";

/// A plugin as a core module and as a component.
struct Ways {
    module: Chain,
    component: Chain,
}

impl Ways {
    /// None if both are refused, with the same message.
    fn load(wasm: &[u8]) -> Option<Self> {
        let module = load(ENTRY, &[("guest.wasm", wasm)]);
        let component = load(ENTRY, &[("guest.wasm", &componentized(wasm))]);
        match (module, component) {
            (Ok(module), Ok(component)) => Some(Self { module, component }),
            (module, component) => {
                assert_eq!(module.err(), component.err());
                None
            }
        }
    }

    #[track_caller]
    fn check(&self, pod: &Value) {
        let run = |chain: &Chain| show(chain.mutate(pod.clone(), request()));
        assert_eq!(run(&self.module), run(&self.component));
    }
}

/// Shows everything about a run but digests of chains and times, which differ.
fn show(result: Result<MutatedPod, RejectedPod>) -> String {
    let (mut pod, runs, cause) = match result {
        Ok(mutation) => (mutation.pod, mutation.runs, None),
        Err(rejected) => (Value::Null, rejected.runs, Some(rejected.rejection)),
    };
    if let Some(annotations) = pod
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.retain(|key, _| !key.starts_with("podloom.dev/"));
    }
    let runs: Vec<_> = runs
        .iter()
        .map(|run| {
            let counts = (run.refused_writes, run.reads, run.refused_reads);
            (&run.outcome, &run.writes, counts, &run.notes)
        })
        .collect();
    format!("{runs:#?}\n{cause:?}\n{pod:#}")
}

/// The pod of all guests, with a script in it.
fn pod(script: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "pod", "labels": { "app": "web", "selenosis.io/x": "y" }, "annotations": { "script": script } },
        "spec": {
            "hostNetwork": false,
            "containers": [
                { "name": "app", "image": "app:1", "env": [{ "name": "A", "value": "1" }, { "name": "B", "value": "secret" }] },
                { "name": "proxy", "image": "proxy:1" },
            ],
        },
    })
}

fn scripts() -> &'static Ways {
    static WAYS: OnceLock<Ways> = OnceLock::new();
    WAYS.get_or_init(|| Ways::load(&interpreter()).expect("the interpreter loads"))
}

fn actions() -> impl Strategy<Value = Vec<GuestAction>> {
    vec(action(), 0..10)
}

/// A thousand in every test run, more if they are asked for.
fn cases(share: u32) -> ProptestConfig {
    let cases = ProptestConfig::default().cases.max(1000) / share;
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(1))]

    #[test]
    fn a_script_gives_the_same_both_ways(allocator in allocator(), actions in actions()) {
        scripts().check(&pod(&encode(allocator, &actions)));
    }
}

proptest! {
    #![proptest_config(cases(50))]

    /// Some of them act when they start, and are refused at load.
    #[test]
    fn a_module_gives_the_same_both_ways(
        allocator in allocator(), start in proptest::option::weighted(0.2, vec(action(), 1..4)), actions in actions(), pods in vec(actions(), 3),
    ) {
        if let Some(ways) = Ways::load(&module(allocator, start.as_deref(), &actions)) {
            for actions in &pods {
                ways.check(&pod(&encode(Allocator::Plain, actions)));
            }
        }
    }
}

/// The comparison itself must be able to fail.
#[test]
fn the_comparison_finds_guests_that_differ() {
    let note = |text| vec![GuestAction::note(text)];
    let run = |actions: &[GuestAction]| {
        show(
            scripts()
                .module
                .mutate(pod(&encode(Allocator::Plain, actions)), request()),
        )
    };
    assert_ne!(run(&note(0)), run(&note(1)));
    assert!(
        run(&note(0)).contains("/metadata/labels"),
        "{}",
        run(&note(0))
    );
}

#[test]
fn the_host_is_unharmed() {
    scripts().check(&pod(&encode(Allocator::Plain, &[GuestAction::trap()])));
    check_host_is_unharmed();
}

/// While a start function runs, the host does not know the memory: only imports that need none can be called.
#[test]
fn few_imports_can_be_called_from_a_start_function() {
    for action in GuestAction::one_of_each_import() {
        let wasm = module(Allocator::Plain, Some(&[action]), &[]);
        let load = |wasm: &[u8]| load(ENTRY, &[("guest.wasm", wasm)]).err();
        let refused = load(&wasm);
        assert_eq!(load(&componentized(&wasm)), refused, "{action:?}");
        let expected = match action.code {
            DRY_RUN => None,
            DROP => Some("it broke the plugin contract: unknown handle index 1"),
            _ => Some("it crashed: uninitialized element"),
        };
        let expected = expected.map(|words| {
            format!("chain.yaml:4: plugin guest (guest.wasm) could not describe itself: {words}")
        });
        assert_eq!(refused, expected, "{action:?}");
    }
    check_host_is_unharmed();
}

/// The host keeps the first few lists of fields and parses the others each time. Each call must show the same.
#[test]
fn a_view_shows_the_same_whether_or_not_its_fields_are_kept() {
    // All of them paths of labels.
    let lists = [
        (0, 1),
        (0, 2),
        (0, 3),
        (0, 4),
        (1, 1),
        (2, 1),
        (2, 2),
        (3, 1),
    ];
    let views = lists
        .map(|(first, count)| GuestAction::view_and_note(first, count))
        .concat();
    let pod = pod(&encode(Allocator::Plain, &views));
    let ways = Ways::load(&interpreter()).expect("the interpreter loads");
    for chain in [&ways.module, &ways.component] {
        let notes = |chain: &Chain| {
            let mutation = chain.mutate(pod.clone(), request()).expect("it passes");
            mutation.runs[0].notes.clone()
        };
        let first = notes(chain);
        let app = r#"{"metadata":{"labels":{"app":"web"}}}"#;
        assert_eq!(
            (first.len(), first[4].text.as_str(), first[5].text.as_str()),
            (8, r#"{"metadata":{"labels":{}}}"#, app)
        );
        for _ in 0..3 {
            assert_eq!(notes(chain), first);
        }
    }
}
