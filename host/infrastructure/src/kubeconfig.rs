//! Kubeconfigs that an Infrastructure Manager (IM) hands over, or a user: what is stored, and what is needed to ask the API server.
//!
//! Whoever uses the Secret trusts it. So what names a program or a file is never stored: `kubectl` would run or read it on the user's
//! machine. No message repeats anything of a kubeconfig.

mod probe;

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderMap, HeaderValue};
use podloom_engine::outbound::{Identity, Pem, Roots, Tls, TlsError, Url};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

pub(crate) use self::probe::{Probed, Prober};
use super::im::Hidden;

/// The largest kubeconfig, in bytes.
pub(crate) const KUBECONFIG_BYTES_MAX: usize = 64 * 1024;

/// A kubeconfig with one cluster, one user and one context, and everything inline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kubeconfig {
    text: Hidden,
    access: Access,
}

/// Why there is no usable kubeconfig. The sentences repeat nothing of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KubeconfigProblem {
    /// There is none yet.
    #[error("the output kubeconfig is empty or missing")]
    Missing,
    /// It cannot be used.
    #[error("the kubeconfig cannot be used: {0}")]
    Invalid(&'static str),
    /// Its certificates or keys cannot be used; the sentence names the field.
    #[error("the kubeconfig cannot be used: {0}")]
    Certificates(String),
    /// It names files or programs.
    #[error("the kubeconfig is not stored, since it is not safe: {0}")]
    Unsafe(&'static str),
}

impl Kubeconfig {
    /// Reads the output of a template: a text, or an object of the same form.
    ///
    /// # Errors
    ///
    /// Returns why it cannot be used.
    pub(crate) fn of_output(output: Option<&Value>) -> Result<Self, KubeconfigProblem> {
        match output {
            None | Some(Value::Null) => Err(KubeconfigProblem::Missing),
            Some(Value::String(text)) => Self::parse(text),
            Some(Value::Object(fields)) if fields.is_empty() => Err(KubeconfigProblem::Missing),
            Some(object @ Value::Object(_)) => Self::parse(&object.to_string()),
            Some(_) => Err(KubeconfigProblem::Invalid(
                "it is neither a text nor an object",
            )),
        }
    }

    /// Reads a text.
    ///
    /// # Errors
    ///
    /// Returns why it cannot be used.
    pub(crate) fn parse(text: &str) -> Result<Self, KubeconfigProblem> {
        if text.trim().is_empty() {
            return Err(KubeconfigProblem::Missing);
        }
        if text.len() > KUBECONFIG_BYTES_MAX {
            return Err(KubeconfigProblem::Invalid("it is larger than 64 KiB"));
        }
        let access = access_of(text)?;
        Ok(Self {
            text: Hidden::new(text),
            access,
        })
    }

    /// Returns the text as it was given. Use it for nothing but the Secret.
    pub(crate) fn reveal(&self) -> &str {
        self.text.reveal()
    }
}

// Reads a kubeconfig, and refuses what is not inline.

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct File {
    #[serde(default, rename = "apiVersion")]
    api_version: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    clusters: Vec<NamedCluster>,
    #[serde(default)]
    users: Vec<NamedUser>,
    #[serde(default)]
    contexts: Vec<NamedContext>,
    #[serde(default)]
    current_context: Option<String>,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    server: Option<String>,
    certificate_authority: Option<IgnoredAny>,
    certificate_authority_data: Option<String>,
    #[serde(default)]
    insecure_skip_tls_verify: Option<bool>,
    tls_server_name: Option<String>,
    #[serde(rename = "proxy-url")]
    _proxy_url: Option<IgnoredAny>,
    #[serde(rename = "disable-compression")]
    _disable_compression: Option<IgnoredAny>,
    #[serde(rename = "extensions")]
    _extensions: Option<IgnoredAny>,
    #[serde(flatten)]
    unknown: BTreeMap<String, IgnoredAny>,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    user: Option<User>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
struct User {
    client_certificate: Option<IgnoredAny>,
    client_certificate_data: Option<String>,
    client_key: Option<IgnoredAny>,
    client_key_data: Option<String>,
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<IgnoredAny>,
    username: Option<String>,
    password: Option<String>,
    exec: Option<IgnoredAny>,
    auth_provider: Option<IgnoredAny>,
    #[serde(rename = "as")]
    _as: Option<IgnoredAny>,
    #[serde(rename = "as-uid")]
    _as_uid: Option<IgnoredAny>,
    #[serde(rename = "as-groups")]
    _as_groups: Option<IgnoredAny>,
    #[serde(rename = "as-user-extra")]
    _as_user_extra: Option<IgnoredAny>,
    #[serde(rename = "extensions")]
    _extensions: Option<IgnoredAny>,
    #[serde(flatten)]
    unknown: BTreeMap<String, IgnoredAny>,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Deserialize)]
struct Context {
    cluster: String,
    user: String,
}

/// Reads the only cluster and the only user of a kubeconfig.
fn access_of(text: &str) -> Result<Access, KubeconfigProblem> {
    let file: File = serde_saphyr::from_str_with_options(text, options())
        .map_err(|_| KubeconfigProblem::Invalid("it is no kubeconfig in YAML or JSON"))?;
    let (cluster, user) = file.only()?;
    if let Some(why) = dangers(&cluster, &user) {
        return Err(KubeconfigProblem::Unsafe(why));
    }
    let access = Access {
        server: server(cluster.server)?,
        server_name: given(cluster.tls_server_name),
        authority: given(cluster.certificate_authority_data)
            .map(|it| decoded(&it))
            .transpose()?,
        is_unchecked: cluster.insecure_skip_tls_verify.unwrap_or_default(),
        certificate: certificate(&user)?,
        login: login(user),
    };
    access.check()?;
    Ok(access)
}

/// What names a file or a program, or may do so.
fn dangers(cluster: &Cluster, user: &User) -> Option<&'static str> {
    let parts = [
        (
            cluster.certificate_authority.is_some(),
            "it names a file in certificate-authority; use certificate-authority-data",
        ),
        (
            user.client_certificate.is_some(),
            "it names a file in client-certificate; use client-certificate-data",
        ),
        (
            user.client_key.is_some(),
            "it names a file in client-key; use client-key-data",
        ),
        (
            user.token_file.is_some(),
            "it names a file in tokenFile; use token",
        ),
        (user.exec.is_some(), "it names a program in exec"),
        (user.auth_provider.is_some(), "it has an auth-provider"),
        (
            !cluster.unknown.is_empty() || !user.unknown.is_empty(),
            "its cluster or its user has a field that is not known",
        ),
    ];
    let found = parts.into_iter().find(|(is_there, _)| *is_there);
    found.map(|(_, why)| why)
}

impl File {
    /// The cluster and the user of the only context.
    fn only(self) -> Result<(Cluster, User), KubeconfigProblem> {
        let invalid = |why| Err(KubeconfigProblem::Invalid(why));
        let is = |field: Option<String>, value: &str| field.is_none_or(|given| given == value);
        if !is(self.api_version, "v1") || !is(self.kind, "Config") {
            return invalid("its apiVersion must be v1, and its kind Config");
        }
        let (Ok([cluster]), Ok([user]), Ok([context])) = (
            <[_; 1]>::try_from(self.clusters),
            <[_; 1]>::try_from(self.users),
            <[_; 1]>::try_from(self.contexts),
        ) else {
            return invalid("it must have exactly one cluster, one user and one context");
        };
        let is_fit = context.context.cluster == cluster.name && context.context.user == user.name;
        if !is_fit {
            return invalid("its context must name its cluster and its user");
        }
        if given(self.current_context).is_some_and(|current| current != context.name) {
            return invalid("its current-context must be its only context");
        }
        Ok((cluster.cluster, user.user.unwrap_or_default()))
    }
}

fn server(given: Option<String>) -> Result<String, KubeconfigProblem> {
    let server = given.unwrap_or_default();
    // Paths are added at its end.
    if server.contains(['?', '#']) || server.parse::<Url>().is_err() {
        return Err(KubeconfigProblem::Invalid(
            "its server is no URL with http or https",
        ));
    }
    Ok(server)
}

fn certificate(user: &User) -> Result<Option<Certificate>, KubeconfigProblem> {
    let text = |data: &str| -> Result<Hidden, KubeconfigProblem> {
        let bytes = decoded(data)?;
        let text = String::from_utf8(bytes);
        text.map(Hidden::new)
            .map_err(|_| KubeconfigProblem::Invalid("its client certificate is not PEM"))
    };
    match (&user.client_certificate_data, &user.client_key_data) {
        (None, None) => Ok(None),
        (Some(chain), Some(key)) => Ok(Some(Certificate {
            chain: text(chain)?,
            key: text(key)?,
        })),
        _ => Err(KubeconfigProblem::Invalid(
            "it must have both client-certificate-data and client-key-data, or neither",
        )),
    }
}

fn login(user: User) -> Option<Hidden> {
    let login = match (given(user.token), user.username, user.password) {
        (Some(token), _, _) => format!("Bearer {token}"),
        (None, Some(username), Some(password)) => {
            format!(
                "Basic {}",
                STANDARD.encode(format!("{username}:{password}"))
            )
        }
        _ => return None,
    };
    Some(Hidden::new(login))
}

/// A text, unless it is empty.
fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn decoded(data: &str) -> Result<Vec<u8>, KubeconfigProblem> {
    let data: String = data.split_whitespace().collect();
    STANDARD
        .decode(data)
        .map_err(|_| KubeconfigProblem::Invalid("a certificate or key in it is no base64"))
}

/// A kubeconfig is small and flat, and has no use for aliases. Nor for merge keys, which not everybody follows: what is one user for us
/// must be the same one for `kubectl`.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 32,
            max_nodes: 10_000,
            max_aliases: 0,
            max_anchors: 0,
        },
        merge_keys: serde_saphyr::MergeKeyPolicy::Error,
    }
}

// What is needed to ask the API server of a cluster.

/// What is asked.
const PATH: &str = "/version";

/// How an API server is reached. `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
struct Access {
    /// Its URL.
    server: String,
    /// The name that its certificate must have, if not that of the URL.
    server_name: Option<String>,
    /// The authority in PEM; none for the public ones.
    authority: Option<Vec<u8>>,
    is_unchecked: bool,
    certificate: Option<Certificate>,
    /// As whom we ask, apart from the certificate: the header.
    login: Option<Hidden>,
}

/// A client certificate and its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
struct Certificate {
    chain: Hidden,
    key: Hidden,
}

/// Where a request goes.
struct Address {
    /// The URL of the request. Its host is the name that the certificate must have.
    url: Url,
    /// The URL whose host is dialled, if it is another one.
    via: Option<Url>,
}

impl Access {
    /// Checks everything that can be checked without a request.
    fn check(&self) -> Result<(), KubeconfigProblem> {
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
    fn address(&self) -> Result<Address, &'static str> {
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
    fn tls(&self) -> Result<Tls, TlsError> {
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
    fn headers(&self) -> Result<HeaderMap, &'static str> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let Some(login) = &self.login else {
            return Ok(headers);
        };
        let login = HeaderValue::try_from(login.reveal());
        let mut login = login.map_err(|_| "its token cannot be sent")?;
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

#[cfg(test)]
mod tests;
