//! `kubectl get --watch`: its rows are shown as they come.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::demo::operator::Operator;
use crate::demo::screen;

/// How long the Cluster may take from one state to the next.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often the operator is looked at while no row comes.
const LOOK: Duration = Duration::from_millis(100);

/// A running `kubectl get --watch`; dropping this kills it.
pub(super) struct Rows {
    child: Child,
    lines: Receiver<String>,
    reader: Option<JoinHandle<()>>,
}

impl Rows {
    /// Starts it.
    pub(super) fn watch(mut kubectl: Command) -> Result<Self> {
        let mut child = kubectl.arg("--watch").stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().context("its output is piped")?;
        let (sender, lines) = mpsc::channel();
        Ok(Self {
            child,
            lines,
            reader: Some(thread::spawn(move || read(output, &sender))),
        })
    }

    /// Shows rows until the Cluster had these states, in this order. It may have other states in between.
    pub(super) fn pass(&self, operator: &Operator, states: &[State]) -> Result<()> {
        for state in states {
            let begun = Instant::now();
            loop {
                operator.check_alive()?;
                match self.lines.recv_timeout(LOOK) {
                    Ok(row) => {
                        screen::line(&row);
                        if state.contains(&of(&row)) {
                            break;
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => bail!("kubectl get --watch has ended"),
                }
                if begun.elapsed() > PATIENCE {
                    operator.print_log();
                    bail!(
                        "the Cluster is not {} after {} s",
                        state.join(" or "),
                        PATIENCE.as_secs()
                    );
                }
            }
        }
        Ok(())
    }
}

/// A state, or several of which any will do.
pub(super) type State = &'static [&'static str];

/// The second column. A Cluster that has no state yet has another column there.
fn of(row: &str) -> &str {
    row.split_whitespace().nth(1).unwrap_or_default()
}

fn read(output: ChildStdout, rows: &Sender<String>) {
    let lines = BufReader::new(output).lines().map_while(Result::ok);
    for line in lines {
        if rows.send(line).is_err() {
            return;
        }
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        let _already_ended = self.child.kill();
        let _already_ended = self.child.wait();
        // It ends with its input.
        let _panicked = self.reader.take().map(JoinHandle::join);
    }
}
