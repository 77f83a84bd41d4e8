use std::time::{Duration, UNIX_EPOCH};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
use rustls::pki_types::ServerName;

use super::super::sign;
use super::*;

const DAY: Duration = Duration::from_secs(86_400);

fn host(name: &str) -> ServerName<'static> {
    ServerName::try_from(name.to_owned()).unwrap()
}

/// Noon of some day, on a whole second.
fn noon() -> SystemTime {
    UNIX_EPOCH + DAY * 20_000 + DAY / 2
}

#[test]
fn an_authority_of_ours_is_known_by_its_name_and_its_constraints() {
    let authority = sign::authority(noon(), DAY).unwrap().certificate;
    assert!(authority.is_our_authority);
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, AUTHORITY);
    let leaf = params.self_signed(&key).unwrap();
    let leaf = Certificate::parse(leaf.into()).unwrap();
    assert!(!leaf.is_our_authority, "it is no authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let alike = params.self_signed(&key).unwrap();
    let alike = Certificate::parse(alike.into()).unwrap();
    assert!(alike.is_our_authority, "name and constraints are all");
    params.distinguished_name.push(DnType::CountryName, "US");
    let other = params.self_signed(&key).unwrap();
    let other = Certificate::parse(other.into()).unwrap();
    assert!(!other.is_our_authority, "it has another name");
}

#[test]
fn dates_are_read_to_the_second() {
    let authority = sign::authority(noon(), DAY).unwrap();
    let certificate = &authority.certificate;
    assert_eq!(certificate.not_before, noon() - sign::BACKDATED);
    assert_eq!(certificate.not_after, noon() + DAY * 4);
    assert!(certificate.is_valid_at(certificate.not_after));
    assert!(!certificate.is_valid_at(certificate.not_after + Duration::from_secs(1)));
    assert!(!certificate.is_valid_at(certificate.not_before - Duration::from_secs(1)));
    // After 2049, dates are written in another form.
    let late = noon() + DAY * 365 * 40;
    let authority = sign::authority(late, DAY).unwrap();
    assert_eq!(authority.certificate.not_after, late + DAY * 4);
}

/// What is read of a certificate is what a client says about it.
#[test]
fn clients_reject_what_is_expired_early_an_authority_or_for_other_hosts() {
    let authority = sign::authority(noon(), DAY).unwrap().certificate;
    let signer = sign::authority(noon(), DAY).unwrap();
    let leaf = sign::server(&signer.key, &[host("localhost")], noon(), DAY).unwrap();
    let (leaf, second) = (leaf.certificate, Duration::from_secs(1));
    let verdict = |certificate: &Certificate, at: SystemTime| {
        let parsed = ParsedCertificate::try_from(&certificate.der).unwrap();
        let anchors = anchors(&signer.certificate.der).unwrap();
        let at = at.duration_since(UNIX_EPOCH).unwrap();
        verify(&parsed, &anchors, UnixTime::since_unix_epoch(at))
    };
    for at in [leaf.not_before, leaf.not_after] {
        assert_eq!((leaf.is_valid_at(at), verdict(&leaf, at)), (true, Ok(())));
    }
    let late = verdict(&leaf, leaf.not_after + second).unwrap_err();
    let early = verdict(&leaf, leaf.not_before - second).unwrap_err();
    let of_authority = verdict(&authority, noon()).unwrap_err();
    let is = |error: Error, words: &str| assert!(format!("{error:?}").contains(words), "{error:?}");
    is(late, "ExpiredContext");
    is(early, "NotValidYetContext");
    is(of_authority, "CaUsedAsEndEntity");
    assert!(authority.is_our_authority && !leaf.is_our_authority);
    assert!(leaf.is_for(&host("localhost")) && !leaf.is_for(&host("other")));
}

#[test]
fn a_leaf_is_for_its_hosts_and_of_its_authority() {
    let (one, two) = (
        sign::authority(noon(), DAY).unwrap(),
        sign::authority(noon(), DAY).unwrap(),
    );
    let hosts = [
        host("podloom-webhook.podloom-system.svc"),
        host("127.0.0.1"),
        host("::1"),
    ];
    let leaf = sign::server(&one.key, &hosts, noon(), DAY).unwrap();
    for host in &hosts {
        assert!(leaf.certificate.is_for(host), "{host:?}");
    }
    assert!(!leaf.certificate.is_for(&host("podloom-webhook.other.svc")));
    assert!(!leaf.certificate.is_for(&host("127.0.0.2")));
    assert!(leaf.certificate.is_signed_by(&one.certificate));
    assert!(!leaf.certificate.is_signed_by(&two.certificate));
    assert!(
        !two.certificate.is_signed_by(&two.certificate),
        "an authority is no server"
    );
    assert!(leaf.certificate.fits(&leaf.key));
    assert!(!leaf.certificate.fits(&one.key));
    assert!(one.certificate.fits(&one.key));
}

#[test]
fn what_is_no_certificate_is_left_out() {
    let good = sign::authority(noon(), DAY).unwrap().certificate;
    let pem = sign::certificates_pem(std::iter::once(&good));
    let broken = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
    let text = format!(
        "words\n{broken}{pem}-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n{pem}"
    );
    assert_eq!(parse_all(text.as_bytes(), 16), [good.clone(), good.clone()]);
    assert_eq!(parse_all(text.as_bytes(), 2), [good]);
    assert_eq!(parse_all(&[0xff; 1024], 16), []);
}
