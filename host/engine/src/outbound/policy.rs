//! Which addresses may be connected to: a policy, its exceptions, and the proof that an address was checked.

use std::fmt;
use std::net::IpAddr;

use super::cidr::Cidr;
use super::range::{Range, carried};

/// Which addresses are blocked.
///
/// Each policy allows more than the one before it. An IPv6 address that carries a blocked IPv4 address (mapped, NAT64, 6to4, Teredo,
/// ISATAP) is blocked too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Blocks everything but public addresses, and every IPv6 form that carries an IPv4 address. For destinations on the Internet that
    /// any user of the cluster may name.
    PublicOnly,
    /// Blocks loopback, unspecified and link-local addresses and metadata services. For destinations that users name and that may be
    /// in the cluster.
    NotLocal,
    /// Blocks link-local addresses and metadata services. For destinations that administrators name.
    NotLinkLocal,
}

impl Policy {
    /// Every policy, the strictest first.
    pub const ALL: [Self; 3] = [Self::PublicOnly, Self::NotLocal, Self::NotLinkLocal];

    /// Returns whether addresses of this range are blocked.
    pub fn blocks(self, range: Range) -> bool {
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
            Self::NotLocal => "loopback and link-local addresses are blocked",
            Self::NotLinkLocal => "link-local addresses are blocked",
        })
    }
}

/// A policy with its exceptions.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Which addresses are blocked.
    pub policy: Policy,
    /// Exceptions: which of those are allowed.
    pub allow: Vec<Cidr>,
    /// Which addresses are blocked in spite of policy and exceptions, and in every form that carries one of them.
    pub deny: Vec<Cidr>,
    /// What a user must change to allow more, for errors; usually a flag.
    pub flag: &'static str,
}

/// An address that may be connected to. Only [`Rules::vet`] creates one, and only such an address can be dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vetted(IpAddr);

impl Vetted {
    /// Returns the address.
    pub fn address(self) -> IpAddr {
        self.0
    }
}

/// Why connections to an address are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address} is {}", self.reason())]
pub struct BlockedAddress {
    /// The address, as the lookup returned it.
    pub address: IpAddr,
    /// Its range, or that of the IPv4 address that it carries.
    pub range: Range,
    /// The policy that blocks it.
    pub policy: Policy,
    /// What a user must change to allow it.
    pub flag: &'static str,
    /// The range of [`Rules::deny`] that blocks it, if one does.
    pub denied: Option<Cidr>,
}

impl BlockedAddress {
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
    /// To the kernel, an IPv4 address in mapped form is the IPv4 address, so it is dialled as such, and an exception for one is an
    /// exception for the other. An exception allows link-local addresses and metadata services only if its own network is such an
    /// address: to allow `100.64.0.0/10` or `fd00::/8` for pods does not allow the metadata services in there.
    ///
    /// An IPv6 address and the IPv4 addresses that it carries are checked separately: to allow the prefix of a NAT64 gateway does not
    /// allow everything behind it. A carried address needs an exception of its own, or one for the IPv6 address whose prefix includes
    /// all bits of the carried address.
    pub fn vet(&self, address: IpAddr) -> Result<Vetted, BlockedAddress> {
        let blocked = |range, denied| BlockedAddress {
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
                return Err(blocked(Range::of(any), Some(*cidr)));
            }
        }
        let range = Range::of(address);
        if self.policy.blocks(range) && !self.excepts(address, 0, range) {
            return Err(blocked(range, None));
        }
        let blocked_range = carried.into_iter().find_map(|carried| {
            let inner = IpAddr::V4(carried.address);
            let range = Range::of(inner);
            let is_open = !self.policy.blocks(range)
                || self.excepts(inner, 0, range)
                || self.excepts(address, carried.end, range);
            (!is_open).then_some(range)
        });
        match blocked_range {
            None => Ok(Vetted(address.to_canonical())),
            Some(range) => Err(blocked(range, None)),
        }
    }

    /// Whether an exception with a prefix of at least this length allows the address, which is in this range.
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
