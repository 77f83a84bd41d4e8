//! Bounds the time of validating a configuration, and the memory for its errors.
//!
//! Validation cannot be interrupted. So its steps are counted first, in the worst case: all schemas are applied, and all of them
//! fail. The schema has no references any more, so this terminates.

use serde_json::{Map, Value};

use crate::Problem;

/// Applications of subschemas to values, and reads of text. The configurations of the standard plugins need a few hundred.
const STEPS: usize = 500_000;
/// Bytes of text that are read or compared in one step.
const TEXT: usize = 64;
/// States of a pattern that are followed in one step.
const STATES: usize = 64;
/// Memory that the errors of a configuration may take: the validator collects all of them.
const ERRORS: usize = 32 << 20;
/// Memory of one error besides the pointer to the value.
const ERROR: usize = 256;
/// In longer lists equal items are found by hashing; in shorter ones each is compared with each.
const COMPARED_ITEMS: usize = 15;

/// Checks that a configuration can be validated in bounded time. The schema must have no references. Returns whether the memory limit
/// allows to collect all errors of the configuration.
pub(crate) fn check(schema: &Value, config: &Value) -> Result<bool> {
    let mut walk = StepBudget {
        steps: STEPS,
        errors: Some(ERRORS),
    };
    let at = Application {
        // Once for whether it is valid, and once for its errors.
        times: 2,
        path: 0,
        kept: Kept::Borrowed,
    };
    walk.apply(schema, config, at)?;
    Ok(walk.errors.is_some())
}

struct StepBudget {
    steps: usize,
    /// Memory that is left for errors; none once there may be too many.
    errors: Option<usize>,
}

/// How a schema is applied.
#[derive(Clone, Copy)]
struct Application {
    /// Each choice applies its branches once more, to collect their errors.
    times: usize,
    /// The length of the pointer to the value.
    path: usize,
    kept: Kept,
}

/// What the validator does with an error.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// Drops it, since only validity matters.
    Not,
    /// Keeps it, with a reference to the value.
    Borrowed,
    /// Keeps it in another error, with a copy of the value.
    Owned,
}

impl Application {
    fn key(self, bytes: usize) -> Self {
        Self {
            path: self.path + 1 + bytes,
            ..self
        }
    }

    fn choice(self) -> Self {
        Self {
            times: self.times + 1,
            ..self.owned()
        }
    }

    fn owned(self) -> Self {
        match self.kept {
            Kept::Not => self,
            _ => Self {
                kept: Kept::Owned,
                ..self
            },
        }
    }

    fn silent(self) -> Self {
        Self {
            kept: Kept::Not,
            ..self
        }
    }
}

type Result<T, E = Problem> = std::result::Result<T, E>;

impl StepBudget {
    fn take(&mut self, at: Application, steps: usize) -> Result<()> {
        self.steps = self
            .steps
            .checked_sub(at.times.saturating_mul(steps))
            .ok_or(Problem::TooLarge)?;
        Ok(())
    }

    fn apply(&mut self, schema: &Value, place: &Value, at: Application) -> Result<()> {
        self.take(at, 1)?;
        let Value::Object(keywords) = schema else {
            self.fail("", schema, place, at);
            return Ok(());
        };
        for (keyword, value) in keywords {
            self.fail(keyword, value, place, at);
            self.keyword(keyword, value, place, at)?;
            match place {
                Value::Object(fields) => self.of_object(keyword, value, fields, at)?,
                Value::Array(items) => self.of_list(keyword, value, items, at)?,
                Value::String(text) => self.take(at, 1 + text.len() / TEXT)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Charges for the errors of a keyword.
    fn fail(&mut self, keyword: &str, value: &Value, place: &Value, at: Application) {
        if at.kept == Kept::Not {
            return;
        }
        // Counting takes time, too.
        let Some(left) = self.errors else { return };
        let (count, quoted) = match (keyword, value) {
            ("required" | "dependentRequired" | "dependencies", names) => {
                (size(names), size(names))
            }
            ("not" | "pattern", value) => (1, size(value)),
            ("additionalProperties", _) => (1, place.as_object().map_or(0, names)),
            _ => (1, 0),
        };
        let copied = match at.kept {
            Kept::Owned => size(place),
            _ => 0,
        };
        let each = ERROR + at.path + copied.saturating_mul(TEXT);
        let all = count.saturating_mul(each) + quoted.saturating_mul(TEXT);
        self.errors = left.checked_sub(all);
    }

    /// Counts keywords that apply to the value itself.
    fn keyword(
        &mut self,
        keyword: &str,
        value: &Value,
        place: &Value,
        at: Application,
    ) -> Result<()> {
        match (keyword, value) {
            ("allOf", Value::Array(schemas)) => self.each(schemas, place, at),
            ("anyOf" | "oneOf", Value::Array(schemas)) => self.each(schemas, place, at.choice()),
            ("not" | "if", schema) => self.apply(schema, place, at.silent()),
            ("then" | "else", schema) => self.apply(schema, place, at),
            ("dependentSchemas" | "dependencies" | "dependentRequired", Value::Object(named)) => {
                self.take(at, named.values().map(size).sum())?;
                self.each(named.values(), place, at)
            }
            ("const" | "enum" | "required", value) => self.take(at, size(value)),
            ("pattern", Value::String(pattern)) => {
                let text = place.as_str().map_or(0, str::len);
                self.take(at, text.saturating_mul(matching(pattern)))
            }
            _ => Ok(()),
        }
    }

    fn of_object(
        &mut self,
        keyword: &str,
        value: &Value,
        fields: &Map<String, Value>,
        at: Application,
    ) -> Result<()> {
        match (keyword, value) {
            ("properties", Value::Object(properties)) => {
                self.take(at, properties.len() + names(fields))?;
                properties.iter().try_for_each(|(name, schema)| {
                    let field = fields.get(name);
                    field.map_or(Ok(()), |field| {
                        self.apply(schema, field, at.key(name.len()))
                    })
                })
            }
            ("patternProperties", Value::Object(patterns)) => {
                let text: usize = fields.keys().map(|name| 1 + name.len()).sum();
                let of_each: usize = patterns.keys().map(|pattern| matching(pattern)).sum();
                self.take(at, text.saturating_mul(of_each))?;
                fields.iter().try_for_each(|(name, field)| {
                    self.each(patterns.values(), field, at.key(name.len()))
                })
            }
            ("additionalProperties", schema) => {
                self.take(at, names(fields))?;
                fields
                    .iter()
                    .try_for_each(|(name, field)| self.apply(schema, field, at.key(name.len())))
            }
            ("propertyNames", schema) => fields
                .keys()
                .try_for_each(|name| self.apply(schema, &Value::String(name.clone()), at.owned())),
            _ => Ok(()),
        }
    }

    fn of_list(
        &mut self,
        keyword: &str,
        value: &Value,
        items: &[Value],
        at: Application,
    ) -> Result<()> {
        let item_at = at.key(4);
        match (keyword, value) {
            ("items" | "prefixItems", Value::Array(schemas)) => items
                .iter()
                .zip(schemas)
                .try_for_each(|(item, schema)| self.apply(schema, item, item_at)),
            ("items" | "additionalItems", schema) => items
                .iter()
                .try_for_each(|item| self.apply(schema, item, item_at)),
            ("contains", schema) => items
                .iter()
                .try_for_each(|item| self.apply(schema, item, item_at.silent())),
            ("uniqueItems", Value::Bool(true)) => self.take(at, comparisons(items)),
            _ => Ok(()),
        }
    }

    fn each<'v>(
        &mut self,
        schemas: impl IntoIterator<Item = &'v Value>,
        place: &Value,
        at: Application,
    ) -> Result<()> {
        schemas
            .into_iter()
            .try_for_each(|schema| self.apply(schema, place, at))
    }
}

/// Steps for finding equal items.
fn comparisons(items: &[Value]) -> usize {
    let scalars = items
        .iter()
        .all(|item| !item.is_array() && !item.is_object());
    let of_each = items.iter().map(size).sum::<usize>();
    if items.len() <= COMPARED_ITEMS {
        of_each.saturating_mul(items.len())
    } else if scalars {
        of_each
    } else {
        // Lists and objects that differ may have equal hashes.
        of_each.saturating_mul(items.len()) / 16
    }
}

/// Steps for matching one byte against a pattern, at worst.
fn matching(pattern: &str) -> usize {
    1 + states(pattern) / STATES
}

/// Steps for reading names.
fn names(fields: &Map<String, Value>) -> usize {
    fields.keys().map(|name| 1 + name.len() / TEXT).sum()
}

/// Steps for comparing with a value, or searching it; also a measure of its memory.
fn size(value: &Value) -> usize {
    match value {
        Value::String(string) => 1 + string.len() / TEXT,
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        // Even a single field takes memory for eleven.
        Value::Object(fields) if fields.is_empty() => 1,
        Value::Object(fields) => 10 + names(fields) + fields.values().map(size).sum::<usize>(),
        _ => 1,
    }
}

/// About how many states a pattern can be in at once: its characters, multiplied by the repetitions around them.
///
/// Matching takes time linear in the text, but for each byte it may follow all of them. With `[ab]*a[ab]{3000}` these are thousands, and
/// a kilobyte takes a tenth of a second.
fn states(pattern: &str) -> usize {
    let mut chars = pattern.chars();
    // The sums before each open group, the sum in the innermost group, and that of the last item, which a repetition multiplies.
    let mut before = Vec::new();
    let (mut sum, mut last) = (0_usize, 0_usize);
    while let Some(char) = chars.next() {
        match char {
            '(' => {
                before.push(sum);
                (sum, last) = (0, 0);
            }
            ')' => {
                last = sum;
                sum = sum.saturating_add(before.pop().unwrap_or(0));
            }
            '{' => {
                let Some((times, rest)) = repetition(chars.as_str()) else {
                    continue;
                };
                let repeated = last.saturating_mul(times);
                sum = sum.saturating_add(repeated);
                last = repeated;
                chars = rest.chars();
            }
            '*' | '+' | '?' => {}
            _ => {
                match char {
                    '\\' => drop(chars.next()),
                    '[' => skip_class(&mut chars),
                    _ => {}
                }
                sum = sum.saturating_add(1);
                last = 1;
            }
        }
    }
    before.into_iter().fold(sum, usize::saturating_add)
}

/// The largest number in `{n}`, `{n,}` or `{n,m}`, and the text after it.
fn repetition(text: &str) -> Option<(usize, &str)> {
    let (times, rest) = text.split_once('}')?;
    let most = times
        .split(',')
        .filter_map(|times| times.trim().parse().ok());
    Some((most.max()?, rest))
}

fn skip_class(chars: &mut std::str::Chars<'_>) {
    while let Some(char) = chars.next() {
        match char {
            ']' => break,
            '\\' => drop(chars.next()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
