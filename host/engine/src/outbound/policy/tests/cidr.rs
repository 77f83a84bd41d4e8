use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::super::Cidr;

#[track_caller]
fn check_error(text: &str, error: &str) {
    let found = text.parse::<Cidr>().map_err(|error| error.to_string());
    assert_eq!(found, Err(error.to_owned()), "{text}");
}

#[track_caller]
fn check(cidr: &str, inside: &[&str], outside: &[&str]) {
    let range: Cidr = cidr.parse().expect(cidr);
    assert_eq!(range.to_string(), cidr);
    for (addresses, expected) in [(inside, true), (outside, false)] {
        for address in addresses {
            let found = range.contains(address.parse().expect(address));
            assert_eq!(found, expected, "{address} in {cidr}");
        }
    }
}

#[test]
fn a_range_ends_where_its_prefix_says() {
    check(
        "10.0.0.0/8",
        &["10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3"],
        &["9.255.255.255", "11.0.0.0", "::10.0.0.1", "::"],
    );
    check("192.0.2.7/32", &["192.0.2.7"], &["192.0.2.6", "192.0.2.8"]);
    check("0.0.0.0/0", &["0.0.0.0", "255.255.255.255"], &["::", "::1"]);
    check("fd00::/8", &["fd00::", "fdff::1"], &["fc00::", "fe00::"]);
    check("2001:db8::1/128", &["2001:db8::1"], &["2001:db8::2"]);
    check("::/0", &["::", "ffff::"], &["0.0.0.0", "::ffff:0.0.0.0"]);
}

#[test]
fn what_is_no_range_says_what_to_write() {
    check_error(
        "10.1.2.3",
        "10.1.2.3 has no prefix length; for this address alone write 10.1.2.3/32",
    );
    check_error(
        "fd00::1",
        "fd00::1 has no prefix length; for this address alone write fd00::1/128",
    );
    check_error(
        "10.1.2.3/8",
        "10.1.2.3/8 has bits beyond its prefix; write 10.0.0.0/8",
    );
    check_error(
        "fd00::1/8",
        "fd00::1/8 has bits beyond its prefix; write fd00::/8",
    );
    check_error(
        "::ffff:10.0.0.0/104",
        "::ffff:10.0.0.0/104 is an IPv4 range in IPv6 form; write 10.0.0.0/8",
    );
    for prefix in ["33", "-1", "+8", "", " 8", "8 ", "0x8", "999"] {
        let text = format!("10.0.0.0/{prefix}");
        let error = format!(
            "{text:?} has no valid prefix length; write a number from 0 to 32 after the slash"
        );
        check_error(&text, &error);
    }
    for text in [
        "",
        "/",
        "/8",
        "10.0.0/8",
        "010.0.0.0/8",
        "localhost/8",
        "[fd00::]/8",
        "fe80::1%eth0/64",
    ] {
        let error = format!(
            "{text:?} is not a range of IP addresses; write one like 10.0.0.0/8 or fd00::/8"
        );
        check_error(text, &error);
    }
}

/// The bits of an address, one by one: slow, and hard to get wrong.
fn bits(address: IpAddr) -> Vec<bool> {
    let bytes = match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let bits = |byte: u8| (0..8).rev().map(move |bit| byte >> bit & 1 == 1);
    bytes.into_iter().flat_map(bits).collect()
}

prop_compose! {
    /// An address, a prefix length, and an address that agrees with it in some of the first bits.
    fn pair()(v6 in any::<bool>(), first: u128, second: u128, prefix in 0_u8..=128, same in 0_u32..=128)
        -> (IpAddr, IpAddr, u8) {
        let second = first ^ second.checked_shr(same).unwrap_or(0);
        if v6 {
            // Not in mapped form, which is IPv4.
            let address = |bits: u128| IpAddr::V6(Ipv6Addr::from_bits(bits | 1 << 127));
            (address(first), address(second), prefix)
        } else {
            let address = |bits: u128| IpAddr::V4(Ipv4Addr::from_bits((bits >> 96) as u32));
            (address(first), address(second), prefix % 33)
        }
    }
}

proptest! {
    #[test]
    fn a_range_has_what_agrees_in_the_prefix((network, address, prefix) in pair()) {
        let range = Cidr::new(Cidr::new(network, prefix).masked(network), prefix);
        let length = usize::from(prefix);
        let expected = bits(network)[..length] == bits(address)[..length];
        prop_assert_eq!(range.contains(address), expected);
        prop_assert!(range.contains(network));
        prop_assert_eq!(range.to_string().parse::<Cidr>(), Ok(range));
    }

    #[test]
    fn no_text_panics(text in "[0-9a-f:./%]{0,48}") {
        let _ = text.parse::<Cidr>();
    }
}
