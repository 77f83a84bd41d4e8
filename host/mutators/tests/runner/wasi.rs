//! Components of languages that bring their interpreter import WASI: they load, and a call of it traps.

use std::path::PathBuf;

use podloom_mutators::Chain;
use wit_component::StringEncoding;
use wit_parser::Resolve;

use crate::support::{
    check_host_is_unharmed, complete, componentized, fixture_text, load, mutate, pod,
};

/// The contract, with a clock of WASI beside it.
const WORLD: &str = "
package podloom:test;

world with-a-clock {
    include podloom:mutator/mutator@0.1.0;
    import wasi:clocks/monotonic-clock@0.2.3;
}
";
const CLOCK: &str = "
package wasi:clocks@0.2.3;

interface monotonic-clock {
    now: func() -> u64;
}
";
const IMPORT: &str =
    r#"(import "wasi:clocks/monotonic-clock@0.2.3" "now" (func $now (result i64)))"#;

/// The fixture `good` with a clock, which it reads or not.
fn with_a_clock(reads_it: bool) -> Vec<u8> {
    let mut resolve = Resolve::default();
    resolve
        .push_path(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../wit/0.1"))
        .expect("the contract");
    resolve.push_str("clock.wit", CLOCK).expect("the clock");
    let package = resolve.push_str("world.wit", WORLD).expect("the package");
    let world = resolve
        .select_world(&[package], Some("with-a-clock"))
        .expect("the world");
    let mut good = fixture_text("good");
    if reads_it {
        good = good.replacen("(call $report", "(drop (call $now)) (call $report", 1);
    }
    // Imports come first.
    let text = complete(&good).replacen("(module", &format!("(module {IMPORT}"), 1);
    let mut module = wat::parse_str(&text).expect("WebAssembly text");
    wit_component::embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
        .expect("metadata");
    componentized(&module)
}

fn chain(reads_it: bool, more: &str) -> Result<Chain, String> {
    let plugins = format!("\n- {{ name: it, file: it.wasm, allow: [/metadata/labels], {more} }}");
    load(&plugins, &[("it.wasm", &with_a_clock(reads_it))])
}

#[test]
fn what_imports_wasi_must_be_allowed_to() {
    let error = chain(false, "").expect_err("a refusal");
    assert!(
        error.contains("wasi:clocks/monotonic-clock@0.2.3"),
        "{error}"
    );
    assert!(error.contains("limits: { size: Large }"), "{error}");
}

#[test]
fn a_plugin_that_never_calls_wasi_works() {
    let chain = chain(false, "limits: { size: Large }").expect("it loads");
    let mutation = mutate(&chain).expect("it works");
    assert_eq!(mutation.pod["metadata"]["labels"]["fixture"], "good");
}

#[test]
fn a_call_of_wasi_fails_the_plugin_and_says_why() {
    let failing = chain(true, "limits: { size: Large }").expect("it loads");
    let rejected = mutate(&failing).expect_err("a refusal").to_string();
    assert_eq!(
        rejected,
        "plugin it failed: it crashed: it called wasi:clocks/monotonic-clock@0.2.3#now; plugins have no files, clock, randomness, \
         environment or network"
    );
    check_host_is_unharmed();
    let ignoring = chain(true, "limits: { size: Large }, failurePolicy: Ignore").expect("it loads");
    let mutation = mutate(&ignoring).expect("the failure is ignored");
    assert_eq!(
        mutation.pod["metadata"]["labels"],
        pod()["metadata"]["labels"]
    );
}
