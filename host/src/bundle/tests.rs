use serde_json::{Value, json};

use super::{MAX_BYTES, annotation_bytes, distribute, object, yaml};
use crate::bundle::{File, PackedBundle};

fn file(name: &str, bytes: usize) -> File {
    File {
        name: name.to_owned(),
        // Begins no text.
        bytes: vec![0xff; bytes],
        is_pinned: false,
        original: None,
    }
}

/// Files of these sizes, the manifest first, and the numbers of those that are put together.
#[track_caller]
fn check(sizes: &[usize], expected: Result<&[&[usize]], usize>) {
    let files = sizes.iter().zip(0..);
    let mut files: Vec<File> = files
        .map(|(bytes, number)| file(&number.to_string(), *bytes))
        .collect();
    let packed = PackedBundle {
        manifest: files.remove(0),
        signature: None,
        plugins: files,
    };
    let number = |file: &File| file.name.parse::<usize>().unwrap();
    let got = distribute(&packed)
        .map(|maps| -> Vec<Vec<usize>> {
            let numbers = maps.iter().map(|held| held.iter().map(|file| number(file)));
            numbers.map(Iterator::collect).collect()
        })
        .map_err(number);
    let expected = expected.map(|maps| maps.iter().map(|held| held.to_vec()).collect::<Vec<_>>());
    assert_eq!(got, expected, "{sizes:?}");
}

#[test]
fn each_file_goes_where_it_fits_first() {
    check(&[100], Ok(&[&[0]]));
    check(&[1, MAX_BYTES - 1], Ok(&[&[0, 1]]));
    check(&[1, MAX_BYTES], Ok(&[&[0], &[1]]));
    let half = MAX_BYTES / 2;
    check(&[100, half, half, half, 100], Ok(&[&[0, 1, 4], &[2, 3]]));
    check(&[100, MAX_BYTES + 1, MAX_BYTES + 2], Err(1));
}

#[test]
fn the_yaml_says_what_the_object_says() {
    for text in [
        "",
        "a: b\n",
        "a: b",
        "\ttab: first\n",
        "trailing: spaces   \n\n\n",
        "crlf: x\r\nnext: y\r\n",
        "# Größe \u{2028} & <b>\u{7f}\n'quotes\": \\ #\n",
        "--- # begins a document\na: 1\n...\n",
        "  indented: first\nless: so\n",
    ] {
        let manifest = File {
            name: "chain.yaml".to_owned(),
            bytes: text.as_bytes().to_owned(),
            is_pinned: false,
            original: None,
        };
        let plugin = file("a.wasm.gz", 100_000);
        let object = object("name", "ns", &[&manifest, &plugin]).unwrap();
        assert_eq!(object["data"], json!({ "chain.yaml": text }));
        let printed = yaml(&object).unwrap();
        let read: Value = serde_saphyr::from_str(&printed).unwrap();
        assert_eq!(read, object, "{printed}");
    }
}

#[test]
fn the_copy_of_kubectl_is_counted_as_it_is_written() {
    let manifest = File {
        name: "chain.yaml".to_owned(),
        bytes: "a: <&>\u{2028}ö\"\n".into(),
        is_pinned: false,
        original: None,
    };
    let object = object("n", "s", &[&manifest, &file("a.wasm.gz", 3)]).unwrap();
    // As kubectl 1.36 has written it.
    let copy = r#"{"apiVersion":"v1","binaryData":{"a.wasm.gz":"////"},"data":{"chain.yaml":"a: \u003c\u0026\u003e\u2028ö\"\n"},"kind":"ConfigMap","metadata":{"annotations":{},"labels":{"app.kubernetes.io/name":"podloom"},"name":"n","namespace":"s"}}"#;
    let name = "kubectl.kubernetes.io/last-applied-configuration";
    assert_eq!(annotation_bytes(&object), name.len() + copy.len() + 1);
}
