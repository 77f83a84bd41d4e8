use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use podloom_engine::outbound::Pem;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair,
};
use rustls::pki_types::UnixTime;
use rustls::server::danger::ClientCertVerifier;
use tempfile::TempDir;

use super::Clients;

/// An authority, as PEM, and what it signs with.
struct Authority(String, Issuer<'static, KeyPair>);

fn authority() -> Authority {
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let pem = parameters.self_signed(&key).unwrap().pem();
    Authority(pem, Issuer::new(parameters, key))
}

fn client(
    authority: &Authority,
    common: &str,
    dns: &[&str],
    usage: ExtendedKeyUsagePurpose,
) -> Certificate {
    let dns: Vec<String> = dns.iter().map(|&name| name.to_owned()).collect();
    let mut parameters = CertificateParams::new(dns).unwrap();
    parameters
        .distinguished_name
        .push(DnType::CommonName, common);
    parameters.extended_key_usages = vec![usage];
    let key = KeyPair::generate().unwrap();
    parameters.signed_by(&key, &authority.1).unwrap()
}

fn clients(text: &str, names: &[&str]) -> (Arc<Clients>, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.crt");
    fs::write(&file, text).unwrap();
    let names = names.iter().map(|&name| name.to_owned()).collect();
    (Clients::read(file, names).unwrap(), directory)
}

fn is_answered(clients: &Clients, client: &Certificate) -> bool {
    let verified = clients.verify_client_cert(client.der(), &[], UnixTime::now());
    verified.is_ok()
}

#[test]
fn only_clients_of_the_authority_are_answered() {
    use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
    let (ours, other) = (authority(), authority());
    let (clients, _directory) = clients(&ours.0, &[]);
    assert!(clients.client_auth_mandatory());
    assert!(is_answered(&clients, &client(&ours, "a", &[], ClientAuth)));
    assert!(!is_answered(
        &clients,
        &client(&other, "a", &[], ClientAuth)
    ));
    // A server of the same authority is no client.
    assert!(!is_answered(&clients, &client(&ours, "a", &[], ServerAuth)));
}

#[test]
fn of_these_one_with_a_name_is_answered() {
    let ours = authority();
    let (clients, _directory) = clients(&ours.0, &["api-server", "api.example.com"]);
    let client = |common: &str, dns: &[&str]| {
        let client = client(&ours, common, dns, ExtendedKeyUsagePurpose::ClientAuth);
        is_answered(&clients, &client)
    };
    assert!(client("api-server", &[]));
    assert!(client("other", &["x", "api.example.com"]));
    assert!(!client("other", &["www.api.example.com"]));
    assert!(!client("api-server2", &[]));
}

#[test]
fn another_authority_takes_the_place_of_one_and_garbage_does_not() {
    let (before, after) = (authority(), authority());
    let (clients, _directory) = clients(&before.0, &[]);
    let [old, new] = [&before, &after]
        .map(|authority| client(authority, "a", &[], ExtendedKeyUsagePurpose::ClientAuth));
    let renew = |text: &str| {
        let pem = Pem::new("ca.crt".to_owned(), text.into()).unwrap();
        clients.renew(&pem)
    };
    let problem = renew("no PEM").unwrap_err();
    assert!(
        problem.starts_with("ca.crt has no certificate"),
        "{problem}"
    );
    let problem = renew(&new.pem()).unwrap_err();
    assert!(problem.contains("it is not an authority's"), "{problem}");
    assert!(is_answered(&clients, &old) && !is_answered(&clients, &new));
    renew(&after.0).unwrap();
    assert!(!is_answered(&clients, &old) && is_answered(&clients, &new));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let missing = Clients::read(PathBuf::from("/nowhere/ca.crt"), Vec::new());
    let problem = missing.unwrap_err();
    assert!(problem.contains("/nowhere/ca.crt"), "{problem}");
}
