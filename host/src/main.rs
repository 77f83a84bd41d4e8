//! A Kubernetes operator whose pods pass through a chain of sandboxed WebAssembly plugins.

mod bundle;
mod chain;
mod cli;
mod crds;
mod explain;
mod load;
mod log;
mod manifest;
mod mutator;
mod output;
mod plugin;
mod rbac;
mod refusal;
mod render;
mod run;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Arguments, ChainCommand, Command, PluginCommand};
use crate::refusal::Failure;

/// Compiling plugins takes a lot of memory for a moment; this allocator gives it back. How soon is in `.cargo/config.toml`.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    arguments.color.apply();
    let filter = arguments.log.clone();
    if !matches!(arguments.command, Command::Run(_)) {
        log::of_a_command(filter.clone());
    }
    let done = match &arguments.command {
        Command::Run(arguments) => {
            let log = log::of_the_operator(filter, arguments.log_format);
            run::run(arguments, log)
        }
        Command::Render(arguments) => render::run(arguments),
        Command::Plugin(PluginCommand::New(arguments)) => plugin::new::run(arguments),
        Command::Plugin(PluginCommand::Build(arguments)) => plugin::build::run(arguments),
        Command::Plugin(PluginCommand::Inspect(arguments)) => plugin::inspect::run(arguments),
        Command::Plugin(PluginCommand::Test(arguments)) => plugin::test::run(arguments),
        Command::Chain(ChainCommand::Check(arguments)) => chain::check(arguments),
        Command::Chain(ChainCommand::Schema) => chain::schema(),
        Command::Bundle(arguments) => bundle::run(arguments),
        Command::Crds(arguments) => crds::run(arguments),
        Command::Rbac(arguments) => rbac::run(arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            report(&failure);
            ExitCode::from(failure.code())
        }
    }
}

/// Tells what went wrong. If nobody listens, there is nobody to tell.
fn report(failure: &Failure) {
    let mut stderr = anstream::stderr().lock();
    let label = output::paint(output::ERROR, "error:");
    match failure {
        Failure::Refused(refusals) | Failure::Found(refusals) => {
            for refusal in refusals {
                let _unheard = writeln!(stderr, "{label} {refusal}");
            }
            if refusals.len() > 1 && matches!(failure, Failure::Refused(_)) {
                let _unheard = writeln!(stderr, "{} problems, so nothing was done", refusals.len());
            }
        }
        Failure::Usage(message) => {
            let _unheard = writeln!(stderr, "{label} {message}");
        }
        Failure::Broken(error) => {
            let _unheard = writeln!(stderr, "{label} {error:#}");
        }
    }
}
