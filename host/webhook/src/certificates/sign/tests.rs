use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::*;

const LIFETIME: Duration = Duration::from_secs(90 * 86_400);

#[test]
fn pem_is_read_as_it_was_written() {
    let pair = authority(SystemTime::now(), LIFETIME).unwrap();
    let text = certificates_pem(std::iter::once(&pair.certificate));
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
    assert!(matches!(made, Err(SignError::Sign(_))));
}
