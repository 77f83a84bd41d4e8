//! The keys and signatures are openssl's: `fixtures` has what it made of a manifest. The private keys are gone.

use std::fs;
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tempfile::TempDir;

use super::{NOT_A_KEY, OTHER_KIND, PRIVATE, PublicKey, Signers};
use crate::bundle::{Bundle, SIGNATURE};

const KINDS: [&str; 3] = ["p256", "ed25519", "rsa"];

fn fixture(name: &str) -> Vec<u8> {
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/signature/fixtures");
    fs::read(fixtures.join(name)).expect("a fixture")
}

fn key(kind: &str) -> PublicKey {
    PublicKey::from_pem(&fixture(&format!("{kind}.pub"))).expect("a key")
}

fn signers(kinds: &[&str]) -> Signers {
    kinds.iter().map(|kind| key(kind)).collect()
}

/// A directory with the manifest of the fixtures.
struct Directory(TempDir);

impl Directory {
    fn new() -> Self {
        let directory = Self(TempDir::new().expect("a directory"));
        directory.write("chain.yaml", &fixture("chain.yaml"));
        directory.write("one.wasm", b"wasm");
        directory
    }

    fn signed(signature: &[u8]) -> Self {
        let directory = Self::new();
        directory.write(SIGNATURE, signature);
        directory
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.0.path().join(name), bytes).expect("a file");
    }

    fn read(&self) -> Bundle {
        Bundle::read(self.0.path()).expect("a bundle")
    }
}

fn signature(kind: &str) -> Vec<u8> {
    fixture(&format!("{kind}.sig"))
}

#[test]
fn each_kind_of_key_is_checked() {
    for kind in KINDS {
        let bundle = Directory::signed(&signature(kind)).read();
        assert_eq!(signers(&[kind]).check(&bundle), Ok(&key(kind)), "{kind}");
        let mut others = KINDS.to_vec();
        others.retain(|other| *other != kind);
        let refused = signers(&others).check(&bundle).expect_err(kind);
        assert!(is_wrong(&refused), "{refused}");
        // One of several is enough, so that keys can be changed.
        assert_eq!(signers(&KINDS).check(&bundle), Ok(&key(kind)), "{kind}");
        assert!(Signers::default().check(&bundle).is_err());
    }
}

#[test]
fn base64_is_read_too() {
    let text = format!("{}\n", BASE64_STANDARD.encode(signature("p256")));
    let bundle = Directory::signed(text.as_bytes()).read();
    assert_eq!(signers(&["p256"]).check(&bundle), Ok(&key("p256")));
}

#[track_caller]
fn assert_unsigned(checked: Result<&PublicKey, String>) {
    let refused = checked.expect_err("no signature");
    assert!(
        refused.starts_with("the chain is not signed: "),
        "{refused}"
    );
}

fn is_wrong(refused: &str) -> bool {
    refused.starts_with("the signature in chain.yaml.sig is not that of chain.yaml by ")
}

#[test]
fn what_is_not_a_signature_does_not_count() {
    let signers = signers(&KINDS);
    let missing = signers.check(&Directory::new().read());
    assert_unsigned(missing);
    let too_long = vec![b'a'; 1 << 20];
    assert_unsigned(signers.check(&Directory::signed(&too_long).read()));
    for kind in KINDS {
        let good = signature(kind);
        for at in [0, good.len() / 2, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            let refused = signers.check(&Directory::signed(&bad).read());
            assert!(
                is_wrong(&refused.expect_err("another signature")),
                "{kind} {at}"
            );
        }
        for bad in [&b""[..], &good[..good.len() - 1], b"-----BEGIN"] {
            assert!(signers.check(&Directory::signed(bad).read()).is_err());
        }
    }
}

#[test]
fn a_changed_manifest_or_file_is_noticed() {
    let signers = signers(&["p256"]);
    let directory = Directory::signed(&signature("p256"));
    directory.write("one.wasm", b"other");
    let refused = signers.check(&directory.read()).expect_err("another file");
    assert!(
        refused.starts_with("chain.yaml:4: plugin one names the sha256 "),
        "{refused}"
    );

    let directory = Directory::signed(&signature("p256"));
    let mut manifest = fixture("chain.yaml");
    manifest.extend(b"  failurePolicy: Ignore\n");
    directory.write("chain.yaml", &manifest);
    let refused = signers
        .check(&directory.read())
        .expect_err("another manifest");
    assert!(is_wrong(&refused), "{refused}");
}

#[test]
fn a_file_that_is_no_public_key_says_so() {
    let private = b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    for (pem, error) in [
        (&private[..], PRIVATE),
        (b"", NOT_A_KEY),
        (b"\xff", NOT_A_KEY),
        (
            b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
            NOT_A_KEY,
        ),
        (&fixture("p384.pub"), OTHER_KIND),
    ] {
        assert_eq!(PublicKey::from_pem(pem), Err(error));
    }
}
