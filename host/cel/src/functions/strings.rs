//! The functions of text that make much of little, or that look at each position of a text again and again in `cel`.
//!
//! Positions are counted in code points, as everywhere in CEL.

use std::cell::RefCell;

use cel::ExecutionError;
use cel::common::types::{CelBool, CelString};
use regex::{Regex, RegexBuilder};

use super::lists;
use super::{Arguments, Returned, int, list, place, text, wrong};
use crate::meter;
use crate::value::{List, Value};

/// The longest pattern of `matches`, in bytes.
const PATTERN: usize = 1024;
/// The longest text of `matches`, in bytes.
const SEARCHED: usize = 256 << 10;
/// The memory of a compiled pattern. Together, these limits bound one match to about a second: its time is at worst the product
/// of both, and nothing can end it in the middle.
const COMPILED: usize = 256 << 10;
/// Steps of compiling a pattern, for each of its bytes.
const COMPILING: u64 = 16;

thread_local! {
    /// The pattern that was compiled last: a macro asks for the same one in each of its rounds.
    static LAST_PATTERN: RefCell<Option<(String, Regex)>> = const { RefCell::new(None) };
}

/// `text.reverse()`, or a list's.
pub(super) fn reverse_any<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let Some(text) = text(&arguments, 0) else {
        return match arguments.as_slice() {
            [value] if value.downcast_ref::<List>().is_some() => lists::reverse(arguments),
            _ => Err(wrong("reverse", &arguments)),
        };
    };
    meter::charge(meter::of_text(text.len()))?;
    Ok(string(text.chars().rev().collect()))
}

/// `text.indexOf(part)`, `text.indexOf(part, from)`, or where an element is in a list.
pub(super) fn index_of_any<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let Some((text, part, from)) = searched("indexOf", &arguments)? else {
        return lists::position("indexOf", &arguments, false);
    };
    let found = from
        .map_or(Some(0), |from| byte_at(text, from))
        .and_then(|start| Some((start, text.get(start..)?.find(part)?)))
        .and_then(|(start, at)| text.get(..start + at));
    Ok(position(found))
}

/// `text.lastIndexOf(part)`, `text.lastIndexOf(part, at the latest)`, or where an element is last in a list.
pub(super) fn last_index_of_any<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let Some((text, part, from)) = searched("lastIndexOf", &arguments)? else {
        return lists::position("lastIndexOf", &arguments, true);
    };
    let mut end = from
        .and_then(|from| byte_at(text, from))
        .map_or(text.len(), |start| text.len().min(start + part.len()));
    // No part ends inside a character.
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let found = text
        .get(..end)
        .and_then(|text| text.get(..text.rfind(part)?));
    Ok(position(found))
}

/// A text, a part to find in it, and the position of the search, if there is one.
type Search<'a> = (&'a str, &'a str, Option<usize>);

/// What to search; `None` if the first argument is a list.
fn searched<'a>(
    function: &str,
    arguments: &'a [super::CowVal<'_, '_>],
) -> Result<Option<Search<'a>>, ExecutionError> {
    if list(function, arguments).is_ok() {
        return Ok(None);
    }
    let (Some(text), Some(part)) = (text(arguments, 0), text(arguments, 1)) else {
        return Err(wrong(function, arguments));
    };
    meter::charge(meter::of_text(text.len()) + meter::of_text(part.len()))?;
    if arguments.len() == 2 {
        return Ok(Some((text, part, None)));
    }
    let from = int(arguments, 2).ok_or_else(|| wrong(function, arguments))?;
    let length = text.chars().count();
    let out_of_range = || {
        let message = format!("position {from} is outside a text of {length}");
        ExecutionError::function_error(function, message)
    };
    let from = usize::try_from(from).map_err(|_| out_of_range())?;
    // As in cel-go: nothing is found anywhere, even behind the end.
    if from >= length && !part.is_empty() {
        return Err(out_of_range());
    }
    Ok(Some((text, part, Some(from.min(length)))))
}

/// Where the code point at a position begins.
fn byte_at(text: &str, position: usize) -> Option<usize> {
    let ends = std::iter::once(text.len());
    text.char_indices()
        .map(|(at, _)| at)
        .chain(ends)
        .nth(position)
}

/// The position behind what was before; -1 if nothing was found.
fn position<'b, 'v>(before: Option<&str>) -> super::CowVal<'b, 'v> {
    place(before.map(|before| before.chars().count()))
}

/// `["a", "b"].join()` and `["a", "b"].join(", ")`.
pub(super) fn join<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let elements = list("join", &arguments)?.elements();
    let between = match arguments.len() {
        1 => "",
        _ => text(&arguments, 1).ok_or_else(|| wrong("join", &arguments))?,
    };
    let mut parts = Vec::new();
    let mut bytes = 0;
    for element in elements {
        meter::charge(1)?;
        let Value::String(part) = element else {
            let message = "only texts can be joined";
            return Err(ExecutionError::function_error("join", message));
        };
        bytes += part.len() + between.len();
        parts.push(part.inner());
    }
    meter::charge(meter::of_text(bytes))?;
    Ok(string(parts.join(between)))
}

/// `text.split(separator)` and `text.split(separator, at most)`. An empty separator splits into code points.
pub(super) fn split<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let (Some(text), Some(separator)) = (text(&arguments, 0), text(&arguments, 1)) else {
        return Err(wrong("split", &arguments));
    };
    let most = most("split", &arguments, 2)?;
    meter::charge(meter::of_text(text.len()))?;
    let mut parts = Vec::new();
    let mut rest = Some(text).filter(|text| !(text.is_empty() && separator.is_empty()));
    while let Some(text) = rest
        && parts.len() < most
    {
        let cut = if parts.len() + 1 == most {
            None
        } else if separator.is_empty() {
            let first = text.chars().next().map_or(0, char::len_utf8);
            text.split_at_checked(first)
                .filter(|(_, after)| !after.is_empty())
        } else {
            text.split_once(separator)
        };
        let (part, after) = cut.map_or((text, None), |(part, after)| (part, Some(after)));
        meter::charge(1 + meter::of_text(part.len()))?;
        parts.push(Value::String(CelString::from(part.to_owned())));
        rest = after;
    }
    Ok(Value::List(List::new(parts)).into_cow())
}

/// `text.replace(part, by)` and `text.replace(part, by, at most)`.
pub(super) fn replace<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let texts = (
        text(&arguments, 0),
        text(&arguments, 1),
        text(&arguments, 2),
    );
    let (Some(text), Some(part), Some(by)) = texts else {
        return Err(wrong("replace", &arguments));
    };
    let most = most("replace", &arguments, 3)?;
    meter::charge(meter::of_text(text.len()))?;
    let count = text.matches(part).take(most).count();
    // A short text of which each position becomes a long one.
    let added = count.saturating_mul(by.len());
    meter::charge(meter::of_text(text.len().saturating_add(added)))?;
    Ok(string(text.replacen(part, by, count)))
}

/// How often at most: as often as there is, if the argument is below 0 or absent.
fn most(
    function: &str,
    arguments: &[super::CowVal<'_, '_>],
    place: usize,
) -> Result<usize, ExecutionError> {
    if arguments.len() <= place {
        return Ok(usize::MAX);
    }
    let most = int(arguments, place).ok_or_else(|| wrong(function, arguments))?;
    Ok(usize::try_from(most).unwrap_or(usize::MAX))
}

/// `text.matches(pattern)` and `matches(text, pattern)`: whether a part of the text matches.
///
/// # Errors
/// If the text or the pattern is too long, or the pattern is wrong or takes too much memory.
pub(super) fn matches<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let (Some(text), Some(pattern)) = (text(&arguments, 0), text(&arguments, 1)) else {
        return Err(wrong("matches", &arguments));
    };
    let refused = |message: String| ExecutionError::function_error("matches", message);
    if pattern.len() > PATTERN {
        return Err(refused(format!(
            "the pattern is longer than {PATTERN} bytes"
        )));
    }
    if text.len() > SEARCHED {
        return Err(refused(format!("the text is longer than {SEARCHED} bytes")));
    }
    meter::charge(meter::of_text(text.len()))?;
    let found = LAST_PATTERN.with_borrow_mut(|last| {
        let same = last.as_ref().filter(|(last, _)| last == pattern);
        if let Some((_, regex)) = same {
            return Ok(regex.is_match(text));
        }
        meter::charge(COMPILING * meter::of_size(1 + pattern.len()))?;
        match RegexBuilder::new(pattern).size_limit(COMPILED).build() {
            Ok(regex) => {
                let found = regex.is_match(text);
                *last = Some((pattern.to_owned(), regex));
                Ok(found)
            }
            Err(regex::Error::CompiledTooBig(_)) => {
                let message = "the pattern takes too much memory; repeat less in it";
                Err(refused(message.to_owned()))
            }
            Err(error) => {
                // It shows the pattern, and says below what is wrong there.
                let error = error.to_string();
                let why = error.lines().last().unwrap_or_default();
                let why = why.strip_prefix("error: ").unwrap_or(why);
                Err(refused(format!(
                    "{pattern:?} is no regular expression: {why}"
                )))
            }
        }
    });
    found.map(|found| Value::Bool(CelBool::from(found)).into_cow())
}

fn string<'b, 'v>(text: String) -> super::CowVal<'b, 'v> {
    Value::String(CelString::from(text)).into_cow()
}
