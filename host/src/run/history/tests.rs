use std::path::Path;
use std::sync::Arc;

use podloom_mutators::{LoadError, Reload};
use serde_json::Value;

use super::{ATTEMPTS, History};

fn refused(message: &str, repeated: bool) -> Reload {
    let error = LoadError::broken(Path::new("/plugins"), message);
    Reload::Refused {
        error: Arc::new(error),
        repeated,
    }
}

#[test]
fn the_latest_attempts_are_remembered_each_once() {
    let history = History::new(None);
    for number in 0..ATTEMPTS + 5 {
        history.attempted(&refused(&format!("mistake {number}"), false));
        history.attempted(&refused(&format!("mistake {number}"), true));
    }
    let attempts = history.attempts();
    let attempts = attempts.as_array().expect("a list");
    let errors = attempts.iter().map(|it| it["error"].as_str());
    let errors: Vec<&str> = errors.map(Option::unwrap_or_default).collect();
    assert_eq!(errors.len(), ATTEMPTS);
    assert!(errors[0].ends_with("mistake 14"), "{errors:?}");
    assert!(errors[9].ends_with("mistake 5"), "{errors:?}");
    assert_eq!(attempts[0]["outcome"], "broken");
    for nothing in ["chain", "milliseconds"] {
        assert_eq!(attempts[0][nothing], Value::Null);
    }
}
