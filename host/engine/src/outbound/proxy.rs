//! Proxies on the way out, found as kubectl and other programs in Go find them.
//!
//! `kube` has a feature for proxies, too. It reads `NO_PROXY` in another way: a name there does not match a URL with a port, and
//! `NO_PROXY=a,` is an error.

use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::TryFutureExt;
use http::header::{HOST, PROXY_AUTHORIZATION};
use http::uri::Authority;
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::client::legacy::connect::proxy::SocksV5;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::{Service, ServiceExt};

use super::policy::Cidr;
use super::url::Scheme;
use crate::plain::plain;

/// The largest answer to CONNECT, in bytes.
const ANSWER: usize = 16 * 1024;

/// Which proxy leads where: that of `HTTPS_PROXY` to `https` and of `HTTP_PROXY` to `http`, and none to what `NO_PROXY` lists. Each
/// variable may be in lower case.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    https: Option<Result<Proxy, ProxyError>>,
    http: Option<Result<Proxy, ProxyError>>,
    direct: Vec<Direct>,
}

/// A proxy: HTTP with the method CONNECT, or SOCKS 5. It is shown without user name and password.
#[derive(Clone)]
pub struct Proxy {
    /// As it was given.
    given: Uri,
    /// With a port, and without user name and password.
    uri: Uri,
    user: Option<(String, String)>,
    /// Its URL without user name and password, and the variable or field that names it.
    shown: Arc<str>,
}

/// Why a text names no proxy. It may have a password, so it is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} names no proxy that podloom can use: write http://HOST:PORT or socks5://HOST:PORT, with USER:PASSWORD@ before the host if it asks for them"
)]
pub struct ProxyError(&'static str);

impl Proxies {
    /// Reads the environment.
    pub fn from_env() -> Self {
        Self::new(|name| std::env::var(name).ok())
    }

    /// Reads these variables. What is wrong with one is an error only where its proxy is wanted.
    pub fn new(variable: impl Fn(&str) -> Option<String>) -> Self {
        let first = |names: [&'static str; 2]| {
            let mut values = names
                .into_iter()
                .filter_map(|name| Some((name, variable(name)?)));
            values.find(|(_, value)| !value.is_empty())
        };
        let proxy = |names| first(names).map(|(name, value)| Proxy::new(&value, name));
        let direct = first(["NO_PROXY", "no_proxy"]).map(|(_, value)| value);
        let direct = direct.unwrap_or_default();
        Self {
            https: proxy(["HTTPS_PROXY", "https_proxy"]),
            http: proxy(["HTTP_PROXY", "http_proxy"]),
            direct: direct.split(',').filter_map(Direct::parse).collect(),
        }
    }

    /// The proxy on the way to a host, which is without brackets; none to this machine. If its address is known, the ranges of
    /// `NO_PROXY` hold for it, too.
    ///
    /// # Errors
    ///
    /// The variable names no proxy that can be used.
    pub fn of(
        &self,
        scheme: Scheme,
        host: &str,
        port: u16,
        address: Option<IpAddr>,
    ) -> Result<Option<&Proxy>, ProxyError> {
        let proxy = match scheme {
            Scheme::Https => &self.https,
            Scheme::Http => &self.http,
        };
        let Some(proxy) = proxy else {
            return Ok(None);
        };
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let addresses = [host.parse().ok(), address];
        let is_here = |it: &IpAddr| it.to_canonical().is_loopback();
        let is_local = host == "localhost" || addresses.iter().flatten().any(is_here);
        let is_direct = |it: &Direct| {
            let mut known = addresses.iter().flatten();
            known.any(|address| it.has_address(*address, port)) || it.has_name(&host, port)
        };
        match is_local || self.direct.iter().any(is_direct) {
            true => Ok(None),
            false => proxy.as_ref().map(Some).map_err(|error| *error),
        }
    }
}

impl Proxy {
    /// Reads a URL, or a host and a port alone, of a variable or field of this name.
    ///
    /// # Errors
    ///
    /// It is neither, or has another scheme.
    pub fn new(text: &str, source: &'static str) -> Result<Self, ProxyError> {
        let wrong = || ProxyError(source);
        let text = match text.contains("://") {
            true => text.to_owned(),
            false => format!("http://{text}"),
        };
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let (scheme, port) = match uri.scheme_str() {
            Some("http") => ("http", 80),
            Some("socks5" | "socks5h") => ("socks5", 1080),
            _ => return Err(wrong()),
        };
        let authority = uri.authority().ok_or_else(wrong)?;
        let user = authority.as_str().rsplit_once('@').map(|(user, _)| {
            let (name, password) = user.split_once(':').unwrap_or((user, ""));
            (decoded(name), decoded(password))
        });
        let port = authority.port_u16().unwrap_or(port);
        let plain = format!("{scheme}://{}:{port}", authority.host());
        Ok(Self {
            uri: plain.parse().map_err(|_| wrong())?,
            user,
            shown: format!("{plain} ({source})").into(),
            given: uri,
        })
    }

    /// Its name, if it is not given as an address.
    pub(super) fn name(&self) -> Option<&str> {
        let host = self.uri.host()?;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        bare.parse::<IpAddr>().is_err().then_some(host)
    }

    /// Returns its URL, which may have a user name and a password.
    pub fn url(&self) -> &Uri {
        &self.given
    }

    /// Connects to `HOST:PORT` through it, with the connector of the caller to the proxy itself.
    ///
    /// # Errors
    ///
    /// The proxy cannot be reached, or refuses.
    pub async fn connect<C>(
        &self,
        connector: C,
        target: Authority,
    ) -> Result<TokioIo<TcpStream>, String>
    where
        C: Service<Uri, Response = TokioIo<TcpStream>> + Clone + Send + 'static,
        C::Error: Error + Send + Sync + 'static,
        C::Future: Send + 'static,
    {
        let connected = match self.uri.scheme_str() {
            Some("socks5") => {
                let mut socks = SocksV5::new(self.uri.clone(), connector);
                if let Some((name, password)) = self.user.clone() {
                    socks = socks.with_auth(name, password);
                }
                let uri = Uri::builder().scheme("https").authority(target);
                match uri.path_and_query("/").build() {
                    Ok(uri) => socks.oneshot(uri).await.map_err(|error| plain(&error)),
                    Err(error) => Err(error.to_string()),
                }
            }
            _ => match connector.oneshot(self.uri.clone()).await {
                Ok(stream) => self.tunnel(stream, target).await,
                Err(error) => Err(plain(&error)),
            },
        };
        connected.map_err(|reason| {
            format!("through the proxy {self}: {reason}; what NO_PROXY lists is reached without it")
        })
    }

    async fn tunnel(
        &self,
        stream: TokioIo<TcpStream>,
        target: Authority,
    ) -> Result<TokioIo<TcpStream>, String> {
        let handshake = http1::Builder::new().max_buf_size(ANSWER).handshake(stream);
        let (mut sender, connection) = handshake.await.map_err(|error| plain(&error))?;
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.method_mut() = Method::CONNECT;
        let host = HeaderValue::try_from(target.as_str()).map_err(|error| error.to_string())?;
        request.headers_mut().insert(HOST, host);
        *request.uri_mut() = target.into();
        if let Some((name, password)) = &self.user {
            let encoded = STANDARD.encode(format!("{name}:{password}"));
            let value = HeaderValue::try_from(format!("Basic {encoded}"));
            let mut value = value.map_err(|error| error.to_string())?;
            value.set_sensitive(true);
            request.headers_mut().insert(PROXY_AUTHORIZATION, value);
        }
        let answered = async {
            let response = sender.send_request(request).await;
            let response = response.map_err(|error| plain(&error))?;
            match response.status() {
                status if status.is_success() => Ok(()),
                StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                    Err("it asks for another user name and password".to_owned())
                }
                status => Err(format!("it answers {status}")),
            }
        };
        // After its answer the connection is a tunnel, and is ours again.
        let tunnel = connection.without_shutdown();
        let tunnel = tunnel.map_err(|error| plain(&error));
        let ((), parts) = tokio::try_join!(answered, tunnel)?;
        match parts.read_buf.is_empty() {
            true => Ok(parts.io),
            false => Err("it says more than its answer".to_owned()),
        }
    }
}

/// A text with `%40` for `@` and the like.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digit = |byte: &u8| {
            char::from(*byte)
                .to_digit(16)
                .and_then(|it| u8::try_from(it).ok())
        };
        let escaped = match after {
            [high, low, ..] if *first == b'%' => digit(high).zip(digit(low)),
            _ => None,
        };
        match escaped {
            Some((high, low)) => {
                bytes.push(high * 16 + low);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// What `NO_PROXY` lists, read as programs in Go read it.

/// An entry of `NO_PROXY`.
#[derive(Clone, Debug)]
enum Direct {
    All,
    Range(Cidr, Option<u16>),
    Domain {
        /// With a dot before it.
        suffix: String,
        with_itself: bool,
        port: Option<u16>,
    },
}

impl Direct {
    /// Programs in Go leave out what they cannot read.
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        if text == "*" {
            return Some(Self::All);
        }
        let range = text.parse::<Cidr>();
        if let Some(range) = range.map_or_else(|error| error.meant, Some) {
            return Some(Self::Range(range, None));
        }
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = bare.parse() {
            return Some(Self::Range(Cidr::only(address), None));
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().ok()?)),
            None => (text.as_str(), None),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = host.parse() {
            return Some(Self::Range(Cidr::only(address), port));
        }
        let host = host
            .strip_prefix('*')
            .filter(|rest| rest.starts_with('.'))
            .unwrap_or(host);
        let (suffix, with_itself) = match host.strip_prefix('.') {
            Some(_) => (host.to_owned(), false),
            None => (format!(".{host}"), true),
        };
        (suffix.len() > 1).then_some(Self::Domain {
            suffix,
            with_itself,
            port,
        })
    }

    fn has_address(&self, address: IpAddr, at: u16) -> bool {
        match self {
            Self::All => true,
            Self::Range(range, port) => {
                range.contains(address) && port.is_none_or(|port| port == at)
            }
            Self::Domain { .. } => false,
        }
    }

    fn has_name(&self, name: &str, at: u16) -> bool {
        match self {
            Self::All => true,
            Self::Range(..) => false,
            Self::Domain {
                suffix,
                with_itself,
                port,
            } => {
                let is_itself = *with_itself && suffix.strip_prefix('.') == Some(name);
                (is_itself || name.ends_with(suffix)) && port.is_none_or(|port| port == at)
            }
        }
    }
}

#[cfg(test)]
mod tests;
