//! A program: parsed once, run for each pod.

use std::fmt;

use podloom_plugin_sdk::prelude::*;
use rhai::{AST, Engine};

use crate::language;

/// A parsed program with all that runs it.
pub(crate) struct Program {
    engine: Engine,
    ast: AST,
}

impl Program {
    /// Parses a program; the error names the line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let engine = language::engine();
        let ast = engine
            .compile_with_scope(&language::scope(), text)
            .map_err(|error| format!("program: {error}"))?;
        Ok(Self { engine, ast })
    }

    pub(crate) fn ast(&self) -> &AST {
        &self.ast
    }

    /// Runs it for a pod.
    pub(crate) fn run(&self, request: &Request, pod: &Pod) -> Result<(), Rejection> {
        let (outcome, ended) = language::with_pod(request, pod, |scope| {
            self.engine.run_ast_with_scope(scope, &self.ast)
        });
        match (ended, outcome) {
            (Some(rejection), _) => Err(rejection),
            (None, Ok(())) => Ok(()),
            (None, Err(error)) => Err(Rejection::Failed(error.to_string())),
        }
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Program")
    }
}
