//! Reads a kubeconfig, and refuses what is not inline.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use podloom_engine::outbound::Url;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::KubeconfigProblem;
use super::access::{Access, Account, Certificate};
use crate::im::Hidden;

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
pub(super) fn access(text: &str) -> Result<Access, KubeconfigProblem> {
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
        account: account(user),
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

fn account(user: User) -> Account {
    match (given(user.token), user.username, user.password) {
        (Some(token), _, _) => Account::Token(Hidden::new(token)),
        (None, Some(username), Some(password)) => Account::Basic {
            username: Hidden::new(username),
            password: Hidden::new(password),
        },
        _ => Account::None,
    }
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
