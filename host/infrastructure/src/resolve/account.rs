//! Accounts at Infrastructure Managers.

use std::fmt;
use std::sync::Arc;

use podloom_api::ProviderKind;
use podloom_engine::shown::shown;

use super::{ImEndpoint, OwnerUse};

/// An account at an Infrastructure Manager: the same id in two accounts is not the same infrastructure, since the server of one of them
/// may answer with whatever id it likes.
///
/// Accounts are compared by what names them, since nobody but a request may read a password: two that are different here may be the
/// same there. Nobody can write a provider that has the account of another namespace, because an owner is named by Secrets of the
/// provider's own namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Account {
    /// The URL, without slashes at its end.
    pub(crate) url: Arc<str>,
    /// The owner, without the previous password.
    pub(crate) owner: OwnerUse,
}

/// Who wrote a provider: a namespace, or an administrator of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Tenant {
    /// All providers of a namespace.
    Namespace(String),
    /// One GlobalInfrastructureProvider.
    Global(String),
}

/// Returns a URL as it counts in an account.
pub(crate) fn same_url(url: &str) -> &str {
    url.trim_end_matches('/')
}

impl ImEndpoint {
    /// Returns the account that it leads to.
    pub(crate) fn account(&self) -> Account {
        Account {
            url: same_url(&self.written_url).into(),
            owner: self.owner.identity(),
        }
    }

    /// Returns whose provider it is of.
    pub(crate) fn tenant(&self) -> Tenant {
        match &self.namespace {
            Some(namespace) => Tenant::Namespace(namespace.clone()),
            None => Tenant::Global(self.provider.name.clone()),
        }
    }
}

impl OwnerUse {
    /// Returns the owner without the previous password, which says nothing about who it is.
    fn identity(&self) -> Self {
        match self {
            Self::Basic {
                username, password, ..
            } => Self::Basic {
                username: username.clone(),
                password: password.clone(),
                previous: None,
            },
            Self::Token(token) => Self::Token(token.clone()),
        }
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace(name) => write!(f, "namespace {}", shown(name)),
            Self::Global(name) => {
                let kind = ProviderKind::GlobalInfrastructureProvider.as_str();
                write!(f, "{kind} {}", shown(name))
            }
        }
    }
}
