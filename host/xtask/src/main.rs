//! Podloom's automation: `cargo xtask`.

mod bench;
mod black_box;
mod codegen;
mod control_plane;
mod demo;
mod deny;
mod image;
mod model;
mod packages;
mod plugins;
mod release;
mod run;
mod soak;
mod test;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Builds, tests and measures Podloom.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run everything that CI checks: format, lints, plugin builds, unit and command-line tests, documentation, packages, the operator on a
    /// real control plane, and two minutes of random faults around it.
    Test {
        /// Leave out what needs the control plane or the IM server.
        #[arg(long)]
        quick: bool,
    },
    /// Build the standard plugins and leave a loadable bundle in target/plugins.
    Plugins {
        /// Build the examples of the SDK instead, each as a bundle in target/plugin-examples.
        #[arg(long)]
        examples: bool,
    },
    /// Show what a chain does to pods, and the operator at work on a real control plane, which this command starts.
    Demo(demo::Arguments),
    /// Run the benchmarks and print their figures beside the goals.
    Bench(bench::Arguments),
    /// Run the random tests with many more cases than `test` does. With --minutes, inject random faults around a running
    /// operator instead.
    Soak(soak::Arguments),
    /// Search every history of a session within bounds, with the operator as it is shipped: what may happen to requests, watches,
    /// processes, pods and nodes, and what people do. A history that breaks a rule is printed as a story, and kept as a case.
    Model(model::Arguments),
    /// Regenerate committed code: the table of Pod types.
    Codegen,
    /// Build or start the control plane that the tests run on.
    ControlPlane {
        #[command(subcommand)]
        action: control_plane::Action,
    },
    /// Install the IM server that the tests of the infrastructure controllers run with, and print its Python interpreter.
    Im,
    /// Build the image's files and the manifests that install it, without a container engine.
    Dist {
        /// Where to put them; by default target/dist.
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Build the image of the operator as an archive, without a container engine.
    Image(image::Arguments),
    /// Check advisories, licences and sources of all dependencies with cargo-deny.
    Deny(deny::Arguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Test { quick: true } => test::run(test::Extent::Quick),
        Command::Test { quick: false } => test::run(test::Extent::Whole),
        Command::Plugins { examples: false } => plugins::run().map(drop),
        Command::Plugins { examples: true } => plugins::examples().map(drop),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Soak(arguments) => soak::run(&arguments),
        Command::Model(arguments) => model::run(&arguments),
        Command::Codegen => codegen::run(),
        Command::ControlPlane { action } => control_plane::run(&action),
        Command::Im => control_plane::im(),
        Command::Dist { out } => image::dist(out.as_deref()),
        Command::Image(arguments) => image::run(&arguments),
        Command::Deny(arguments) => deny::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests;
