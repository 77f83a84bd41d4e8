//! Estimates for texts must equal those for the values that they become.

use proptest::prelude::{Strategy, any, prop_oneof, proptest};
use serde_json::Value;

use super::super::{Forecast, cost};

/// Checks that text and value get the same estimate.
#[track_caller]
fn check(text: &str, at_least: usize) {
    let value: Value = serde_json::from_str(text).unwrap();
    let forecast = Forecast::of(text, 128);
    assert_eq!(forecast.cost, cost(&value), "{text:.40}");
    assert!(forecast.cost >= at_least, "{text:.40}: {forecast:?}");
    assert!(
        forecast.cost <= Forecast::highest_cost(text.len()),
        "{text:.40}: {forecast:?}"
    );
}

#[test]
fn a_text_gets_the_estimate_of_its_value() {
    check("7", 0);
    check("\"\"", 0);
    check(&format!("\"{}\"", "x".repeat(1000)), 1000);
    check(r#"{"name":"a","image":"b"}"#, 640);
    // Five bytes of text, and a leaf of a map.
    check(
        &format!("{}0{}", r#"{"":"#.repeat(100), "}".repeat(100)),
        64_000,
    );
    check(&format!("[{}0]", r#"{"":0},"#.repeat(1000)), 640_000);
    check(&format!("{}0{}", "[".repeat(100), "]".repeat(100)), 12_800);
    check(&format!("[{}0]", "0,".repeat(1023)), 32_768);
    let keys: Vec<String> = (0..1000).map(|key| format!("\"{key}\":0")).collect();
    check(&format!("{{{}}}", keys.join(",")), 100_000);
}

#[test]
fn an_invalid_text_gets_an_estimate_too() {
    assert_eq!(Forecast::of("[[[", 128).depth, 3);
    assert!(Forecast::of(&r#"{"":"#.repeat(100), 128).cost >= 64_000);
    assert_eq!(Forecast::of("]]}}", 128), Forecast { depth: 0, cost: 0 });
    assert_eq!(Forecast::of(r#""[[[\"[[["#, 128).depth, 0);
    // Scanning stops at the limit.
    assert_eq!(Forecast::of(&"[".repeat(100_000), 64).depth, 65);
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z\"\\\\\u{e9}\n]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 16, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..16).prop_map(Value::from),
            proptest::collection::btree_map("[a-z\"]{0,4}", inner, 0..16)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_value_takes_more_than_was_forecast(value in json()) {
        let text = value.to_string();
        let forecast = Forecast::of(&text, 128);
        assert!(forecast.cost >= cost(&value));
        assert!(forecast.cost <= Forecast::highest_cost(text.len()));
    }
}
