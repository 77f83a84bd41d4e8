use super::ADAPTER;
use crate::error::PluginError;
use crate::limits::PluginSize;

fn check(wasm: &[u8]) -> Result<(), PluginError> {
    super::check(wasm, PluginSize::Standard)
}

/// What follows each message for a plugin of the standard size.
const OR_LARGE: &str = "; for a language that brings its interpreter, allow it with `limits: { size: Large }` in chain.yaml";

/// Checks the module as it is, and nested in a component.
#[track_caller]
fn refused(module: &str, expected: &str) {
    for text in [
        module.to_owned(),
        module.replacen("(module", "(component (core module", 1) + ")",
    ] {
        let wasm = wat::parse_str(&text).expect("the fixture is WebAssembly text");
        let error = check(&wasm).expect_err("too much").to_string();
        assert_eq!(
            error,
            format!("has more than {expected}; compiling it would take too long{OR_LARGE}")
        );
    }
}

#[track_caller]
fn accepted(module: &str) {
    let wasm = wat::parse_str(module).expect("the fixture is WebAssembly text");
    assert_eq!(check(&wasm), Ok(()));
}

#[test]
fn a_large_plugin_may_have_eight_times_as_much() {
    let loops = |times: usize| {
        let functions = format!("(func {})", "loop end ".repeat(1000)).repeat(times);
        let wasm = wat::parse_str(format!("(module {functions})")).expect("text");
        super::check(&wasm, PluginSize::Large)
    };
    assert_eq!(loops(24), Ok(()));
    let error = loops(25).expect_err("too much").to_string();
    assert_eq!(
        error,
        "has more than 24000 loops in function 24; compiling it would take too long"
    );
}

fn function(body: &str) -> String {
    format!("(module (memory 1) (table 1 funcref) (func) (func (param i32) {body}))")
}

fn nested(times: usize) -> String {
    function(&("loop ".repeat(times) + &"end ".repeat(times)))
}

#[test]
fn nested_loops_are_refused() {
    accepted(&nested(499));
    refused(&nested(30_000), "500 nested blocks in function 1");
    refused(
        &function(&"loop end ".repeat(1001)),
        "1000 loops in function 1",
    );
    let functions = format!("(func {})", "loop end ".repeat(1000)).repeat(4);
    refused(&format!("(module {functions})"), "3000 loops in function 3");
}

#[test]
fn many_live_values_across_branches_are_refused() {
    let locals = format!("(local {}) ", "i32 ".repeat(1000));
    accepted(&function(&(locals.clone() + &"loop end ".repeat(600))));
    refused(
        &function(&(locals + &"loop end ".repeat(700))),
        "2000000 values that are live across branches in function 1",
    );
    let operands = format!(
        "{} {} {}",
        "memory.size ".repeat(1000),
        "loop end ".repeat(700),
        "drop ".repeat(1000)
    );
    refused(
        &function(&operands),
        "2000000 values that are live across branches in function 1",
    );
    refused(
        &function(&format!("(local {})", "i64 ".repeat(2001))),
        "2000 locals in function 1",
    );
}

#[test]
fn branches_that_the_compiler_adds_count() {
    for operators in [
        "block end ",
        "local.get 0 if end ",
        "local.get 0 br_if 0 ",
        "local.get 0 local.get 0 i32.div_s drop ",
    ] {
        accepted(&function(&operators.repeat(5_000)));
        refused(
            &function(&operators.repeat(5_001)),
            "5000 branches, checked accesses and divisions in function 1",
        );
    }
    let functions = format!("(func {})", "block end ".repeat(5_000)).repeat(13);
    refused(
        &format!("(module {functions})"),
        "60000 branches, checked accesses and divisions in function 12",
    );
    let table = format!("(local.get 0) br_table {}", "0 ".repeat(50_002));
    refused(&function(&table), "50000 targets of br_table in function 1");
}

#[test]
fn operators_that_become_much_code_count() {
    for operators in [
        "local.get 0 call_indirect ",
        "local.get 0 table.get 0 drop ",
        "local.get 0 local.get 0 local.get 0 memory.copy ",
    ] {
        accepted(&function(&operators.repeat(5_000)));
        refused(
            &function(&operators.repeat(5_001)),
            "5000 indirect calls and operations on tables and whole memories in function 1",
        );
    }
}

#[test]
fn many_parameters_and_results_are_refused() {
    let values = |count: usize| "i32 ".repeat(count);
    let wide = format!("(module (type (func (param {}))))", values(65));
    refused(&wide, "64 parameters and results in one type");
    let blocks = |count: usize| {
        let blocks = "loop (type $t) end ".repeat(count);
        format!(
            "(module (type $t (func (param {0}) (result {0}))) (func (type $t) {1} {blocks}))",
            values(8),
            "local.get 0 ".repeat(8),
        )
    };
    accepted(&blocks(125));
    refused(
        &blocks(126),
        "2000 parameters and results of blocks in function 0",
    );
    let calls = format!(
        "(module (type $t (func (param {0}) (result {0}))) (func $f (type $t) {1} {2}))",
        values(8),
        "local.get 0 ".repeat(8),
        "call $f ".repeat(20_000),
    );
    refused(
        &calls,
        "100000 calls, parameters and results of calls in function 0",
    );
}

#[test]
fn code_is_refused_by_its_size() {
    refused(
        &function(&"i32.const 1 drop ".repeat(90_000)),
        "262144 bytes of code in function 1",
    );
    let functions = format!("(func {})", "i32.const 1 drop ".repeat(80_000)).repeat(9);
    refused(&format!("(module {functions})"), "2097152 bytes of code");
    refused(
        &format!("(module {})", "(func)".repeat(5001)),
        "5000 functions",
    );
}

#[test]
fn items_besides_code_are_counted() {
    let module = |text: &str, times: usize| format!("(module {})", text.repeat(times));
    refused(
        &module("(global i32 (i32.const 0))", 10_001),
        "10000 globals",
    );
    refused(
        &module("(data \"x\")", 10_001),
        "10000 data and element segments",
    );
    refused(
        &module("(rec (type (func)) (type (func)))", 501),
        "1000 types",
    );
    let numbered = |text: fn(usize) -> String| (0..1001).map(text).collect::<String>();
    let imports = numbered(|index| format!("(import \"m\" \"{index}\" (func))"));
    refused(&format!("(module {imports})"), "1000 imports");
    let exports = numbered(|index| format!("(export \"{index}\" (func 0))"));
    refused(&format!("(module (func) {exports})"), "1000 exports");
    let entries = "0 ".repeat(100_001);
    refused(
        &format!("(module (func) (elem declare func {entries}))"),
        "100000 entries in element segments",
    );
}

#[test]
fn components_are_refused_by_their_parts() {
    let check = |text: String, expected: &str| {
        let wasm = wat::parse_str(&text).expect("the fixture is WebAssembly text");
        let error = check(&wasm).expect_err("too much").to_string();
        assert!(
            error.starts_with(&format!("has more than {expected}")),
            "{error}"
        );
    };
    check(
        format!("(component {})", "(core module)".repeat(17)),
        "16 nested modules and components",
    );
    let functions = format!("(func {})", "loop end ".repeat(1000)).repeat(2);
    check(
        format!(
            "(component {})",
            format!("(core module {functions})").repeat(2)
        ),
        "3000 loops in function 1",
    );
    check(
        format!("(component {})", "(type (list u8))".repeat(1001)),
        "1000 types",
    );
    let parts = "2000 instances, aliases and other parts of a component";
    let instances = "(core instance (instantiate 0))".repeat(2001);
    check(format!("(component (core module) {instances})"), parts);
    let export = |number| format!(r#"(export "e{number}" (func 0))"#);
    let exports: String = (0..2000).map(export).collect();
    check(
        format!(r#"(component (import "f" (func)) (instance {exports}))"#),
        parts,
    );
    check(
        format!(
            r#"(component (import "f" (func)) (core func (canon lower (func 0))) (core instance {exports}))"#
        ),
        parts,
    );
}

#[test]
fn damaged_code_is_reported() {
    let wasm = wat::parse_str("(module (func i32.const 1))").expect("WebAssembly text");
    let error = check(&wasm).expect_err("a value is left over").to_string();
    assert!(error.starts_with("is damaged"), "{error}");
}

#[test]
fn a_jump_table_counts_the_live_values_for_each_target() {
    let jump = |locals: usize| {
        format!(
            "(module (func (param i32) (local {}) block (br_table {} (local.get 0)) end))",
            "i32 ".repeat(locals),
            "0 ".repeat(40_000),
        )
    };
    accepted(&jump(30));
    refused(
        &jump(1900),
        "2000000 values that are live across branches in function 0",
    );
}

#[test]
fn initializers_are_bounded_too() {
    let sum = format!("i32.const 1 {}", "i32.const 1 i32.add ".repeat(25_000));
    for setup in [
        format!("(global i32 {sum})"),
        format!("(memory 1) (data (offset {sum}) \"x\")"),
        format!("(table 1 funcref) (elem (offset {sum}) func)"),
    ] {
        refused(
            &format!("(module {setup})"),
            "65536 bytes of initializer expressions",
        );
    }
    let functions = "0 ".repeat(10_001);
    let references = "(item ref.func 0) ".repeat(10_001);
    for setup in [
        format!("(elem func {functions})"),
        format!("(elem funcref {references})"),
        format!("(table 20000 funcref) (elem (i32.const 0) func {functions})"),
        "(table 1 funcref (ref.func 0))".repeat(10_001),
    ] {
        refused(
            &format!("(module (func) {setup})"),
            "10000 values that instantiation initializes",
        );
    }
}

/// A component with one type, of these bytes.
fn component_of_type(kind: &[u8]) -> Vec<u8> {
    let section = [&[1], kind].concat();
    let mut component = b"\0asm\x0d\0\x01\0\x07".to_vec();
    component.extend(length(section.len()));
    component.extend_from_slice(&section);
    component
}

#[test]
fn nested_types_are_refused_before_they_are_parsed() {
    // An instance type with one declaration, which is a type.
    let nested =
        |levels: usize| component_of_type(&[&[0x42, 1, 1].repeat(levels)[..], &[0x42, 0]].concat());
    assert_eq!(check(&nested(90)), Ok(()));
    for levels in [600, 50_000] {
        let error = check(&nested(levels)).expect_err("too deep").to_string();
        assert!(
            error.starts_with("has more than 120 nested component types"),
            "{error}"
        );
    }
}

#[test]
fn declarations_in_types_count() {
    let check = |text: String| check(&wat::parse_str(&text).expect("WebAssembly text"));
    let declared = "has more than 20000 fields, cases, parameters and declarations in types";
    for kind in [
        format!("(type (instance {}))", "(type u8)".repeat(20_001)),
        format!("(type (component {}))", "(type u8)".repeat(20_001)),
        format!("(core type (module {}))", "(type (func))".repeat(20_001)),
        format!("(type (tuple {}))", "u8 ".repeat(9_999)).repeat(3),
    ] {
        let error = check(format!("(component {kind})"))
            .expect_err("too much")
            .to_string();
        assert!(error.starts_with(declared), "{error}");
    }
}

#[test]
fn types_are_counted_expanded() {
    let accepted = |text: &str| assert_eq!(check(&wat::parse_str(text).expect("text")), Ok(()));
    let refused = |text: &str| {
        let error = check(&wat::parse_str(text).expect("text")).expect_err("too large");
        let expected = "where a type counts each time it is used";
        assert!(error.to_string().contains(expected), "{error}");
    };
    let tuple = |kind: &str, times: usize| format!("(tuple {})", format!("{kind} ").repeat(times));
    let twice = |times: usize| {
        let (inner, outer) = (tuple("u8", times), tuple("0", times));
        format!("(type {inner}) (type {outer})")
    };
    accepted(&format!("(component {})", twice(100)));
    refused(&format!("(component {})", twice(150)));
    refused(&format!("(component (type (instance {})))", twice(150)));
    // It is as large under another name, from an outer component, or as an export of an instance.
    let (inner, outer) = (tuple("u8", 150), tuple("$t", 150));
    for named in [
        format!("(type $a {inner}) (import \"t\" (type $t (eq $a))) (type {outer})"),
        format!("(type $a {inner}) (export $t \"t\" (type $a)) (type {outer})"),
        format!("(type $t {inner}) (component (type {outer}))"),
        format!("(type $t {inner}) (type (component (type {outer})))"),
        format!(
            "(import \"i\" (instance $i (type $a {inner}) (export \"t\" (type (eq $a)))))
             (alias export $i \"t\" (type $t)) (type {outer})"
        ),
    ] {
        refused(&format!("(component {named})"));
    }
}

#[test]
fn uses_of_a_large_type_are_charged_for_its_size() {
    let check = |text: String| check(&wat::parse_str(&text).expect("WebAssembly text"));
    let refused = |text: String| {
        let error = check(text).expect_err("too much").to_string();
        let expected = "has more than 200000 parts of types in imports, exports";
        assert!(error.starts_with(expected), "{error}");
    };
    // Each instance has its own list of the exports of its component.
    let export = |number| format!(r#"(export "e{number}" (func (type 0)))"#);
    let exports: String = (0..9_000).map(export).collect();
    let instances = |count: usize| {
        format!(
            r#"(component (import "c" (component (type (func)) {exports})) {})"#,
            "(instance (instantiate 0))".repeat(count)
        )
    };
    assert_eq!(check(instances(10)), Ok(()));
    refused(instances(1_000));
    let export = |number| format!(r#"(export "e{number}" (func 0))"#);
    let exports: String = (0..900).map(export).collect();
    let inner = format!(r#"(component (import "f" (func)) {exports})"#);
    refused(format!(
        r#"(component (import "f" (func $f)) {inner} {})"#,
        r#"(instance (instantiate 0 (with "f" (func $f))))"#.repeat(900)
    ));
    // Lowering a function takes time for all cases of its parameters.
    let case = |number| format!(r#"(case "c{number}" u32)"#);
    let cases: String = (0..2_000).map(case).collect();
    let lowered = |count: usize| {
        format!(
            r#"(component (type $v (variant {cases})) (import "v" (type $t (eq $v)))
                (import "f" (func $f (param "p" $t))) {})"#,
            "(core func (canon lower (func $f)))".repeat(count)
        )
    };
    assert_eq!(check(lowered(10)), Ok(()));
    refused(lowered(1_000));
}

#[test]
fn metadata_counts_like_a_component() {
    let check = |metadata: &[u8]| {
        let mut module = b"\0asm\x01\0\0\0".to_vec();
        wasm_with(&mut module, "component-type:x", metadata);
        check(&module)
    };
    let kind = [&[0x42, 1, 1].repeat(50_000)[..], &[0x42, 0]].concat();
    let error = check(&component_of_type(&kind))
        .expect_err("too deep")
        .to_string();
    assert!(error.starts_with("has more than"), "{error}");
    let error = check(&vec![0; (256 << 10) + 1])
        .expect_err("too large")
        .to_string();
    assert!(error.starts_with("has more than 262144 bytes"), "{error}");
    assert_eq!(check(b"nonsense"), Ok(()), "the encoder reports that");
}

fn wasm_with(module: &mut Vec<u8>, name: &str, content: &[u8]) {
    let section = [&length(name.len())[..], name.as_bytes(), content].concat();
    module.push(0);
    module.extend(length(section.len()));
    module.extend(section);
}

#[test]
fn components_that_call_each_other_are_refused() {
    let lifting = r#"(core module $m (func (export "f"))) (core instance $i (instantiate $m))
        (func (export "f") (canon lift (core func $i "f")))"#;
    let check = |text: String| check(&wat::parse_str(&text).expect("WebAssembly text"));
    assert_eq!(check(format!("(component {lifting})")), Ok(()));
    let refused = check(format!("(component (component {lifting}))")).unwrap_err();
    assert!(
        refused
            .to_string()
            .starts_with("is composed of several components"),
        "{refused}"
    );
    let lowering = r#"(component $c (import "f" (func $f)) (core func (canon lower (func $f))))
        (instance (instantiate $c (with "f" (func 0))))"#;
    assert_eq!(
        check(format!("(component {lifting} {lowering})")),
        Err(ADAPTER.into())
    );
}

fn length(mut left: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while left >= 0x80 {
        bytes.push((left & 0x7f) as u8 | 0x80);
        left >>= 7;
    }
    bytes.push(left as u8);
    bytes
}
