mod lines;

use super::{Manifest, manifest_schema};

const HEAD: &str = "apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\n";

#[track_caller]
fn check_error(text: &str, expected: &str) {
    let error = Manifest::parse(text.as_bytes()).expect_err("a refusal");
    assert_eq!(error.to_string(), expected);
}

/// Checks a chain whose only plugin has these lines.
#[track_caller]
fn check_entry(lines: &str, expected: &str) {
    check_error(
        &format!("{HEAD}plugins:\n- name: a\n  file: a.wasm\n  {lines}\n"),
        expected,
    );
}

#[test]
fn a_manifest_has_defaults() {
    let manifest =
        Manifest::parse(format!("{HEAD}plugins:\n- name: a\n  file: a.wasm\n").as_bytes())
            .expect("a manifest");
    insta::assert_debug_snapshot!(manifest.plugins);
}

#[test]
fn a_manifest_with_all_fields_is_parsed() {
    let text = include_str!("../../tests/fixtures/everything.yaml");
    insta::assert_debug_snapshot!(
        Manifest::parse(text.as_bytes())
            .expect("a manifest")
            .plugins
    );
}

#[test]
fn scalars_of_a_configuration_mean_the_same_as_in_a_pod() {
    let text = format!(
        "{HEAD}plugins:\n- {{name: a, file: a.wasm, config: {{mode: 0644, id: 12, y: on}}}}\n"
    );
    let manifest = Manifest::parse(text.as_bytes()).expect("a manifest");
    let config = manifest
        .plugins
        .first()
        .and_then(|entry| entry.config.clone());
    assert_eq!(
        serde_json::Value::from(config.unwrap_or_default()),
        serde_json::json!({ "mode": 420, "id": 12, "y": true })
    );
}

#[test]
fn a_chain_without_plugins_is_explicit() {
    assert!(
        Manifest::parse(format!("{HEAD}plugins: []").as_bytes())
            .expect("a manifest")
            .plugins
            .is_empty()
    );
    check_error(HEAD, "chain.yaml:2:1: missing field `plugins`");
    for nothing in ["", "# nothing\n", "---\n"] {
        check_error(
            nothing,
            "chain.yaml is empty; for a chain without plugins write apiVersion, kind and `plugins: []`",
        );
    }
}

#[test]
fn other_documents_are_refused() {
    check_error(
        "apiVersion: v1\nkind: MutatorChain\nplugins: []",
        "chain.yaml:1:13: unknown variant `v1`, expected one of podloom.dev/v1alpha1",
    );
    check_error(
        "apiVersion: podloom.dev/v1alpha1\nkind: Chain\nplugins: []",
        "chain.yaml:2:7: unknown variant `Chain`, expected one of MutatorChain",
    );
    check_error(
        &format!("{HEAD}plugins: []\n---\n{HEAD}plugins: []\n"),
        "chain.yaml: the file must have a single document, but has several; remove the others",
    );
    check_error("- a\n- b\n", "chain.yaml:1:1: expected an object");
    check_error("plugins: [", "chain.yaml:1:10: unclosed bracket '['");
    check_error(
        &format!("{HEAD}plugins: []\nplugin: []\n"),
        "chain.yaml:4:1: unknown field `plugin`, expected one of apiVersion, kind, plugins",
    );
    check_error(
        &format!("{HEAD}plugins: []\nplugins: []\n"),
        "chain.yaml:4:1: duplicate mapping key `plugins` is not allowed here",
    );
}

#[test]
fn an_alias_that_contains_itself_is_named() {
    check_error(
        &format!("{HEAD}plugins:\n- name: a\n  file: a.wasm\n  config: &a {{ inner: *a }}\n"),
        "chain.yaml:6:23: an alias contains itself; write the value out in place of the alias",
    );
}

#[test]
fn names_are_unique_dns_labels() {
    check_error(
        &format!(
            "{HEAD}plugins:\n- {{name: a, file: a.wasm}}\n- {{name: b, file: a.wasm}}\n- {{name: a, file: b.wasm}}\n"
        ),
        "chain.yaml:6: plugin a is listed twice, first on line 4; give one of them another name",
    );
    check_error(
        &format!("{HEAD}plugins: [{{name: A_b, file: a.wasm}}]"),
        "chain.yaml:3:18: plugin name \"A_b\" is not a DNS label; use at most 63 of a-z, 0-9 and `-`, without `-` at either end",
    );
    check_error(
        &format!("{HEAD}plugins: [{{name: '', file: a.wasm}}]"),
        "chain.yaml:3:18: plugin name \"\" is not a DNS label; use at most 63 of a-z, 0-9 and `-`, without `-` at either end",
    );
    check_error(
        &format!("{HEAD}plugins: [{{file: a.wasm}}]"),
        "chain.yaml:3:12: missing field `name`",
    );
}

#[test]
fn files_lie_beside_the_manifest() {
    #[track_caller]
    fn check(file: &str, expected: &str) {
        check_error(
            &format!("{HEAD}plugins: [{{name: a, file: {file}}}]"),
            expected,
        )
    }
    check(
        "../a.wasm",
        "chain.yaml:3:27: file \"../a.wasm\" is in another directory; put the file beside chain.yaml, and name it without a path",
    );
    check(
        "sub/a.wasm",
        "chain.yaml:3:27: file \"sub/a.wasm\" is in another directory; put the file beside chain.yaml, and name it without a path",
    );
    check(
        "..data.wasm",
        "chain.yaml:3:27: file \"..data.wasm\" is not a valid key of a ConfigMap; use letters, digits, `-`, `_` and `.`",
    );
    check(
        "a.txt",
        "chain.yaml:3:27: file \"a.txt\" is not a plugin; its name must end in .wasm or .wasm.gz",
    );
    check(
        "a b.wasm",
        "chain.yaml:3:27: file \"a b.wasm\" is not a valid key of a ConfigMap; use letters, digits, `-`, `_` and `.`",
    );
}

#[test]
fn errors_in_fields_of_a_plugin_say_what_is_expected() {
    check_entry(
        "sha256: abc",
        "chain.yaml:6:11: sha256 \"abc\" is not a digest; write 64 hexadecimal digits",
    );
    check_entry(
        "failurePolicy: Retry",
        "chain.yaml:6:18: unknown variant `Retry`, expected one of Fail, Ignore",
    );
    check_entry(
        "allowed: []",
        "chain.yaml:6:3: unknown field `allowed`, expected one of name, file, sha256, allow, read, config, match, failurePolicy, longestException, idempotent, limits",
    );
    check_entry("allow: /spec", "chain.yaml:6:10: expected a list");
    check_entry("config: [1]", "chain.yaml:6:11: expected an object");
    check_entry(
        "idempotent: maybe",
        "chain.yaml:6:15: expected true or false",
    );
}

#[test]
fn errors_in_limits_and_match_say_what_is_expected() {
    check_entry(
        "limits: { memory: lots }",
        "chain.yaml:6:21: memory \"lots\" is not a quantity of bytes; write for example 16Mi, 1500Ki or 20M",
    );
    check_entry(
        "limits: { memory: -1Mi }",
        "chain.yaml:6:21: memory \"-1Mi\" is not a quantity of bytes; write for example 16Mi, 1500Ki or 20M",
    );
    check_entry(
        "limits: { memory: 512Ki }",
        "chain.yaml:6:21: memory \"512Ki\" is out of range; use 1 MiB to 256 MiB",
    );
    check_entry(
        "limits: { memory: 1Gi }",
        "chain.yaml:6:21: memory \"1Gi\" is out of range; use 1 MiB to 256 MiB",
    );
    check_entry(
        "limits: { memory: 99999999999999999999Gi }",
        "chain.yaml:6:21: memory \"99999999999999999999Gi\" is not a quantity of bytes; write for example 16Mi, 1500Ki or 20M",
    );
    check_entry(
        "limits: { timeout: 1m }",
        "chain.yaml:6:22: timeout \"1m\" is not a duration; write for example 250ms or 1s",
    );
    check_entry(
        "limits: { timeout: 1ms }",
        "chain.yaml:6:22: timeout \"1ms\" is out of range; use 10 ms to 10 s",
    );
    check_entry(
        "limits: { timeout: 60s }",
        "chain.yaml:6:22: timeout \"60s\" is out of range; use 10 ms to 10 s",
    );
    check_entry(
        "limits: { cpu: 1 }",
        "chain.yaml:6:13: unknown field `cpu`, expected one of memory, timeout, size",
    );
    check_entry(
        "limits: { size: Huge }",
        "chain.yaml:6:19: unknown variant `Huge`, expected one of Standard, Large",
    );
    check_entry(
        "match: { kind: [Pod] }",
        "chain.yaml:6:12: unknown field `kind`, expected one of operations, kinds, namespaces, namespaceSelector, selector",
    );
    check_entry(
        "match: { operations: [] }",
        "chain.yaml:6:24: operations is empty, so the plugin would never run; omit it to match new pods",
    );
    check_entry(
        "match: { operations: [DELETE] }",
        "chain.yaml:6:25: unknown variant `DELETE`, expected one of CREATE, UPDATE, CLAIM",
    );
    check_entry(
        "match: { kinds: [] }",
        "chain.yaml:6:19: kinds is empty, so the plugin would never run; omit it to match every kind",
    );
}

#[test]
fn limits_are_quantities_and_durations() {
    let check = |limits: &str, memory: usize, millis: u128| {
        let text = format!("{HEAD}plugins: [{{name: a, file: a.wasm, limits: {limits}}}]");
        let limits = Manifest::parse(text.as_bytes())
            .expect("a manifest")
            .plugins[0]
            .limits
            .per_call();
        assert_eq!(
            (limits.memory, limits.timeout.as_millis()),
            (memory, millis)
        );
    };
    check("{}", 16 << 20, 1000);
    check("{memory: 1Mi, timeout: 10ms}", 1 << 20, 10);
    check("{memory: 256Mi, timeout: 10s}", 256 << 20, 10_000);
    check("{memory: 2097152}", 2 << 20, 1000);
    check("{memory: '2000k'}", 2_000_000, 1000);
    check("{memory: 2M}", 2_000_000, 1000);
}

#[test]
fn the_published_schema_accepts_what_parsing_accepts() {
    let schema = manifest_schema();
    insta::assert_json_snapshot!(schema);
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let everything = include_str!("../../tests/fixtures/everything.yaml");
    let document: serde_json::Value = serde_saphyr::from_str(everything).expect("YAML");
    assert!(validator.is_valid(&document));
    for wrong in [
        "/plugins/0/allowed",
        "/plugins/0/limits/cpu",
        "/plugins/0/failurePolicy",
        "/apiVersion",
    ] {
        let (parent, field) = wrong.rsplit_once('/').expect("a path");
        let mut document = document.clone();
        let parent = if parent.is_empty() {
            Some(&mut document)
        } else {
            document.pointer_mut(parent)
        };
        parent
            .and_then(|parent| parent.as_object_mut())
            .expect("an object")
            .insert(field.to_owned(), "wrong".into());
        assert!(!validator.is_valid(&document), "{wrong}");
    }
}
