//! Endpoints that get credentials in plain text.

use std::net::IpAddr;

use podloom_engine::outbound::{Scheme, Url};

/// Returns a sentence about a URL that is `http` and not on this machine; none if it is well.
pub(crate) fn warning(url: &Url) -> Option<String> {
    let origin = url.origin();
    let is_plain = origin.scheme() == Scheme::Http && !is_loopback(&origin.authority());
    is_plain.then(|| {
        format!("{origin} is plain http: credentials of the cloud can be read and changed on the way; use https")
    })
}

/// Whether the host of an authority, such as `[::1]:8800`, is this machine.
fn is_loopback(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(address) => address.split(']').next(),
        None => authority.split(':').next(),
    };
    let host = host.unwrap_or_default();
    let address: Option<IpAddr> = host.parse().ok();
    address.map_or(host == "localhost", |address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::warning;

    #[test]
    fn only_plain_http_to_other_machines_is_insecure() {
        for secure in [
            "https://im.example.com",
            "http://localhost:8800/im",
            "http://127.0.0.2:8800",
            "http://[::1]:8800",
        ] {
            assert_eq!(warning(&secure.parse().unwrap()), None, "{secure}");
        }
        for insecure in [
            "http://im.example.com:8800/im",
            "http://10.0.0.7",
            "http://localhost.example.com",
        ] {
            assert!(warning(&insecure.parse().unwrap()).is_some(), "{insecure}");
        }
    }

    #[test]
    fn the_sentence_has_no_path() {
        let text = warning(&"http://im.example.com:8800/secret".parse().unwrap()).unwrap();
        assert!(
            text.starts_with("http://im.example.com:8800 is plain http"),
            "{text}"
        );
    }
}
