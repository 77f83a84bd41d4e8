use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::super::{MAX_BYTES, decode, encode, with_section};
use crate::parse;

const TREE: &str = "0mine v0.1.0 (/home/me)\n1serde v1.0.228\n";

fn packed(text: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn what_is_encoded_is_decoded_and_names_no_path() {
    let crates = parse(TREE).unwrap();
    let content = encode(&crates).unwrap();
    assert_eq!(decode(&content).unwrap(), crates);
    let json = serde_json::to_string(&crates).unwrap();
    assert!(!json.contains("/home"), "{json}");
}

#[test]
fn long_lengths_are_written_as_webassembly_does() {
    let wasm = with_section(Vec::new(), &[7; 300]);
    // 300 + 1 + 7 = 308 = 0b10_0110100.
    assert_eq!(wasm.get(..4), Some(&[0, 0xb4, 0x02, 7][..]));
    assert_eq!(wasm.len(), 3 + 308);
}

#[test]
fn hostile_sections_are_errors() {
    let check = |section: &[u8], expected: &str| {
        let error = decode(section).unwrap_err().to_string();
        assert_eq!(error, expected);
    };
    let no_list = "the section .dep-v0 holds no list of crates";
    check(b"hello", "the section .dep-v0 is not compressed with zlib");
    check(&packed(b"[]"), no_list);
    let circle = br#"{"packages":[{"name":"a","version":"1.0.0","source":"local","dependencies":[1],"root":true},{"name":"b","version":"1.0.0","source":"local","dependencies":[0]}]}"#;
    check(&packed(circle), no_list);
    let bomb = vec![b' '; usize::try_from(MAX_BYTES).unwrap() + 1];
    check(
        &packed(&bomb),
        "the section .dep-v0 is longer than 4194304 bytes",
    );
}
