//! YAML as charts render it: like Helm's own parser where charts depend on it, and with limits.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_saphyr::{DuplicateKeyPolicy, Error, Options};

/// How many documents a manifest may have.
const DOCUMENTS_MAX: usize = 10_000;

/// How many values a manifest may have.
const VALUES_MAX: usize = 500_000;

/// How many values the manifest of a hook may have: all of them are kept, which takes far more memory than their text. The API server takes
/// no object that has many more.
const HOOK_VALUES_MAX: usize = 50_000;

/// How many texts that look like numbers are found. The manifest is read again for each.
const QUOTED_MAX: usize = 64;
/// How many bytes are read again at most, all times together.
const REREAD_MAX: usize = 4 << 20;

/// How many values may come from aliases.
const ALIASED_MAX: usize = 100_000;

/// How deeply values may be nested.
const DEPTH_MAX: usize = 64;

/// Why a manifest cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// It is no YAML, exceeds a limit, or a field has another type than in Kubernetes.
    #[error("the manifest cannot be read: line {line}, column {column}")]
    Syntax {
        /// The line of the mistake, from 1; 0 if it is not known.
        line: u64,
        /// The column of the mistake, from 1; 0 if it is not known.
        column: u64,
    },
    /// A document has no apiVersion or no kind.
    #[error("object {0} of the manifest has no apiVersion or no kind")]
    NoKind(usize),
    /// The manifest of a hook has no object, or several.
    #[error("the manifest of the hook is not one object")]
    NoHookObject,
    /// The object of a hook has no name, or another kind or name than the hook.
    #[error("the manifest of the hook has another object than the hook says")]
    OtherHookObject,
}

/// Reads all documents of a manifest that are not empty.
pub(crate) fn documents<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, ManifestError> {
    read(text, VALUES_MAX)
}

/// Reads all documents of a hook that are not empty.
pub(crate) fn hook_documents<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, ManifestError> {
    read(text, HOOK_VALUES_MAX)
}

fn read<T: DeserializeOwned>(text: &str, values: usize) -> Result<Vec<T>, ManifestError> {
    let mut text = Cow::Borrowed(text);
    let mut quoted = 0;
    loop {
        let error = match serde_saphyr::from_multiple_with_options(&text, options(values)) {
            Ok(documents) => return Ok(documents),
            Err(error) => error,
        };
        let may_again = quoted < QUOTED_MAX && text.len().saturating_mul(quoted + 1) <= REREAD_MAX;
        match may_again.then(|| with_quotes(&text, &error)).flatten() {
            Some(again) => text = Cow::Owned(again),
            None => {
                let at = error.location();
                return Err(ManifestError::Syntax {
                    line: at.map_or(0, |at| at.line()),
                    column: at.map_or(0, |at| at.column()),
                });
            }
        }
        quoted += 1;
    }
}

/// The text with quotes around a number that is too large for a float, such as the commit `83e2010`: for Helm and kubectl it is a text.
fn with_quotes(text: &str, error: &Error) -> Option<String> {
    let Error::NonFiniteFloat { value, location } = error.without_snippet() else {
        return None;
    };
    // Infinity has no digit.
    let is_written = value.contains(|it: char| it.is_ascii_digit());
    let (before, rest) = text.split_at_checked(location.span().byte_offset()?.try_into().ok()?)?;
    let after = rest.strip_prefix(value.as_str()).filter(|_| is_written)?;
    Some(format!("{before}'{value}'{after}"))
}

fn options(values: usize) -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            flow_nesting_limit: DEPTH_MAX,
            max_nodes: values,
            // Here the end of each list and map counts too, and two events for each document.
            max_events: 2 * values + 2 * DOCUMENTS_MAX,
            max_documents: DOCUMENTS_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: ALIASED_MAX,
        },
        // Charts often write a label twice; Helm takes the last.
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        with_snippet: false,
    }
}
