use serde_json::Value;

use super::SAMPLES;

#[test]
fn the_samples_are_pods() {
    for (name, text) in SAMPLES {
        let pod: Value =
            serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(pod["kind"], "Pod", "{name}");
    }
}
