//! The environment of `cel` in which conditions are compiled and evaluated.

use cel::common::ast::{
    CallExpr, ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue, operators,
};
use cel::parser::{Macro, MacroExprHelper, ParseError};
use cel::{DeclarationError, Env, extensions};

use crate::functions;

/// The name of the time, which every condition knows.
pub(crate) const TIME: &str = "time";

/// Makes the environment: the standard library, the extensions strings and math, and our own functions and macros.
///
/// The functions of the extension lists are our own, since its loops cannot be stopped; and there are no optional values, which
/// conditions of Kubernetes objects do not need: `has` does the same.
///
/// # Errors
/// If a name is there twice, which the tests would notice.
pub(crate) fn environment() -> Result<Env, DeclarationError> {
    let mut env = Env::stdlib().with_optional_support(false);
    env.add_extension(extensions::strings)?;
    env.add_extension(extensions::math)?;
    env.add_extension(functions::extension)?;
    env.add_extension(extension)?;
    Ok(env)
}

/// The variable in which `cel`'s own macros collect their result. No condition can write it.
const RESULT: &str = "@result";
/// The variable of a loop that runs no round.
const UNUSED: &str = "#unused";

/// What a macro is given, and what it returns: `None` if the call is not its own.
type Target = Option<IdedExpr>;
type Expanded = Result<Option<IdedExpr>, ParseError>;

/// Adds the macros to an environment.
///
/// # Errors
/// If one of them is there already.
pub(crate) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_macro(Macro::receiver("sort_by", 2, sort_by))?;
    env.add_macro(Macro::receiver("sortBy", 2, sort_by))?;
    env.add_macro(Macro::receiver("bind", 3, bind))
}

/// `list.sort_by(v, key)` becomes `@sort_by(list.map(v, [v, key]))`, so the list and each key are evaluated once.
fn sort_by(
    helper: &mut MacroExprHelper<'_>,
    target: &mut Target,
    arguments: &mut Vec<IdedExpr>,
) -> Expanded {
    let variable = name(helper, arguments.first())?;
    let (Some(list), Some(key)) = (target.take(), arguments.pop()) else {
        return Ok(None);
    };
    let element = helper.next_expr(Expr::Ident(variable.clone()));
    let pair = helper.next_expr(Expr::List(ListExpr::new(vec![element, key])));
    let pair = helper.next_expr(Expr::List(ListExpr::new(vec![pair])));
    let result = helper.next_expr(Expr::Ident(RESULT.to_owned()));
    let step = call(helper, operators::ADD, vec![result, pair]);
    let pairs = ComprehensionExpr {
        iter_range: list,
        iter_var: variable,
        iter_var2: None,
        accu_var: RESULT.to_owned(),
        accu_init: helper.next_expr(Expr::List(ListExpr::new(Vec::new()))),
        loop_cond: helper.next_expr(Expr::Literal(LiteralValue::Boolean(true.into()))),
        loop_step: step,
        result: helper.next_expr(Expr::Ident(RESULT.to_owned())),
    };
    let pairs = helper.next_expr(Expr::Comprehension(Box::new(pairs)));
    Ok(Some(call(helper, "@sort_by", vec![pairs])))
}

/// `cel.bind(v, value, result)` becomes a loop of no rounds, as in cel-go: `v` is what it starts with.
fn bind(
    helper: &mut MacroExprHelper<'_>,
    target: &mut Target,
    arguments: &mut Vec<IdedExpr>,
) -> Expanded {
    let is_cel = |target: &IdedExpr| matches!(&target.expr, Expr::Ident(name) if name == "cel");
    if !target.as_ref().is_some_and(is_cel) {
        return Ok(None);
    }
    let variable = name(helper, arguments.first())?;
    let (Some(result), Some(value)) = (arguments.pop(), arguments.pop()) else {
        return Ok(None);
    };
    let bound = ComprehensionExpr {
        iter_range: helper.next_expr(Expr::List(ListExpr::new(Vec::new()))),
        iter_var: UNUSED.to_owned(),
        iter_var2: None,
        accu_var: variable.clone(),
        accu_init: value,
        loop_cond: helper.next_expr(Expr::Literal(LiteralValue::Boolean(false.into()))),
        loop_step: helper.next_expr(Expr::Ident(variable)),
        result,
    };
    Ok(Some(helper.next_expr(Expr::Comprehension(Box::new(bound)))))
}

/// The variable that a macro's first argument names.
fn name(helper: &MacroExprHelper<'_>, argument: Option<&IdedExpr>) -> Result<String, ParseError> {
    match argument.map(|argument| (&argument.expr, argument.id)) {
        Some((Expr::Ident(name), _)) if !name.starts_with('.') => Ok(name.clone()),
        other => {
            let id = other.map_or(0, |(_, id)| id);
            Err(helper.new_error(id, "argument must be a simple name"))
        }
    }
}

fn call(helper: &mut MacroExprHelper<'_>, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    helper.next_expr(Expr::Call(CallExpr {
        func_name: name.to_owned(),
        target: None,
        args,
    }))
}
