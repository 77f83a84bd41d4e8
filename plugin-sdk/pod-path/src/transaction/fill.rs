//! Completes a value that is written through a selector.

use serde_json::Value;

use crate::check::{noun, scalar};
use crate::error::AccessError;
use crate::path::{Selector, has_text};
use crate::schema::Schema;

/// Sets the field that a selector compares.
pub(super) fn fill_key(
    path: &str,
    value: &mut Value,
    selector: &Selector<'_>,
    schema: Schema,
) -> Result<(), AccessError> {
    let (key, text) = (&*selector.key, &*selector.value);
    let Value::Object(fields) = value else {
        let reason = format_args!(
            "an element that is named by its {key} must be an object, found {}",
            noun(value)
        );
        return Err(AccessError::invalid_value(path, reason));
    };
    match fields.get(key) {
        None | Some(Value::Null) => {}
        Some(own) if has_text(own, text) => return Ok(()),
        Some(_) => {
            let reason = format_args!(
                "its field {key} differs from {text:?} in the path; omit the field, or make both equal"
            );
            return Err(AccessError::invalid_value(path, reason));
        }
    }
    match scalar(text, schema.field(key)).filter(|own| has_text(own, text)) {
        Some(own) => {
            fields.insert(key.to_owned(), own);
            Ok(())
        }
        None => {
            let reason = format_args!(
                "the path has {text:?} for its field {key}, expected {}",
                schema.field(key).noun()
            );
            Err(AccessError::invalid_value(path, reason))
        }
    }
}
