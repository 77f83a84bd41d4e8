//! The demo's output, in colour on a terminal.

use std::io::Write;
use std::time::Duration;

use anstyle::{AnsiColor, Style};

const TITLE: Style = AnsiColor::Cyan.on_default().bold();
const QUIET: Style = Style::new().dimmed();

/// Prints the title of a new part.
pub(crate) fn title(text: &str) {
    // If standard error is closed, there is nobody to show it to.
    let _closed = writeln!(anstream::stderr(), "\n{TITLE}{text}{TITLE:#}");
}

/// Prints a line.
pub(crate) fn line(text: &str) {
    let _closed = writeln!(anstream::stderr(), "  {text}");
}

/// Prints a line with its time.
pub(crate) fn step(after: Duration, text: &str) {
    let milliseconds = after.as_millis();
    let _closed = writeln!(
        anstream::stderr(),
        "  {QUIET}{milliseconds:>6} ms{QUIET:#}  {text}"
    );
}

/// Numbers the parts.
#[derive(Default)]
pub(crate) struct Steps(u32);

impl Steps {
    /// Prints the title of the next part.
    pub(crate) fn next(&mut self, text: &str) {
        self.0 += 1;
        title(&format!("{}. {text}", self.0));
    }
}
