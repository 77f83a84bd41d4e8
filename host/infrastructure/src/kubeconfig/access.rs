//! What is needed to ask the API server of a cluster.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderMap, HeaderValue};
use podloom_engine::outbound::{Identity, Pem, Roots, Tls, TlsError, Url};

use super::KubeconfigProblem;
use crate::im::Hidden;

/// What is asked.
const PATH: &str = "/version";

/// How an API server is reached. `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Access {
    /// Its URL.
    pub(super) server: String,
    /// The name that its certificate must have, if not that of the URL.
    pub(super) server_name: Option<String>,
    /// The authority in PEM; none for the public ones.
    pub(super) authority: Option<Vec<u8>>,
    pub(super) is_unchecked: bool,
    pub(super) certificate: Option<Certificate>,
    pub(super) account: Account,
}

/// A client certificate and its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Certificate {
    pub(super) chain: Hidden,
    pub(super) key: Hidden,
}

/// As whom we ask, apart from the certificate.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Account {
    None,
    Token(Hidden),
    Basic { username: Hidden, password: Hidden },
}

/// Where a request goes.
pub(super) struct Address {
    /// The URL of the request. Its host is the name that the certificate must have.
    pub(super) url: Url,
    /// The URL whose host is dialled, if it is another one.
    pub(super) via: Option<Url>,
}

impl Access {
    /// Checks everything that can be checked without a request.
    pub(super) fn check(&self) -> Result<(), KubeconfigProblem> {
        let invalid = KubeconfigProblem::Invalid;
        self.address().map_err(invalid)?;
        self.headers().map_err(invalid)?;
        // The public authorities are read from the machine, and are none of the kubeconfig.
        let is_alone = self.authority.is_none();
        self.tls_with(is_alone || self.is_unchecked)
            .map_err(|error| KubeconfigProblem::Certificates(error.to_string()))?;
        Ok(())
    }

    /// Returns where the question goes.
    pub(super) fn address(&self) -> Result<Address, &'static str> {
        let server = self.server.trim_end_matches('/');
        let url = |text: String| text.parse::<Url>();
        let direct = url(format!("{server}{PATH}")).map_err(|_| "its server cannot be used")?;
        let Some(name) = &self.server_name else {
            return Ok(Address {
                url: direct,
                via: None,
            });
        };
        let path = server
            .split_once("://")
            .and_then(|(_, it)| it.find('/').and_then(|at| it.get(at..)));
        let named = format!(
            "https://{name}:{}{}{PATH}",
            direct.origin().port(),
            path.unwrap_or_default()
        );
        Ok(Address {
            url: url(named).map_err(|_| "its tls-server-name cannot be used")?,
            via: Some(direct),
        })
    }

    /// Returns how TLS is set up. Without an authority of its own, that reads those of this machine.
    pub(super) fn tls(&self) -> Result<Tls, TlsError> {
        self.tls_with(self.is_unchecked)
    }

    fn tls_with(&self, is_unchecked: bool) -> Result<Tls, TlsError> {
        let pem = |name: &str, text: &[u8]| Pem::new(name.to_owned(), text.to_vec());
        let authority = self.authority.as_deref();
        let authority = authority
            .map(|text| pem("certificate-authority-data", text))
            .transpose()?;
        let roots = match (&authority, is_unchecked) {
            (_, true) => Roots::Unchecked,
            (Some(authority), false) => Roots::Listed(authority),
            (None, false) => Roots::Public,
        };
        let identity = match &self.certificate {
            Some(Certificate { chain, key }) => Some(Identity {
                chain: pem("client-certificate-data", chain.reveal().as_bytes())?,
                key: pem("client-key-data", key.reveal().as_bytes())?,
            }),
            None => None,
        };
        Tls::new(&roots, identity.as_ref())
    }

    /// Returns the headers of the question.
    pub(super) fn headers(&self) -> Result<HeaderMap, &'static str> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let login = match &self.account {
            Account::Token(token) => format!("Bearer {}", token.reveal()),
            Account::Basic { username, password } => {
                let account = format!("{}:{}", username.reveal(), password.reveal());
                format!("Basic {}", STANDARD.encode(account))
            }
            Account::None => return Ok(headers),
        };
        let mut login = HeaderValue::try_from(login).map_err(|_| "its token cannot be sent")?;
        login.set_sensitive(true);
        headers.insert(AUTHORIZATION, login);
        Ok(headers)
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}
