//! The range of an address: one table of all that is not public, and the IPv6 forms that carry an IPv4 address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::cidr::Cidr;

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
    /// Every range.
    pub const ALL: [Self; 16] = [
        Self::Public,
        Self::Unspecified,
        Self::Loopback,
        Self::Private,
        Self::Shared,
        Self::LinkLocal,
        Self::UniqueLocal,
        Self::Metadata,
        Self::Multicast,
        Self::Documentation,
        Self::Benchmark,
        Self::Reserved,
        Self::Mapped,
        Self::Nat64,
        Self::SixToFour,
        Self::Teredo,
    ];

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

    fn describe(self) -> &'static str {
        match self {
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
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.describe())
    }
}

/// The part of IPv6 that is allocated as public addresses.
const ALLOCATED: Cidr = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

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
    (v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0], 32), Range::Metadata),
    (
        v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128),
        Range::Metadata,
    ),
    (
        v6([0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe], 128),
        Range::Metadata,
    ),
    (
        v6([0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42], 128),
        Range::Metadata,
    ),
    (
        v6([0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1], 128),
        Range::Metadata,
    ),
    (
        v6([0xfd00, 0x100, 0, 0, 0, 0, 0x100, 0x200], 128),
        Range::Metadata,
    ),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), Range::Unspecified),
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), Range::Loopback),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 96), Range::Mapped),
    (v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96), Range::Mapped),
    (v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96), Range::Nat64),
    (v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), Range::Nat64),
    (v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64), Range::Reserved),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32), Range::Teredo),
    (v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48), Range::Benchmark),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), Range::Reserved),
    (
        v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32),
        Range::Documentation,
    ),
    (v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), Range::SixToFour),
    (
        v6([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0], 48),
        Range::Reserved,
    ),
    (v6([0x3ffe, 0, 0, 0, 0, 0, 0, 0], 16), Range::Reserved),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), Range::Documentation),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), Range::UniqueLocal),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), Range::LinkLocal),
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), Range::Private),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), Range::Multicast),
];

const fn v4([a, b, c, d]: [u8; 4], prefix: u8) -> Cidr {
    Cidr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix)
}

const fn v6([a, b, c, d, e, f, g, h]: [u16; 8], prefix: u8) -> Cidr {
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

#[cfg(test)]
mod tests;
