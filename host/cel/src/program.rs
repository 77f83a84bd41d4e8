//! Compiling conditions.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use cel::{Env, IdedExpr, ParseErrors};

use crate::check::Walked;
use crate::environment::{TIME, environment};
use crate::instrument::instrument;
use crate::message::short;
use crate::outcome::{Failure, Reason};
use crate::stack::Broken;
use crate::{check, constants, stack};

/// The longest condition, in characters.
const LONGEST_CONDITION: usize = 8192;
/// How deep brackets may be nested. It is what the parser itself can do.
const BRACKETS: usize = 64;
const NO_EXPRESSION: &str = "this is no expression";

/// A compiled condition. A clone shares it.
#[derive(Clone)]
pub struct Program {
    expression: Arc<IdedExpr>,
    walked: Arc<[Walked]>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Program")
    }
}

impl Program {
    pub(crate) fn expression(&self) -> &IdedExpr {
        &self.expression
    }

    /// The lists of which it is also true if they are empty.
    pub(crate) fn walked(&self) -> &[Walked] {
        &self.walked
    }
}

/// Compiles all conditions of a list, in which only `names`, `time` and what CEL offers are known.
///
/// It runs on a thread of its own with a large stack, and waits for it: a few milliseconds, and below a second for the worst condition
/// that anybody could write.
///
/// A condition does not compile if it is too long or nested too deep, is not written in CEL, or uses names, functions or methods that
/// there are not. Whether a value has the type that is needed is found when it is evaluated: CEL without declared types cannot know it
/// before.
///
/// # Errors
/// A failure for each that does not compile, with its place in the list. Its reason is [`Reason::CompileError`], unless nothing could be
/// compiled for now, which says nothing about the conditions.
pub fn compile_all(conditions: &[&str], names: &[&str]) -> Result<Vec<Program>, Vec<Failure>> {
    let compiled = stack::wait_for(|| compile_here(conditions, names));
    compiled.unwrap_or_else(|broken| Err(vec![none_compiled(&broken)]))
}

/// The failure if nothing could be compiled. Without a thread, that says nothing about the conditions.
pub(crate) fn none_compiled(broken: &Broken) -> Failure {
    let reason = match broken {
        Broken::Full(_) | Broken::Start(_) => Reason::EvaluationError,
        Broken::Panic(_) => Reason::CompileError,
    };
    Failure::new(0, reason, &broken.to_string())
}

/// Compiles all conditions on this thread.
pub(crate) fn compile_here(
    conditions: &[&str],
    names: &[&str],
) -> Result<Vec<Program>, Vec<Failure>> {
    let env = environment()
        .map_err(|error| vec![Failure::new(0, Reason::CompileError, &error.to_string())])?;
    let env = Arc::new(env);
    let mut programs = Vec::new();
    let mut failures = Vec::new();
    for (index, condition) in conditions.iter().enumerate() {
        match compile(&env, condition, names) {
            Ok(program) => programs.push(program),
            Err(message) => failures.push(Failure::new(index, Reason::CompileError, &message)),
        }
    }
    if failures.is_empty() {
        Ok(programs)
    } else {
        Err(failures)
    }
}

/// Compiles a condition.
///
/// # Errors
/// What is wrong behind its line and the character in it, both counted from 1, and where that is known, what to write instead.
fn compile(env: &Arc<Env>, condition: &str, names: &[&str]) -> Result<Program, String> {
    let at = |(line, column): (usize, usize), message: &str| format!("{line}:{column}: {message}");
    let at_start = |message: &str| at((1, 1), message);
    if condition.chars().nth(LONGEST_CONDITION).is_some() {
        let message = format!("the condition is longer than {LONGEST_CONDITION} characters");
        return Err(at_start(&message));
    }
    if let Some(deep) = too_deep(condition) {
        let message = format!("brackets are nested more than {BRACKETS} levels deep");
        return Err(at(place(condition, deep), &message));
    }
    // The parser of `cel` panics at some texts that are no expressions.
    let parsed = stack::caught(|| env.compile(condition));
    let parsed = parsed.map_err(|_| at_start(NO_EXPRESSION))?;
    let program = parsed.map_err(|errors| {
        let (place, message) = first(&errors, condition);
        at(place, &message)
    })?;
    let names: BTreeSet<&str> = names.iter().copied().chain([TIME]).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let checked = check::check(program.expression(), &names)
        .and_then(|()| constants::check(program.expression(), env));
    checked.map_err(|mistake| {
        let offset = program.source_info().offset_for(mistake.at);
        let offset = offset.map_or(0, |(start, _)| usize::try_from(start).unwrap_or(0));
        at(place(condition, offset), &mistake.message)
    })?;
    let mut expression = program.expression().clone();
    instrument(&mut expression);
    Ok(Program {
        walked: check::walked(program.expression()).into(),
        expression: Arc::new(expression),
    })
}

/// What `has` takes, since something else is at this place: an element of a map is asked for otherwise.
fn has_takes(condition: &str, (line, column): (usize, usize)) -> String {
    let element = || {
        let line = condition.lines().nth(line.checked_sub(1)?)?;
        let (start, _) = line.char_indices().nth(column.checked_sub(1)?)?;
        let (_, rest) = line.get(start..)?.split_once('[')?;
        let quote = rest.chars().next().filter(|it| matches!(it, '"' | '\''))?;
        let end = rest.get(1..)?.find(quote)? + 2;
        let (key, rest) = rest.split_at_checked(end)?;
        rest.starts_with(']').then_some(key)
    };
    match element() {
        Some(key) => short(&format_args!(
            "has() takes a field, as in has(m.a); for a key write {key} in m"
        )),
        None => "has() takes a field, as in has(m.a); for a key write \"a/b\" in m".to_owned(),
    }
}

/// The first error of the parser, and its place. What it says about nodes that are not there only follows from other errors.
fn first(errors: &ParseErrors, condition: &str) -> ((usize, usize), String) {
    let follows = |message: &str| message.contains("Context");
    let mut errors = errors.errors.iter();
    let found = errors.clone().find(|error| !follows(&error.msg));
    let Some(error) = found.or_else(|| errors.next()) else {
        return ((1, 1), NO_EXPRESSION.to_owned());
    };
    let number = |number: isize| usize::try_from(number).unwrap_or(1).max(1);
    let place = (number(error.pos.0), number(error.pos.1));
    let message = match error.msg.contains("invalid argument to has()") {
        true => has_takes(condition, place),
        false => in_our_words(&error.msg),
    };
    (place, message)
}

/// What the parser says, without the list of all that could come instead.
fn in_our_words(message: &str) -> String {
    if message.contains("Recursion limit") {
        return "the condition is nested too deep".to_owned();
    }
    let Some(syntax) = message.strip_prefix("Syntax error: ") else {
        return short(message);
    };
    if syntax.contains("'<EOF>'") {
        return "the condition ends too early".to_owned();
    }
    let what = syntax
        .split_once(" input ")
        .or_else(|| syntax.split_once(" at: "))
        .map(|(_, what)| what.split(" expecting ").next().unwrap_or(what));
    match what {
        Some(what) => short(&format_args!("unexpected {what}")),
        None => short(syntax),
    }
}

/// Line and column of a byte.
fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let column = before
        .get(start..)
        .map_or(0, |before| before.chars().count());
    (line, column + 1)
}

/// Where brackets are nested too deep, if they are. The parser needs much stack for each bracket, and much time for many that are
/// never closed. Brackets in texts and comments count too: they do no harm, and nobody writes so many.
fn too_deep(condition: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, byte) in condition.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > BRACKETS {
            return Some(at);
        }
    }
    None
}
