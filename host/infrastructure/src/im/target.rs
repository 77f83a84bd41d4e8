//! Where a request goes, and as whom.

use std::collections::BTreeMap;
use std::fmt;

use podloom_engine::outbound::{Tls, Url};

/// A text that is never shown: `Debug` hides it, and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Hidden(String);

impl Hidden {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text. Use it for nothing but requests.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// Whose infrastructures they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// An account with a password. IM knows the owner by both.
    Basic { username: String, password: Hidden },
    /// An account with a token.
    Token(Hidden),
}

/// How IM logs in to the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CloudLogin {
    /// The name of the Cloud; IM gets it as `cloud-<name>`.
    pub(crate) name: String,
    /// IM's word for this type of cloud.
    pub(crate) kind: String,
    pub(crate) host: Option<String>,
    /// Everything else that is not secret.
    pub(crate) parameters: BTreeMap<String, String>,
    /// Everything else that is.
    pub(crate) secrets: BTreeMap<String, Hidden>,
}

impl CloudLogin {
    /// Returns the id by which IM knows the cloud.
    pub(crate) fn id(&self) -> String {
        format!("cloud-{}", self.name)
    }
}

/// Where a request goes, and as whom. `Debug` shows where.
#[derive(Clone)]
pub(crate) struct Target {
    /// The URL of IM's REST API, as the provider has it.
    pub(crate) url: String,
    pub(crate) tls: Tls,
    /// The namespace of the provider; empty for one of the whole cluster, which an administrator wrote.
    pub(crate) tenant: String,
    pub(crate) owner: Owner,
    /// None for requests that are about no cloud.
    pub(crate) cloud: Option<CloudLogin>,
}

impl Target {
    /// Returns all secret values.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &str> {
        let owner = match &self.owner {
            Owner::Basic { password, .. } => password,
            Owner::Token(token) => token,
        };
        let cloud = self.cloud.iter().flat_map(|cloud| cloud.secrets.values());
        std::iter::once(owner).chain(cloud).map(Hidden::reveal)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.parse::<Url>().ok();
        f.debug_struct("Target")
            .field("origin", &url.as_ref().map(Url::origin))
            .field("tenant", &self.tenant)
            .finish_non_exhaustive()
    }
}
