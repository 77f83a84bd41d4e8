//! `podloom-doubles`: plays what is outside of Podloom, and badly if asked to.

mod balance;
mod control;
mod hang;
mod listen;
mod proxy;
mod sink;
mod tls;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Plays what is outside of Podloom, for tests and for trying things out.
///
/// Every double listens on loopback alone.
/// Once it is ready it prints one line of JSON: "address", and "control" if it can be steered or asked while it runs.
/// It runs until it is killed.
#[derive(Parser)]
#[command(name = "podloom-doubles")]
struct Arguments {
    #[command(subcommand)]
    double: Double,
    /// End when standard input is closed, as it is when the program at its other end dies.
    #[arg(long, global = true)]
    owned: bool,
}

#[derive(Subcommand)]
enum Double {
    Proxy(proxy::Arguments),
    Sink(sink::Arguments),
    Tls(tls::Arguments),
    Balance(balance::Arguments),
    Hang(hang::Arguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = tokio::select! {
        done = play(&arguments.double) => done,
        () = listen::owner_ends(), if arguments.owned => Ok(()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn play(double: &Double) -> Result<()> {
    match double {
        Double::Proxy(arguments) => proxy::run(arguments).await,
        Double::Sink(arguments) => sink::run(arguments).await,
        Double::Tls(arguments) => tls::run(arguments).await,
        Double::Balance(arguments) => balance::run(arguments).await,
        Double::Hang(arguments) => hang::run(arguments).await,
    }
}
