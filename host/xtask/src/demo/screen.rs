//! What the demo says, in colour on a terminal.

use std::io::Write;

use anstyle::{AnsiColor, Style};

const TITLE: Style = AnsiColor::Cyan.on_default().bold();
const QUIET: Style = Style::new().dimmed();

/// Begins a new part.
pub(crate) fn title(text: &str) {
    // Nobody listens: nobody to tell.
    let _unheard = writeln!(anstream::stderr(), "\n{TITLE}{text}{TITLE:#}");
}

/// Says something.
pub(crate) fn line(text: &str) {
    let _unheard = writeln!(anstream::stderr(), "  {text}");
}

/// Says something that matters less, with when it was.
pub(crate) fn step(milliseconds: u128, text: &str) {
    let _unheard = writeln!(
        anstream::stderr(),
        "  {QUIET}{milliseconds:>6} ms{QUIET:#}  {text}"
    );
}

/// Counts the parts.
#[derive(Default)]
pub(crate) struct Steps(u32);

impl Steps {
    /// Begins the next part.
    pub(crate) fn next(&mut self, text: &str) {
        self.0 += 1;
        title(&format!("{}. {text}", self.0));
    }
}
