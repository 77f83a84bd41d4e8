//! The URL of a request. It is parsed once, and the parsed host is the one that is dialled.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use http::Uri;
use http::uri::PathAndQuery;
use rustls::pki_types::{DnsName, ServerName};

/// The longest URL, in bytes.
const LONGEST: usize = 8 * 1024;
/// The longest name that DNS has, in bytes.
const LONGEST_NAME: usize = 253;

/// An absolute `http` or `https` URL without user name and password.
///
/// `Debug` shows the [`Origin`] alone: paths and queries may hold secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    origin: Origin,
    target: PathAndQuery,
    /// Whether the name was written with a final dot, so that no search domain is added to it.
    is_absolute: bool,
}

/// The origin of a URL: scheme, host and port. It is written `https://host:port`, without the default port.
///
/// A host has one canonical form: a name without a final dot, an IPv4 address never in IPv6 form.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    scheme: Scheme,
    host: Host,
    port: u16,
}

/// The scheme of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Plain text.
    Http,
    /// TLS.
    Https,
}

/// A name, in lower case and without a final dot, or an address.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Host {
    Name(DnsName<'static>),
    Address(IpAddr),
}

/// Why a text is not a usable URL. The text itself is not repeated, since it may hold secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It is longer than 8 KiB.
    #[error("the URL is longer than {LONGEST} bytes")]
    TooLong,
    /// It is not an absolute URL.
    #[error("this is not an absolute URL; write one like https://host.example.com:8443/path")]
    Syntax,
    /// Its scheme is neither `http` nor `https`.
    #[error("the URL does not begin with http:// or https://")]
    Scheme,
    /// It has a user name or a password.
    #[error("the URL has a user name or a password before the @; leave them out")]
    Credentials,
    /// Its host is neither a DNS name nor an IP address.
    #[error("the host of the URL is neither a DNS name in ASCII nor an IP address")]
    Host,
    /// Its host is an IP address in a form that programs read differently, such as `0177.0.0.1` or `2130706433`.
    #[error(
        "the host {0} is an IP address in an odd form; write four decimal numbers, like 192.0.2.1"
    )]
    OddAddress(String),
    /// Its port is not a number from 1 to 65535.
    #[error("the port of the URL is not a number from 1 to 65535")]
    Port,
}

impl Url {
    /// Returns the origin.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The request target: path and query.
    pub(super) fn target(&self) -> &PathAndQuery {
        &self.target
    }

    /// Whether the name was written with a final dot.
    pub(super) fn is_absolute(&self) -> bool {
        self.is_absolute
    }
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if text.len() > LONGEST {
            return Err(UrlError::TooLong);
        }
        let uri: Uri = text.parse().map_err(|_| UrlError::Syntax)?;
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            Some(_) => return Err(UrlError::Scheme),
            None => return Err(UrlError::Syntax),
        };
        let authority = uri.authority().ok_or(UrlError::Syntax)?.as_str();
        if authority.contains('@') {
            return Err(UrlError::Credentials);
        }
        let (host, port) = split(authority);
        let origin = Origin {
            scheme,
            host: host.parse()?,
            port: port.map_or(Ok(scheme.port()), read_port)?,
        };
        let is_absolute = host.ends_with('.');
        let target = uri.into_parts().path_and_query;
        let target = target.unwrap_or_else(|| PathAndQuery::from_static("/"));
        Ok(Self {
            origin,
            target,
            is_absolute,
        })
    }
}

/// Splits an authority into host and port; a colon within brackets belongs to the address.
fn split(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    }
}

fn read_port(text: &str) -> Result<u16, UrlError> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(port) if is_plain && port > 0 => Ok(port),
        _ => Err(UrlError::Port),
    }
}

impl FromStr for Host {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if text.len() > LONGEST_NAME {
            return Err(UrlError::Host);
        }
        if let Some(text) = text.strip_prefix('[') {
            let text = text.strip_suffix(']').ok_or(UrlError::Host)?;
            let address: Ipv6Addr = text.parse().map_err(|_| UrlError::Host)?;
            return Ok(Self::Address(IpAddr::V6(address).to_canonical()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        if is_odd_address(text) {
            return Err(UrlError::OddAddress(text.to_owned()));
        }
        let name = text.to_ascii_lowercase();
        // Check the name with its dot: otherwise, a name with two final dots would pass.
        DnsName::try_from(name.as_str()).map_err(|_| UrlError::Host)?;
        let name = name.strip_suffix('.').unwrap_or(&name).to_owned();
        match DnsName::try_from(name) {
            Ok(name) => Ok(Self::Name(name)),
            Err(_) => Err(UrlError::Host),
        }
    }
}

/// Whether some programs would read this as an IPv4 address, as `inet_aton` and the WHATWG URL standard do: the last label is a number.
fn is_odd_address(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let last = host.rsplit('.').next().unwrap_or_default();
    match last.strip_prefix("0x").or_else(|| last.strip_prefix("0X")) {
        Some(hex) => hex.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

impl Scheme {
    /// Returns the default port.
    pub fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl Origin {
    /// Returns the scheme.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns the port, 1 to 65535.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns host and port as in the header `Host`: without the default port.
    pub fn authority(&self) -> String {
        if self.port == self.scheme.port() {
            self.host.to_string()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    /// The key of the concurrency limit of a host. The scheme does not matter.
    pub(super) fn host_and_port(&self) -> (Host, u16) {
        (self.host.clone(), self.port)
    }
}

impl Host {
    /// The name that the certificate must have.
    pub(super) fn server_name(&self) -> ServerName<'static> {
        match self {
            Self::Address(address) => ServerName::IpAddress((*address).into()),
            Self::Name(name) => ServerName::DnsName(name.clone()),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name.as_ref()),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        write!(f, "{scheme}://{}", self.authority())
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/..", self.origin)
    }
}

#[cfg(test)]
mod tests;
