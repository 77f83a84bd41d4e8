//! Lists of which a condition is also true if they are empty: `pods.items.all(...)` is true of no pod.

use std::collections::BTreeSet;

use cel::IdedExpr;
use cel::common::ast::{CallExpr, Expr, LiteralValue, operators};

use crate::tree::{parts, qualified};

/// A list through which a condition goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Walked {
    /// Where the list is, as `pods.items`.
    pub(crate) path: String,
    /// How it is asked, as `pods.items.all(...)`.
    pub(crate) asked: String,
}

/// The lists that `all(...)` or `!exists(...)` go through, without those whose size the condition asks for too.
pub(crate) fn walked(expression: &IdedExpr) -> Vec<Walked> {
    let mut found = Found::default();
    found.look(expression, &[]);
    let Found { walked, sized } = found;
    walked
        .into_iter()
        .filter(|it| !sized.contains(&it.path))
        .collect()
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
    if is_it {
        qualified(&rounds.iter_range)
    } else {
        None
    }
}

/// The list whose size a call asks for, or that it compares with another.
fn sized(call: &CallExpr) -> Option<String> {
    match (
        call.func_name.as_str(),
        call.target.as_deref(),
        call.args.as_slice(),
    ) {
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
