use super::entry_bytes;

#[track_caller]
fn check(name: &str, contents: &[u8], in_json: &str) {
    assert_eq!(entry_bytes(name, contents), in_json.len());
}

#[test]
fn texts_are_quoted_and_all_else_is_base64() {
    check("chain.yaml", b"a: \"b\"\n", r#""chain.yaml":"a: \"b\"\n","#);
    check(
        "a.wasm.gz",
        b"\x1f\x8b\xff\x00",
        r#""a.wasm.gz":"H4v/AA==","#,
    );
    check("empty", b"", r#""empty":"","#);
}
