use std::sync::Arc;
use std::time::Duration;

use podloom_mutators::{LoadError, Reload};

use super::{ATTEMPTS, History};

fn refused(message: &str, repeated: bool) -> Reload {
    let error = LoadError::Broken {
        directory: "/plugins".into(),
        message: message.to_owned(),
    };
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
    let errors: Vec<&str> = attempts
        .iter()
        .filter_map(|it| it.error.as_deref())
        .collect();
    assert_eq!(errors.len(), ATTEMPTS);
    assert!(errors[0].ends_with("mistake 14"), "{errors:?}");
    assert!(errors[9].ends_with("mistake 5"), "{errors:?}");
    assert_eq!((attempts[0].outcome, &attempts[0].chain), ("broken", &None));
    assert_eq!(attempts[0].took, None::<Duration>);
}
