mod secret;

use super::*;

const DAY: Duration = Duration::from_secs(86_400);
const LIFETIME: Duration = Duration::from_secs(90 * 86_400);

fn host(name: &str) -> ServerName<'static> {
    ServerName::try_from(name.to_owned()).unwrap()
}

/// Noon of some day, on a whole second.
fn noon() -> SystemTime {
    UNIX_EPOCH + DAY * 20_000 + DAY / 2
}

#[test]
fn an_authority_of_ours_is_known_by_its_name_and_its_constraints() {
    let authority = authority(noon(), DAY).unwrap().certificate;
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
    let authority = authority(noon(), DAY).unwrap();
    let certificate = &authority.certificate;
    assert_eq!(certificate.not_before, noon() - BACKDATED);
    assert_eq!(certificate.not_after, noon() + DAY * 4);
    assert!(certificate.is_valid_at(certificate.not_after));
    assert!(!certificate.is_valid_at(certificate.not_after + Duration::from_secs(1)));
    assert!(!certificate.is_valid_at(certificate.not_before - Duration::from_secs(1)));
    // After 2049, dates are written in another form.
    let late = noon() + DAY * 365 * 40;
    let authority = super::authority(late, DAY).unwrap();
    assert_eq!(authority.certificate.not_after, late + DAY * 4);
}

/// What is read of a certificate is what a client says about it.
#[test]
fn clients_reject_what_is_expired_early_an_authority_or_for_other_hosts() {
    let [authority, signer] = [(); 2].map(|()| authority(noon(), DAY).unwrap());
    let authority = authority.certificate;
    let leaf = server(&signer.key, &[host("localhost")], noon(), DAY).unwrap();
    let (leaf, second) = (leaf.certificate, Duration::from_secs(1));
    let mut anchors = RootCertStore::empty();
    anchors.add(signer.certificate.der.clone()).unwrap();
    let verdict = |certificate: &Certificate, at: SystemTime| verify(certificate, &anchors, at);
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
        authority(noon(), DAY).unwrap(),
        authority(noon(), DAY).unwrap(),
    );
    let hosts = [
        host("podloom-webhook.podloom-system.svc"),
        host("127.0.0.1"),
        host("::1"),
    ];
    let leaf = server(&one.key, &hosts, noon(), DAY).unwrap();
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
    assert!(leaf.certificate.with(&leaf.key).is_ok());
    assert!(leaf.certificate.with(&one.key).is_err());
    assert!(one.certificate.with(&one.key).is_ok());
}

#[test]
fn what_is_no_certificate_is_left_out() {
    let good = authority(noon(), DAY).unwrap().certificate;
    let pem = certificates_pem([&good]);
    let broken = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
    let text = format!(
        "words\n{broken}{pem}-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n{pem}"
    );
    assert_eq!(our_authorities(text.as_bytes()), [good]);
    let late = format!("{}{pem}", broken.repeat(CERTIFICATES_MAX));
    assert_eq!(our_authorities(late.as_bytes()), []);
    assert_eq!(our_authorities(&[0xff; 1024]), []);
}

/// x509-parser reads more forms of dates than clients do.
#[test]
fn a_date_that_no_client_reads_makes_no_certificate() {
    let far = UNIX_EPOCH + Duration::from_secs(4_102_444_800);
    let good = authority(far, DAY).unwrap().certificate.der;
    let validity = good.windows(4).position(|it| it == b"\x30\x22\x18\x0f");
    let validity = validity.expect("both dates have four digits for the year");
    let end = validity + 2 + 0x22;
    for date in ["21000102120000.5Z", "210001021200Z"] {
        let mut other = good.to_vec();
        other.splice(end - 15..end, date.bytes());
        let by = u8::try_from(date.len()).unwrap().wrapping_sub(15);
        // The lengths of the certificate, of what is signed, of both dates and of the last one.
        for length in [3, 7, validity + 1, end - 16] {
            other[length] = other[length].wrapping_add(by);
        }
        assert!(X509Certificate::from_der(&other).is_ok(), "{date}");
        assert_eq!(Certificate::parse(CertificateDer::from(other)), None);
    }
    assert!(Certificate::parse(good).is_some());
}

#[test]
fn pem_is_read_as_it_was_written() {
    let pair = authority(SystemTime::now(), LIFETIME).unwrap();
    let text = certificates_pem([&pair.certificate]);
    assert!(text.lines().all(|line| line.len() <= 64), "{text}");
    let read = CertificateDer::from_pem_slice(text.as_bytes()).unwrap();
    assert_eq!(read, pair.certificate.der);
    let key = PrivateKeyDer::from_pem_slice(key_pem(&pair.key).as_bytes()).unwrap();
    assert_eq!(key, pair.key);
}

#[test]
fn two_certificates_have_different_keys_and_serial_numbers() {
    let now = SystemTime::now();
    let made = [(); 2].map(|()| authority(now, LIFETIME).unwrap());
    let [one, two] = &made;
    assert_ne!(one.key, two.key);
    assert_ne!(one.certificate, two.certificate);
}

#[test]
fn absurd_times_make_no_panic() {
    let far = UNIX_EPOCH + Duration::from_secs(LAST_SECOND * 4);
    for (now, lifetime) in [
        (UNIX_EPOCH, Duration::ZERO),
        (UNIX_EPOCH, Duration::MAX),
        (far, LIFETIME),
        (UNIX_EPOCH - LIFETIME, LIFETIME),
    ] {
        let made = authority(now, lifetime).unwrap();
        let hosts = [ServerName::try_from("localhost").unwrap()];
        server(&made.key, &hosts, now, lifetime).unwrap();
    }
}

#[test]
fn the_key_of_another_kind_of_authority_is_an_error() {
    let garbage = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(vec![1, 2, 3]));
    let made = server(&garbage, &[], SystemTime::now(), LIFETIME);
    assert_eq!(made.err().as_deref(), Some("could not make a certificate"));
}
