mod problem;

use std::fs;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};
use rustls_native_certs::{CertificateResult, load_certs_from_paths};
use tempfile::tempdir;

use super::{Identity, Pem, Roots, Tls, public};

fn pem(name: &str, text: &str) -> Pem {
    Pem::new(name.to_owned(), text.as_bytes().to_vec()).unwrap()
}

/// A certificate and its key.
fn signed() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

#[track_caller]
fn check(text: &str, error: &str) {
    let text = pem("ca.pem", text);
    for roots in [Roots::Only(&text), Roots::PublicAnd(&text)] {
        let found = Tls::new(&roots, None).map_err(|error| error.to_string());
        assert_eq!(found.err().as_deref(), Some(error));
    }
}

#[test]
fn a_file_of_authorities_is_read() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("ca.crt");
    let (certificate, key) = signed();
    // Comments, several certificates and other blocks are common in such files.
    fs::write(
        &path,
        format!("# ours\n{certificate}{key}\r\n{certificate}"),
    )
    .unwrap();
    let read = Pem::read(&path).unwrap();
    assert_eq!(read.certificates().unwrap().len(), 2);
    Tls::new(&Roots::Only(&read), None).unwrap();
    Tls::new(&Roots::PublicAnd(&read), None).unwrap();
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("ca.crt");
    let error = Pem::read(&path).unwrap_err();
    let text = error.to_string();
    let start = |path: &std::path::Path| format!("could not read {}: ", path.display());
    assert!(
        text.starts_with(&start(&path)) && text.contains("No such file"),
        "{text}"
    );
    let text = Pem::read(folder.path()).unwrap_err().to_string();
    assert!(text.starts_with(&start(folder.path())), "{text}");
    fs::write(&path, vec![b'a'; 1024 * 1024 + 1]).unwrap();
    let error = Pem::read(&path).unwrap_err();
    let expected = "is larger than 1048576 bytes, which no file of certificates is";
    assert_eq!(error.to_string(), format!("{} {expected}", path.display()));
}

#[test]
fn garbage_is_no_authority() {
    let (certificate, key) = signed();
    let missing = "ca.pem has no certificate; it must have a block that begins with -----BEGIN CERTIFICATE-----";
    for text in [
        "",
        "\n",
        "garbage",
        "{\"a\": 1}",
        &key,
        &certificate.replace('-', "="),
        "-----END CERTIFICATE-----",
    ] {
        check(text, missing);
    }
    let cut = certificate.split("-----END").next().unwrap();
    check(
        cut,
        "certificate 1 in ca.pem is broken: its last line, -----END ...-----, is missing",
    );
    let second =
        format!("{certificate}-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n");
    check(
        &second,
        "certificate 2 in ca.pem is broken: it is not base64",
    );
    let other =
        format!("{certificate}-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n");
    check(
        &other,
        "certificate 2 in ca.pem is broken: it is not an X.509 certificate",
    );
    check(
        "-----BEGIN CERTIFICATE\n",
        "certificate 1 in ca.pem is broken: its first line does not end with -----",
    );
}

#[test]
fn an_identity_needs_both_halves_that_fit() {
    let ((certificate, key), (other, _)) = (signed(), signed());
    let check = |chain: &str, key: &str| {
        let identity = Identity {
            chain: pem("tls.crt", chain),
            key: pem("tls.key", key),
        };
        let made = Tls::new(&Roots::Unchecked, Some(&identity));
        made.map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(check(&certificate, &key), Ok(()));
    let error = |text: &str| Err(text.to_owned());
    assert_eq!(
        check(&other, &key),
        error(
            "the key in tls.key cannot be used with the certificate in tls.crt: keys may not be consistent: KeyMismatch"
        )
    );
    assert_eq!(
        check(&certificate, ""),
        error(
            "tls.key has no private key; it must have a block that begins with -----BEGIN PRIVATE KEY-----"
        )
    );
    assert_eq!(
        check("", &key),
        error(
            "tls.crt has no certificate; it must have a block that begins with -----BEGIN CERTIFICATE-----"
        )
    );
    assert_eq!(
        check(
            &certificate,
            "-----BEGIN PRIVATE KEY-----\n!\n-----END PRIVATE KEY-----\n"
        ),
        error("private key 1 in tls.key is broken: it is not base64")
    );
}

#[test]
fn a_machine_without_a_store_has_mozillas_authorities() {
    let folder = tempdir().unwrap();
    let load = |name: &str| load_certs_from_paths(Some(&folder.path().join(name)), None);
    let count = |found, named| public(found, named).map(|store| store.len());
    let mozilla = webpki_roots::TLS_SERVER_ROOTS.len();
    assert!(mozilla > 50);
    let none = CertificateResult::default();
    assert_eq!(count(none, None).unwrap(), mozilla);
    // A store that somebody named is never replaced by another.
    let error = count(CertificateResult::default(), Some("SSL_CERT_FILE")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the certificate store of this machine cannot be used: SSL_CERT_FILE names no certificate"
    );
    let error = count(load("missing.pem"), None).unwrap_err().to_string();
    assert!(
        error.starts_with("the certificate store of this machine cannot be used: "),
        "{error}"
    );
    fs::write(folder.path().join("one.pem"), signed().0).unwrap();
    assert_eq!(count(load("one.pem"), Some("SSL_CERT_FILE")).unwrap(), 1);
}

#[test]
fn this_machine_has_authorities() {
    assert!(!super::machine().unwrap().is_empty());
}

#[test]
fn a_servers_certificate_is_no_authority() {
    let key = KeyPair::generate().unwrap();
    for (from, to) in [(1990, 2999), (1990, 2000), (2990, 2999)] {
        for is_ca in [
            IsCa::NoCa,
            IsCa::ExplicitNoCa,
            IsCa::Ca(BasicConstraints::Unconstrained),
        ] {
            let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
            params.not_before = date_time_ymd(from, 1, 1);
            params.not_after = date_time_ymd(to, 1, 1);
            params.is_ca = is_ca;
            let text = params.self_signed(&key).unwrap().pem();
            if matches!(is_ca, IsCa::Ca(_)) {
                assert!(Tls::new(&Roots::Only(&pem("ca.pem", &text)), None).is_ok());
                continue;
            }
            let both = format!("{}{text}", signed().0);
            check(
                &both,
                "certificate 2 in ca.pem is broken: it is not an authority's (its basic constraints do not say CA:TRUE); put the authority that signed it there",
            );
        }
    }
}

#[test]
fn a_pipe_is_no_file_of_certificates() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("ca.crt");
    let made = std::process::Command::new("mkfifo")
        .arg(&path)
        .status()
        .unwrap();
    assert!(made.success());
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send(Pem::read(&path).is_err()));
    assert_eq!(
        told.recv_timeout(std::time::Duration::from_secs(20)),
        Ok(true)
    );
}
