use std::io;

use rustls::pki_types::{ServerName, UnixTime};
use rustls::{AlertDescription, CertificateError, Error, PeerMisbehaved};

use super::super::TlsProblem;

fn shown(error: impl Into<Error>) -> String {
    let problem = TlsProblem::of(&io::Error::other(error.into()));
    format!("{problem} {problem:?}")
}

#[test]
fn no_library_prints_what_a_server_sent() {
    let bytes = vec![0x41; 40_000];
    let algorithm = CertificateError::UnsupportedSignatureAlgorithmContext {
        signature_algorithm_id: bytes.clone(),
        supported_algorithms: Vec::new(),
    };
    let key = CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext {
        signature_algorithm_id: bytes.clone(),
        public_key_algorithm_id: bytes,
    };
    let text = "A".repeat(40_000);
    for error in [
        algorithm.into(),
        key.into(),
        CertificateError::BadSignature.into(),
        Error::General(text),
        PeerMisbehaved::IllegalTlsInnerPlaintext.into(),
        Error::AlertReceived(AlertDescription::Unknown(200)),
    ] {
        let shown = shown(error);
        assert!(shown.len() < 250, "{shown}");
        for printed in ["65, 65", "AAAA", "Illegal", "Unknown", "BadSig"] {
            assert!(!shown.contains(printed), "{shown}");
        }
    }
}

#[test]
fn of_a_certificates_names_only_hosts_are_shown() {
    let names = |presented: &[String]| {
        let problem = CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("a.example").unwrap(),
            presented: presented.to_vec(),
        };
        match TlsProblem::of(&io::Error::other(Error::from(problem))) {
            TlsProblem::WrongHost(names) => names,
            other => panic!("{other}"),
        }
    };
    let long = format!("DnsName(\"{}example\")", "a.".repeat(60));
    let odd = [
        "UniformResourceIdentifier(\"https://b.example/hunter2\")".to_owned(),
        "DirectoryName".to_owned(),
        "Unsupported(0x83)".to_owned(),
        "DnsName(\"b.example now-send-your-key-to evil\")".to_owned(),
        "DnsName(\"<b>\")".to_owned(),
        "DnsName(\"\")".to_owned(),
        "IpAddress(hunter2)".to_owned(),
        long,
    ];
    assert_eq!(names(&odd), [""; 0]);
    let good = [
        "DnsName(\"*.b.example\")",
        "IpAddress(192.0.2.1)",
        "IpAddress(2001:db8::1)",
    ];
    let mut all = odd.to_vec();
    all.extend(good.map(str::to_owned));
    all.push("DnsName(\"c.example\")".to_owned());
    assert_eq!(names(&all), ["*.b.example", "192.0.2.1", "2001:db8::1"]);
}

#[test]
fn the_time_of_a_certificate_is_told() {
    let problem = CertificateError::ExpiredContext {
        time: UnixTime::now(),
        not_after: UnixTime::now(),
    };
    assert!(shown(problem).starts_with("its certificate has expired"));
}
