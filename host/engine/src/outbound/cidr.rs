//! Ranges of addresses in CIDR notation.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A range of IP addresses, such as `10.0.0.0/8` or `fd00::/8`.
///
/// An IPv4 range covers IPv4 addresses alone and an IPv6 range IPv6 addresses alone; IPv4 addresses in IPv6 form
/// (`::ffff:10.0.0.1`) belong to IPv4.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr {
    /// No bit beyond the prefix is set.
    network: IpAddr,
    /// 0 to 32 for IPv4, 0 to 128 for IPv6.
    prefix: u8,
}

impl Cidr {
    /// Returns the range of a network address without bits beyond the prefix.
    pub(super) const fn new(network: IpAddr, prefix: u8) -> Self {
        Self { network, prefix }
    }

    /// Returns the range with this address only.
    pub fn only(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self::new(address, longest(address))
    }

    /// Returns the first address of the range.
    pub fn network(self) -> IpAddr {
        self.network
    }

    /// Returns the length of the prefix.
    pub(super) fn prefix(self) -> u8 {
        self.prefix
    }

    /// Returns whether the address is in the range.
    pub fn contains(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.network.is_ipv4() && self.masked(address) == self.network
    }

    /// Returns the address without the bits beyond the prefix.
    fn masked(self, address: IpAddr) -> IpAddr {
        let beyond = u32::from(longest(address).saturating_sub(self.prefix));
        match address {
            IpAddr::V4(v4) => IpAddr::V4((v4.to_bits() & u32::MAX.unbounded_shl(beyond)).into()),
            IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & u128::MAX.unbounded_shl(beyond)).into()),
        }
    }
}

/// The longest prefix of the address's family.
const fn longest(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

impl fmt::Debug for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is not a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CidrError {
    /// There is no address before the slash.
    #[error("{0:?} is not a range of IP addresses; write one like 10.0.0.0/8 or fd00::/8")]
    NoAddress(String),
    /// There is no slash.
    #[error("{0} has no prefix length; for this address alone write {only}", only = Cidr::only(*.0))]
    NoPrefix(IpAddr),
    /// The text after the slash is not a prefix length.
    #[error(
        "{text:?} has no valid prefix length; write a number from 0 to {longest} after the slash"
    )]
    Prefix {
        /// The text.
        text: String,
        /// The longest prefix that the address can have.
        longest: u8,
    },
    /// The address has bits that the prefix does not cover.
    #[error("{text} has bits beyond its prefix; write {meant}")]
    BeyondPrefix {
        /// The text.
        text: String,
        /// The range without those bits.
        meant: Cidr,
    },
    /// An IPv4 range in IPv6 form, which would contain nothing.
    #[error("{text} is an IPv4 range in IPv6 form; write {meant}")]
    Mapped {
        /// The text.
        text: String,
        /// The same range in IPv4 form.
        meant: Cidr,
    },
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let Ok(network) = address.parse::<IpAddr>() else {
            return Err(CidrError::NoAddress(text.to_owned()));
        };
        let Some(prefix) = prefix else {
            return Err(CidrError::NoPrefix(network));
        };
        let longest = longest(network);
        let digits = prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix = match prefix.parse() {
            Ok(prefix) if digits && prefix <= longest => prefix,
            _ => {
                let text = text.to_owned();
                return Err(CidrError::Prefix { text, longest });
            }
        };
        let meant = Self::new(Self::new(network, prefix).masked(network), prefix);
        if meant.network != network {
            let text = text.to_owned();
            return Err(CidrError::BeyondPrefix { text, meant });
        }
        match (network.to_canonical(), prefix.checked_sub(96)) {
            (IpAddr::V4(v4), Some(prefix)) if network.is_ipv6() => Err(CidrError::Mapped {
                text: text.to_owned(),
                meant: Self::new(v4.into(), prefix),
            }),
            _ => Ok(meant),
        }
    }
}

#[cfg(test)]
mod tests;
