//! Values that are wrong are refused with a message that says which, and what to write.

use super::{Chart, RELEASE, rows};

#[test]
fn wrong_values_are_named() {
    let Some(chart) = Chart::new() else { return };
    for row in rows(include_str!("refused.yaml")) {
        let values = &row["values"];
        let error = chart.template(RELEASE, values).unwrap_err();
        let expected = row["error"].as_str().unwrap();
        assert!(error.contains(expected), "{values}: {error}");
    }
}
