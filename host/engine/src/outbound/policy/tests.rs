mod cidr;
mod range;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::super::policy::Cidr;
use super::super::policy::Range;
use super::{Policy, Rules};

/// The strictest first.
const POLICIES: [Policy; 3] = [Policy::PublicOnly, Policy::NotLocal, Policy::NotLinkLocal];

const RANGES: [Range; 16] = [
    Range::Public,
    Range::Unspecified,
    Range::Loopback,
    Range::Private,
    Range::Shared,
    Range::LinkLocal,
    Range::UniqueLocal,
    Range::Metadata,
    Range::Multicast,
    Range::Documentation,
    Range::Benchmark,
    Range::Reserved,
    Range::Mapped,
    Range::Nat64,
    Range::SixToFour,
    Range::Teredo,
];

fn rules(policy: Policy, allow: &[&str]) -> Rules {
    Rules {
        policy,
        allow: allow.iter().map(|cidr| cidr.parse().expect(cidr)).collect(),
        deny: Vec::new(),
        flag: "--allow-cidr",
    }
}

fn passes(rules: &Rules, address: &str) -> bool {
    rules.vet(address.parse().expect(address)).is_ok()
}

/// Addresses, after which of the policies let them through: `P` for public only, `L` for not local, `K` for not link-local.
const TABLE: &str = "
PLK 8.8.8.8 2001:4860:4860::8888
-LK 10.0.0.1 172.16.0.1 192.168.0.1 fd12::1 fec0::1
-LK 100.64.0.1 198.18.0.1 192.0.2.1 2001:db8::1
-LK 224.0.0.1 255.255.255.255 240.0.0.1 ff02::1 100::1
-LK ::ffff:8.8.8.8 64:ff9b::8.8.8.8 64:ff9b:1::8.8.8.8 2002:808:808::1 ::8.8.8.8
--K 127.0.0.1 127.8.8.8 ::1 0.0.0.0 0.1.2.3 ::
--K ::ffff:127.0.0.1 ::127.0.0.1 64:ff9b::127.0.0.1 2002:7f00:1::1 ::ffff:0.0.0.0 2001:0:7f00:1::8080:808
--- 169.254.169.254 169.254.0.1 fe80::1 ::ffff:169.254.169.254 ::169.254.169.254
--- 64:ff9b::169.254.169.254 64:ff9b:1::169.254.169.254 64:ff9b:1:a9fe:a9:fe00:: 2002:a9fe:a9fe::
--- ::ffff:0:169.254.169.254 2001::5601:5601 2001:0:a9fe:a9fe::
--- 100.100.100.200 168.63.129.16 192.0.0.192 ::ffff:168.63.129.16
--- fd00:ec2::254 fd20:ce::254 fd00:c1::a9fe:a9fe fd00:42::42 fd00:a9fe:a9fe::1 fd00:100::100:200
";

#[test]
fn each_policy_blocks_what_it_names() {
    for line in TABLE.lines().filter(|line| !line.is_empty()) {
        let (expected, addresses) = line.split_once(' ').unwrap();
        for address in addresses.split(' ') {
            let verdict = |(policy, letter)| {
                let passes = passes(&rules(policy, &[]), address);
                if passes { letter } else { '-' }
            };
            let found: String = POLICIES
                .into_iter()
                .zip("PLK".chars())
                .map(verdict)
                .collect();
            assert_eq!(found, expected, "{address}");
        }
    }
}

#[test]
fn an_exception_allows_its_range_and_nothing_else() {
    let open = rules(
        Policy::PublicOnly,
        &["10.0.0.0/8", "127.0.0.1/32", "fd00::/8"],
    );
    for address in [
        "10.1.2.3",
        "::ffff:10.1.2.3",
        "127.0.0.1",
        "::ffff:127.0.0.1",
        "fd12::1",
    ] {
        assert!(passes(&open, address), "{address}");
    }
    for address in ["11.0.0.1", "127.0.0.2", "192.168.0.1", "fc00::1", "::1"] {
        assert_eq!(passes(&open, address), address == "11.0.0.1", "{address}");
    }
    // A gateway that leads to an allowed address is another host.
    for address in ["64:ff9b::10.1.2.3", "2002:a01:203::1", "::10.1.2.3"] {
        assert!(!passes(&open, address), "{address}");
    }
    let gateway = rules(Policy::PublicOnly, &["64:ff9b::/96"]);
    assert!(passes(&gateway, "64:ff9b::8.8.8.8"));
    // Not what lies behind it.
    for address in [
        "64:ff9b::10.1.2.3",
        "64:ff9b::127.0.0.1",
        "64:ff9b::192.168.0.1",
    ] {
        assert!(!passes(&gateway, address), "{address}");
    }
    let both = rules(Policy::PublicOnly, &["64:ff9b::/96", "10.0.0.0/8"]);
    assert!(passes(&both, "64:ff9b::10.1.2.3"));
    assert!(!passes(&both, "64:ff9b::192.168.0.1"));
    let one = rules(
        Policy::PublicOnly,
        &["64:ff9b::a01:203/128", "2002:a01:203::/48"],
    );
    for address in ["64:ff9b::10.1.2.3", "2002:a01:203::1"] {
        assert!(passes(&one, address), "{address}");
    }
    for address in ["64:ff9b::10.1.2.4", "10.1.2.3", "2002:a01:204::1"] {
        assert!(!passes(&one, address), "{address}");
    }
    let isatap = rules(Policy::PublicOnly, &[]);
    assert!(passes(&isatap, "2001:4860::5efe:8.8.8.8"));
    assert!(!passes(&isatap, "2001:4860::5efe:10.0.0.1"));
}

#[test]
fn denied_ranges_are_blocked_in_spite_of_exceptions() {
    for policy in POLICIES {
        let mut rules = rules(
            policy,
            &["10.0.0.0/8", "10.1.2.3/32", "64:ff9b::/96", "::/0"],
        );
        assert!(passes(&rules, "10.1.2.3"));
        let deny = ["10.1.0.0/16", "8.8.8.0/24", "2001:4860::/32"];
        rules.deny = deny.map(|cidr| cidr.parse().unwrap()).to_vec();
        for address in [
            "10.1.2.3",
            "::ffff:10.1.2.3",
            "64:ff9b::10.1.2.3",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
            "8.8.8.8",
            "2001:4860::1",
        ] {
            assert!(!passes(&rules, address), "{address} with {policy:?}");
        }
        assert!(passes(&rules, "10.2.0.1") && passes(&rules, "8.8.4.4"));
        let blocked = rules.vet("8.8.8.8".parse().unwrap()).unwrap_err();
        let expected = "8.8.8.8 is a public address, and 8.8.8.0/24 is denied";
        assert_eq!(blocked.to_string(), expected);
    }
}

#[test]
fn link_local_addresses_need_an_exception_of_their_own() {
    let wide = [
        "0.0.0.0/0",
        "::/0",
        "100.64.0.0/10",
        "fd00::/8",
        "64:ff9b::/96",
        "168.0.0.0/8",
    ];
    for policy in POLICIES {
        let rules = rules(policy, &wide);
        for address in [
            "169.254.169.254",
            "100.100.100.200",
            "168.63.129.16",
            "fd00:ec2::254",
            "fe80::1",
            "64:ff9b::169.254.169.254",
            "::ffff:169.254.169.254",
        ] {
            assert!(!passes(&rules, address), "{address} with {policy:?}");
        }
        assert!(passes(&rules, "100.100.100.201"));
        assert!(passes(&rules, "127.0.0.1"));
    }
    let named = [
        "169.254.0.0/16",
        "100.100.100.200/32",
        "fd00:ec2::254/128",
        "fe80::/10",
    ];
    let named = rules(Policy::PublicOnly, &named);
    for address in [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "100.100.100.200",
        "fd00:ec2::254",
        "fe80::1",
    ] {
        assert!(passes(&named, address), "{address}");
    }
    assert!(!passes(&named, "fd00:ec2::255"));
}

#[test]
fn a_mapped_address_is_dialled_as_the_ipv4_address_that_it_is() {
    let vetted = rules(Policy::NotLocal, &[]).vet("::ffff:10.0.0.1".parse().unwrap());
    let expected: IpAddr = "10.0.0.1".parse().unwrap();
    assert_eq!(vetted.unwrap().address(), expected);
}

#[test]
fn an_error_names_the_address_the_policy_and_the_remedy() {
    let blocked = |policy, address: &str| {
        let blocked = rules(policy, &[]).vet(address.parse().unwrap());
        blocked.unwrap_err().to_string()
    };
    assert_eq!(
        blocked(Policy::PublicOnly, "10.0.0.7"),
        "10.0.0.7 is a private address, and only public addresses are allowed; to allow it, add 10.0.0.7/32 to --allow-cidr"
    );
    assert_eq!(
        blocked(Policy::NotLocal, "::1"),
        "::1 is a loopback address, and loopback and link-local addresses are blocked; to allow it, add ::1/128 to --allow-cidr"
    );
    assert_eq!(
        blocked(Policy::NotLinkLocal, "::ffff:169.254.169.254"),
        "::ffff:169.254.169.254 is a link-local address, and link-local addresses are blocked; to allow it, add 169.254.169.254/32 to --allow-cidr"
    );
}

/// Every IPv6 address that carries the IPv4 address.
fn carriers(v4: Ipv4Addr) -> Vec<Ipv6Addr> {
    let bits = u128::from(v4.to_bits());
    let (high, low) = (bits >> 16, bits & 0xffff);
    vec![
        v4.to_ipv6_mapped(),
        Ipv6Addr::from_bits(0xffff_u128 << 48 | bits),
        Ipv6Addr::from_bits(0x64_ff9b_u128 << 96 | bits),
        Ipv6Addr::from_bits(0x64_ff9b_0001_u128 << 80 | bits),
        Ipv6Addr::from_bits(0x64_ff9b_0001_u128 << 80 | high << 64 | low << 40),
        Ipv6Addr::from_bits(
            0x64_ff9b_0001_u128 << 80 | bits >> 24 << 64 | (bits & 0xff_ffff) << 32,
        ),
        Ipv6Addr::from_bits(0x64_ff9b_0001_u128 << 80 | bits << 24),
        Ipv6Addr::from_bits(0x2a00_u128 << 112 | 0x5efe_u128 << 32 | bits),
        Ipv6Addr::from_bits(0x2a00_u128 << 112 | 0x200_5efe_u128 << 32 | bits),
        Ipv6Addr::from_bits(0x2002_u128 << 112 | bits << 80),
        Ipv6Addr::from_bits(0x2001_u128 << 112 | bits << 64),
        Ipv6Addr::from_bits(0x2001_u128 << 112 | (!bits & 0xffff_ffff)),
    ]
}

/// Addresses that rules are about: any, those that no policy lets through, and every form that carries one of them.
fn interesting(v4: u32, v6: u128) -> Vec<IpAddr> {
    let near = Ipv4Addr::from_bits(0xa9fe_0000 | v4 & 0xffff);
    let known = [
        [10, 0, 0, 1],
        [168, 63, 129, 16],
        [100, 100, 100, 200],
        [127, 0, 0, 1],
    ];
    let mut all = vec![
        IpAddr::V6(v6.into()),
        IpAddr::V6(Ipv6Addr::from_bits(0xfe80 << 112 | v6 >> 16)),
        IpAddr::V6(Ipv6Addr::from_bits(0xfd00_0ec2 << 96 | v6 >> 32)),
        IpAddr::V6(Ipv6Addr::from_bits(0x64_ff9b_0001 << 80 | v6 >> 48)),
    ];
    for v4 in [Ipv4Addr::from_bits(v4), near]
        .into_iter()
        .chain(known.map(Ipv4Addr::from))
    {
        all.push(v4.into());
        all.extend(carriers(v4).into_iter().map(IpAddr::V6));
    }
    all
}

/// Whether no gateway leads to an address in `0.0.0.0/8` in this form, which is why policies do not look for it there.
///
/// With a local NAT64 prefix, several positions may hold the IPv4 address, and one in `0.0.0.0/8` does not count if another position
/// has a plausible address. Of `0.0.0.0/8`, `0.0.0.0` alone reaches a machine, the gateway itself; it is blocked in every form.
fn is_unreachable(v4: Ipv4Addr, carrier: Ipv6Addr) -> bool {
    let is_local_nat64 = carrier.segments()[..3] == [0x64, 0xff9b, 1];
    is_local_nat64 && v4.octets()[0] == 0 && !v4.is_unspecified()
}

proptest! {
    #[test]
    fn a_policy_allows_all_that_a_stricter_one_allows(bits: u128, v4: u32, length in 0_u8..=32) {
        let allow: Vec<Cidr> = vec![format!("10.0.0.0/{}", length.max(8)).parse().unwrap()];
        let vet = |address: IpAddr| POLICIES.map(|policy| {
            Rules { policy, allow: allow.clone(), deny: Vec::new(), flag: "" }.vet(address).is_ok()
        });
        for address in interesting(v4, bits) {
            prop_assert!(vet(address).is_sorted(), "{address}: {:?}", vet(address));
        }
    }

    #[test]
    fn a_blocked_address_is_blocked_in_every_form(v4: u32, link_local: u16) {
        let link_local = Ipv4Addr::from_bits(0xa9fe_0000 | u32::from(link_local));
        let this_host = Ipv4Addr::from_bits(v4 & 0x00ff_ffff);
        for v4 in [
            Ipv4Addr::from_bits(v4),
            link_local,
            this_host,
            Ipv4Addr::LOCALHOST,
            Ipv4Addr::UNSPECIFIED,
        ] {
            for policy in POLICIES {
                let rules = rules(policy, &[]);
                for carrier in carriers(v4) {
                    prop_assert!(
                        rules.vet(v4.into()).is_ok()
                            || rules.vet(carrier.into()).is_err()
                            || is_unreachable(v4, carrier),
                        "{v4} as {carrier} with {policy:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_exception_that_an_error_proposes_works(bits: u128, v4: u32) {
        for address in interesting(v4, bits) {
            let mut rules = rules(Policy::PublicOnly, &[]);
            if let Err(blocked) = rules.vet(address) {
                rules.allow.push(Cidr::only(blocked.address));
                prop_assert!(rules.vet(address).is_ok(), "{blocked}");
            }
        }
    }
}

#[test]
fn only_public_addresses_are_public() {
    let passed = RANGES
        .into_iter()
        .filter(|range| !Policy::PublicOnly.blocks(*range));
    assert_eq!(passed.collect::<Vec<_>>(), [Range::Public]);
}
