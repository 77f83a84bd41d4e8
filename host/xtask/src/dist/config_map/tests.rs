use super::entry_bytes;

#[track_caller]
fn check(name: &str, contents: &[u8], in_json: &str) {
    assert_eq!(entry_bytes(name, contents), in_json.len());
}

#[test]
fn texts_are_quoted_and_all_else_is_base64() {
    check("chain.yaml", b"a: \"b\"\n", r#""chain.yaml":"a: \"b\"\n","#);
    // 0xff begins no text.
    check("a.wasm.gz", &[0xff; 3], r#""a.wasm.gz":"////\n","#);
    let line = "/".repeat(70);
    let last = "/".repeat(8);
    let two_lines = format!(r#""a.wasm.gz":"{line}\n{line}\n{last}\n","#);
    check("a.wasm.gz", &[0xff; 111], &two_lines);
    check("empty", b"", r#""empty":"","#);
}
