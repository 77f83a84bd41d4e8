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
fn call(offer: &Offer, arguments: usize) -> Option<ExecutionError> {
    let mut args: Vec<IdedExpr> = (0..arguments).map(|_| null()).collect();
    let mut target = (offer.style == Style::Method).then(|| Box::new(null()));
    let mut func_name = offer.name.to_owned();
    if offer.cost == Cost::Own {
        args.extend(target.take().map(|target| *target));
        func_name = format!("@{}", offer.name);
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

#[test]
fn every_function_of_the_table_exists() {
    for offer in FUNCTIONS {
        for arguments in offer.arguments.clone() {
            let error = call(offer, arguments);
            let unknown = matches!(&error, Some(ExecutionError::UndeclaredReference(_)));
            assert!(!unknown, "{offer:?}: {error:?}");
        }
    }
}

#[test]
fn no_function_is_in_the_table_twice() {
    for (place, offer) in FUNCTIONS.iter().enumerate() {
        let again = FUNCTIONS
            .iter()
            .skip(place + 1)
            .any(|other| (other.name, other.style) == (offer.name, offer.style));
        assert!(!again, "{offer:?}");
    }
}
