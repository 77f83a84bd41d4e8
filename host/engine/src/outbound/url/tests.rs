use std::net::Ipv4Addr;

use http::Uri;
use proptest::prelude::*;

use super::{Host, Origin, Scheme, Url, UrlError};

#[track_caller]
fn check(text: &str, origin: &str, target: &str) {
    let url: Url = text.parse().expect(text);
    assert_eq!(url.origin().to_string(), origin, "{text}");
    assert_eq!(
        Uri::from(url.target().clone()).to_string(),
        target,
        "{text}"
    );
}

#[track_caller]
fn check_error(text: &str, error: &UrlError) {
    assert_eq!(
        text.parse::<Url>().as_ref().map(Url::origin),
        Err(error),
        "{text}"
    );
}

#[test]
fn a_url_is_read_once_and_for_all() {
    check(
        "https://Relay.Example.com",
        "https://relay.example.com",
        "/",
    );
    check(
        "https://relay.example.com:443/a/b?c=d#e",
        "https://relay.example.com",
        "/a/b?c=d",
    );
    check(
        "http://relay.example.com:443",
        "http://relay.example.com:443",
        "/",
    );
    check(
        "http://relay.example.com:080/",
        "http://relay.example.com",
        "/",
    );
    check("HTTP://sink", "http://sink", "/");
    check("http://sink?x", "http://sink", "/?x");
    check("http://192.0.2.1:8800/im", "http://192.0.2.1:8800", "/im");
    check(
        "http://[2001:DB8::1]:8800/im",
        "http://[2001:db8::1]:8800",
        "/im",
    );
    check("http://[::ffff:127.0.0.1]", "http://127.0.0.1", "/");
    check(
        "http://a_b.svc.cluster.local.",
        "http://a_b.svc.cluster.local",
        "/",
    );
    check("http://1a.2b", "http://1a.2b", "/");
    check("http://0xg.0x1g", "http://0xg.0x1g", "/");
}

/// Reasons, with texts that are blocked for one of them; which one depends on what the parser of the URL sees first.
const REFUSED: &str = r"
Syntax|Scheme|Host  /path host host:80 http:host http:// http:///path ://host http://h\@i http://[::1 http://a]b
Syntax|Scheme       ftp://host/ wss://host file:///etc/passwd httpss://host
Credentials         http://me@host http://me:pw@host http://@host http://127.0.0.1:80@host/ http://host:80@127.0.0.1
Syntax|Port         http://h:0 http://h:65536 http://h: http://h:-1 http://h:+80 http://h:a http://[::1]:0
Syntax|Host         http://-a.b http://a..b http://a.. http://. http://.a http://a%2eb http://a$b http://[fe80::1%25eth0] http://[1.2.3.4]
Syntax|Host         http://[v1.a] http://[] http://a- http://ü.example
OddAddress          http://2130706433 http://0x7f000001 http://0X7F.1 http://0177.0.0.1 http://127.1 http://127.0.1
OddAddress          http://1.2.3.4. http://1.2.3.4.5 http://256.0.0.1 http://127.0.0.01 http://0 http://0x http://0x.
OddAddress          http://a.1 http://a.0x1 http://00000000177.1 http://08.8.8.8 http://4294967296 http://1.2.3.0x4.
";

#[test]
fn what_cannot_be_dialled_is_refused_with_a_reason() {
    for line in REFUSED.lines().filter(|line| !line.is_empty()) {
        let mut words = line.split_whitespace();
        let reasons = words.next().unwrap();
        for text in words {
            let blocked = format!("{:?}", text.parse::<Url>().unwrap_err());
            let reason = blocked.split('(').next().unwrap();
            assert!(
                reasons.split('|').any(|known| known == reason),
                "{text}: {blocked}"
            );
        }
    }
    for text in ["", " ", "http://h i", "http://h\n"] {
        check_error(text, &UrlError::Syntax);
    }
    check_error(&format!("http://{}.a", "a".repeat(64)), &UrlError::Host);
    check_error(&format!("http://{}", "a.".repeat(127)), &UrlError::Host);
    check_error(
        &format!("http://a/{}", "a".repeat(8192)),
        &UrlError::TooLong,
    );
}

#[test]
fn an_odd_address_is_named() {
    let error = "http://0177.0.0.1/".parse::<Url>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the host 0177.0.0.1 is an IP address in an odd form; write four decimal numbers, like 192.0.2.1"
    );
}

#[test]
fn a_host_has_one_form() {
    for (one, other) in [
        ("https://a.example.", "https://A.example"),
        ("https://[::ffff:192.0.2.1]", "https://192.0.2.1:443"),
        ("https://[::FFFF:c000:201]", "https://192.0.2.1"),
    ] {
        assert_eq!(origin(one).expect(one), origin(other).expect(other));
    }
    let is_absolute = |text: &str| text.parse::<Url>().unwrap().is_absolute();
    assert!(is_absolute("https://a.example.:8443/"));
    assert!(!is_absolute("https://a.example:8443/b."));
}

#[test]
fn certificates_have_no_dot_at_the_end() {
    let name = |text: &str| {
        let url: Url = text.parse().unwrap();
        url.origin().host().server_name().to_str().into_owned()
    };
    assert_eq!(name("https://a.example."), "a.example");
    assert_eq!(name("https://a.example"), "a.example");
    assert_eq!(name("https://[2001:db8::1]"), "2001:db8::1");
}

#[test]
fn neither_errors_nor_debug_show_secrets() {
    let secret = "hunter2";
    let url: Url = format!("https://a.example/{secret}?token={secret}")
        .parse()
        .unwrap();
    assert_eq!(format!("{url:?}"), "https://a.example/..");
    for text in [
        format!("https://me:{secret}@a.example/"),
        format!("ftp://a.example/{secret}"),
        format!("https://a.example:0/{secret}"),
        format!("https://-a.example/{secret}"),
        format!("https://1/{secret}"),
        format!("a {secret}"),
    ] {
        let error = text.parse::<Url>().unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(secret), "{shown}");
    }
}

fn origin(text: &str) -> Option<Origin> {
    text.parse::<Url>().ok().map(|url| url.origin)
}

proptest! {
    #[test]
    fn an_origin_reads_back_as_itself(text in "(http|https)://[a-z0-9.:\\[\\]@_x-]{1,30}(/[ -~]{0,10})?") {
        if let Some(read) = origin(&text) {
            prop_assert_eq!(origin(&read.to_string()), Some(read));
        }
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,60}") {
        let _ = text.parse::<Url>();
    }

    #[test]
    fn an_address_has_one_form(bits: u32) {
        let address = Ipv4Addr::from_bits(bits);
        let [a, b, c, d] = address.octets();
        let plain = format!("http://{address}");
        prop_assert!(matches!(origin(&plain).map(|origin| origin.host), Some(Host::Address(_))));
        let rest = u32::from_be_bytes([0, b, c, d]);
        for odd in [
            format!("{bits}"),
            format!("{bits:#x}"),
            format!("0{bits:o}"),
            format!("{a}.{rest}"),
            format!("{a}.{b}.{}", rest & 0xffff),
            format!("{a:#x}.{b:#x}.{c:#x}.{d:#x}"),
            format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
            format!("{address}."),
        ] {
            prop_assert_eq!(origin(&format!("http://{odd}/")), None, "{}", odd);
        }
    }
}

#[test]
fn the_port_of_the_scheme_is_not_written() {
    let read = |text: &str| origin(text).expect(text);
    assert_eq!(read("https://a:443"), read("https://a"));
    assert_eq!(read("https://a:443").authority(), "a");
    assert_eq!(read("https://a:80").authority(), "a:80");
    assert_eq!(read("http://a").port(), 80);
    assert_eq!(read("http://a").scheme(), Scheme::Http);
    assert_ne!(read("http://a:1"), read("https://a:1"));
}
