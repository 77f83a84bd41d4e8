//! Plugins that misbehave: each fails with a precise error, leaves nothing behind, and the host goes on.

use std::num::NonZeroUsize;
use std::thread;
use std::time::{Duration, Instant};

use podloom_mutation::{CallFailure, Note, PluginOutcome, PluginRun, PodRejection, PodRequest};
use podloom_mutators::{Chain, Engine, EngineOptions, Progress, Values};

use crate::support::{
    assemble, chain_by, chain_of, chain_of_components, check_host_is_unharmed, check_patch,
    componentized, fixture_text, load, mutate, pod, request,
};

const QUICK: &str = "limits: { timeout: 50ms }";

/// As [`check_one`], for the core module and for the component that is encoded from it.
#[track_caller]
fn check(fixture: &str, manifest: &str, expected: &str) {
    check_one(chain_of, fixture, manifest, expected);
    check_one(chain_of_components, fixture, manifest, expected);
}

/// The plugin's call fails with this text; under `Ignore` the pod is, but for the stamp, as it was.
#[track_caller]
fn check_one(
    chain_of: fn(&[(&str, &str)]) -> Chain,
    fixture: &str,
    manifest: &str,
    expected: &str,
) {
    let rejected = mutate(&chain_of(&[(fixture, manifest)])).expect_err("a refusal");
    assert_eq!(
        rejected.to_string(),
        format!("plugin {fixture} failed: {expected}")
    );
    check_host_is_unharmed();

    let ignoring = chain_of(&[(fixture, &format!("{manifest}\n  failurePolicy: Ignore"))]);
    let mutation = mutate(&ignoring).expect("the failure is ignored");
    assert!(
        matches!(mutation.runs[0].outcome, PluginOutcome::Ignored(_)),
        "{:?}",
        mutation.runs[0].outcome
    );
    assert!(mutation.runs[0].writes.is_empty());
    let mut after = mutation.pod;
    after["metadata"]
        .as_object_mut()
        .expect("metadata")
        .remove("annotations");
    assert_eq!(after.to_string(), pod().to_string());
}

/// The plugin denies the pod, whatever the policy.
#[track_caller]
fn check_denied(fixture: &str, expected: &str) {
    for policy in ["Fail", "Ignore"] {
        let rejected = mutate(&chain_of(&[(fixture, &format!("failurePolicy: {policy}"))]))
            .expect_err("a refusal");
        let denied = PodRejection::Denied(format!("{fixture}: {expected}"));
        assert_eq!(rejected.rejection, denied);
        let denied = PluginOutcome::Denied(expected.to_owned());
        assert_eq!(rejected.runs[0].outcome, denied);
    }
    check_host_is_unharmed();
}

/// The deadline of a pod overrides the time limits of plugins: the plugin that runs then fails, and so do those after it.
#[test]
fn plugins_fail_at_the_deadline_of_the_pod() {
    let overdue = |left: Duration, policy: &str| {
        let lines = format!("failurePolicy: {policy}\n  limits: {{ timeout: 10s }}");
        let chain = chain_of(&[("endless-loop", &lines), ("tolerant", &lines)]);
        let started = Instant::now();
        let request = PodRequest {
            deadline: Some(started + left),
            ..request()
        };
        let result = chain.mutate(pod(), request);
        let runs = match result {
            Ok(mutation) => mutation.runs,
            Err(rejected) => rejected.runs,
        };
        assert!(started.elapsed() < Duration::from_secs(5));
        let outcomes = runs.into_iter().map(|run| run.outcome);
        outcomes.collect::<Vec<PluginOutcome>>()
    };
    // The policy is for failures of the plugin, and this is none.
    for left in [Duration::ZERO, Duration::from_millis(50)] {
        for policy in ["Ignore", "Fail"] {
            assert_eq!(
                overdue(left, policy),
                [PluginOutcome::Failed(CallFailure::Overdue)]
            );
        }
    }
    check_host_is_unharmed();
}

/// A pause interrupts the plugin that runs. The pass goes on with that plugin, and ends as if there had been no pause.
#[test]
fn a_pass_that_was_interrupted_goes_on_with_the_same_plugin() {
    for policy in ["Ignore", "Fail"] {
        let lines = format!("failurePolicy: {policy}\n  limits: {{ timeout: 200ms }}");
        let chain = chain_of(&[("good", ""), ("endless-loop", &lines), ("tolerant", "")]);
        let started = Instant::now();
        let mut pass = chain.begin(pod(), request(), Values::Shown).expect("a pod");
        // Often, and sometimes before any plugin could run.
        for pause in [0, 5, 0, 5, 5] {
            let pause = Instant::now() + Duration::from_millis(pause);
            match chain.proceed(pass, Some(pause)) {
                Progress::Paused(paused) => pass = paused,
                Progress::Ended(ended) => panic!("{policy}: {ended:?}"),
            }
        }
        assert!(started.elapsed() < Duration::from_millis(200) * 5);
        let finished = chain.finish(pass);
        let at_once = chain.mutate(pod(), request());
        match (finished, at_once) {
            (Ok(finished), Ok(at_once)) => {
                assert_eq!(finished.pod, at_once.pod);
                assert_eq!(finished.patch, at_once.patch);
                let outcomes = |runs: Vec<PluginRun>| -> Vec<PluginOutcome> {
                    runs.into_iter().map(|run| run.outcome).collect()
                };
                assert_eq!(outcomes(finished.runs), outcomes(at_once.runs));
            }
            (Err(finished), Err(at_once)) => {
                assert_eq!(finished.rejection, at_once.rejection);
                assert_eq!(finished.runs.len(), at_once.runs.len());
            }
            (finished, _) => panic!("{policy}: {finished:?}"),
        }
    }
    check_host_is_unharmed();
}

/// A pass whose deadline is over is not paused: it has ended.
#[test]
fn the_deadline_of_the_pod_is_no_pause() {
    let chain = chain_of(&[("endless-loop", "limits: { timeout: 10s }")]);
    let deadline = Instant::now() + Duration::from_millis(20);
    let request = PodRequest {
        deadline: Some(deadline),
        ..request()
    };
    let pass = chain.begin(pod(), request, Values::Shown).expect("a pod");
    let pause = deadline + Duration::from_secs(5);
    match chain.proceed(pass, Some(pause)) {
        Progress::Ended(Err(rejected)) => {
            let outcomes: Vec<PluginOutcome> =
                rejected.runs.into_iter().map(|run| run.outcome).collect();
            assert_eq!(outcomes, [PluginOutcome::Failed(CallFailure::Overdue)]);
        }
        other => panic!("{other:?}"),
    }
    check_host_is_unharmed();
}

#[test]
fn endless_loops_end_at_the_time_limit() {
    for fixture in ["endless-loop", "endless-realloc"] {
        check(fixture, QUICK, "it ran longer than its limit of 50 ms");
    }
}

/// It fails by its own limit, and later than without quick calls beside it.
#[test]
fn a_long_call_gives_way_to_quick_ones() {
    let permits = NonZeroUsize::new(4);
    let options = EngineOptions {
        permits,
        ..EngineOptions::default()
    };
    let engine = Engine::new(&options).expect("the engine starts");
    let limit = Duration::from_millis(200);
    let loops = chain_by(&engine, &[("endless-loop", "limits: { timeout: 200ms }")]);
    let good = chain_by(&engine, &[("good", "")]);
    thread::scope(|scope| {
        let started = Instant::now();
        let long = scope.spawn(|| mutate(&loops));
        while !long.is_finished() {
            mutate(&good).expect("it passes");
        }
        assert!(started.elapsed() > limit * 3 / 2);
        let rejected = long.join().expect("no panic").expect_err("a refusal");
        let outcome = &rejected.runs[0].outcome;
        let timed_out = CallFailure::TimedOut { limit };
        assert_eq!(outcome, &PluginOutcome::Failed(timed_out));
    });
}

#[test]
fn memory_and_tables_end_at_their_limits() {
    check(
        "bounded-memory",
        "",
        "its memory cannot grow: Memory maximum size exceeded",
    );
    check(
        "memory-bomb",
        "",
        "it needs more memory than its limit of 16 MiB",
    );
    check(
        "memory-bomb",
        "limits: { memory: 2Mi }",
        "it needs more memory than its limit of 2 MiB",
    );
    check(
        "table-bomb",
        "",
        "it wants a table of more than 100000 entries",
    );
}

#[test]
fn crashes_are_named() {
    check(
        "trap",
        "",
        "it crashed: wasm unreachable instruction executed",
    );
    check(
        "last-words",
        "",
        "it crashed: panicked at src/lib.rs:7:9: no such container (wasm unreachable instruction executed)",
    );
    check("divide-by-zero", "", "it crashed: integer divide by zero");
    let recursion = "it ran out of stack: its functions call each other too deeply; use a loop in place of recursion";
    check("deep-recursion", "", recursion);
    check("stack-below-memory", "", recursion);
    check(
        "asks-the-time",
        "",
        "it crashed: plugins have no clock: panicked at library/std/src/sys/time/unsupported.rs:13:9: time not implemented on this platform (wasm unreachable instruction executed); `podloom plugin build` shows the line",
    );
}

#[test]
fn wrong_pointers_and_handles_are_detected() {
    check(
        "lying-length",
        "",
        "it broke the plugin contract: string pointer/length out of bounds of memory",
    );
    check(
        "lying-pointer",
        "",
        "it broke the plugin contract: string pointer/length out of bounds of memory",
    );
    check(
        "lying-result",
        "",
        "it broke the plugin contract: pointer out of bounds of memory",
    );
    check(
        "lying-variant",
        "",
        "it broke the plugin contract: unexpected discriminant: 7",
    );
    check(
        "nonsense-realloc",
        "",
        "it broke the plugin contract: realloc return: beyond end of memory",
    );
    check(
        "bad-utf8",
        "",
        "it broke the plugin contract: invalid utf-8 sequence of 1 bytes from index 1",
    );
    check(
        "bad-utf8-reason",
        "",
        "it broke the plugin contract: invalid utf-8 sequence of 1 bytes from index 0",
    );
    check(
        "forgets-handle",
        "",
        "it broke the plugin contract: unknown handle index 1",
    );
    check_one(
        chain_of,
        "handle-hoarding",
        "",
        "it holds more than 16 handles at once",
    );
    check(
        "invented-handle",
        "",
        "it broke the plugin contract: unknown handle index 12345",
    );
}

#[test]
fn wrong_addresses_lengths_and_cases_are_detected() {
    let cases = [
        ("misaligned-result", "return pointer not aligned"),
        ("result-over-the-end", "pointer out of bounds of memory"),
        ("no-such-case", "invalid expected discriminant"),
        ("answer-over-the-end", "pointer out of bounds"),
        ("misaligned-answer", "pointer not aligned"),
        (
            "longest-text",
            "string pointer/length out of bounds of memory",
        ),
        (
            "longest-list",
            "list pointer/length out of bounds of memory",
        ),
        (
            "wrapping-list",
            "list pointer/length out of bounds of memory",
        ),
        ("misaligned-list", "list pointer is not aligned"),
        ("no-such-level", "unexpected discriminant: 9"),
        ("misaligned-realloc", "realloc return: result not aligned"),
        ("gives-back-twice", "unknown handle index 1"),
        (
            "keeps-handle",
            "borrow handles still remain at the end of the call",
        ),
    ];
    for (fixture, rule) in cases {
        let expected = format!("it broke the plugin contract: {rule}");
        check(fixture, "read: [/spec]", &expected);
    }
}

#[test]
fn the_allocator_cannot_call_the_host() {
    check(
        "calling-realloc",
        "",
        "it crashed: cannot leave component instance",
    );
    check(
        "trapping-realloc",
        "",
        "it crashed: wasm unreachable instruction executed",
    );
    check("selfish-realloc", "", "overwritten");
}

/// The one difference: the host does not call `cabi_post_...` of a module, so it cannot fail there.
#[test]
fn a_crash_in_post_return_fails_a_component_and_is_not_reached_in_a_module() {
    let cases = [
        (
            "calling-post-return",
            "it crashed: cannot leave component instance",
        ),
        (
            "trapping-post-return",
            "it crashed: wasm unreachable instruction executed",
        ),
    ];
    for (fixture, expected) in cases {
        check_one(chain_of_components, fixture, "", expected);
        let mutation = mutate(&chain_of(&[(fixture, "")])).expect("a success");
        assert_eq!(mutation.runs[0].outcome, PluginOutcome::Unchanged);
        assert!(mutation.runs[0].notes.is_empty());
    }
}

#[test]
fn exceeding_a_limit_ends_the_call() {
    for fixture in ["list-of-nothing", "overlapping-texts"] {
        check(fixture, "", "it passed more than 1 MiB to the host at once");
    }
    check(
        "huge-value",
        "",
        "it passed more than 1 MiB to the host at once",
    );
    check(
        "million-writes",
        "limits: { timeout: 10s }",
        "it asked for more than 10000 writes in one run",
    );
}

/// Sixty parents and a long key of control characters, created again and again: each write is one operation with each segment
/// once.
#[test]
fn a_patch_is_not_much_longer_than_the_writes() {
    let fixture = fixture_text("control-parents");
    let chain = |text: &str| {
        let manifest = "\n- name: control-parents\n  file: p.wasm\n  allow: ['/spec/containers/*']\n  limits: { timeout: 10s }";
        load(manifest, &[("p.wasm", &assemble(text))]).expect("the chain loads")
    };
    let mutation = mutate(&chain(&fixture)).expect("it passes");
    assert_eq!(mutation.runs[0].writes.len(), 500);
    let patch = mutation.patch.as_ref().expect("a patch");
    let written = 250 * (1024 + 904);
    assert!(patch.len() > written, "{}", patch.len());
    assert!(patch.len() < 6 * written + 100_000, "{}", patch.len());
    check_patch(&pod(), &mutation);

    let endless = fixture.replace("(i32.const 250)", "(i32.const 5000)");
    let rejected = mutate(&chain(&endless)).expect_err("a refusal");
    assert_eq!(
        rejected.to_string(),
        "plugin control-parents failed: it asked for values that take more than 16777216 bytes of memory"
    );
    check_host_is_unharmed();
}

/// Five writes of text that takes 100 times its length in memory once parsed: the first is refused before it is parsed.
#[test]
fn writes_are_charged_for_the_memory_that_they_take() {
    check(
        "dense-values",
        "allow: [/spec/dense]",
        "it asked for values that take more than 16777216 bytes of memory",
    );
}

/// All plugins of a chain together have the memory limit of one.
#[test]
fn plugins_of_a_chain_share_the_memory_for_writes() {
    let numbers = 1..=6;
    let modules: Vec<Vec<u8>> = numbers
        .clone()
        .map(|number| {
            assemble(&fixture_text("dense-value").replace("dense0", &format!("dense{number}")))
        })
        .collect();
    let components: Vec<Vec<u8>> = modules.iter().map(|module| componentized(module)).collect();
    for plugins in [modules, components] {
        let names: Vec<String> = numbers
            .clone()
            .map(|number| format!("p{number}.wasm"))
            .collect();
        let files: Vec<(&str, &[u8])> = names
            .iter()
            .map(String::as_str)
            .zip(plugins.iter().map(Vec::as_slice))
            .collect();
        let chain = |count| {
            let entry = |number| {
                format!(
                    "\n- {{ name: p{number}, file: p{number}.wasm, allow: [/spec/dense{number}] }}"
                )
            };
            let entries: String = (1..=count).map(entry).collect();
            load(&entries, &files).expect("the chain loads")
        };
        mutate(&chain(2)).expect("two are within the limit");
        let rejected = mutate(&chain(6)).expect_err("a refusal");
        assert_eq!(
            rejected.to_string(),
            "plugin p3 failed: it asked for values that take more than 16777216 bytes of memory"
        );
    }
    check_host_is_unharmed();
}

#[test]
fn wrong_writes_are_refused_with_a_reason_for_the_plugin() {
    check(
        "bad-json",
        "",
        "invalid value at /metadata/labels/fixture: it is not JSON: EOF while parsing a value at line 1 column 5",
    );
    check(
        "wrong-type",
        "allow: [/spec/hostNetwork]",
        "invalid value at /spec/hostNetwork: expected a boolean, found a string",
    );
    check(
        "write-ungranted",
        "",
        "writing /spec/nodeName is forbidden: the plugin may write /metadata/labels; add the line `- \"/spec/nodeName\"` to `allow` in chain.yaml, and `.write(...)` with the path in the plugin's `needs`",
    );
    check(
        "write-ancestor",
        "allow: [/spec/volumes]",
        "writing /spec is forbidden: the plugin may write only parts of it, of /spec/volumes; write these parts one by one, or add the line `- \"/spec\"` to `allow` in chain.yaml",
    );
    check(
        "write-by-index",
        "allow: ['/spec/containers/[name=proxy]']",
        "writing /spec/containers/0/image is forbidden: the plugin may write /spec/containers/[name=proxy]; add the line `- \"/spec/containers/*/image\"` to `allow` in chain.yaml, and `.write(...)` with the path in the plugin's `needs`",
    );
    check(
        "remove-ungranted",
        "allow: ['/spec/containers/[name=proxy]']",
        "writing /spec/containers/0 is forbidden: the plugin may write /spec/containers/[name=proxy]; add the line `- \"/spec/containers/*\"` to `allow` in chain.yaml, and `.write(...)` with the path in the plugin's `needs`",
    );
    check(
        "read-ungranted",
        "read: [/metadata]",
        "reading /spec/containers is forbidden: the plugin may read /metadata and write /metadata/labels; add the line `- \"/spec/containers\"` to `read` in chain.yaml, and `.read(...)` with the path in the plugin's `needs`",
    );
}

#[test]
fn writes_before_a_crash_are_rolled_back() {
    check(
        "write-then-trap",
        "",
        "it crashed: wasm unreachable instruction executed",
    );
}

#[test]
fn a_failure_has_the_reason_of_the_plugin() {
    check("fail", "", r"cannot decide what\u{2028}to do");
}

#[test]
fn a_denial_rejects_the_pod_whatever_the_policy() {
    check_denied("deny", "this pod is not allowed");
    check_denied("no-reason", "it gave no reason");
}

#[test]
fn a_flood_of_notes_is_cut() {
    let mutation =
        mutate(&chain_of(&[("flood-of-words", "limits: { timeout: 10s }")])).expect("a success");
    let notes = &mutation.runs[0].notes;
    assert_eq!(notes.len(), 33);
    assert_eq!(
        notes.last(),
        Some(&Note::normal("not shown: 19968 more notes"))
    );
    check_host_is_unharmed();
}

/// A warning that comes last is shown first, and takes the place of a note.
#[test]
fn a_flood_of_notes_hides_no_warning() {
    for chain in [
        chain_of(&[("warns-last", "")]),
        chain_of_components(&[("warns-last", "")]),
    ] {
        let mutation = mutate(&chain).expect("a success");
        let notes = &mutation.runs[0].notes;
        assert_eq!(notes[0], Note::warning("privileged"));
        assert_eq!(notes[1], Note::normal("a detail"));
        assert_eq!(notes.len(), 33);
        assert_eq!(
            notes.last(),
            Some(&Note::normal("not shown: 69 more notes"))
        );
    }
}
