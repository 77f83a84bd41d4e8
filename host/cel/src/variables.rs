//! What conditions can see.

use std::collections::BTreeMap;

use cel::common::types::CelTimestamp;
use cel::common::value::CowVal;
use cel::context::VariableResolver;
use chrono::DateTime;
use jiff::Timestamp;
use serde_json::Value as Json;

use crate::environment::TIME;
use crate::value::{TooDeep, Value};

/// The objects that conditions see, by name, converted once for any number of evaluations.
///
/// Whole numbers are `int`s if they fit, all other numbers are `double`s; so `replicas + 1` works, whatever the number's sign.
#[derive(Debug, Default)]
pub struct Variables {
    values: BTreeMap<String, Value>,
}

impl Variables {
    /// Adds an object, in place of an earlier one of that name.
    ///
    /// # Errors
    /// If it is nested more than 128 levels deep.
    pub fn insert(&mut self, name: &str, object: &Json) -> Result<(), TooDeep> {
        self.insert_without(name, object, &|_| false)
    }

    /// Does what [`insert`](Self::insert) does, but conditions do not see some values: their keys are there, and to read one
    /// is an error. So a condition that depends on one is neither true nor false.
    ///
    /// `hides` is asked for each field, by the names of the fields that lead to it; the place of an element in a list adds nothing.
    ///
    /// ```
    /// use jiff::Timestamp;
    /// use podloom_cel::{Budget, Outcome, Variables, compile_all, evaluate_all};
    /// use serde_json::json;
    ///
    /// let mut variables = Variables::default();
    /// let login = json!({ "data": { "password": "aHVudGVyMg==" } });
    /// variables.insert_without("login", &login, &|path| matches!(path, ["data", _])).expect("it is not deep");
    /// let programs = compile_all(&["'password' in login.data", "login.data.password != ''"], &["login"]).expect("both compile");
    /// let evaluation = evaluate_all(&programs, &variables, Timestamp::UNIX_EPOCH, Budget::EVALUATION);
    /// assert_eq!(evaluation.outcomes[0], Outcome::True);
    /// assert!(matches!(&evaluation.outcomes[1], Outcome::Error(failure) if failure.message.ends_with("conditions do not see this value")));
    /// ```
    ///
    /// # Errors
    /// If it is nested more than 128 levels deep.
    pub fn insert_without(
        &mut self,
        name: &str,
        object: &Json,
        hides: &dyn Fn(&[&str]) -> bool,
    ) -> Result<(), TooDeep> {
        let value = Value::from_json(object, hides)?;
        self.values.insert(name.to_owned(), value);
        Ok(())
    }
}

impl Variables {
    /// Whether there is a list at a path such as `pods.items`, and nothing in it.
    pub(crate) fn is_empty_list(&self, path: &str) -> bool {
        let mut fields = path.split('.');
        let root = fields.next().and_then(|name| self.values.get(name));
        let found = fields.try_fold(root, |value, field| match value {
            Some(Value::Map(map)) => Some(map.field(field)),
            _ => None,
        });
        matches!(found, Some(Some(Value::List(list))) if list.elements().is_empty())
    }
}

/// The variables of one evaluation.
pub(crate) struct Scene<'a> {
    variables: &'a Variables,
    time: CelTimestamp,
}

impl<'a> Scene<'a> {
    /// The variables at an instant; `None` if CEL has no such instant: it ends with the year 9999.
    pub(crate) fn new(variables: &'a Variables, time: Timestamp) -> Option<Self> {
        let (seconds, nanoseconds) = seconds(time);
        let time = DateTime::from_timestamp(seconds, nanoseconds)?;
        Some(Self {
            variables,
            time: CelTimestamp::from(time.fixed_offset()),
        })
    }
}

/// The second in which an instant lies, and the nanoseconds since it has begun.
pub(crate) fn seconds(time: Timestamp) -> (i64, u32) {
    const SECOND: i32 = 1_000_000_000;
    let nanoseconds = time.subsec_nanosecond();
    // Before 1970, jiff counts the fraction of a second backwards.
    let before = i64::from(nanoseconds.div_euclid(SECOND));
    let since = nanoseconds.rem_euclid(SECOND).unsigned_abs();
    (time.as_second() + before, since)
}

impl VariableResolver for Scene<'_> {
    fn resolve<'b>(&'b self, name: &str) -> Option<CowVal<'b, 'b>> {
        // A target cannot be called time.
        if name == TIME {
            return Some(CowVal::Borrowed(&self.time));
        }
        let value = self.variables.values.get(name)?;
        Some(CowVal::Borrowed(value.as_val()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_counted_from_the_one_that_has_begun() {
        let second = |text: &str| seconds(text.parse().expect("a timestamp"));
        assert_eq!(second("1970-01-01T00:00:05.9Z"), (5, 900_000_000));
        assert_eq!(second("1969-12-31T23:59:58.5Z"), (-2, 500_000_000));
        assert_eq!(second("1969-12-31T23:59:58Z"), (-2, 0));
    }
}
