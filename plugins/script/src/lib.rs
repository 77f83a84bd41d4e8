//! The standard plugin `script`: its configuration is a program in Rhai that reads, changes and denies pods.
//!
//! `language` is what a program may say, `paths` finds out what it reads and writes, `doubts` what is probably wrong with it, and
//! `program` compiles and runs it.

mod doubts;
mod language;
mod lists;
mod numbers;
mod paths;
mod program;
mod strict;

#[cfg(test)]
mod tests;

use podloom_plugin_sdk::prelude::*;

use crate::program::Program;

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
            .map(|program| paths::needs(&program))
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
