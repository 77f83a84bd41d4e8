//! Sets up logging, and changes the log filter at run time.

mod json;

use std::io::IsTerminal;
use std::str::FromStr;

use tracing::level_filters::LevelFilter;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::filter::{FilterExt, Targets, filter_fn};
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

use self::json::JsonLines;
use crate::cli::ReportFormat;
use crate::traces::Collect;

/// Libraries that log every request or compiler step. They log only from these levels on, unless the filter names them.
const QUIETED: [(&str, LevelFilter); 7] = [
    ("kube_client", LevelFilter::WARN),
    // Each error of a watch, which the operator itself logs once in a while.
    ("kube_runtime::watcher", LevelFilter::ERROR),
    ("hyper", LevelFilter::WARN),
    ("hyper_util", LevelFilter::WARN),
    ("tower", LevelFilter::WARN),
    ("cranelift", LevelFilter::WARN),
    ("wasmtime", LevelFilter::WARN),
];

/// Where kube logs answers of the API server that it cannot read, and messages of its rejections. Both may have the values of Secrets,
/// so this never logs, whatever the filter says. Requests are logged by another module of kube.
const SECRETIVE: &str = "kube_client::client";

/// Sets up the log of a command: standard error, without time, in colour on a terminal. Call it once, before anything logs.
pub(crate) fn init_for_command(filter: Option<Targets>) {
    let lines = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(is_coloured())
        .without_time();
    let filter = filter.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN));
    // Fails only if it was called before; then the first call stays in effect.
    let _ = tracing_subscriber::registry()
        .with(lines)
        .with(filter)
        .try_init();
}

/// Sets up the log of the operator: standard error, with time. Call it once, before anything logs.
///
/// With `collect`, what is filtered out of the log may still be a part of traces.
pub(crate) fn init_for_operator(
    filter: Option<Targets>,
    format: ReportFormat,
    collect: Option<Collect>,
) -> Filter {
    let filter = filter.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
    let (layer, handle) = reload::Layer::new(quieted(filter));
    // As above.
    let _ = match collect {
        None => tracing_subscriber::registry()
            .with(layer)
            .with(filter_fn(may_be_logged))
            .with(lines(format))
            .try_init(),
        Some(collect) => tracing_subscriber::registry()
            .with(lines(format).with_filter(layer.and(filter_fn(may_be_logged))))
            .with(collect.layer())
            .try_init(),
    };
    Filter(handle)
}

/// The lines of the operator's log.
fn lines<S>(format: ReportFormat) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    match format {
        ReportFormat::Text => fmt::layer()
            .with_writer(std::io::stderr)
            .with_ansi(is_coloured())
            .boxed(),
        ReportFormat::Json => fmt::layer()
            .fmt_fields(JsonFields::new())
            .event_format(JsonLines)
            .with_writer(std::io::stderr)
            .boxed(),
    }
}

/// The log filter, which can be changed while the process runs.
#[derive(Clone, Debug)]
pub(crate) struct Filter(reload::Handle<Targets, Registry>);

impl Filter {
    /// Sets another filter, and returns it as it is in effect.
    pub(crate) fn change(&self, text: &str) -> Result<String, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err(
                "the body is empty; send a filter, for example info,podloom=debug".to_owned(),
            );
        }
        let targets = Targets::from_str(text).map_err(|error| {
            format!("{text:?} is not a filter: {error}; write a level (off, error, warn, info, debug, trace), or levels by target, for example info,podloom=debug")
        })?;
        let targets = quieted(targets);
        let shown = targets.to_string();
        self.0.reload(targets).map_err(|error| error.to_string())?;
        Ok(shown)
    }

    /// The filter in effect.
    pub(crate) fn show(&self) -> String {
        self.0
            .with_current(Targets::to_string)
            .unwrap_or_else(|error| error.to_string())
    }
}

#[cfg(test)]
impl Filter {
    /// A filter that is not installed; it works for as long as the layer is kept.
    pub(crate) fn detached(filter: &str) -> (Self, reload::Layer<Targets, Registry>) {
        let filter = filter.parse().expect("a filter");
        let (layer, handle) = reload::Layer::new(filter);
        (Self(handle), layer)
    }
}

fn quieted(targets: Targets) -> Targets {
    let default = targets.default_level().unwrap_or(LevelFilter::OFF);
    let named: Vec<String> = targets.iter().map(|(name, _)| name.to_owned()).collect();
    QUIETED
        .into_iter()
        .filter(|(name, level)| {
            *level < default && !named.iter().any(|named| named.starts_with(name))
        })
        .fold(targets, |targets, (name, level)| {
            targets.with_target(name, level)
        })
}

fn may_be_logged(metadata: &Metadata<'_>) -> bool {
    metadata.target() != SECRETIVE
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

#[cfg(test)]
mod tests;
