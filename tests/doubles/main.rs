//! `podloom-doubles`: simulates what surrounds Podloom, with faults if asked to.

mod balance;
mod control;
mod hang;
mod lag;
mod listen;
mod proxy;
mod relay;
mod sink;
mod tls;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Simulates what surrounds Podloom, for tests and for trying things out.
///
/// Every double listens on loopback only.
/// When it is ready, it prints one line of JSON: "address", and "control" if it has a control endpoint.
/// It runs until it is killed.
#[derive(Parser)]
#[command(name = "podloom-doubles")]
struct Arguments {
    #[command(subcommand)]
    double: DoubleCommand,
    /// End when standard input is closed; the system closes it when the parent process dies.
    #[arg(long, global = true)]
    owned: bool,
}

#[derive(Subcommand)]
enum DoubleCommand {
    Proxy(proxy::Arguments),
    Relay(relay::Arguments),
    Sink(sink::Arguments),
    Tls(tls::Arguments),
    Balance(balance::Arguments),
    Hang(hang::Arguments),
    Lag(lag::Arguments),
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

async fn play(double: &DoubleCommand) -> Result<()> {
    match double {
        DoubleCommand::Proxy(arguments) => proxy::run(arguments).await,
        DoubleCommand::Relay(arguments) => relay::run(arguments).await,
        DoubleCommand::Sink(arguments) => sink::run(arguments).await,
        DoubleCommand::Tls(arguments) => tls::run(arguments).await,
        DoubleCommand::Balance(arguments) => balance::run(arguments).await,
        DoubleCommand::Hang(arguments) => hang::run(arguments).await,
        DoubleCommand::Lag(arguments) => lag::run(arguments).await,
    }
}
