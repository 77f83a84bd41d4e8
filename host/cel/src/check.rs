//! Finds what cannot work in a condition before it is evaluated: unknown names, functions and methods, wrong numbers of
//! arguments, and too much nesting. And lists of which it is also true if they are empty: `pods.items.all(...)` is true of no pod.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use cel::IdedExpr;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, operators};

use crate::offer::{self, Offer, Style};

/// How deep an expression may be nested, with all that macros make of it. `cel` calls itself for each level.
const DEPTH: usize = 250;
/// How many known names an error lists.
const LISTED: usize = 8;

/// Something wrong at a node of the expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// The id of the node.
    pub(crate) at: u64,
    pub(crate) message: String,
}

/// Checks an expression in which only these names are known.
///
/// # Errors
/// The first mistake.
pub(crate) fn check(expression: &IdedExpr, names: &[&str]) -> Result<(), Mistake> {
    let mut scope = Scope {
        names,
        variables: Vec::new(),
        depth: 0,
    };
    scope.check(expression)
}

struct Scope<'a> {
    /// What is known everywhere.
    names: &'a [&'a str],
    /// The variables of the macros around the current node.
    variables: Vec<&'a str>,
    depth: usize,
}

impl<'a> Scope<'a> {
    fn check(&mut self, node: &'a IdedExpr) -> Result<(), Mistake> {
        if self.depth == DEPTH {
            let message = format!("the condition is nested more than {DEPTH} levels deep");
            return Err(mistake(node, message));
        }
        self.depth += 1;
        self.node(node)?;
        self.depth -= 1;
        Ok(())
    }

    fn node(&mut self, node: &'a IdedExpr) -> Result<(), Mistake> {
        match &node.expr {
            Expr::Literal(_) | Expr::List(_) | Expr::Map(_) => {
                parts(node).into_iter().try_for_each(|it| self.check(it))
            }
            Expr::Ident(name) => self.name(node, name),
            Expr::Select(select) => {
                let is_type = qualified(node).is_some_and(|name| self.is_type(&name));
                if is_type && !select.test {
                    return Ok(());
                }
                self.check(&select.operand)
            }
            Expr::Call(call) => self.call(node, call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Struct(message) => Err(mistake(
                node,
                format!("unknown message type {:?}", message.type_name),
            )),
            Expr::Unspecified => Err(mistake(node, "something is missing".to_owned())),
        }
    }

    fn comprehension(&mut self, macro_call: &'a ComprehensionExpr) -> Result<(), Mistake> {
        self.check(&macro_call.iter_range)?;
        self.check(&macro_call.accu_init)?;
        let outside = self.variables.len();
        self.variables.push(&macro_call.accu_var);
        self.check(&macro_call.loop_cond)?;
        self.check(&macro_call.result)?;
        self.variables.push(&macro_call.iter_var);
        self.check(&macro_call.loop_step)?;
        self.variables.truncate(outside);
        Ok(())
    }

    fn call(&mut self, node: &'a IdedExpr, call: &'a CallExpr) -> Result<(), Mistake> {
        let count = call.args.len();
        if call.target.is_none() && offer::is_operator(&call.func_name, count) {
            return call.args.iter().try_for_each(|operand| self.check(operand));
        }
        // `math.abs(x)` calls a function of that name, even where a variable is called math, as `cel` has it.
        let full_name = qualified_name(call);
        let (name, style) = match &full_name {
            Some(name) => (name.as_str(), Style::Global),
            None if call.target.is_some() => (call.func_name.as_str(), Style::Method),
            None => (call.func_name.as_str(), Style::Global),
        };
        let Some(offer) = offer::function(name, style) else {
            let message = self.of_unknown_namespace(call).map_or_else(
                || unknown(name, style, count),
                |name| format!("unknown function {name:?}"),
            );
            return Err(mistake(node, message));
        };
        if !offer.arguments.contains(&count) {
            return Err(mistake(node, wrong_count(name, offer, count)));
        }
        if let (Style::Method, Some(target)) = (style, &call.target) {
            self.check(target)?;
        }
        call.args
            .iter()
            .try_for_each(|argument| self.check(argument))
    }

    /// The name of a function in a namespace that is no variable either: `math.abc(1)`.
    fn of_unknown_namespace(&self, call: &CallExpr) -> Option<String> {
        let target = qualified(call.target.as_deref()?)?;
        let root = target.split('.').next()?;
        let name = format!("{target}.{}", call.func_name);
        let is_known = self.variables.contains(&root)
            || self.names.contains(&root)
            || offer::macro_call(&name, Style::Global).is_some();
        (!is_known).then_some(name)
    }

    fn name(&self, node: &IdedExpr, name: &str) -> Result<(), Mistake> {
        // A dot in front leaves the variables of macros out.
        let (inner, name): (&[&str], _) = match name.strip_prefix('.') {
            Some(name) => (&[], name),
            None => (&self.variables, name),
        };
        if inner.contains(&name) || self.names.contains(&name) || self.is_type(name) {
            return Ok(());
        }
        let mut message = format!("unknown name {name:?}; known here: ");
        let is_visible = |name: &&&str| !name.starts_with(['@', '#']);
        let known = self.variables.iter().rev().chain(self.names);
        for (place, known) in known.filter(is_visible).take(LISTED).enumerate() {
            let between = if place == 0 { "" } else { ", " };
            // Writing to a text cannot fail.
            let _ = write!(message, "{between}{known}");
        }
        Err(mistake(node, message))
    }

    /// Whether the name stands for a type: a variable of that name would hide it.
    fn is_type(&self, name: &str) -> bool {
        let root = name.split('.').next().unwrap_or_default();
        offer::is_type(name) && !self.variables.contains(&root) && !self.names.contains(&root)
    }
}

pub(crate) fn mistake(node: &IdedExpr, message: String) -> Mistake {
    let at = node.id;
    Mistake { at, message }
}

/// The whole name of a function that is called as `math.abs(x)`; `None` if there is no function of that name.
pub(crate) fn qualified_name(call: &CallExpr) -> Option<String> {
    let target = qualified(call.target.as_deref()?)?;
    let name = format!("{target}.{}", call.func_name);
    let is_known = offer::function(&name, Style::Global).is_some()
        || offer::macro_call(&name, Style::Global).is_some();
    is_known.then_some(name)
}

fn unknown(name: &str, style: Style, count: usize) -> String {
    if let Some(offer) = offer::macro_call(name, style) {
        return wrong_count(name, offer, count);
    }
    let other = match style {
        Style::Global => Style::Method,
        Style::Method => Style::Global,
    };
    let exists = offer::function(name, other).is_some();
    match (style, exists) {
        (Style::Global, false) => format!("unknown function {name:?}"),
        (Style::Global, true) => format!("unknown function {name:?}; write x.{name}()"),
        (Style::Method, false) => format!("unknown method {name:?}"),
        (Style::Method, true) => format!("unknown method {name:?}; write {name}(x)"),
    }
}

fn wrong_count(name: &str, offer: &Offer, count: usize) -> String {
    let (least, most) = (*offer.arguments.start(), *offer.arguments.end());
    let wanted = match most {
        usize::MAX => format!("at least {least}"),
        most if most == least => least.to_string(),
        most => format!("{least} to {most}"),
    };
    let plural = if wanted == "1" { "" } else { "s" };
    format!("{name} takes {wanted} argument{plural}, not {count}")
}

/// The parts of a node, in their order.
pub(crate) fn parts(node: &IdedExpr) -> Vec<&IdedExpr> {
    match &node.expr {
        Expr::Literal(_) | Expr::Ident(_) | Expr::Struct(_) | Expr::Unspecified => Vec::new(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Call(CallExpr { target, args, .. }) => {
            target.as_deref().into_iter().chain(args).collect()
        }
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => {
            let entries = map.entries.iter();
            let parts = entries.flat_map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
                EntryExpr::StructField(field) => vec![&field.value],
            });
            parts.collect()
        }
        Expr::Comprehension(rounds) => vec![
            &rounds.iter_range,
            &rounds.accu_init,
            &rounds.loop_cond,
            &rounds.loop_step,
            &rounds.result,
        ],
    }
}

/// `a.b.c`, if the expression is that.
pub(crate) fn qualified(node: &IdedExpr) -> Option<String> {
    match &node.expr {
        Expr::Ident(name) => Some(name.clone()),
        Expr::Select(select) if !select.test => {
            let operand = qualified(&select.operand)?;
            Some(format!("{operand}.{}", select.field))
        }
        _ => None,
    }
}

/// A list through which a condition goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Walked {
    /// Where the list is, as `pods.items`.
    pub(crate) path: String,
    /// How it is asked, as `pods.items.all(...)`.
    pub(crate) asked: String,
}

/// The lists that the condition is also true of if they are empty: `all(...)` or `!exists(...)` go through them. Without those whose size
/// the condition asks for too.
pub(crate) fn walked(expression: &IdedExpr) -> Vec<Walked> {
    let mut found = Found::default();
    found.look(expression, &[]);
    let Found { walked, sized } = found;
    let walked = walked.into_iter();
    walked.filter(|it| !sized.contains(&it.path)).collect()
}

#[derive(Default)]
struct Found {
    walked: BTreeSet<Walked>,
    sized: BTreeSet<String>,
}

impl Found {
    /// `inner` are the variables of the macros around the node: what they hold is no list that could be found by its name.
    fn look<'a>(&mut self, node: &'a IdedExpr, inner: &[&'a str]) {
        if let Some(path) = range(node, true) {
            self.walk(path, inner, ("", "all"));
        }
        if let Expr::Call(call) = &node.expr {
            match (call.func_name.as_str(), call.args.as_slice()) {
                (operators::LOGICAL_NOT, [negated]) => {
                    if let Some(path) = range(negated, false) {
                        self.walk(path, inner, ("!", "exists"));
                    }
                }
                _ => self.sized.extend(sized(call)),
            }
        }
        let mut variables = inner.to_vec();
        if let Expr::Comprehension(rounds) = &node.expr {
            variables.extend([rounds.iter_var.as_str(), rounds.accu_var.as_str()]);
        }
        for part in parts(node) {
            self.look(part, &variables);
        }
    }

    fn walk(&mut self, path: String, inner: &[&str], (sign, name): (&str, &str)) {
        let root = path.split('.').next().unwrap_or_default();
        if !inner.contains(&root) {
            let asked = format!("{sign}{path}.{name}(...)");
            self.walked.insert(Walked { path, asked });
        }
    }
}

/// What a macro goes through that begins with this value: `all` with true, `exists` with false.
fn range(node: &IdedExpr, begins: bool) -> Option<String> {
    let Expr::Comprehension(rounds) = &node.expr else {
        return None;
    };
    let is_it = matches!(&rounds.accu_init.expr, Expr::Literal(LiteralValue::Boolean(value)) if *value.inner() == begins);
    is_it.then(|| qualified(&rounds.iter_range))?
}

/// The list whose size a call asks for, or that it compares with another.
fn sized(call: &CallExpr) -> Option<String> {
    let (name, target) = (call.func_name.as_str(), call.target.as_deref());
    match (name, target, call.args.as_slice()) {
        ("size", Some(list), []) | ("size", None, [list]) => qualified(list),
        (operators::EQUALS | operators::NOT_EQUALS, None, [one, other]) => {
            let is_empty = |node: &IdedExpr| matches!(&node.expr, Expr::List(list) if list.elements.is_empty());
            match (is_empty(one), is_empty(other)) {
                (false, true) => qualified(one),
                (true, false) => qualified(other),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
