//! Names of fields, as in Kubernetes' own messages: `spec.browsers.chrome["120.0"].env[0].name`.

use std::fmt::Write;

/// One step from a value to a value inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

/// The path as text; empty for the document itself.
pub(crate) fn name(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Index(index) => {
                let _infallible = write!(text, "[{index}]");
            }
            Step::Key(key) if is_plain(key) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(key);
            }
            Step::Key(key) => {
                let _infallible = write!(text, "[{key:?}]");
            }
        }
    }
    text
}

fn is_plain(key: &str) -> bool {
    !key.is_empty()
        && key.bytes().all(|byte| {
            byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' || byte == b'$'
        })
}
