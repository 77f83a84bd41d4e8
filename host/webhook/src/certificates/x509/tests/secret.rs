use std::time::{Duration, SystemTime};

use rustls::pki_types::ServerName;

use super::super::super::x509;
use super::super::*;

const LIFETIME: Duration = Duration::from_secs(90 * 86_400);

struct Made {
    authority: Pair,
    leaf: Pair,
}

fn made() -> Made {
    let now = SystemTime::now();
    let authority = x509::authority(now, LIFETIME).unwrap();
    let hosts = [ServerName::try_from("localhost").unwrap()];
    let leaf = x509::server(&authority.key, &hosts, now, LIFETIME).unwrap();
    Made { authority, leaf }
}

impl Made {
    fn fields(&self, older: &[&Self]) -> Fields {
        let older = older.iter().map(|made| &made.authority.certificate);
        let authorities: Vec<Certificate> = std::iter::once(&self.authority.certificate)
            .chain(older)
            .cloned()
            .collect();
        let (key, leaf) = (&self.authority.key, &self.leaf);
        next_secret(None, &authorities, Some(key), Some(leaf))
            .data
            .unwrap()
    }
}

fn read(fields: Fields) -> OurSecret {
    let mut secret = next_secret(None, &[], None, None);
    secret.data = Some(fields);
    OurSecret::read(Some(secret)).unwrap_or_else(|why| panic!("{why}"))
}

#[test]
fn what_was_written_is_read_again() {
    let (one, two) = (made(), made());
    let keyring = read(two.fields(&[&one]));
    assert!(keyring.is_tidy);
    assert_eq!(
        keyring.authorities,
        [two.authority.certificate.clone(), one.authority.certificate]
    );
    assert_eq!(keyring.signing, Ok(two.authority.key));
    let serving = keyring.serving.unwrap_or_else(|why| panic!("{why}"));
    assert!(serving.certificate == two.leaf.certificate);
    assert!(serving.authority == Some(two.authority.certificate));
}

#[test]
fn a_leaf_of_an_older_authority_is_usable() {
    let (mut one, mut two) = (made(), made());
    std::mem::swap(&mut one.leaf, &mut two.leaf);
    let serving = read(two.fields(&[&one])).serving;
    assert!(serving.is_ok_and(|serving| serving.authority == Some(one.authority.certificate)));
}

/// Reads a good keyring with one field changed; expects what is wrong with signing and serving.
#[track_caller]
fn check(field: &str, value: Option<&[u8]>, signing: Option<&str>, serving: Option<&str>) {
    let mut fields = made().fields(&[]);
    match value {
        Some(value) => fields.insert(field.to_owned(), ByteString(value.to_owned())),
        None => fields.remove(field),
    };
    let keyring = read(fields);
    let of = |why: Option<String>| why.unwrap_or_else(|| "fine".to_owned());
    assert_eq!(
        of(keyring.signing.err()),
        signing.unwrap_or("fine"),
        "{field}"
    );
    assert_eq!(
        of(keyring.serving.err()),
        serving.unwrap_or("fine"),
        "{field}"
    );
}

#[test]
fn each_part_is_judged_by_itself() {
    let none = "ca.crt has no authority that podloom made";
    let unsigned = "no authority in ca.crt signed tls.crt";
    let other = made().fields(&[]);
    let large = vec![b'x'; TEXT_MAX + 1];
    check("ca.crt", None, Some(none), Some(unsigned));
    check("ca.crt", Some(b""), Some(none), Some(unsigned));
    check("ca.crt", Some(&[0xff; 500]), Some(none), Some(unsigned));
    check("ca.crt", Some(&large), Some(none), Some(unsigned));
    // A server certificate is no authority.
    check(
        "ca.crt",
        Some(&other["tls.crt"].0),
        Some(none),
        Some(unsigned),
    );
    check(
        "ca.crt",
        Some(&other["ca.crt"].0),
        Some("ca.key is not the key of the first certificate in ca.crt"),
        Some(unsigned),
    );
    check("ca.key", None, Some("ca.key is missing"), None);
    check(
        "ca.key",
        Some(&large),
        Some("ca.key is larger than 65536 bytes"),
        None,
    );
    check(
        "ca.key",
        Some(b"garbage"),
        Some(
            "ca.key has no private key; it must have a block that begins with -----BEGIN PRIVATE KEY-----",
        ),
        None,
    );
    check(
        "ca.key",
        Some(&other["ca.key"].0),
        Some("ca.key is not the key of the first certificate in ca.crt"),
        None,
    );
    check("tls.crt", Some(b""), None, Some("tls.crt is missing"));
    check(
        "tls.crt",
        Some(&other["tls.crt"].0),
        None,
        Some("tls.key is not the key of tls.crt"),
    );
    check("tls.key", None, None, Some("tls.key is missing"));
    check(
        "tls.key",
        Some(&other["tls.key"].0),
        None,
        Some("tls.key is not the key of tls.crt"),
    );
}

#[test]
fn fields_of_others_change_nothing() {
    let mut fields = made().fields(&[]);
    fields.insert("notes.txt".to_owned(), ByteString(vec![0xff; 100_000]));
    let keyring = read(fields);
    assert!(keyring.is_tidy && keyring.signing.is_ok() && keyring.serving.is_ok());
}

#[test]
fn a_bundle_with_words_or_doubles_is_untidy() {
    let good = made().fields(&[]);
    let text = String::from_utf8(good["ca.crt"].0.clone()).unwrap();
    for text in [
        format!("words\n{text}"),
        text.repeat(2),
        format!("{text}\n"),
    ] {
        let mut fields = good.clone();
        fields.insert("ca.crt".to_owned(), ByteString(text.into_bytes()));
        let keyring = read(fields);
        assert!(!keyring.is_tidy && keyring.authorities.len() == 1);
        assert!(keyring.signing.is_ok() && keyring.serving.is_ok());
    }
}
