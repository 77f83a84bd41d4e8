//! Errors of the API server in words.

use std::error::Error;

/// Where kube's text of an answer of the API server goes on with Rust's debug form of it.
const DEBUG: &str = " (Status {";
/// What that text begins with.
const START: &str = "ApiError: ";

/// Returns an error and its causes, without what kube adds for those who debug it, and each cause once.
///
/// Whatever logs, publishes or prints an error of kube does it with this.
pub fn plain(error: &(dyn Error + 'static)) -> String {
    let mut text = words(error);
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = words(error);
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text
}

fn words(error: &dyn Error) -> String {
    let text = error.to_string();
    // It is always at the end.
    let end = text.find(DEBUG).unwrap_or(text.len());
    text[..end].replacen(START, "", 1)
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use kube::runtime::watcher;

    use super::plain;
    use crate::error::{Attempt, Error};

    fn refused() -> kube::Error {
        let status = Status::failure("pods is forbidden: you may not", "Forbidden");
        kube::Error::Api(Box::new(status.with_code(403)))
    }

    #[test]
    fn no_error_shows_rusts_debug_form_of_a_status() {
        let words = "pods is forbidden: you may not: Forbidden";
        assert!(
            refused().to_string().contains("Status {"),
            "kube still does it"
        );
        assert_eq!(plain(&refused()), words);
        let listed = watcher::Error::InitialListFailed(refused());
        assert_eq!(
            plain(&listed),
            format!("failed to perform initial object list: {words}")
        );
        let request = Error::Request {
            attempt: Attempt::READ,
            name: "a".to_owned(),
            source: Box::new(refused()),
        };
        assert_eq!(plain(&request), format!("could not read a: {words}"));
        assert_eq!(plain(&std::io::Error::other("it broke")), "it broke");
    }
}
