//! Plugins that prepare themselves once: each call begins with the prepared memory, and nothing else.

use podloom_mutators::Chain;
use serde_json::json;

use crate::support::{
    assemble, check_host_is_unharmed, componentized, fixture_text, in_world, load, mutate, plugin,
};

fn load_one(wasm: &[u8]) -> Result<Chain, String> {
    let plugins = "\n- name: prepared\n  file: prepared.wasm\n  allow: [/metadata/labels]\n  limits: { timeout: 50ms }";
    load(plugins, &[("prepared.wasm", wasm)])
}

/// The fixture with another body of `prepare`.
fn preparing_by(body: &str) -> Vec<u8> {
    let text = fixture_text("prepared");
    let (start, rest) = text
        .split_once("  (i32.store16")
        .expect("the preparation's first line");
    let (_, end) = rest
        .split_once("(i32.const 3)))")
        .expect("the preparation's last line");
    assemble(&format!("{start}{body}){end}"))
}

/// Checks that the plugin finds the same memory in each call.
#[track_caller]
fn check(wasm: &[u8], expected: &str) {
    let chain = load_one(wasm).expect("the chain loads");
    for _ in 0..3 {
        let mutation = mutate(&chain).expect("the pod passes");
        let labels = &mutation.pod["metadata"]["labels"];
        assert_eq!(*labels, json!({ "app": "web", "prepared": expected }));
    }
}

#[track_caller]
fn check_refused(body: &str, expected: &str) {
    let error = load_one(&preparing_by(body)).expect_err("a refusal");
    let expected = format!("(prepared.wasm) could not prepare itself: {expected}");
    assert!(error.ends_with(&expected), "{error}");
    check_host_is_unharmed();
}

#[test]
fn each_call_begins_with_the_prepared_memory() {
    check(&plugin("prepared"), "ok-31");
}

#[test]
fn components_are_not_prepared() {
    check(&componentized(&plugin("prepared")), "no-01");
}

#[test]
fn too_much_prepared_memory_is_not_kept() {
    let fill = "(drop (memory.grow (i32.const 17))) (memory.fill (i32.const 65536) (i32.const 1) (i32.const 0x110000))";
    check(&preparing_by(fill), "no-01");
}

#[test]
fn added_memory_counts_against_the_limit() {
    // 256 pages are 16 MiB, and the module begins with two.
    let grow = |pages: u32| {
        preparing_by(&format!(
            "(drop (memory.grow (i32.const {pages}))) (i32.store8 (i32.const 131082) (i32.const 4))"
        ))
    };
    check(&grow(254), "no-41");
    let error = load_one(&grow(255)).expect_err("a refusal");
    assert!(
        error.ends_with("memory than its limit of 16 MiB"),
        "{error}"
    );
}

#[test]
fn a_preparation_of_another_signature_is_not_called() {
    let text = fixture_text("prepared");
    let (start, rest) = text.split_once("(func (export").expect("the preparation");
    let (_, end) = rest.split_once("(i32.const 3)))").expect("its end");
    let name = "podloom:mutator/preparation@0.1.0#prepare";
    let stray = format!("{start}(func (export \"{name}\") (param i32)){end}");
    let error = load_one(&in_world("mutator", &stray)).expect_err("a refusal");
    assert!(error.contains("could not prepare itself"), "{error}");
}

#[test]
fn a_failed_preparation_refuses_the_plugin() {
    check_refused(
        "(unreachable)",
        "it crashed: wasm unreachable instruction executed",
    );
    check_refused(
        "(loop $again (br $again))",
        "it ran longer than its limit of 50 ms",
    );
    check_refused(
        "(drop (memory.grow (i32.const 300)))",
        "it needs more memory than its limit of 16 MiB",
    );
    check_refused(
        "(call $log_raw (i32.const 4) (i32.const 1024) (i32.const 9)) (unreachable)",
        "it crashed: /metadata (wasm unreachable instruction executed)",
    );
    check_refused(
        "(call $kind (i32.const 512))",
        "it broke the plugin contract: there is no request while a plugin prepares itself",
    );
    check_refused(
        "(drop (call $get (i32.const 1) (i32.const 1024)))",
        "it broke the plugin contract: unknown handle index 1",
    );
}
