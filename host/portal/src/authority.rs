//! The authority of a relay: what of its URL matters.

use std::fmt;

/// The port that an https URL need not name.
const DEFAULT_PORT: u16 = 443;

/// The host and port of a relay. Two URLs with the same authority are the same relay, whatever their scheme and path.
///
/// The host is in lower case. Display writes the port only if it is not 443: `relay.example.com`, `relay.example.com:8443`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Authority {
    host: String,
    port: u16,
}

impl Authority {
    /// Reads the authority of a relay's URL; none if the URL does not match the pattern in the CRD of PortalExposes.
    pub(crate) fn parse(url: &str) -> Option<Self> {
        let rest = url
            .strip_prefix("wss://")
            .or_else(|| url.strip_prefix("https://"))?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match authority.split_once(':') {
            Some((host, port)) => (host, read_port(port)?),
            None => (authority, DEFAULT_PORT),
        };
        let is_relay = is_hostname(host) && path.bytes().all(is_in_path);
        is_relay.then(|| Self {
            host: host.to_ascii_lowercase(),
            port,
        })
    }

    /// Returns the hostname that the relay serves an application under.
    pub(crate) fn hostname(&self, app: &str) -> String {
        format!("{app}.{}", self.host)
    }

    /// Returns the URL that the public uses for an application at this relay.
    pub(crate) fn public_url(&self, app: &str) -> String {
        format!("https://{app}.{self}")
    }

    /// Returns whether the host is a name that the cluster's own name servers give to a Service, whatever the cluster's domain is:
    /// `web`, `web.team.svc`, `web.team.svc.example.com`, and all names under `cluster.local`.
    ///
    /// A name on the Internet with a label `svc` in its middle is taken for one too.
    pub(crate) fn is_of_cluster(&self) -> bool {
        let mut labels = self.host.split('.');
        labels.next();
        let mut others = labels.peekable();
        others.peek().is_none()
            || others.any(|label| label == "svc")
            || self.host.ends_with(".cluster.local")
            || self.host == "cluster.local"
    }

    /// Returns the relay's own URL. The tunnel client knows no other scheme than https.
    pub(crate) fn url(&self) -> String {
        format!("https://{self}")
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host)?;
        match self.port {
            DEFAULT_PORT => Ok(()),
            port => write!(f, ":{port}"),
        }
    }
}

/// A port from 1 to 65535, without sign and leading zeros.
fn read_port(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| is_plain)
}

/// Whether the last label begins with a letter too: a host that ends in a digit's label may be an IP address.
fn is_hostname(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or_default();
    host.split('.').all(is_label) && last.starts_with(|c: char| c.is_ascii_alphabetic())
}

fn is_label(label: &str) -> bool {
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = label.as_bytes();
    let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    is_end(bytes.first()) && is_end(bytes.last()) && bytes.iter().all(is_inner)
}

fn is_in_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._~/-".contains(&byte)
}

#[cfg(test)]
mod tests;
