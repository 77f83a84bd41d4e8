//! What `NO_PROXY` lists, read as programs in Go read it.

use std::net::IpAddr;

use crate::outbound::cidr::{Cidr, CidrError};

/// An entry of `NO_PROXY`.
#[derive(Clone, Debug)]
pub(super) enum Direct {
    All,
    Range(Cidr),
    Address(IpAddr, Option<u16>),
    Domain {
        /// With a dot before it.
        suffix: String,
        with_itself: bool,
        port: Option<u16>,
    },
}

impl Direct {
    /// Programs in Go leave out what they cannot read.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        if text == "*" {
            return Some(Self::All);
        }
        match text.parse::<Cidr>() {
            Ok(range)
            | Err(
                CidrError::BeyondPrefix { meant: range, .. }
                | CidrError::Mapped { meant: range, .. },
            ) => {
                return Some(Self::Range(range));
            }
            Err(_) => {}
        }
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = bare.parse() {
            return Some(Self::Address(address, None));
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().ok()?)),
            None => (text.as_str(), None),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = host.parse() {
            return Some(Self::Address(address, port));
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

    pub(super) fn has_address(&self, address: IpAddr, at: u16) -> bool {
        match self {
            Self::All => true,
            Self::Range(range) => range.contains(address),
            Self::Address(own, port) => {
                own.to_canonical() == address.to_canonical() && port.is_none_or(|port| port == at)
            }
            Self::Domain { .. } => false,
        }
    }

    pub(super) fn has_name(&self, name: &str, at: u16) -> bool {
        match self {
            Self::All => true,
            Self::Range(_) | Self::Address(..) => false,
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
