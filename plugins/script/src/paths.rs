//! What a program reads and writes, as far as its text says: the paths that it passes as plain text.
//!
//! With them the chain is refused at once where the manifest grants less. A path that the program puts together is checked when a pod
//! gets there.

use podloom_plugin_sdk::prelude::*;
use rhai::{ASTNode, Expr};

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

/// The paths in the program's text.
pub(crate) fn needs(program: &Program) -> Needs {
    let mut needs = Needs::default();
    program.ast().walk(&mut |nodes| {
        if let Some(ASTNode::Expr(Expr::MethodCall(call, _))) = nodes.last()
            && let Some(Expr::StringConstant(path, _)) = call.args.first()
        {
            let paths = match call.name.as_str() {
                "get" | "view" | "keys" => &mut needs.reads,
                "set" | "insert" | "remove" => &mut needs.writes,
                _ => return true,
            };
            let path = granted(path);
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        true
    });
    needs
}
