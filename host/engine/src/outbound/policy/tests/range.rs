use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::super::Range;
use super::RANGES;

/// Ranges with addresses that are in them: the first and the last, and what lies just outside of others.
const TABLE: &str = "
Unspecified    0.0.0.0 0.255.255.255 ::
Public         1.0.0.0 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 168.63.129.15
Public         168.63.129.17 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 191.255.255.255 192.0.1.0
Public         192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 203.0.112.255 203.0.114.0 223.255.255.255 8.8.8.8
Private        10.0.0.0 10.255.255.255 172.16.0.0 172.31.255.255 192.168.0.0 192.168.255.255
Shared         100.64.0.0 100.127.255.255 100.100.100.199
Loopback       127.0.0.0 127.0.0.1 127.255.255.255 ::1
LinkLocal      169.254.0.0 169.254.169.254 169.254.255.255
Metadata       100.100.100.200 168.63.129.16 192.0.0.192
Reserved       192.0.0.0 192.0.0.255 192.31.196.1 192.52.193.1 192.175.48.1 240.0.0.0 255.255.255.254
Documentation  192.0.2.0 192.0.2.255 198.51.100.1 203.0.113.255
SixToFour      192.88.99.0 192.88.99.255
Benchmark      198.18.0.0 198.19.255.255
Multicast      224.0.0.0 239.255.255.255 255.255.255.255

Mapped         ::ffff:8.8.8.8 ::ffff:0:0 ::8.8.8.8 ::2 ::ffff:0:8.8.8.8
Nat64          64:ff9b:: 64:ff9b::8.8.8.8 64:ff9b:1:: 64:ff9b:1:ffff::1
Reserved       64:ff9b:0:0:0:1:: 64:ff9b:2:: 100:: 100::1 100:0:0:1::1 ::1:0:0:0 200::1 1fff:ffff:: 4000:: 5f00::1
Teredo         2001:: 2001:0:ffff::1
Benchmark      2001:2:: 2001:2:0:ffff::1
Reserved       2001:1::1 2001:2:1:: 2001:20::1 2001:1ff:ffff::1 2620:4f:8000::1 3ffe::1 3ffe:ffff::
Documentation  2001:db8:: 2001:db8:ffff::1 3fff:: 3fff:fff:ffff::1
Public         2001:200:: 2001:db7:ffff::1 2001:db9:: 2001:4860:4860::8888 2000:: 2003:: 2620:4f:7fff::1
Public         2620:4f:8001:: 3fff:1000::
SixToFour      2002:: 2002:ffff:ffff::1
UniqueLocal    fc00:: fdff:ffff::1 fd20:ce::253 fd00:c1::1 fd00:42::1
Metadata       fd00:ec2:: fd00:ec2::254 fd00:ec2::23 fd20:ce::254
Metadata       fd00:c1::a9fe:a9fe fd00:42::42 fd00:a9fe:a9fe::1 fd00:100::100:200
LinkLocal      fe80:: fe80::a9fe:a9fe febf:ffff::1
Private        fec0:: feff:ffff::1
Reserved       fe00:: fe7f:ffff::1 fbff:ffff::1
Multicast      ff00:: ff02::1 ffff::
";

#[test]
fn every_address_has_its_range() {
    for line in TABLE.lines().filter(|line| !line.is_empty()) {
        let mut words = line.split_whitespace();
        let range = words.next().unwrap();
        for address in words {
            let found = Range::of(address.parse().expect(address));
            assert_eq!(format!("{found:?}"), range, "{address}");
        }
    }
    for range in RANGES {
        assert!(
            TABLE.contains(&format!("\n{range:?} ")),
            "{range:?} is never tested"
        );
    }
}

#[track_caller]
fn check_all(address: &str, ranges: &[Range]) {
    let found: Vec<Range> = Range::all(address.parse().expect(address)).collect();
    assert_eq!(found, ranges, "{address}");
}

#[test]
fn ipv4_addresses_within_ipv6_addresses_are_found() {
    check_all("127.0.0.1", &[Range::Loopback]);
    check_all("2001:4860::1", &[Range::Public]);
    check_all("::ffff:127.0.0.1", &[Range::Mapped, Range::Loopback]);
    check_all("::ffff:0:127.0.0.1", &[Range::Mapped, Range::Loopback]);
    check_all("::169.254.169.254", &[Range::Mapped, Range::LinkLocal]);
    check_all("64:ff9b::10.0.0.1", &[Range::Nat64, Range::Private]);
    // RFC 6052, 2.4: 192.0.2.33 after a prefix of 48 bits.
    check_all(
        "64:ff9b:1:c000:2:2100::",
        &[Range::Nat64, Range::Documentation, Range::Public],
    );
    // The same after 56 and 64 bits: other permits have other addresses.
    check_all(
        "64:ff9b:1:c0:0:221::",
        &[Range::Nat64, Range::Documentation],
    );
    check_all(
        "64:ff9b:1:0:c0:2:2100::",
        &[Range::Nat64, Range::Documentation, Range::Public],
    );
    check_all("64:ff9b:1::", &[Range::Nat64, Range::Unspecified]);
    // RFC 5214, with an address that is said to be unique and with one that is not.
    check_all("2001:4860::5efe:10.0.0.1", &[Range::Public, Range::Private]);
    check_all(
        "2001:4860::200:5efe:10.0.0.1",
        &[Range::Public, Range::Private],
    );
    check_all("fe80::5efe:8.8.8.8", &[Range::LinkLocal, Range::Public]);
    check_all("2002:a9fe:a9fe::1", &[Range::SixToFour, Range::LinkLocal]);
    // RFC 4380: server 65.54.227.120, client 192.0.2.45.
    check_all(
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        &[Range::Teredo, Range::Public, Range::Documentation],
    );
}

proptest! {
    #[test]
    fn what_std_knows_not_to_be_public_is_not(v4: u32, v6: u128, high in 0_u8..=255) {
        let v4 = Ipv4Addr::from_bits(v4);
        let is_special = v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_multicast()
            || v4.is_broadcast() || v4.is_documentation() || v4.is_unspecified();
        prop_assert!(!is_special || Range::of(v4.into()) != Range::Public);
        // Half of the time close to a special range.
        for v6 in [v6, v6 >> 8 | u128::from(high) << 120] {
            let v6 = Ipv6Addr::from_bits(v6);
            let is_special = v6.is_loopback() || v6.is_unspecified() || v6.is_multicast()
                || v6.is_unique_local() || v6.is_unicast_link_local() || v6.to_ipv4().is_some();
            prop_assert!(!is_special || Range::of(v6.into()) != Range::Public);
            let is_given_out = v6.segments()[0] >> 13 == 1;
            prop_assert!(is_given_out || Range::of(IpAddr::V6(v6)) != Range::Public);
        }
    }
}

#[test]
fn every_range_is_described_in_its_own_words() {
    let words: std::collections::BTreeSet<String> =
        RANGES.iter().map(ToString::to_string).collect();
    assert_eq!(words.len(), RANGES.len());
}
