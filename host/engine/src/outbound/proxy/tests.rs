use super::{Proxies, Proxy};
use crate::outbound::Scheme;

fn proxies(variables: &[(&str, &str)]) -> Proxies {
    let variable = |name: &str| {
        let mut variables = variables.iter();
        variables
            .find(|(it, _)| *it == name)
            .map(|(_, value)| (*value).to_owned())
    };
    Proxies::new(variable)
}

/// The rules are those of golang.org/x/net/http/httpproxy, which kubectl uses.
#[test]
fn no_proxy_is_read_as_kubectl_reads_it() {
    for (no_proxy, host, port, is_direct) in [
        ("", "a.example", 443, false),
        ("*", "a.example", 443, true),
        ("a.example", "a.example", 6443, true),
        ("A.Example", "a.EXAMPLE", 6443, true),
        ("a.example", "b.a.example", 443, true),
        ("a.example", "ba.example", 443, false),
        (".a.example", "a.example", 443, false),
        (".a.example", "b.a.example", 443, true),
        ("*.a.example", "b.a.example", 443, true),
        ("*.a.example", "a.example", 443, false),
        ("a.example:6443", "a.example", 6443, true),
        ("a.example:6443", "a.example", 443, false),
        ("x, a.example ,,", "a.example", 443, true),
        ("10.0.0.0/8", "10.96.0.1", 443, true),
        ("10.0.0.1/8", "10.96.0.1", 443, true),
        ("10.96.0.1", "10.96.0.1", 443, true),
        ("10.96.0.1:80", "10.96.0.1", 443, false),
        ("10.96.0", "10.96.0.1", 443, false),
        ("fd00::/8", "fd00::1", 443, true),
        ("[fd00::1]:443", "fd00::1", 443, true),
        ("fd00::1", "fd00::1", 443, true),
        ("nonsense/8, a:b:c, :80", "a.example", 443, false),
        ("", "localhost", 443, true),
        ("", "127.0.0.1", 443, true),
        ("", "::1", 443, true),
        ("a.example.", "a.example.", 443, false),
    ] {
        let proxies = proxies(&[("HTTPS_PROXY", "http://proxy:3128"), ("NO_PROXY", no_proxy)]);
        let found = proxies.of(Scheme::Https, host, port, None).unwrap();
        assert_eq!(found.is_none(), is_direct, "{no_proxy:?} {host}:{port}");
    }
}

#[test]
fn ranges_hold_for_the_address_of_a_name() {
    let proxies = proxies(&[("HTTPS_PROXY", "proxy:3128"), ("NO_PROXY", "10.0.0.0/8")]);
    let is_direct = |address: &str| {
        let address = Some(address.parse().unwrap());
        proxies
            .of(Scheme::Https, "im.shop.svc", 443, address)
            .unwrap()
            .is_none()
    };
    assert!(is_direct("10.96.7.1") && is_direct("127.0.0.1") && is_direct("::ffff:10.96.7.1"));
    assert!(!is_direct("8.8.8.8"));
}

#[test]
fn each_scheme_has_its_variable_and_the_upper_case_one_counts() {
    let found = |variables: &[(&str, &str)], scheme| {
        let proxies = proxies(variables);
        proxies
            .of(scheme, "a.example", 443, None)
            .unwrap()
            .map(ToString::to_string)
    };
    let upper = [
        ("HTTPS_PROXY", "up:1"),
        ("https_proxy", "low:2"),
        ("HTTP_PROXY", "plain:3"),
    ];
    assert_eq!(
        found(&upper, Scheme::Https).as_deref(),
        Some("http://up:1 (HTTPS_PROXY)")
    );
    assert_eq!(
        found(&upper, Scheme::Http).as_deref(),
        Some("http://plain:3 (HTTP_PROXY)")
    );
    let lower = [("HTTPS_PROXY", ""), ("https_proxy", "low:2")];
    assert_eq!(
        found(&lower, Scheme::Https).as_deref(),
        Some("http://low:2 (https_proxy)")
    );
    assert_eq!(found(&lower, Scheme::Http), None);
}

#[test]
fn a_proxy_is_shown_without_its_password() {
    for (text, shown) in [
        (
            "http://user:pa%40ss@proxy.example:3128/",
            "http://proxy.example:3128 (HTTPS_PROXY)",
        ),
        (
            "user:pass@proxy.example",
            "http://proxy.example:80 (HTTPS_PROXY)",
        ),
        (
            "socks5h://user:pass@[fd00::1]",
            "socks5://[fd00::1]:1080 (HTTPS_PROXY)",
        ),
    ] {
        let proxy = Proxy::new(text, "HTTPS_PROXY").unwrap();
        assert_eq!(
            (proxy.to_string(), format!("{proxy:?}")),
            (shown.to_owned(), shown.to_owned())
        );
    }
    for text in [
        "https://proxy:3128",
        "ftp://proxy",
        "http://us er:secret@proxy",
        "http://",
    ] {
        let error = Proxy::new(text, "HTTPS_PROXY").unwrap_err().to_string();
        assert!(
            error.starts_with("HTTPS_PROXY names no proxy"),
            "{text}: {error}"
        );
        assert!(!error.contains("secret"), "{error}");
    }
}

/// Platforms set variables for other programs, too.
#[test]
fn a_variable_that_names_no_proxy_is_an_error_only_where_a_proxy_is_wanted() {
    let proxies = proxies(&[
        ("HTTPS_PROXY", "https://proxy:3129"),
        ("NO_PROXY", "10.0.0.0/8"),
    ]);
    let of = |scheme, host| proxies.of(scheme, host, 443, None).map(|it| it.is_none());
    assert_eq!(of(Scheme::Https, "10.96.0.1"), Ok(true));
    assert_eq!(of(Scheme::Http, "a.example"), Ok(true));
    let error = of(Scheme::Https, "a.example").unwrap_err();
    assert!(error.to_string().starts_with("HTTPS_PROXY names no proxy"));
}
