//! Puts calls into an expression that pay for what it does: `cel` itself counts nothing.
//!
//! - `[a, b]`, `{a: b}` and what `map` and `filter` return become `@own(...)`: our list or map, paid by its elements. Each loop
//!   goes through one of ours, whose iterator pays for each round.
//! - What a list, a map or a variable takes in becomes `@text(...)`, since text is copied; so do operands and arguments whose
//!   text is read.
//! - A function of ours gets its own name, which starts with `@`.

use std::mem;

use cel::IdedExpr;
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, operators,
};

use crate::check::qualified_name;
use crate::offer::{self, Cost, Style};

/// Makes an expression pay. It must have been checked.
pub(crate) fn instrument(node: &mut IdedExpr) {
    match &mut node.expr {
        Expr::Literal(_) | Expr::Ident(_) | Expr::Unspecified => {}
        Expr::Select(select) => instrument(&mut select.operand),
        Expr::Call(call) => instrument_call(call),
        Expr::List(list) => {
            list.elements.iter_mut().for_each(kept);
            wrap("@own", node);
        }
        Expr::Map(map) => {
            for entry in &mut map.entries {
                match &mut entry.expr {
                    EntryExpr::MapEntry(entry) => {
                        kept(&mut entry.key);
                        kept(&mut entry.value);
                    }
                    EntryExpr::StructField(field) => kept(&mut field.value),
                }
            }
            wrap("@own", node);
        }
        Expr::Comprehension(comprehension) => {
            if instrument_loop(comprehension) {
                wrap("@own", node);
            }
        }
        // A condition that makes a message does not compile.
        Expr::Struct(_) => {}
    }
}

/// What is copied into a list, a map or a variable.
fn kept(node: &mut IdedExpr) {
    instrument(node);
    pay_text(node);
}

fn instrument_call(call: &mut CallExpr) {
    let full_name = qualified_name(call);
    if full_name.is_none()
        && let Some(target) = &mut call.target
    {
        instrument(target);
    }
    call.args.iter_mut().for_each(instrument);
    if call.target.is_none() && offer::is_operator(&call.func_name, call.args.len()) {
        return pay_operator(call);
    }
    let style = match (&full_name, &call.target) {
        (None, Some(_)) => Style::Method,
        _ => Style::Global,
    };
    let name = full_name.unwrap_or_else(|| call.func_name.clone());
    let Some(offer) = offer::function(&name, style) else {
        return;
    };
    let target = call.target.iter_mut().map(Box::as_mut);
    let target = target.filter(|_| style == Style::Method);
    match offer.cost {
        Cost::Constant => {}
        Cost::Text => target.chain(&mut call.args).for_each(pay_text),
        Cost::Brief => {
            let paid = target.chain(&mut call.args).filter(|it| needs_pay(it));
            paid.for_each(|node| wrap("@brief", node));
        }
        Cost::Duration => call.args.iter_mut().for_each(|it| wrap("@duration", it)),
        Cost::Deep => {
            let paid = target.chain(&mut call.args);
            paid.for_each(|node| wrap("@deep", node));
        }
        Cost::Own => {
            let target = call.target.take().filter(|_| style == Style::Method);
            if let Some(target) = target {
                call.args.insert(0, *target);
            }
            call.func_name = format!("@{name}");
        }
    }
}

fn pay_operator(call: &mut CallExpr) {
    let is_literal = |node: &IdedExpr| matches!(node.expr, Expr::Literal(_));
    match call.func_name.as_str() {
        // Both texts become one.
        operators::ADD => call.args.iter_mut().for_each(pay_text),
        // Two texts are read as far as they are equal, so not further than the shorter one.
        operators::EQUALS
        | operators::NOT_EQUALS
        | operators::LESS
        | operators::LESS_EQUALS
        | operators::GREATER
        | operators::GREATER_EQUALS
            if !call.args.iter().any(is_literal) =>
        {
            call.args.iter_mut().for_each(pay_text);
        }
        // The list pays for each comparison.
        operators::IN => call.args.first_mut().into_iter().for_each(pay_text),
        operators::INDEX => call.args.iter_mut().skip(1).for_each(pay_text),
        _ => {}
    }
}

/// Returns whether the loop makes a list.
fn instrument_loop(comprehension: &mut ComprehensionExpr) -> bool {
    // cel.bind: a loop that runs no round.
    if matches!(&comprehension.loop_cond.expr, Expr::Literal(LiteralValue::Boolean(value)) if !*value.inner())
    {
        kept(&mut comprehension.accu_init);
        instrument(&mut comprehension.result);
        return false;
    }
    instrument(&mut comprehension.iter_range);
    if let Some(appended) = appended(&mut comprehension.loop_step, &comprehension.accu_var) {
        appended.iter_mut().for_each(kept);
        if let Some(guard) = guard(&mut comprehension.loop_step) {
            instrument(guard);
        }
        return true;
    }
    instrument(&mut comprehension.loop_step);
    instrument(&mut comprehension.result);
    false
}

/// The elements that each round of a loop appends to its result: `@result + [elements]`, or that under a guard, as
/// `guard ? @result + [elements] : @result`. The list of them must stay what it is: by this shape, `cel` knows that it can append
/// in place.
fn appended<'a>(step: &'a mut IdedExpr, accumulator: &str) -> Option<&'a mut Vec<IdedExpr>> {
    let Expr::Call(call) = &mut step.expr else {
        return None;
    };
    let is_accumulator =
        |node: &IdedExpr| matches!(&node.expr, Expr::Ident(name) if name == accumulator);
    match call.func_name.as_str() {
        operators::ADD => match call.args.as_mut_slice() {
            [result, list] if is_accumulator(result) => match &mut list.expr {
                Expr::List(ListExpr { elements, .. }) => Some(elements),
                _ => None,
            },
            _ => None,
        },
        operators::CONDITIONAL => match call.args.as_mut_slice() {
            [_, step, result] if is_accumulator(result) => appended(step, accumulator),
            _ => None,
        },
        _ => None,
    }
}

/// What `filter` and `map` ask before they append.
fn guard(step: &mut IdedExpr) -> Option<&mut IdedExpr> {
    match &mut step.expr {
        Expr::Call(call) if call.func_name == operators::CONDITIONAL => call.args.first_mut(),
        _ => None,
    }
}

/// A literal is as long as the condition itself, so it needs no pay; and a list is no text.
fn needs_pay(node: &IdedExpr) -> bool {
    match &node.expr {
        Expr::Literal(_) => false,
        Expr::Call(call) => call.func_name != "@own",
        _ => true,
    }
}

fn pay_text(node: &mut IdedExpr) {
    if needs_pay(node) {
        wrap("@text", node);
    }
}

fn wrap(function: &str, node: &mut IdedExpr) {
    let inner = mem::take(node);
    node.id = inner.id;
    node.expr = Expr::Call(CallExpr {
        func_name: function.to_owned(),
        target: None,
        args: vec![inner],
    });
}
