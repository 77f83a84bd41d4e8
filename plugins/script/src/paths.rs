//! What a program reads and writes, as far as its text says: the paths that it passes as plain text.
//!
//! With them the chain is refused at once where the manifest grants less. A path that the program puts together is checked when a pod
//! gets there.

use podloom_plugin_sdk::prelude::*;
use rhai::{ASTNode, Array, Expr, FnCallExpr};

use crate::language;
use crate::program::Program;

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

/// The paths in the program's text.
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
