//! Who may be connected to: a policy, what widens it, and the proof that an address passed.

use std::fmt;
use std::net::IpAddr;

use super::cidr::Cidr;
use super::range::Range;

/// Which addresses are refused.
///
/// Each policy allows what the one before it allows, and more. An IPv6 address that carries an IPv4 address (mapped, NAT64,
/// 6to4, Teredo) is refused with it.
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
#[error("{address} is {range}, and {policy}; to allow it, add {} to {flag}", Cidr::only(*.address))]
pub struct Refusal {
    /// The address, as it was found.
    pub address: IpAddr,
    /// What it is for, or what the IPv4 address that it carries is for.
    pub range: Range,
    /// The policy that refuses it.
    pub policy: Policy,
    /// What a user changes to allow it.
    pub flag: &'static str,
}

impl Rules {
    /// Returns the address if it may be connected to.
    ///
    /// An IPv4 address in mapped form is the IPv4 address to the kernel, so it is dialled as such, and an exception for the one
    /// is an exception for the other. An exception opens link-local addresses and metadata services only if its own network is
    /// such an address: whoever opens `100.64.0.0/10` or `fd00::/8` for pods does not open the metadata services in there.
    pub fn vet(&self, address: IpAddr) -> Result<Vetted, Refusal> {
        let refused =
            |range: &Range| self.policy.refuses(*range) && !self.is_excepted(address, *range);
        match Range::all(address).find(refused) {
            None => Ok(Vetted(address.to_canonical())),
            Some(range) => Err(Refusal {
                address,
                range,
                policy: self.policy,
                flag: self.flag,
            }),
        }
    }

    fn is_excepted(&self, address: IpAddr, range: Range) -> bool {
        let names_it = |cidr: &Cidr| {
            !range.is_link_local() || Range::all(cidr.network()).any(Range::is_link_local)
        };
        self.allow
            .iter()
            .any(|cidr| cidr.contains(address) && names_it(cidr))
    }
}

#[cfg(test)]
mod tests;
