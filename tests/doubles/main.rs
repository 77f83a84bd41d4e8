//! `podloom-doubles`: plays what is outside of Podloom, and badly if asked to.

mod faults;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Plays what is outside of Podloom, for tests and for trying things out.
#[derive(Parser)]
#[command(name = "podloom-doubles")]
struct Arguments {
    #[command(subcommand)]
    double: Double,
}

#[derive(Subcommand)]
enum Double {
    Faults(faults::Arguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Arguments::parse().double {
        Double::Faults(arguments) => faults::run(&arguments).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
