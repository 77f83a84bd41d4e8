//! What a program's text says before it runs: what is probably a mistake, since it does nothing, or a comparison in it never has an
//! answer; where it denies, so that a check can say which rule no pod has met; and what it reads and writes.

use std::collections::BTreeMap;

use podloom_plugin_sdk::prelude::*;
use rhai::{ASTFlags, ASTNode, Array, Expr, FnCallExpr, Position, Stmt};

use crate::Program;
use crate::language::{self, denial};
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

/// A grant names no element by its number, so it is for all of them.
fn granted(path: &str) -> String {
    let is_number =
        |segment: &str| !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_digit());
    let segments = path.split('/').map(|segment| match segment {
        "-" => "*",
        segment if is_number(segment) => "*",
        segment => segment,
    });
    segments.collect::<Vec<_>>().join("/")
}

/// The texts that an expression has for sure: one, or those in a list.
fn texts(expression: &Expr) -> Vec<String> {
    if let Some(value) = expression.get_literal_value(None) {
        let values = value.try_cast_result::<Array>();
        let values = values.unwrap_or_else(|value| vec![value]).into_iter();
        return values.filter_map(|it| it.into_string().ok()).collect();
    }
    match expression {
        Expr::Array(elements, _) => elements.iter().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

/// The paths that a method reads and writes, if it is one of the pod's.
fn used(call: &FnCallExpr) -> Needs {
    let mut arguments = call.args.iter().map(texts);
    let (first, second) = (arguments.next(), arguments.next());
    let first = first.unwrap_or_default();
    // Maps and texts have methods of these names too, but no paths.
    let paths = first
        .iter()
        .filter(|path| path.is_empty() || path.starts_with('/'));
    let mut needs = Needs::default();
    match call.name.as_str() {
        "get" | "keys" => needs.reads.extend(paths.cloned()),
        "set" | "insert" | "remove" => needs.writes.extend(paths.cloned()),
        // Not all of what is viewed, but its fields.
        "view" => {
            let fields = second.unwrap_or_default();
            // Fields that stand elsewhere: all of what is viewed.
            if fields.is_empty() && !matches!(call.args.get(1), Some(Expr::Array(..))) {
                needs.reads.extend(paths.cloned());
                return needs;
            }
            let views =
                paths.flat_map(|path| fields.iter().map(move |field| format!("{path}{field}")));
            needs.reads.extend(views);
        }
        "containers" => {
            let fields = language::fields_of_containers(first.iter().map(String::as_str));
            needs
                .reads
                .extend(fields.map(|field| format!("/spec{field}")));
        }
        _ => {}
    }
    needs
}

/// What a program reads and writes, as far as its text says: the paths that it passes as plain text.
///
/// With them the chain is refused at once where the manifest grants less. A path that the program puts together is checked when a pod
/// gets there.
pub(crate) fn needs(program: &Program) -> Needs {
    let mut needs = Needs::default();
    program.ast().walk(&mut |nodes| {
        if let Some(ASTNode::Expr(Expr::MethodCall(call, _))) = nodes.last() {
            let used = used(call);
            for (all, paths) in [
                (&mut needs.reads, used.reads),
                (&mut needs.writes, used.writes),
            ] {
                for path in paths.iter().map(|path| granted(path)) {
                    if !all.contains(&path) {
                        all.push(path);
                    }
                }
            }
        }
        true
    });
    needs
}
