//! `cargo xtask control-plane`: the control plane of the tests, for manual use; and their IM server.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Subcommand;
use podloom_control_plane::{ControlPlane, Options, Programs, Release};

/// What to do with the control plane.
#[derive(Subcommand)]
pub(crate) enum Action {
    /// Build the programs of the control plane into the user's cache directory, and print the directories.
    Build,
    /// Start the control plane, and stop it on Ctrl-C.
    Start {
        /// How many Nodes to make.
        #[arg(long, value_name = "N", default_value_t = 1)]
        nodes: u16,
    },
}

/// Builds or starts the control plane.
pub(crate) fn run(action: &Action) -> Result<()> {
    match *action {
        Action::Build => build(),
        Action::Start { nodes } => start(nodes),
    }
}

#[expect(
    clippy::print_stdout,
    reason = "the directories are the command's output, for scripts"
)]
fn build() -> Result<()> {
    for directory in Programs::build(Release::chosen()?)? {
        println!("{}", directory.display());
    }
    Ok(())
}

fn start(nodes: u16) -> Result<()> {
    let start = Instant::now();
    let plane = ControlPlane::start(&Options {
        nodes,
        ..Options::default()
    })?;
    let kubeconfig = plane.kubeconfig();
    let kubectl = plane.kubectl();
    eprintln!(
        "control plane: ready after {:.1} s\n\n  \
         export KUBECONFIG={}\n  \
         {} get nodes\n\n\
         The label {} decides how a pod behaves: its value is the name of a file in tests/control-plane/stages.\n\
         Logs are in {}.\n\
         Ctrl-C stops everything and removes it.",
        start.elapsed().as_secs_f64(),
        kubeconfig.display(),
        kubectl.get_program().display(),
        podloom_control_plane::BEHAVIOUR_LABEL,
        plane.logs_dir().display(),
    );
    // Ctrl-C ends this process, and the control plane ends with it.
    loop {
        thread::sleep(Duration::from_secs(1));
        if let Err(error) = plane.check_alive() {
            plane.keep_logs();
            return Err(error.into());
        }
    }
}

/// `cargo xtask im`: installs the IM server of the tests, if it is not installed yet.
#[expect(
    clippy::print_stdout,
    reason = "the interpreter is the command's output, for scripts"
)]
pub(crate) fn im() -> Result<()> {
    println!("{}", podloom_im::python()?.display());
    Ok(())
}
