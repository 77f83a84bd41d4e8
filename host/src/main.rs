//! A Kubernetes operator whose pods pass through a chain of sandboxed WebAssembly plugins.

mod admission;
mod blame;
mod bundle;
mod chain;
mod ci;
mod cleaner;
mod cli;
mod client;
mod compare;
mod completion;
mod conventions;
mod corpus;
mod crds;
mod drift;
mod evict;
mod exceptions;
mod explain;
mod feed;
mod heal;
mod infra;
mod lists;
mod load;
mod log;
mod managed_fields;
mod mutator;
mod output;
mod plugin;
mod rbac;
mod render;
mod reports;
mod rollout;
mod run;
mod sbom;
mod source_age;
mod stamp;
mod subjects;
mod traces;

use std::env;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use podloom_manifest::{self as manifest, error};

use crate::cli::{
    AdmissionCommand, Arguments, ChainCommand, CheckCommand, Command, CorpusCommand, PluginCommand,
};
use crate::error::CommandError;

/// Compiling plugins needs much memory for a moment. This allocator returns it to the system; `.cargo/config.toml` sets how soon.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let arguments = arguments();
    arguments.color.write_global();
    let filter = arguments.log.clone();
    if !matches!(arguments.command, Command::Run(_)) {
        log::init_for_command(filter.clone());
    }
    let done = match &arguments.command {
        Command::Run(arguments) => {
            let (made, unfit) = match traces::made(arguments.otlp_endpoint.clone()) {
                Ok(made) => (made, None),
                Err(reason) => (None, Some(reason)),
            };
            let (collect, exporter) = made.unzip();
            let log = log::init_for_operator(filter, arguments.log_format, collect);
            if let Some(reason) = unfit {
                tracing::warn!(reason, "sends no traces");
            }
            run::run(arguments, log, exporter)
        }
        Command::Render(arguments) => render::run(arguments),
        Command::PostRender(arguments) => render::pipe::post_render(arguments),
        Command::Fn(arguments) => render::pipe::function(arguments),
        Command::Blame(arguments) => blame::run(arguments),
        Command::Plugin(PluginCommand::New(arguments)) => plugin::new::run(arguments),
        Command::Plugin(PluginCommand::Build(arguments)) => plugin::build::run(arguments),
        Command::Plugin(PluginCommand::Inspect(arguments)) => plugin::inspect::run(arguments),
        Command::Plugin(PluginCommand::Test(arguments)) => plugin::test::run(arguments),
        Command::Plugin(PluginCommand::Pack(arguments)) => plugin::pack::run(arguments),
        Command::Chain(ChainCommand::Check(arguments)) => chain::check(arguments),
        Command::Chain(ChainCommand::Diff(arguments)) => chain::diff::run(arguments),
        Command::Chain(ChainCommand::Tighten(arguments)) => chain::tighten::run(arguments),
        Command::Chain(ChainCommand::Export(arguments)) => chain::export::run(arguments),
        Command::Chain(ChainCommand::Verify(arguments)) => chain::verify(arguments),
        Command::Chain(ChainCommand::Schema) => chain::schema(),
        Command::Corpus(CorpusCommand::Record(arguments)) => corpus::record(arguments),
        Command::Admission(AdmissionCommand::Diff(arguments)) => admission::diff(arguments),
        Command::Admission(AdmissionCommand::Record(arguments)) => admission::record(arguments),
        Command::Infra(CheckCommand::Check(arguments)) => infra::check(arguments),
        Command::Cleaner(CheckCommand::Check(arguments)) => cleaner::check(arguments),
        Command::Drift(arguments) if arguments.repair.is_on => heal::repair(arguments),
        Command::Drift(arguments) => drift::run(arguments),
        Command::Rollout(command) => rollout::run(command),
        Command::Bundle(arguments) => bundle::run(arguments),
        Command::Sbom(arguments) => sbom::run(arguments),
        Command::Crds(arguments) => crds::run(arguments),
        Command::Rbac(arguments) => rbac::run(arguments),
        Command::Completion(arguments) => completion::run(arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::from(error.code())
        }
    }
}

/// The command line. The name of the program decides too: Helm 3 may give a post-renderer no arguments, and kubectl runs `kubectl-podloom` as
/// `kubectl podloom`.
fn arguments() -> Arguments {
    let mut given = env::args_os();
    let program = given.next().unwrap_or_else(|| "podloom".into());
    let name = Path::new(&program).file_stem().unwrap_or_default();
    let mut given = given.peekable();
    let is_named = given.peek().is_some_and(|it| it == "post-render");
    let first = name == "podloom-post-renderer" && !is_named;
    let first = first.then(|| "post-render".into());
    let command = match name == "kubectl-podloom" {
        true => Arguments::command().bin_name("kubectl podloom"),
        false => Arguments::command(),
    };
    let line: Vec<OsString> = [program.clone()]
        .into_iter()
        .chain(first)
        .chain(given)
        .collect();
    let matches = command.get_matches_from(line);
    Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Prints the errors on standard error. A closed standard error is ignored: there is no other place to report to.
fn report(error: &CommandError) {
    let mut stderr = anstream::stderr().lock();
    let label = output::paint(output::ERROR, "error:");
    match error {
        CommandError::Invalid(diagnostics) | CommandError::CheckFailed(diagnostics) => {
            for diagnostic in diagnostics {
                let _ignored = writeln!(stderr, "{label} {diagnostic}");
            }
            if diagnostics.len() > 1 && matches!(error, CommandError::Invalid(_)) {
                let _ignored =
                    writeln!(stderr, "{} errors, so nothing was done", diagnostics.len());
            }
        }
        CommandError::Reported | CommandError::Different => {}
        CommandError::Usage(message) => {
            let _ignored = writeln!(stderr, "{label} {message}");
        }
        CommandError::Other(error) => {
            let _ignored = writeln!(stderr, "{label} {error:#}");
        }
    }
}
