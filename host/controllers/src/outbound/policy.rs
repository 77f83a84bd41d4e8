//! Who may be connected to: a policy, what widens it, and the proof that an address passed.

use std::fmt;
use std::net::IpAddr;

use super::cidr::Cidr;
use super::range::{Range, carried};

/// Which addresses are refused.
///
/// Each policy allows what the one before it allows, and more. An IPv6 address that carries an IPv4 address (mapped, NAT64,
/// 6to4, Teredo, ISATAP) is refused with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Everything that is not public is refused, and with it every form that carries an IPv4 address: for destinations that any
    /// user of the cluster may name, and that lie on the Internet.
    PublicOnly,
    /// Loopback, unspecified and link-local addresses and metadata services are refused: for destinations that users name and
    /// that may lie within the cluster.
    NotLocal,
    /// Link-local addresses and metadata services are refused: for destinations that administrators name.
    NotLinkLocal,
}

impl Policy {
    /// Every policy, the strictest first.
    pub const ALL: [Self; 3] = [Self::PublicOnly, Self::NotLocal, Self::NotLinkLocal];

    /// Returns whether addresses for this are refused.
    pub fn refuses(self, range: Range) -> bool {
        match self {
            Self::PublicOnly => range != Range::Public,
            Self::NotLocal => {
                range.is_link_local() || matches!(range, Range::Loopback | Range::Unspecified)
            }
            Self::NotLinkLocal => range.is_link_local(),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PublicOnly => "only public addresses are allowed",
            Self::NotLocal => "loopback and link-local addresses are refused",
            Self::NotLinkLocal => "link-local addresses are refused",
        })
    }
}

/// A policy with its exceptions.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Which addresses are refused.
    pub policy: Policy,
    /// Which of them are allowed all the same.
    pub allow: Vec<Cidr>,
    /// Which addresses are refused whatever policy and exceptions say, and every form that carries one of them.
    pub deny: Vec<Cidr>,
    /// What a user changes to allow more, as it is written in errors; usually a flag.
    pub flag: &'static str,
}

/// An address that may be connected to. [`Rules::vet`] alone makes it, and only such an address can be dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vetted(IpAddr);

impl Vetted {
    /// Returns the address.
    pub fn address(self) -> IpAddr {
        self.0
    }
}

/// Why an address may not be connected to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address} is {}", self.reason())]
pub struct Refusal {
    /// The address, as it was found.
    pub address: IpAddr,
    /// What it is for, or what the IPv4 address that it carries is for.
    pub range: Range,
    /// The policy that refuses it.
    pub policy: Policy,
    /// What a user changes to allow it.
    pub flag: &'static str,
    /// The range of [`Rules::deny`] that refuses it, if one does.
    pub denied: Option<Cidr>,
}

impl Refusal {
    fn reason(&self) -> String {
        let Self {
            address,
            range,
            policy,
            flag,
            denied,
        } = self;
        match denied {
            Some(cidr) => format!("{range}, and {cidr} is denied"),
            None => format!(
                "{range}, and {policy}; to allow it, add {} to {flag}",
                Cidr::only(*address)
            ),
        }
    }
}

impl Rules {
    /// Returns the address if it may be connected to.
    ///
    /// An IPv4 address in mapped form is the IPv4 address to the kernel, so it is dialled as such, and an exception for the one
    /// is an exception for the other. An exception opens link-local addresses and metadata services only if its own network is
    /// such an address: whoever opens `100.64.0.0/10` or `fd00::/8` for pods does not open the metadata services in there.
    ///
    /// An IPv6 address and the IPv4 addresses that it carries are asked for apart: whoever opens the prefix of a NAT64 gateway
    /// does not open what lies behind it. A carried address needs an exception of its own, or one for the IPv6 address that is
    /// long enough to name all its bits.
    pub fn vet(&self, address: IpAddr) -> Result<Vetted, Refusal> {
        let refusal = |range, denied| Refusal {
            address,
            range,
            policy: self.policy,
            flag: self.flag,
            denied,
        };
        let carried = carried(address);
        let inner = carried.iter().map(|carried| IpAddr::V4(carried.address));
        for any in std::iter::once(address).chain(inner) {
            if let Some(cidr) = self.deny.iter().find(|cidr| cidr.contains(any)) {
                return Err(refusal(Range::of(any), Some(*cidr)));
            }
        }
        let range = Range::of(address);
        if self.policy.refuses(range) && !self.excepts(address, 0, range) {
            return Err(refusal(range, None));
        }
        let refused = carried.into_iter().find_map(|carried| {
            let inner = IpAddr::V4(carried.address);
            let range = Range::of(inner);
            let is_open = !self.policy.refuses(range)
                || self.excepts(inner, 0, range)
                || self.excepts(address, carried.end, range);
            (!is_open).then_some(range)
        });
        match refused {
            None => Ok(Vetted(address.to_canonical())),
            Some(range) => Err(refusal(range, None)),
        }
    }

    /// Whether an exception of at least this prefix opens the address for what is in this range.
    fn excepts(&self, address: IpAddr, prefix: u8, range: Range) -> bool {
        let names_it = |cidr: &Cidr| {
            !range.is_link_local() || Range::all(cidr.network()).any(Range::is_link_local)
        };
        self.allow
            .iter()
            .any(|cidr| cidr.contains(address) && cidr.prefix() >= prefix && names_it(cidr))
    }
}

#[cfg(test)]
mod tests;
