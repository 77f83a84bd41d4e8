//! Finds what can never be evaluated, whatever objects there are: a call whose arguments are constant and which fails, and a time that
//! is compared with something else. Found while it is evaluated, that would be after the time for which a condition waits.

use std::sync::Arc;

use cel::common::ast::{CallExpr, Expr, LiteralValue, operators};
use cel::common::types::{CelInt, CelString};
use cel::{Context, Env, IdedExpr};

use crate::check::{Mistake, mistake, parts, qualified_name};
use crate::environment::TIME;
use crate::instrument::instrument;
use crate::message::{describe, hinted_duration, hinted_timestamp, is_duration, short};
use crate::{meter, offer, stack};

/// How many steps the constant calls of a condition may take. What takes more is left to the evaluation.
const STEPS: u64 = 20_000;
/// How much of a text is quoted, in characters.
const QUOTED: usize = 40;

/// Checks an expression, which must have been checked before for what it calls.
///
/// # Errors
/// The first mistake.
pub(crate) fn check(expression: &IdedExpr, env: &Arc<Env>) -> Result<(), Mistake> {
    let mut constants = Constants {
        env,
        steps: STEPS,
        is_time_hidden: false,
    };
    constants.check(expression)
}

struct Constants<'a> {
    env: &'a Arc<Env>,
    /// What is left of the steps.
    steps: u64,
    /// Whether a macro has a variable of the name of the time.
    is_time_hidden: bool,
}

impl Constants<'_> {
    fn check(&mut self, node: &IdedExpr) -> Result<(), Mistake> {
        let was_hidden = self.is_time_hidden;
        match &node.expr {
            Expr::Call(call) if is_operator(call) => {
                if let Some(message) = compared(call).filter(|_| !was_hidden) {
                    return Err(mistake(node, message));
                }
            }
            Expr::Call(call) => {
                if let Some(part) = constant_part(node, call) {
                    self.evaluate(&part)?;
                }
                if is_constant(node) {
                    return Ok(());
                }
            }
            Expr::Comprehension(rounds) => {
                self.is_time_hidden |= [&rounds.iter_var, &rounds.accu_var]
                    .iter()
                    .any(|it| *it == TIME);
            }
            _ => {}
        }
        parts(node)
            .into_iter()
            .try_for_each(|part| self.check(part))?;
        self.is_time_hidden = was_hidden;
        Ok(())
    }

    fn evaluate(&mut self, constant: &IdedExpr) -> Result<(), Mistake> {
        let mut node = constant.clone();
        instrument(&mut node);
        let context = Context::with_env(Arc::clone(self.env));
        let (result, usage) = meter::run(self.steps, None, || {
            stack::caught(|| cel::Value::resolve_val(&node, &context).map(drop))
        });
        self.steps = self.steps.saturating_sub(usage.steps);
        match result {
            Ok(Err(error)) if usage.stop.is_none() => {
                let message = unreadable(constant).unwrap_or_else(|| describe(&error));
                Err(mistake(constant, message))
            }
            _ => Ok(()),
        }
    }
}

fn is_operator(call: &CallExpr) -> bool {
    call.target.is_none() && offer::is_operator(&call.func_name, call.args.len())
}

/// The call itself if all of it is constant. A pattern and a time zone are enough: they are read whatever the text and the time are.
fn constant_part(node: &IdedExpr, call: &CallExpr) -> Option<IdedExpr> {
    if is_constant(node) {
        return Some(node.clone());
    }
    let last = call.args.last().filter(|it| text(it).is_some())?;
    let any = match (call.func_name.as_str(), call.args.len(), &call.target) {
        ("matches", 1, Some(_)) | ("matches", 2, None) => {
            literal(LiteralValue::String(CelString::from("")))
        }
        (name, 1, Some(_)) if name.starts_with("get") => {
            let zero = literal(LiteralValue::Int(CelInt::from(0)));
            called("timestamp", vec![zero])
        }
        _ => return None,
    };
    let mut part = called(&call.func_name, vec![last.clone()]);
    part.id = node.id;
    if let Expr::Call(part) = &mut part.expr {
        match &call.target {
            Some(_) => part.target = Some(Box::new(any)),
            None => part.args.insert(0, any),
        }
    }
    Some(part)
}

fn literal(value: LiteralValue) -> IdedExpr {
    IdedExpr {
        id: 0,
        expr: Expr::Literal(value),
    }
}

fn called(name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    let func_name = name.to_owned();
    let call = CallExpr {
        func_name,
        target: None,
        args,
    };
    IdedExpr {
        id: 0,
        expr: Expr::Call(call),
    }
}

/// Whether nothing in it depends on the objects or the time.
fn is_constant(node: &IdedExpr) -> bool {
    match &node.expr {
        Expr::Literal(_) => true,
        Expr::List(list) => list.elements.iter().all(is_constant),
        Expr::Call(call) => {
            let target = call.target.as_deref();
            let is_target = target.is_none_or(is_constant) || qualified_name(call).is_some();
            is_target && call.args.iter().all(is_constant)
        }
        _ => false,
    }
}

fn text(node: &IdedExpr) -> Option<&str> {
    match &node.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(CelString::inner(text)),
        _ => None,
    }
}

fn quoted(text: &str) -> String {
    let start: String = text.chars().take(QUOTED).collect();
    let cut = if start.len() < text.len() { "..." } else { "" };
    format!("{start:?}{cut}")
}

/// What is said of a duration, a timestamp or a time zone that is none.
fn unreadable(constant: &IdedExpr) -> Option<String> {
    let Expr::Call(call) = &constant.expr else {
        return None;
    };
    let text = text(call.args.first()?)?;
    let shown = quoted(text);
    let name = call.func_name.as_str();
    Some(match name {
        "duration" if !is_duration(text) => {
            let instead = duration_like(text);
            format!("{shown} is no duration of CEL, whose units are h, m and s; write {instead}")
        }
        "timestamp" => {
            let instead = timestamp_like(text);
            format!(
                "{shown} is no timestamp of CEL, which has a date, a time and a zone; write {instead}"
            )
        }
        name if name.starts_with("get") => {
            format!("{shown} is no time zone; write one such as \"Europe/Madrid\" or \"+02:00\"")
        }
        _ => return None,
    })
}

/// A call with the duration that a text means, or with one that shows how to write it.
fn duration_like(text: &str) -> String {
    let meant = hinted_duration(text);
    format!("duration({:?})", meant.as_deref().unwrap_or("168h"))
}

fn timestamp_like(text: &str) -> String {
    let meant = hinted_timestamp(text);
    let meant = meant.as_deref().unwrap_or("2026-01-15T00:00:00Z");
    format!("timestamp({meant:?})")
}

/// What a value is, whatever the objects are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Timestamp,
    Duration,
    Text,
    Number,
}

impl Kind {
    const fn named(self) -> &'static str {
        match self {
            Self::Timestamp => "a timestamp",
            Self::Duration => "a duration",
            Self::Text => "a text",
            Self::Number => "a number",
        }
    }
}

/// What is wrong with a comparison of a time with something else.
fn compared(call: &CallExpr) -> Option<String> {
    let [one, other] = call.args.as_slice() else {
        return None;
    };
    let is_comparison = matches!(
        call.func_name.as_str(),
        operators::EQUALS
            | operators::NOT_EQUALS
            | operators::LESS
            | operators::LESS_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS
    );
    let kinds = is_comparison.then(|| Some((kind(one)?, kind(other)?)))??;
    let (time, wrong, value) = match kinds {
        (time @ (Kind::Timestamp | Kind::Duration), wrong) if time != wrong => (time, wrong, other),
        (wrong, time @ (Kind::Timestamp | Kind::Duration)) if time != wrong => (time, wrong, one),
        _ => return None,
    };
    let text = text(value).unwrap_or_default();
    let instead = match time {
        Kind::Timestamp => timestamp_like(text),
        _ if is_duration(text) => format!("duration({text:?})"),
        _ => duration_like(text),
    };
    let (time, wrong) = (time.named(), wrong.named());
    Some(short(&format_args!(
        "{time} cannot be compared with {wrong}; write {instead}"
    )))
}

/// What a value is; `None` if that depends on the objects.
fn kind(node: &IdedExpr) -> Option<Kind> {
    let call = match &node.expr {
        Expr::Literal(LiteralValue::String(_)) => return Some(Kind::Text),
        Expr::Literal(LiteralValue::Int(_) | LiteralValue::UInt(_) | LiteralValue::Double(_)) => {
            return Some(Kind::Number);
        }
        Expr::Ident(name) if name == TIME => return Some(Kind::Timestamp),
        Expr::Call(call) => call,
        _ => return None,
    };
    let of = |place: usize| call.args.get(place).and_then(kind);
    match (call.func_name.as_str(), &call.target) {
        ("timestamp", None) => Some(Kind::Timestamp),
        ("duration", None) => Some(Kind::Duration),
        ("string", None) => Some(Kind::Text),
        ("int" | "uint" | "double", None) => Some(Kind::Number),
        (operators::SUBSTRACT, None) => match (of(0)?, of(1)?) {
            (Kind::Timestamp, Kind::Timestamp) | (Kind::Duration, Kind::Duration) => {
                Some(Kind::Duration)
            }
            (Kind::Timestamp, Kind::Duration) => Some(Kind::Timestamp),
            _ => None,
        },
        (operators::ADD, None) => match (of(0)?, of(1)?) {
            (Kind::Timestamp, Kind::Duration) | (Kind::Duration, Kind::Timestamp) => {
                Some(Kind::Timestamp)
            }
            (Kind::Duration, Kind::Duration) => Some(Kind::Duration),
            _ => None,
        },
        _ => None,
    }
}
