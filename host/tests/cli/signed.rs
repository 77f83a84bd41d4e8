//! `podloom chain verify`, and packing what is signed. The keys and signatures are openssl's.
#![expect(
    clippy::unwrap_used,
    reason = "a test has no other way to fail; the lint sees only functions marked as tests"
)]

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::{Ran, podloom, podloom_in};

fn keys() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("mutators/src/signature/fixtures")
}

/// A directory with a chain that the key `p256` signed. Its plugin is no plugin, which does not matter to the signature.
fn signed() -> TempDir {
    let directory = TempDir::new().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::copy(keys().join("chain.yaml"), at("chain.yaml")).unwrap();
    fs::copy(keys().join("p256.sig"), at("chain.yaml.sig")).unwrap();
    fs::write(at("one.wasm"), "wasm").unwrap();
    directory
}

fn verify(directory: &Path, key: &str) -> Ran {
    let key = keys().join(key);
    podloom_in(
        directory,
        &["chain", "verify", ".", "--key", key.to_str().unwrap()],
        "",
    )
}

#[test]
fn says_who_signed_what() {
    insta::assert_snapshot!(verify(signed().path(), "p256.pub").text());
}

#[test]
fn says_what_is_wrong_with_a_signature() {
    let directory = signed();
    let at = |name: &str| directory.path().join(name);
    let other_key = verify(directory.path(), "rsa.pub");
    fs::write(at("one.wasm"), "other").unwrap();
    let other_file = verify(directory.path(), "p256.pub");
    fs::remove_file(at("chain.yaml.sig")).unwrap();
    let none = verify(directory.path(), "p256.pub");
    for ran in [&other_key, &other_file, &none] {
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{}", ran.text());
    }
    insta::assert_snapshot!(format!(
        "{}{}{}",
        other_key.stderr, other_file.stderr, none.stderr
    ));
}

#[test]
fn a_file_that_is_no_key_is_named() {
    let directory = signed();
    let no_key = verify(directory.path(), "p256.sig").stderr;
    let other_kind = verify(directory.path(), "p384.pub").stderr;
    assert!(no_key.contains("no public key in PEM"), "{no_key}");
    assert!(
        other_kind.contains("P-256, Ed25519, or RSA"),
        "{other_kind}"
    );
    let missing = podloom(&["chain", "verify", ".", "--key", "no-such-file"]).stderr;
    assert!(missing.contains("no-such-file"), "{missing}");
    let run = podloom(&[
        "run",
        "--plugins",
        "bundles/empty",
        "--require-signature",
        "no-such-file",
    ]);
    assert!(run.stderr.contains("--require-signature"), "{}", run.stderr);
}

#[test]
fn an_empty_chain_cannot_stand_for_a_signed_one() {
    let key = keys().join("p256.pub");
    let key = key.to_str().unwrap();
    let required = [
        "run",
        "--plugins",
        "bundles/empty",
        "--require-signature",
        key,
    ];
    let refused = podloom(&[&required[..], &["--allow-empty-chain"]].concat());
    assert_eq!(refused.code, 2, "{}", refused.text());
    assert!(refused.stderr.contains("contradict"), "{}", refused.stderr);
}

/// Packing compresses plugins, which changes their names in chain.yaml.
#[test]
fn what_is_signed_is_packed_as_it_is_or_not_at_all() {
    let Some(bundle) = crate::bundle() else {
        return;
    };
    let directory = TempDir::new().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::copy(bundle.join("labels.wasm.gz"), at("labels.wasm.gz")).unwrap();
    let manifest = "apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins:\n- { name: labels, file: labels.wasm.gz }\n";
    fs::write(at("chain.yaml"), manifest).unwrap();
    fs::write(at("chain.yaml.sig"), "a signature").unwrap();
    let packed = podloom(&["bundle", directory.path().to_str().unwrap()]);
    assert_eq!(packed.code, 0, "{}", packed.text());
    assert!(
        packed.stdout.contains("chain.yaml.sig: a signature"),
        "{}",
        packed.stdout
    );

    let mut wasm = Vec::new();
    let file = fs::File::open(bundle.join("labels.wasm.gz")).unwrap();
    std::io::copy(&mut flate2::read::GzDecoder::new(file), &mut wasm).unwrap();
    fs::write(at("labels.wasm"), wasm).unwrap();
    fs::write(at("chain.yaml"), manifest.replace(".wasm.gz", ".wasm")).unwrap();
    let refused = podloom(&["bundle", directory.path().to_str().unwrap()]);
    assert_eq!(refused.code, 1, "{}", refused.text());
    assert!(
        refused.stderr.contains("it is signed"),
        "{}",
        refused.stderr
    );
}
