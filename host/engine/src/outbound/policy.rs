//! Which addresses may be connected to: a policy, its exceptions, and the proof that an address was checked.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

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
        let (range, policy, flag) = (self.range, self.policy, self.flag);
        match self.denied {
            Some(cidr) => format!("{range}, and {cidr} is denied"),
            None => {
                let only = Cidr::only(self.address);
                format!("{range}, and {policy}; to allow it, add {only} to {flag}")
            }
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

// The range of an address: one table of all that is not public, and the IPv6 forms that carry an IPv4 address.

/// The range that an address is in, by its purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Range {
    /// Public addresses of the Internet.
    Public,
    /// "This host": `0.0.0.0/8` and `::`. A connection to it reaches the machine itself.
    Unspecified,
    /// The machine itself.
    Loopback,
    /// Private networks (RFC 1918), and the site-local addresses that IPv6 once had.
    Private,
    /// Shared by the customers of a carrier (CGNAT, RFC 6598); some clusters number their pods with it.
    Shared,
    /// One network segment. The metadata services of clouds are here.
    LinkLocal,
    /// Private networks of IPv6 (RFC 4193).
    UniqueLocal,
    /// Metadata services of clouds, and services like them, at addresses that are not link-local.
    Metadata,
    /// Groups of hosts, and broadcast.
    Multicast,
    /// For examples in documentation.
    Documentation,
    /// For measurements of networks.
    Benchmark,
    /// Reserved for protocols or for the future: no destination of a request.
    Reserved,
    /// An IPv4 address in IPv6 form: mapped, translated or compatible.
    Mapped,
    /// An IPv4 address behind a NAT64 gateway.
    Nat64,
    /// An IPv4 address behind a 6to4 relay.
    SixToFour,
    /// IPv4 addresses behind a Teredo relay.
    Teredo,
}

impl Range {
    /// Returns the range of the address as it is written.
    ///
    /// IPv6 addresses are public only within `2000::/3`, the one part that is allocated.
    pub fn of(address: IpAddr) -> Self {
        let known = match address {
            IpAddr::V4(_) => V4.iter(),
            // Checked as it is written: `Cidr` would convert the mapped form.
            IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => return Self::Mapped,
            IpAddr::V6(_) => V6.iter(),
        };
        let mut known = known.filter(|(cidr, _)| cidr.contains(address));
        match known.next() {
            Some((_, range)) => *range,
            None if address.is_ipv4() || ALLOCATED.contains(address) => Self::Public,
            None => Self::Reserved,
        }
    }

    /// Returns whether every policy blocks this range: link-local addresses and metadata services.
    pub fn is_link_local(self) -> bool {
        matches!(self, Self::LinkLocal | Self::Metadata)
    }

    /// Returns the range of the address, and that of each IPv4 address that it carries.
    pub fn all(address: IpAddr) -> impl Iterator<Item = Self> {
        let carried = carried(address).into_iter();
        let carried = carried.map(|carried| IpAddr::V4(carried.address));
        std::iter::once(address).chain(carried).map(Self::of)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "a public address",
            Self::Unspecified => "an unspecified address",
            Self::Loopback => "a loopback address",
            Self::Private => "a private address",
            Self::Shared => "a carrier's shared address",
            Self::LinkLocal => "a link-local address",
            Self::UniqueLocal => "a unique local address",
            Self::Metadata => "the address of a cloud's metadata service",
            Self::Multicast => "a multicast address",
            Self::Documentation => "an address for documentation",
            Self::Benchmark => "an address for benchmarks",
            Self::Reserved => "a reserved address",
            Self::Mapped => "an IPv4 address in IPv6 form",
            Self::Nat64 => "a NAT64 address",
            Self::SixToFour => "a 6to4 address",
            Self::Teredo => "a Teredo address",
        })
    }
}

/// The part of IPv6 that is allocated as public addresses.
const ALLOCATED: Cidr = v6(&[0x2000], 3);

/// The ranges of IPv4 that are not public; the first that contains an address counts.
///
/// From IANA's registry of special-purpose addresses. Anycast addresses of protocols are routed, but reserved here: no request of ours
/// goes to them.
const V4: [(Cidr, Range); 22] = [
    // Azure's WireServer, Alibaba Cloud, Oracle Cloud Classic.
    (v4([168, 63, 129, 16], 32), Range::Metadata),
    (v4([100, 100, 100, 200], 32), Range::Metadata),
    (v4([192, 0, 0, 192], 32), Range::Metadata),
    (v4([0, 0, 0, 0], 8), Range::Unspecified),
    (v4([10, 0, 0, 0], 8), Range::Private),
    (v4([100, 64, 0, 0], 10), Range::Shared),
    (v4([127, 0, 0, 0], 8), Range::Loopback),
    (v4([169, 254, 0, 0], 16), Range::LinkLocal),
    (v4([172, 16, 0, 0], 12), Range::Private),
    (v4([192, 0, 0, 0], 24), Range::Reserved),
    (v4([192, 0, 2, 0], 24), Range::Documentation),
    (v4([192, 31, 196, 0], 24), Range::Reserved),
    (v4([192, 52, 193, 0], 24), Range::Reserved),
    (v4([192, 88, 99, 0], 24), Range::SixToFour),
    (v4([192, 168, 0, 0], 16), Range::Private),
    (v4([192, 175, 48, 0], 24), Range::Reserved),
    (v4([198, 18, 0, 0], 15), Range::Benchmark),
    (v4([198, 51, 100, 0], 24), Range::Documentation),
    (v4([203, 0, 113, 0], 24), Range::Documentation),
    (v4([224, 0, 0, 0], 4), Range::Multicast),
    (v4([255, 255, 255, 255], 32), Range::Multicast),
    (v4([240, 0, 0, 0], 4), Range::Reserved),
];

/// The special ranges of IPv6; the first that contains an address counts.
const V6: [(Cidr, Range); 25] = [
    // AWS (all services for instances), Google Cloud, Oracle Cloud, Scaleway, Akamai, Alibaba Cloud.
    (v6(&[0xfd00, 0xec2], 32), Range::Metadata),
    (
        v6(&[0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128),
        Range::Metadata,
    ),
    (
        v6(&[0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe], 128),
        Range::Metadata,
    ),
    (
        v6(&[0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42], 128),
        Range::Metadata,
    ),
    (
        v6(&[0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1], 128),
        Range::Metadata,
    ),
    (
        v6(&[0xfd00, 0x100, 0, 0, 0, 0, 0x100, 0x200], 128),
        Range::Metadata,
    ),
    (v6(&[0], 128), Range::Unspecified),
    (v6(&[0, 0, 0, 0, 0, 0, 0, 1], 128), Range::Loopback),
    (v6(&[0], 96), Range::Mapped),
    (v6(&[0, 0, 0, 0, 0xffff], 96), Range::Mapped),
    (v6(&[0x64, 0xff9b], 96), Range::Nat64),
    (v6(&[0x64, 0xff9b, 1], 48), Range::Nat64),
    (v6(&[0x100], 64), Range::Reserved),
    (v6(&[0x2001], 32), Range::Teredo),
    (v6(&[0x2001, 2], 48), Range::Benchmark),
    (v6(&[0x2001], 23), Range::Reserved),
    (v6(&[0x2001, 0xdb8], 32), Range::Documentation),
    (v6(&[0x2002], 16), Range::SixToFour),
    (v6(&[0x2620, 0x4f, 0x8000], 48), Range::Reserved),
    (v6(&[0x3ffe], 16), Range::Reserved),
    (v6(&[0x3fff], 20), Range::Documentation),
    (v6(&[0xfc00], 7), Range::UniqueLocal),
    (v6(&[0xfe80], 10), Range::LinkLocal),
    (v6(&[0xfec0], 10), Range::Private),
    (v6(&[0xff00], 8), Range::Multicast),
];

const fn v4([a, b, c, d]: [u8; 4], prefix: u8) -> Cidr {
    Cidr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix)
}

/// Without the zeros at its end.
const fn v6(mut segments: &[u16], prefix: u8) -> Cidr {
    let (mut all, mut place) = ([0; 8], 0);
    while let [first, rest @ ..] = segments {
        all[place] = *first;
        (segments, place) = (rest, place + 1);
    }
    let [a, b, c, d, e, f, g, h] = all;
    Cidr::new(IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), prefix)
}

/// An IPv4 address within an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Carried {
    pub(super) address: Ipv4Addr,
    /// The length of the shortest prefix that includes all its bits.
    pub(super) end: u8,
}

/// The IPv4 addresses that an address may carry, at all positions where a gateway could read one.
pub(super) fn carried(address: IpAddr) -> Vec<Carried> {
    let IpAddr::V6(v6) = address else {
        return Vec::new();
    };
    let [_, b, c, d, e, f, g, h] = v6.segments();
    let at = |address, end| Carried { address, end };
    let last = at(join(g, h), 128);
    let mut found = match Range::of(address) {
        Range::Mapped => vec![last],
        Range::Nat64 if c == 0 => vec![last],
        Range::Nat64 => translated(v6),
        Range::SixToFour => vec![at(join(b, c), 48)],
        // The server, and the client with all bits inverted.
        Range::Teredo => vec![at(join(c, d), 64), at(join(!g, !h), 128)],
        _ => Vec::new(),
    };
    // ISATAP (RFC 5214), in any network.
    if e & !0x200 == 0 && f == 0x5efe {
        found.push(last);
    }
    found
}

/// The IPv4 addresses that an address of a local NAT64 prefix carries. Only the gateway knows how long the prefix is (RFC 6052: 48, 56,
/// 64 or 96 bits, with an empty byte after bit 64), so each position counts. No host behind a gateway has an address in `0.0.0.0/8`, so
/// positions with such an address do not count, unless all of them have one.
fn translated(address: Ipv6Addr) -> Vec<Carried> {
    let [_, _, _, d, e, f, g, h] = address.segments();
    let positions = [
        (join(d, e << 8 | f >> 8), 88),
        (join(d << 8 | e & 0xff, f), 96),
        (join(e << 8 | f >> 8, f << 8 | g >> 8), 104),
        (join(g, h), 128),
    ];
    let all = positions.map(|(address, end)| Carried { address, end });
    let used = all
        .into_iter()
        .filter(|carried| carried.address.to_bits() >> 24 != 0);
    match used.collect::<Vec<_>>() {
        used if used.is_empty() => all.into_iter().skip(3).collect(),
        used => used,
    }
}

fn join(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}

// Ranges of addresses in CIDR notation.

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
#[error("{text}")]
pub struct CidrError {
    text: String,
    /// The range that the text stands for, if it is only written in another way than we ask for.
    pub(super) meant: Option<Cidr>,
}

impl CidrError {
    fn new(text: String) -> Self {
        Self { text, meant: None }
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let Ok(network) = address.parse::<IpAddr>() else {
            return Err(CidrError::new(format!(
                "{text:?} is not a range of IP addresses; write one like 10.0.0.0/8 or fd00::/8"
            )));
        };
        let Some(prefix) = prefix else {
            let only = Self::only(network);
            return Err(CidrError::new(format!(
                "{network} has no prefix length; for this address alone write {only}"
            )));
        };
        let longest = longest(network);
        let digits = prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix = prefix.parse().ok().filter(|it| digits && *it <= longest);
        let prefix = prefix.ok_or_else(|| {
            CidrError::new(format!(
                "{text:?} has no valid prefix length; write a number from 0 to {longest} after the slash"
            ))
        })?;
        let masked = Self::new(Self::new(network, prefix).masked(network), prefix);
        let (wrong, meant) = match (network.to_canonical(), prefix.checked_sub(96)) {
            _ if masked.network != network => ("has bits beyond its prefix", masked),
            (IpAddr::V4(v4), Some(prefix)) if network.is_ipv6() => (
                "is an IPv4 range in IPv6 form",
                Self::new(v4.into(), prefix),
            ),
            _ => return Ok(masked),
        };
        Err(CidrError {
            text: format!("{text} {wrong}; write {meant}"),
            meant: Some(meant),
        })
    }
}

#[cfg(test)]
mod tests;
