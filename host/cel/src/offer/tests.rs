use std::sync::Arc;

use cel::common::ast::{CallExpr, Expr, LiteralValue};
use cel::{Context, ExecutionError, IdedExpr};

use super::*;
use crate::environment::environment;

fn null() -> IdedExpr {
    IdedExpr {
        id: 1,
        expr: Expr::Literal(LiteralValue::Null),
    }
}

/// What `cel` says to a call with so many nulls; a method has one more as its target.
fn call(name: &str, offer: &Offer, arguments: usize) -> Option<ExecutionError> {
    let mut args: Vec<IdedExpr> = (0..arguments).map(|_| null()).collect();
    let mut target = (offer.style == Style::Method).then(|| Box::new(null()));
    let mut func_name = name.to_owned();
    if offer.cost == Cost::Own {
        args.extend(target.take().map(|target| *target));
        func_name = format!("@{name}");
    }
    let expression = IdedExpr {
        id: 2,
        expr: Expr::Call(CallExpr {
            func_name,
            target,
            args,
        }),
    };
    let context = Context::with_env(Arc::new(environment().expect("no name is there twice")));
    cel::Value::resolve_val(&expression, &context).err()
}

/// Each function by its name.
fn functions() -> Vec<(&'static str, &'static Offer)> {
    let named = |offer: &'static Offer| offer.names.split(' ').map(move |name| (name, offer));
    FUNCTIONS.iter().flat_map(named).collect()
}

#[test]
fn every_function_of_the_table_exists() {
    for (name, offer) in functions() {
        for arguments in offer.arguments.clone() {
            let error = call(name, offer, arguments);
            let unknown = matches!(&error, Some(ExecutionError::UndeclaredReference(_)));
            assert!(!unknown, "{name}, {offer:?}: {error:?}");
        }
    }
}

#[test]
fn no_function_is_in_the_table_twice() {
    let mut known = std::collections::HashSet::new();
    for (name, offer) in functions() {
        assert!(known.insert((name, offer.style == Style::Method)), "{name}");
    }
}
