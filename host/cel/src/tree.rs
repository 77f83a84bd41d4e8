//! What an expression is made of.

use cel::IdedExpr;
use cel::common::ast::{CallExpr, EntryExpr, Expr};

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
