//! Quantities, compared with arithmetic of another kind.

use std::cmp::Ordering;

use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use proptest::sample::select;

use super::{MAX, NANOS, Quantity};

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap_or_else(|_| panic!("{text} is refused"))
}

#[track_caller]
fn check(text: &str, canonical: &str) {
    assert_eq!(quantity(text).to_string(), canonical, "{text}");
    assert_eq!(quantity(canonical).to_string(), canonical);
    assert_eq!(quantity(canonical), quantity(text));
}

#[test]
fn the_canonical_form_has_the_largest_suffix_that_loses_nothing() {
    check("0", "0");
    check("0.000Mi", "0");
    check("-0", "0");
    check("1", "1");
    check("007", "7");
    check("+1.50", "1500m");
    check("0.5", "500m");
    check("1000m", "1");
    check("1000", "1k");
    check("1001", "1001");
    check("1500M", "1500M");
    check("1000000M", "1T");
    check("1.5Gi", "1536Mi");
    check("1024Mi", "1Gi");
    check("1000Mi", "1000Mi");
    check("512Ki", "512Ki");
    check("0.5Ki", "512");
    check("-2048Ki", "-2Mi");
    check("1.0001Ki", "1024102400u");
    check("0.1Ki", "102400m");
    check("1e3", "1e3");
    check("12E2", "1200");
    check("5e-1", "500e-3");
    check("1.5e6", "1500e3");
    check("1e+6", "1e6");
    check("5E", "5E");
    check("100n", "100n");
    check("1234567u", "1234567u");
    check("1.5m", "1500u");
}

#[test]
fn a_product_stays_within_the_limits_and_keeps_its_suffixes() {
    assert_eq!((quantity("1.5Gi") * 2).to_string(), "3Gi");
    assert_eq!((quantity("250m") * -3).to_string(), "-750m");
    assert_eq!(quantity("5E") * i64::MAX, i64::MAX.into());
    assert_eq!((quantity("5E") * i64::MIN).nanos, -MAX);
}

#[test]
fn parts_of_a_number_may_be_missing_as_in_kubernetes() {
    for (text, same) in [
        ("5.", "5"),
        (".5", "500m"),
        ("-.5Ki", "-512"),
        ("5.G", "5G"),
    ] {
        check(text, same);
    }
}

#[test]
fn smaller_parts_are_rounded_up() {
    check("0.0000000001", "1n");
    check("-0.0000000001", "-1n");
    check("1e-100", "1e-9");
    check("0e-100", "0");
    check("1.0000000001", "1000000001n");
    check("0.9999999999", "1");
    check("0.00000000001Ki", "11n");
    check("123456789n", "123456789n");
}

/// As in Kubernetes, which keeps 32 bits of an exponent.
#[test]
fn the_lowest_32_bits_of_an_exponent_count() {
    check("1e-4294967287", "1e9");
    check("1e-9223372036854775808", "1");
    check("1e9223372036854775807", "100e-3");
}

#[test]
fn larger_numbers_stand_for_the_largest() {
    let largest = i64::MAX.to_string();
    for text in [
        "9223372036854775807",
        "9223372036854775807.1",
        "9223372036854775808",
        "10E",
        "8Ei",
        "9999999999999999999999999999999Ki",
        "1e100",
        "0.000001e30",
    ] {
        check(text, &largest);
        check(&format!("-{text}"), &format!("-{largest}"));
    }
    check("7Ei", "7Ei");
    check("0e100", "0");
    let sum = quantity("9E") + quantity("9E");
    assert_eq!(sum, quantity(&largest));
    assert_eq!(Quantity::from(i64::MIN), quantity(&format!("-{largest}")));
}

#[test]
fn other_texts_are_refused() {
    for text in [
        ".",
        "-",
        "Ki",
        "m",
        "e3",
        "-.",
        "+E",
        "",
        " ",
        " 1",
        "1 ",
        "1 Gi",
        "1g",
        "1K",
        "1GB",
        "1GiB",
        "1kB",
        "1e",
        "1e+",
        "1ee3",
        "1e1.5",
        "1.2.3",
        "--1",
        "+-1",
        "1-",
        "1m5",
        "0x10",
        "1_000",
        "1,5",
        "١",
        "1µ",
        "1ki",
        "NaN",
        "inf",
        "1e99999999999999999999",
    ] {
        assert!(text.parse::<Quantity>().is_err(), "{text}");
    }
}

#[test]
fn quantities_compare_by_their_amount() {
    assert_eq!(quantity("1Gi"), quantity("1073741824"));
    assert_eq!(quantity("1e3").cmp(&quantity("1k")), Ordering::Equal);
    assert!(quantity("1G") < quantity("1Gi"));
    assert!(quantity("-1") < quantity("1n"));
    assert!(quantity("-2") < quantity("-1"));
}

#[test]
fn a_sum_is_printed_like_its_first_part() {
    let add = |left: &str, right: &str| (quantity(left) + quantity(right)).to_string();
    assert_eq!(add("1Gi", "1G"), "2073741824");
    assert_eq!(add("512Mi", "512Mi"), "1Gi");
    assert_eq!(add("0", "1Ki"), "1Ki");
    assert_eq!(add("1Ki", "-1Ki"), "0");
    assert_eq!(add("250m", "0.75"), "1");
    assert_eq!(add("1e3", "1k"), "2e3");
    let mut total = Quantity::default();
    total += quantity("100m");
    assert_eq!(total.to_string(), "100m");
}

#[test]
fn whole_parts_are_rounded_up() {
    for (text, units, millis) in [
        ("0", 0, 0),
        ("100m", 1, 100),
        ("-100m", -1, -100),
        ("1.0005", 2, 1001),
        ("2Ki", 2048, 2_048_000),
        ("9E", 9_000_000_000_000_000_000, i64::MAX),
        ("-9E", -9_000_000_000_000_000_000, i64::MIN),
    ] {
        let quantity = quantity(text);
        assert_eq!(
            (quantity.units(), quantity.millis()),
            (units, millis),
            "{text}"
        );
    }
}

/// What Kubernetes' own code makes of a thousand random texts; `quantities.go` made the file.
#[test]
fn kubernetes_own_code_agrees() {
    let mut last = Quantity::default();
    let lines = include_str!("../../testdata/quantities.tsv").lines();
    let lines: Vec<&str> = lines.filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines.len(), 1000);
    for line in lines {
        let mut parts = line.split('\t');
        let parsed = parts.next().unwrap_or_default().parse::<Quantity>();
        let parts: Vec<&str> = parts.collect();
        let [canonical, order, sum] = parts[..] else {
            assert!(parsed.is_err(), "{line}");
            continue;
        };
        let quantity = parsed.unwrap_or_else(|_| panic!("{line} is refused"));
        assert_eq!(quantity.to_string(), canonical, "{line}");
        assert_eq!((quantity.cmp(&last) as i8).to_string(), order, "{line}");
        assert_eq!((last + quantity).to_string(), sum, "{line}");
        last = quantity;
    }
}

#[cfg(feature = "serde")]
#[test]
fn other_readers_take_strings_and_numbers() {
    use serde_json::{from_value, json, to_value};
    for (value, expected) in [
        (json!("1.5Gi"), "1536Mi"),
        (json!(" 2 "), "2"),
        (json!(3), "3"),
        (json!(-3), "-3"),
        (json!(u64::MAX), "9223372036854775807"),
        (json!(0.1), "100m"),
        (json!(1e20), "9223372036854775807"),
        (json!(null), "0"),
    ] {
        let quantity: Quantity = from_value(value).unwrap();
        assert_eq!(to_value(quantity).unwrap(), json!(expected));
    }
    let error = from_value::<Quantity>(json!("1GB")).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("1GB is no quantity: write a number"),
        "{error}"
    );
    assert!(from_value::<Quantity>(json!([])).is_err());
}

/// A quantity's text, and its parts: digits, how many of them are decimal places, and the power of the suffix.
fn parts() -> impl Strategy<Value = (String, u128, u32, Power)> {
    let digits = prop_oneof![0..10_u64, 0..100_000_u64, 0..99_999_999_999_u64];
    let decimal = select(vec![
        ("n", -9),
        ("u", -6),
        ("m", -3),
        ("", 0),
        ("k", 3),
        ("M", 6),
        ("e0", 0),
        ("E-3", -3),
        ("e4", 4),
    ]);
    let binary = select(vec![("Ki", 1), ("Mi", 2), ("Gi", 3), ("Ti", 4)]);
    let suffix = prop_oneof![
        decimal.prop_map(|(text, power)| (text, Power::Ten(power))),
        binary.prop_map(|(text, power)| (text, Power::Binary(power))),
    ];
    (digits, prop_oneof![Just(0_u32), 0..8_u32], suffix).prop_map(
        |(digits, places, (suffix, power))| {
            let width = places as usize + 1;
            let text = format!("{digits:0width$}");
            let (whole, fraction) = text.split_at(text.len() - places as usize);
            let point = if places > 0 { "." } else { "" };
            (
                format!("{whole}{point}{fraction}{suffix}"),
                u128::from(digits),
                places,
                power,
            )
        },
    )
}

#[derive(Clone, Copy, Debug)]
enum Power {
    Ten(i32),
    Binary(u32),
}

/// The amount by one multiplication and one division.
fn reference(digits: u128, places: u32, power: Power) -> i128 {
    let (multiplier, divisor) = match power {
        Power::Ten(power) => (10_u128.pow((power + 9) as u32), 10_u128.pow(places)),
        Power::Binary(power) => (1024_u128.pow(power) * 1_000_000_000, 10_u128.pow(places)),
    };
    let amount = (digits * multiplier).div_ceil(divisor);
    i128::try_from(amount).unwrap_or(MAX).min(MAX)
}

proptest! {
    #[test]
    fn amounts_are_exact((text, digits, places, power) in parts()) {
        let expected = reference(digits, places, power);
        assert_eq!(quantity(&text).nanos, expected, "{text}");
        assert_eq!(quantity(&format!("-{text}")).nanos, -expected, "{text}");
    }

    #[test]
    fn what_is_printed_is_the_same_amount_in_its_shortest_form((text, ..) in parts(), negative in any::<bool>()) {
        let text = if negative { format!("-{text}") } else { text };
        let printed = quantity(&text).to_string();
        assert_eq!(quantity(&printed), quantity(&text), "{text}");
        assert_eq!(quantity(&printed).to_string(), printed);
        assert!(!printed.contains('.') && !printed.starts_with('+'), "{printed}");
        let digits = printed.trim_start_matches('-').trim_end_matches(|end: char| !end.is_ascii_digit());
        assert!(!digits.starts_with('0') || digits == "0", "{printed}");
        // A larger suffix of its family would lose something.
        let is_largest = printed.ends_with(['i', 'E']) || printed.contains('e');
        assert!(!digits.ends_with("000") || is_largest, "{printed}");
    }

    #[test]
    fn sums_and_order_are_those_of_numbers((left, ..) in parts(), (right, ..) in parts()) {
        let (left, right) = (quantity(&left), quantity(&right));
        assert_eq!((left + right).nanos, (left.nanos + right.nanos).min(MAX));
        assert_eq!(left.cmp(&right), left.nanos.cmp(&right.nanos));
        assert_eq!(left + right, right + left);
    }

    #[test]
    fn any_text_is_a_quantity_or_refused(text in "[-+.0-9eEinumkKMGTP ]{0,12}") {
        if let Ok(quantity) = text.parse::<Quantity>() {
            assert!(quantity.nanos.abs() <= MAX);
            assert_eq!(quantity.to_string().parse(), Ok(quantity), "{text}");
            assert!(i128::from(quantity.units()) * NANOS >= quantity.nanos || quantity.is_negative());
        }
    }
}
