//! Files that are not plugins, or not for this host: each is refused with a reason, before any of its code runs.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use podloom_mutators::inspect;
use wit_component::ComponentEncoder;

use crate::support::{
    assemble, chain_of, check_host_is_unharmed, engine, fixture_text, in_utf16, load, mutate,
    plugin,
};

/// What a message says of a plugin of the standard size.
const OR_LARGE: &str = "; for a language that brings its interpreter, allow it with `limits: { size: Large }` in chain.yaml";

/// The chain is not loaded, with this text after the plugin's name.
#[track_caller]
fn check(content: &[u8], expected: &str) {
    check_with(content, "", expected);
}

#[track_caller]
fn check_with(content: &[u8], manifest: &str, expected: &str) {
    let plugins = format!("\n- name: it\n  file: it.wasm\n  {manifest}");
    let error = load(&plugins, &[("it.wasm", content)]).expect_err("a refusal");
    assert_eq!(
        error,
        format!("chain.yaml:4: plugin it (it.wasm) {expected}")
    );
    check_host_is_unharmed();
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).expect("memory");
    encoder.finish().expect("memory")
}

#[test]
fn a_file_that_is_not_wasm_is_refused() {
    check(b"", "is empty");
    check(b"hello", "is not WebAssembly; it begins with hello");
    check(
        b"(module)",
        "is WebAssembly as text; assemble it to .wasm first",
    );
    check(
        &plugin("good")[..100],
        "is damaged or uses a WebAssembly feature that this host does not support: unexpected end-of-file (at offset 0x4b)",
    );
    check(
        &plugin("good")[..8],
        "exports no podloom:mutator/plugin; build it with podloom-plugin-sdk and its mutator! macro",
    );
    check(
        b"\0asm\x07\0\0\0",
        "is damaged or uses a WebAssembly feature that this host does not support: unknown binary version:        0x7 (at offset 0x4)",
    );
}

#[test]
fn code_that_would_take_the_compiler_minutes_is_refused() {
    let module = assemble(&format!(
        "(func $mutate (param $pod i32) (result i32) {} {} (call $ok))",
        "loop ".repeat(30_000),
        "end ".repeat(30_000),
    ));
    let component = wat::parse_str(format!(
        "(component (core module (func {} {})))",
        "loop ".repeat(30_000),
        "end ".repeat(30_000),
    ));
    let too_much = |blocks: u32, function: u32| {
        format!(
            "has more than {blocks} nested blocks in function {function}; compiling it would take too long"
        )
    };
    let expected = |function: u32| too_much(500, function) + OR_LARGE;
    check(&gzip(&module), &expected(25));
    check(&component.expect("WebAssembly text"), &expected(0));
    let error = inspect(engine(), &module, None).expect_err("a refusal");
    assert_eq!(error.to_string(), too_much(4000, 25), "of a large plugin");
}

#[test]
fn precompiled_code_is_refused() {
    check(
        b"\x7fELF\x02\x01\x01",
        "is precompiled native code, which is never loaded; ship the .wasm that it was compiled from",
    );
    check(
        &gzip(b"\x7fELF"),
        "is precompiled native code, which is never loaded; ship the .wasm that it was compiled from",
    );
}

#[test]
fn code_precompiled_by_the_very_same_engine_is_refused() {
    let component = ComponentEncoder::default()
        .module(&plugin("good"))
        .and_then(ComponentEncoder::encode)
        .expect("a component");
    let native = wasmtime::Engine::default()
        .precompile_component(&component)
        .expect("native code");
    check(
        &native,
        "is precompiled native code, which is never loaded; ship the .wasm that it was compiled from",
    );
}

#[test]
fn features_that_plugins_do_not_need_are_off() {
    for memories in [
        "(memory (export \"memory\") i64 1)",
        "(memory (export \"memory\") 1) (memory 1)",
    ] {
        let module = format!(
            "(module {memories}
              (func (export \"cabi_realloc\") (param i32 i32 i32 i32) (result i32) (unreachable))
              (func (export \"podloom:mutator/plugin@0.1.0#describe\") (result i32) (unreachable))
              (func (export \"podloom:mutator/plugin@0.1.0#validate-config\") (result i32) (unreachable))
              (func (export \"podloom:mutator/plugin@0.1.0#mutate\") (param i32) (result i32) (unreachable)))"
        );
        let error = load(
            "\n- { name: it, file: it.wasm }",
            &[("it.wasm", &assemble(&module))],
        );
        let error = error.expect_err("a refusal");
        assert!(
            error.contains("does not compile")
                || error.contains("cannot be encoded as a component"),
            "{error}"
        );
        check_host_is_unharmed();
    }
}

#[test]
fn damaged_gzip_is_refused() {
    let good = gzip(&plugin("good"));
    assert!(load("\n- {name: it, file: it.wasm.gz}", &[("it.wasm.gz", &good)]).is_ok());
    check(
        &good[..good.len() / 2],
        "is gzip, but cannot be decompressed: incomplete deflate stream; it is cut off or damaged, so build or copy it again",
    );
    check(
        &[good.as_slice(), b"more"].concat(),
        "has 4 bytes after the end of its gzip stream; compress it again",
    );
    let mut flipped = good.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0x55;
    let error =
        load("\n- {name: it, file: it.wasm}", &[("it.wasm", &flipped)]).expect_err("a refusal");
    assert!(
        error.contains("is gzip, but cannot be decompressed"),
        "{error}"
    );
}

#[test]
fn large_files_are_refused_at_their_limits() {
    check(
        &gzip(&vec![0; 17 << 20]),
        &format!("decompresses to more than 16 MiB{OR_LARGE}"),
    );
    let error = load(
        "\n- {name: it, file: it.wasm}",
        &[("it.wasm", &vec![0; (4 << 20) + 1])],
    )
    .expect_err("a refusal");
    assert_eq!(
        error,
        format!("chain.yaml:4: the file it.wasm of plugin it is larger than 4 MiB{OR_LARGE}")
    );
}

#[test]
fn a_file_must_match_its_pinned_digest() {
    let pin = "sha256: 0000000000000000000000000000000000000000000000000000000000000000";
    check_with(
        b"hello",
        pin,
        "has sha256 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824, but chain.yaml pins 0000000000000000000000000000000000000000000000000000000000000000; restore the file, or change `sha256`",
    );
}

#[test]
fn foreign_imports_are_named_with_a_remedy() {
    check(
        &plugin("imports-wasi"),
        "imports what the host does not provide: wasi_snapshot_preview1; plugins have no files, clock, randomness or environment: build for wasm32-unknown-unknown, without crates that need these",
    );
    check(
        &plugin("imports-wasi-component"),
        "imports what the host does not provide: wasi:cli/environment@0.2.3, wasi:clocks/wall-clock@0.2.3; plugins have no files, clock, randomness or environment: build for wasm32-unknown-unknown, without crates that need these; for a language that brings its interpreter, allow the imports with `limits: { size: Large }` in chain.yaml: a call of them traps",
    );
    check_with(
        &plugin("imports-wasi-component"),
        "limits: { size: Large }",
        "exports no podloom:mutator/plugin; build it with podloom-plugin-sdk and its mutator! macro",
    );
    check(
        &plugin("imports-env"),
        "imports what the host does not provide: env; a symbol or the memory is undefined: link the library that defines the symbol, and do not import the memory",
    );
    check(
        &plugin("imports-javascript"),
        "imports what the host does not provide: __wbindgen_placeholder__; this comes from wasm-bindgen, which needs JavaScript: turn off the feature `js` or `wasmbind` of the crate that uses it",
    );
}

#[test]
fn other_contracts_are_refused() {
    check(
        &plugin("version-0.2"),
        "is built for version 0.2.0 of the contract podloom:mutator, but this host supports 0.1; rebuild it with podloom-plugin-sdk 0.1",
    );
    check(
        &plugin("imports-newer"),
        "does not match the contract: component imports instance `podloom:mutator/host@0.1.9`, but a matching implementation was not found in the linker: instance export `now` has the wrong type: function implementation is missing",
    );
    check(
        &plugin("no-plugin"),
        "exports no podloom:mutator/plugin; build it with podloom-plugin-sdk and its mutator! macro",
    );
    check(
        &plugin("empty-plugin"),
        "does not match the contract: it exports no function describe in podloom:mutator/plugin@0.1.0",
    );
    check(
        &plugin("wrong-signature"),
        "cannot be encoded as a component: failed to decode world from module: module was not valid: failed to classify export `podloom:mutator/plugin@0.1.0#mutate`: failed to validate export for `podloom:mutator/plugin@0.1.0`: type mismatch for function `mutate`: expected `[I32] -> [I32]` but found `[I64] -> [I32]`",
    );
    check(
        &plugin("many-instances"),
        "does not compile: The component transitively contains 65 core module instances, which exceeds the configured maximum of 64 in the pooling allocator",
    );
    let bare = wat::parse_str("(module (func (export \"podloom:mutator/plugin@0.1.0#mutate\")))")
        .expect("text");
    check(
        &bare,
        "is a core module without component metadata; keep the custom sections named component-type when you strip it",
    );
}

/// Components that are nested this deeply.
fn nested(levels: usize) -> Vec<u8> {
    const HEADER: &[u8] = b"\0asm\x0d\0\x01\0";
    let mut inner = HEADER.to_vec();
    for level in 0..levels {
        let start = if level + 1 == levels {
            plugin("empty-plugin")
        } else {
            HEADER.to_vec()
        };
        let mut length = inner.len();
        let mut section = vec![4];
        while length > 0x7f {
            section.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        section.push(length as u8);
        inner = [start, section, inner].concat();
    }
    inner
}

#[test]
fn deeply_nested_components_are_refused() {
    check(
        &nested(10),
        "does not match the contract: it exports no function describe in podloom:mutator/plugin@0.1.0",
    );
    check(&nested(1000), "nests components too deeply");
}

/// No tool nests types like this, and they must not exhaust the host's stack.
#[test]
fn deeply_nested_types_are_refused() {
    for (depth, expected) in [
        (50_000, "has more than 1000 types"),
        (900, "where a type counts each time it is used"),
    ] {
        let lists: String = (1..depth)
            .map(|depth| format!("(type $t{depth} (list $t{}))", depth - 1))
            .collect();
        let rest = fixture_text("empty-plugin").replacen("(component", "", 1);
        let component = format!("(component (type $t0 (list u8)) {lists} {rest}");
        let content = wat::parse_str(&component).expect("text");
        let error = load("\n- name: it\n  file: it.wasm", &[("it.wasm", &content)]);
        let error = error.expect_err("a refusal");
        assert!(error.contains(expected), "{error}");
    }
    check_host_is_unharmed();
}

#[test]
fn describe_is_sandboxed_like_any_call() {
    check_with(
        &plugin("endless-describe"),
        "limits: { timeout: 50ms }",
        "could not describe itself: it ran longer than its limit of 50 ms",
    );
    check_with(
        &plugin("endless-start"),
        "limits: { timeout: 50ms }",
        "could not describe itself: it ran longer than its limit of 50 ms",
    );
    check(
        &plugin("memory-at-start"),
        "could not describe itself: it needs more memory than its limit of 16 MiB",
    );
}

#[test]
fn an_invalid_description_is_named() {
    let described = |field: usize, text: &str| {
        let stores = format!(
            "(i32.store (i32.const {}) (i32.const 1024)) (i32.store (i32.const {}) (i32.const {}))",
            700 + 8 * field,
            704 + 8 * field,
            text.len()
        );
        let escaped: String = text.bytes().map(|byte| format!("\\{byte:02x}")).collect();
        let default = std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/fixtures/default-describe.wat"
        ))
        .expect("text");
        let describe = default.replace("(i32.const 700))", &format!("{stores} (i32.const 700))"));
        assemble(&format!(
            "(data (i32.const 1024) \"{escaped}\")\n{describe}"
        ))
    };
    check(
        &described(0, "Not A Label"),
        "has an invalid description: its name \"Not A Label\" is not a DNS label; use at most 63 of a-z, 0-9 and `-`",
    );
    check(
        &described(1, "one"),
        "has an invalid description: its version \"one\" is not a semantic version; write for example 1.2.3",
    );
    check(
        &described(2, &"long ".repeat(200)),
        "has an invalid description: its summary is longer than 512 bytes",
    );
    check(
        &described(3, "{"),
        "has an invalid description: its configuration schema is not JSON: EOF while parsing an object at line 1 column 1",
    );
    check(
        &described(3, "{\"type\": 7}"),
        "has an invalid configuration schema, which its author must fix: it is not valid for its draft of JSON Schema; validate it against the meta-schema to see where",
    );
    check(
        &described(3, "{\"$ref\": \"http://example.com/schema.json\"}"),
        "has an invalid configuration schema, which its author must fix: its reference \"http://example.com/schema.json\" does not point into the schema; write a pointer such as #/$defs/name, without percent-encoding",
    );
    for endless in ["{\"$ref\": \"#\"}", "{\"allOf\": [{\"$ref\": \"#\"}]}"] {
        check(
            &described(3, endless),
            "has an invalid configuration schema, which its author must fix: its reference \"#\" is recursive; replace it with true, and let the plugin check that value itself",
        );
    }
}

/// Calling these as core modules would give wrong results.
#[test]
fn modules_that_are_not_plain_are_called_as_components() {
    let mutation = mutate(&chain_of(&[("initializes", "")])).expect("it was initialized");
    assert_eq!(mutation.pod["metadata"]["labels"]["fixture"], "good");

    let plugins = "\n- name: it\n  file: it.wasm";
    let error = load(plugins, &[("it.wasm", &in_utf16("good"))]).expect_err("a refusal");
    assert!(
        error.contains("has an invalid description: its name"),
        "{error}"
    );
}

#[test]
fn the_paths_of_all_plugins_of_a_chain_have_a_common_limit() {
    let entry =
        |number: usize, lines: &str| format!("\n- {{ name: it-{number}, file: it.wasm {lines} }}");
    let check = |wasm: &[u8], lines: &str| {
        let chain = |plugins: usize| {
            let plugins: String = (0..plugins).map(|number| entry(number, lines)).collect();
            load(&plugins, &[("it.wasm", wasm)]).map(|_| ())
        };
        assert_eq!(chain(4), Ok(()));
        let error = chain(9).expect_err("a refusal");
        let expected = "plugin it-8 (it.wasm) has too many paths: those in `allow` and `read` and those that plugins need may take 16 MiB for all plugins of a chain; grant whole objects instead of their fields, or use fewer plugins";
        assert!(error.ends_with(expected), "{error}");
    };
    let deep = format!("/spec{}", "/x".repeat(15));
    let paths = vec![deep.as_str(); 250].join(", ");
    for field in ["allow", "read"] {
        check(&plugin("good"), &format!(", {field}: [{paths}]"));
    }
    let needy = format!(
        r#"(data (i32.const 1024) "{deep}")
        (func $describe (result i32) (local $at i32)
          (local.set $at (i32.const 8192))
          (loop $again
            (i32.store (local.get $at) (i32.const 1024))
            (i32.store offset=4 (local.get $at) (i32.const {length}))
            (local.set $at (i32.add (local.get $at) (i32.const 8)))
            (br_if $again (i32.lt_u (local.get $at) (i32.const {end}))))
          {described}
          (i32.store (i32.const 732) (i32.const 8192)) (i32.store (i32.const 736) (i32.const 250))
          (i32.const 700))"#,
        length = deep.len(),
        end = 8192 + 8 * 250,
        described = fixture_text("default-describe")
            .lines()
            .skip(2)
            .take(3)
            .collect::<String>(),
    );
    check(&assemble(&needy), "");
}
