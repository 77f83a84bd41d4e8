//! Where logs go.

use std::io::IsTerminal;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Writes logs to standard error for people, in colour on a terminal. Call it once, before anything logs.
pub(crate) fn to_stderr(filter: Targets) {
    let lines = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(is_coloured())
        .without_time();
    // Set already means that it was called twice; the first call stands.
    let _ = tracing_subscriber::registry()
        .with(lines)
        .with(filter)
        .try_init();
}

fn is_coloured() -> bool {
    match anstream::ColorChoice::global() {
        anstream::ColorChoice::Always | anstream::ColorChoice::AlwaysAnsi => true,
        anstream::ColorChoice::Never => false,
        anstream::ColorChoice::Auto => {
            std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
        }
    }
}
