use serde_json::{Value, json};

use super::{documents, yaml};

#[track_caller]
fn check(value: &Value, expected: &str) {
    let text = yaml(value).unwrap();
    assert_eq!(text, expected);
}

#[test]
fn strings_that_look_like_something_else_are_quoted() {
    for text in [
        "yes",
        "No",
        "on",
        "y",
        "true",
        "null",
        "~",
        "",
        "1.0",
        "120.0",
        "1e3",
        "0x1F",
        "0644",
        "1_000",
        "1:30",
        "2001-01-01",
        ".inf",
        "+1",
        "=",
        "<<",
        "- x",
        "a: b",
        "k:",
        "a #b",
        "#c",
        "*a",
        "&a",
        "!x",
        "%",
        "@",
        "`",
        "{}",
        "[]",
        " x",
        "x ",
        "?",
        "|",
        ">",
        "'",
        "\"",
    ] {
        let written = yaml(&json!({ "a": text })).unwrap();
        let quoted = written.starts_with("a: \"") || written.starts_with("a: '");
        assert!(quoted, "{text:?} is written as {written:?}");
    }
    check(
        &json!({ "a": "plain text", "b": "-x", "c": "v1" }),
        "a: plain text\nb: -x\nc: v1\n",
    );
}

#[test]
fn writes_as_kubectl_does() {
    check(
        &json!({
            "b": { "empty": {}, "none": [], "nothing": null, "yes": 1 },
            "a": [{ "name": "x", "args": ["-c", "true"] }, [1]],
            "script": "set -e\necho hi\n",
            "long": "word ".repeat(40) + "end",
        }),
        &format!(
            "a:\n- args:\n  - -c\n  - \"true\"\n  name: x\n- - 1\nb:\n  empty: {{}}\n  none: []\n  nothing: null\n  \"yes\": 1\nlong: {}end\nscript: |\n  set -e\n  echo hi\n",
            "word ".repeat(40)
        ),
    );
}

#[test]
fn no_block_starts_with_a_tab() {
    check(
        &json!({ "a": "\tx\ny\n", "b": ["\n\tx\n"], "c": "all:\n\tmake\n" }),
        "a: \"\\tx\\ny\\n\"\nb:\n- \"\\n\\tx\\n\"\nc: |\n  all:\n  \tmake\n",
    );
}

#[test]
fn written_yaml_reads_back_equal() {
    let texts = [
        "",
        "\n",
        "a\n\nb",
        "  lead\nx\n\n",
        "tab\tx",
        "\r\n",
        "\u{85}",
        "\u{feff}",
        "é😀",
        "a\n",
        "a\n\n",
        "\na",
        " \n",
        "x\n y\n",
        "---",
        "--- a",
        "...",
        "key: |\n",
        "\u{7}",
        "\\",
        "a\u{2028}b",
        "trail \nx",
        "\t",
        "#\n#",
    ];
    let value = json!({
        "texts": texts,
        "keys": texts.iter().map(|text| ((*text).to_owned(), json!(text))).collect::<serde_json::Map<_, _>>(),
        "numbers": [0, -1, 1.5, u64::MAX, i64::MIN, 1e300],
        "long": "x".repeat(300) + &" y".repeat(200),
    });
    let objects = [value.clone(), json!({ "b": 1 }), value];
    let text = documents(&objects).unwrap();
    let read: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    assert_eq!(read, objects);
}
