//! The standard plugin `script`: its configuration is a program in Rhai that reads, changes and denies pods.
//!
//! `language` is what a program may say, `strict` and `lists` are its functions, and `doubts` finds out what it reads and writes, and what
//! is probably wrong with it.

mod doubts;
mod language;
mod lists;
mod strict;

use std::fmt;

use podloom_plugin_sdk::prelude::*;
use rhai::{AST, Engine, EvalAltResult, OptimizationLevel, ParseError, ParseErrorType};

/// A program, and what it may change.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// The program, in Rhai. It runs once for each pod, which it knows as `pod`, and knows for whom as `request`.
    #[schemars(length(min = 1, max = 65536))]
    pub program: String,
    /// The program, parsed.
    #[serde(skip)]
    parsed: Option<Program>,
}

struct Script;

impl Mutator for Script {
    type Config = Config;
    const NAME: &str = "script";
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &str = "Runs a short program on each pod";

    fn needs(config: &Config) -> Needs {
        // `validate` reports a program that cannot be read.
        Program::with_constants(&config.program)
            .map(|program| doubts::needs(&program))
            .unwrap_or_default()
    }

    fn validate(config: &Config) -> Vec<String> {
        let program = match Program::parse(&config.program) {
            Ok(program) => program,
            Err(error) => return vec![error],
        };
        for doubt in doubts::of(&program) {
            note(&format!("program: {doubt}"));
        }
        for denial in doubts::denials(&program) {
            log(Level::Trace, &denial);
        }
        Vec::new()
    }

    fn prepare(config: &mut Config) {
        config.parsed = Program::parse(&config.program).ok();
    }

    fn mutate(config: &Config, request: &Request, pod: &Pod) -> Result<(), Rejection> {
        match &config.parsed {
            Some(program) => program.run(request, pod),
            None => Err(Rejection::Failed("the program was not parsed".to_owned())),
        }
    }
}

podloom_plugin_sdk::mutator!(Script, schema = "config.schema.json");

/// A parsed program with all that runs it: parsed once, run for each pod.
pub(crate) struct Program {
    engine: Engine,
    ast: AST,
}

impl Program {
    /// Parses a program as it was written; the error names the line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Self::parse_with(language::engine(), text)
    }

    /// Parses a program and puts what is constant in its place. Not for running: comparisons of constants have an answer then.
    pub(crate) fn with_constants(text: &str) -> Result<Self, String> {
        let mut engine = language::engine();
        engine.set_optimization_level(OptimizationLevel::Simple);
        Self::parse_with(engine, text)
    }

    fn parse_with(engine: Engine, text: &str) -> Result<Self, String> {
        let ast = engine
            .compile_with_scope(&language::scope(), text)
            .map_err(|error| refused(&error))?;
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
            (None, Err(error)) => Err(Rejection::Failed(explained(&error))),
        }
    }
}

fn refused(error: &ParseError) -> String {
    match error.err_type() {
        ParseErrorType::Reserved(word) if word == "switch" => format!(
            "program: there is no `switch`, since it passes over values of another type without a word: write `if x == 1 {{ ... }} else if x == 2 {{ ... }}` ({})",
            error.position()
        ),
        _ => format!("program: {error}"),
    }
}

/// An error, and what to write instead.
fn explained(error: &EvalAltResult) -> String {
    match advice(error) {
        Some(advice) => format!("{error}: {advice}"),
        None => error.to_string(),
    }
}

/// Absent values are what programs most often do not think of.
fn advice(error: &EvalAltResult) -> Option<&'static str> {
    match error {
        EvalAltResult::ErrorInFunctionCall(_, _, inner, _) => advice(inner),
        EvalAltResult::ErrorFunctionNotFound(signature, _) => {
            let (_, types) = signature.split_once(" (")?;
            let is_absent = types.starts_with("()") || types.contains(", ()");
            is_absent.then_some(
                "a value is absent: ask `x != ()` first, or give a default, as in `x ?? 0`",
            )
        }
        EvalAltResult::ErrorDotExpr(text, _) | EvalAltResult::ErrorIndexingType(text, _) => {
            let is_absent = text.contains("'()'") || text.starts_with("() ");
            is_absent.then_some(
                "nothing is there to look into: write `?.`, as in `c?.resources?.limits`",
            )
        }
        EvalAltResult::ErrorFor(_) => Some(
            "give an empty list where there may be none, as in `for c in pod.get(\"/spec/initContainers\") ?? []`",
        ),
        EvalAltResult::ErrorMismatchDataType(wanted, ..) if wanted == "bool" => Some(
            "a condition is true or false: write `x == true`, or give a default, as in `x ?? false`",
        ),
        _ => None,
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Program")
    }
}

#[cfg(test)]
mod tests;
