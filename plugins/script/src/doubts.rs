//! What is probably a mistake in a program that can run: it does nothing, or a comparison in it never has an answer. And where it
//! denies, so that a check can say which rule no pod has met.

use std::collections::BTreeMap;

use podloom_plugin_sdk::Quantity;
use rhai::{ASTFlags, ASTNode, Expr, FnCallExpr, Position, Stmt};

use crate::language::denial;
use crate::program::Program;
use crate::strict::{Kind, advice, is_quantity};

/// The kinds of the names that are bound once in a program, to what its text says.
type Names = BTreeMap<String, Option<Kind>>;

/// The probable mistakes of a program, a sentence each.
pub(crate) fn of(program: &Program) -> Vec<String> {
    let ast = program.ast();
    if ast
        .statements()
        .iter()
        .all(|it| matches!(it, Stmt::Noop(_)))
    {
        let nothing = "the program has no statement, so it does nothing: a comment ends with its line, so write `program: |`, which keeps lines, and not `program: >`";
        return vec![nothing.to_owned()];
    }
    let names = names(program);
    let mut doubts = Vec::new();
    ast.walk(&mut |nodes| {
        if let Some((call, position)) = called(nodes.last()) {
            let doubt = doubt(call, &names);
            doubts.extend(doubt.map(|doubt| format!("{position}: {doubt}")));
        }
        true
    });
    doubts
}

/// Where a program denies.
pub(crate) fn denials(program: &Program) -> Vec<String> {
    let mut denials = Vec::new();
    program.ast().walk(&mut |nodes| {
        denials.extend(
            called(nodes.last())
                .filter(|(call, _)| call.name == "deny")
                .map(|(_, position)| denial(position)),
        );
        true
    });
    denials
}

/// The function that a node calls, and where.
fn called<'n>(node: Option<&ASTNode<'n>>) -> Option<(&'n FnCallExpr, Position)> {
    match node? {
        ASTNode::Expr(Expr::FnCall(call, position) | Expr::MethodCall(call, position)) => {
            Some((call, *position))
        }
        ASTNode::Stmt(Stmt::FnCall(call, position)) => Some((call, *position)),
        _ => None,
    }
}

fn names(program: &Program) -> Names {
    let mut names = Names::new();
    let mut bind = |name: &str, kind: Option<Kind>| {
        let bound = names.entry(name.to_owned());
        bound.and_modify(|kind| *kind = None).or_insert(kind);
    };
    for function in program.ast().iter_functions() {
        bind(function.name, None);
        for parameter in function.params {
            bind(parameter, None);
        }
    }
    program.ast().walk(&mut |nodes| {
        match nodes.last() {
            Some(ASTNode::Stmt(Stmt::Var(variable, flags, _))) => {
                let (name, value, _) = &**variable;
                let is_constant = flags.contains(ASTFlags::CONSTANT);
                let kind = kind(value, &Names::new()).filter(|_| is_constant);
                bind(name.as_str(), kind);
            }
            Some(ASTNode::Stmt(Stmt::For(each, _))) => bind(each.0.as_str(), None),
            _ => {}
        }
        true
    });
    names
}

/// What kind of value an expression has; none if the text does not say.
fn kind(expression: &Expr, names: &Names) -> Option<Kind> {
    match expression {
        Expr::StringConstant(..) | Expr::InterpolatedString(..) | Expr::CharConstant(..) => {
            Some(Kind::Text)
        }
        Expr::IntegerConstant(..) | Expr::FloatConstant(..) => Some(Kind::Number),
        Expr::BoolConstant(..) | Expr::And(..) | Expr::Or(..) => Some(Kind::Bool),
        Expr::Unit(..) => Some(Kind::Absent),
        Expr::Array(..) => Some(Kind::List),
        Expr::Map(..) => Some(Kind::Map),
        Expr::Variable(variable, ..) => *names.get(variable.1.as_str())?,
        Expr::FnCall(call, _) | Expr::MethodCall(call, _) => answer(&call.name, names),
        Expr::Dot(both, flags, _) if !flags.contains(ASTFlags::NEGATED) => kind(&both.rhs, names),
        _ => None,
    }
}

/// What kind of value a function answers with.
fn answer(function: &str, names: &Names) -> Option<Kind> {
    match function {
        _ if names.contains_key(function) => None,
        "quantity" => Some(Kind::Quantity),
        "parse_int" | "parse_float" | "to_int" | "to_float" | "round" | "abs" | "len"
        | "index_of" => Some(Kind::Number),
        "to_string" | "type_of" => Some(Kind::Text),
        "==" | "!=" | "<" | "<=" | ">" | ">=" | "!" | "contains" | "is_empty" | "starts_with"
        | "ends_with" => Some(Kind::Bool),
        _ => None,
    }
}

/// What is wrong with a call, if its text says it.
fn doubt(call: &FnCallExpr, names: &Names) -> Option<String> {
    let name = call.name.as_str();
    match (name, &*call.args) {
        ("==" | "!=", [one, other]) => {
            let (one, other) = (kind(one, names)?, kind(other, names)?);
            (!one.can_be_equal(other)).then(|| never(name, one, other))
        }
        ("<" | "<=" | ">" | ">=", [one, other]) => {
            if let (Some(one), Some(other)) = (kind(one, names), kind(other, names))
                && !one.have_order(other)
            {
                return Some(never(name, one, other));
            }
            let texts = [one, other].into_iter().filter_map(text);
            let amount = texts.into_iter().find(|text| is_quantity(text))?;
            Some(format!(
                "`{name}` compares \"{amount}\" letter by letter, as a text: write quantity(...) around both sides"
            ))
        }
        ("contains", [Expr::Array(elements, _), value]) => {
            let value = kind(value, names)?;
            let kinds: Option<Vec<Kind>> = elements.iter().map(|it| kind(it, names)).collect();
            let first = *kinds.as_ref()?.first()?;
            let fits = kinds?.into_iter().any(|kind| kind.can_be_equal(value));
            (!fits).then(|| never("in", value, first))
        }
        ("quantity", [only]) if !names.contains_key(name) => {
            let text = text(only)?;
            let error = text.parse::<Quantity>().err()?;
            Some(format!("quantity(\"{text}\") {error}"))
        }
        _ => None,
    }
}

fn never(operator: &str, one: Kind, other: Kind) -> String {
    let (left, right) = (one.name(), other.name());
    let advice = advice(one, other);
    format!("`{operator}` compares {left} with {right}, which is never true: {advice}")
}

fn text(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::StringConstant(text, _) => Some(text),
        _ => None,
    }
}
