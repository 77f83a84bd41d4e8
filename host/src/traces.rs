//! Traces: how long each step of a session or of an admission review took, sent to a receiver of OpenTelemetry.
//!
//! The code says what its steps are with spans of the target [`podloom_engine::TRACES`], at the lowest level. Without `--otlp-endpoint` nobody listens to them,
//! and one costs as much as a log line that is filtered out. With it, [`Collect`] makes steps of them, and [`Exporter`] sends
//! those in the background.
//!
//! The trace of a span without a parent has the UID of what it is about, which its field `trace` names: a Browser, or a review. So
//! all passes over a Browser are in one trace, also of other replicas and after restarts, and nothing has to be remembered.
//!
//! Nothing that may be secret is in a field of these spans: no value of a pod, and no text of a plugin or of an error.

mod endpoint;
mod environment;
mod export;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use axum::http::Uri;
use podloom_engine::TRACES;
use podloom_engine::sent::{SendMetrics, SendOutcome};
use podloom_mutation::{MutatedPod, PluginOutcome, PluginRun, RejectedPod, runs};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::sync::mpsc::Sender;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

pub(crate) use self::endpoint::endpoint;
use self::environment::Receiver;
pub(crate) use self::export::Exporter;

/// How many steps wait to be sent. What does not fit is dropped.
const QUEUE: usize = 4096;

/// What makes steps, and what sends them to this receiver, or to the one that the environment names; none if there is none.
///
/// # Errors
///
/// What of the environment does not work. Others may have set it, for all pods.
pub(crate) fn made(endpoint: Option<Uri>) -> Result<Option<(Collect, Exporter)>, String> {
    let receiver = endpoint.map_or_else(environment::receiver, Receiver::At);
    match receiver {
        Receiver::At(endpoint) => to(endpoint).map(Some),
        Receiver::Unfit(reason) => Err(reason),
        Receiver::None => Ok(None),
    }
}

/// What makes steps, and what sends them to this receiver.
///
/// # Errors
///
/// What of the environment does not work.
pub(crate) fn to(endpoint: Uri) -> Result<(Collect, Exporter), String> {
    let http = export::client(&endpoint, environment::certificate().as_deref())?;
    let headers = environment::headers()?;
    let (sender, queue) = mpsc::channel(QUEUE);
    let metrics = SendMetrics::default();
    let collect = Collect::new(sender, metrics.clone());
    let exporter = Exporter {
        endpoint,
        http,
        headers,
        queue,
        metrics,
    };
    Ok((collect, exporter))
}

/// Something that took time.
#[derive(Clone, Debug, PartialEq)]
struct Step {
    /// The id of its trace: the UID of what that is about.
    trace: u128,
    /// Its id in the trace; never 0.
    id: u64,
    parent: Option<u64>,
    name: String,
    start: SystemTime,
    end: SystemTime,
    /// Texts, integers and booleans.
    fields: Vec<(&'static str, Value)>,
    /// One word for what went wrong, if anything did.
    error: Option<String>,
}

/// Reads a UID; none if it is no UUID.
fn trace_id(uid: &str) -> Option<u128> {
    let digits: String = uid.chars().filter(|it| *it != '-').collect();
    let id = u128::from_str_radix(&digits, 16).ok()?;
    (digits.len() == 32 && id != 0).then_some(id)
}

/// Adds the calls of plugins that have just ended to the trace. They come one after another, so each began when the one before ended.
pub(crate) fn ran(result: &Result<MutatedPod, RejectedPod>) {
    if !tracing::enabled!(target: TRACES, Level::TRACE) {
        return;
    }
    let runs = runs(result);
    let seconds = |run: &PluginRun| run.duration.as_secs_f64();
    let mut ago: f64 = runs.iter().map(seconds).sum();
    for run in runs.iter().filter(|run| !run.duration.is_zero()) {
        ago -= seconds(run);
        let error = match &run.outcome {
            PluginOutcome::Ignored(failure) | PluginOutcome::Failed(failure) => {
                Some(failure.reason())
            }
            _ => None,
        };
        let step = format!("plugin {}", run.plugin);
        tracing::trace!(
            target: TRACES,
            step = step.as_str(),
            seconds = seconds(run),
            ago = ago.max(0.0),
            plugin = run.plugin.as_str(),
            version = run.version.as_str(),
            outcome = run.outcome.as_str(),
            reads = run.reads,
            writes = run.writes.len(),
            error.type = error
        );
    }
}

/// The longest text of a step: longer than any name in Kubernetes.
const TEXT_BYTES: usize = 512;

/// Fields with a meaning of their own. The others are shown as they are.
mod field {
    /// The UID of what the trace is about. Steps within others do not need it.
    pub(super) const TRACE: &str = "trace";
    /// The name of the step; by default that of its span.
    pub(super) const STEP: &str = "step";
    /// Of an event: how long the step took that ends now, or a moment ago, in seconds.
    pub(super) const SECONDS: &str = "seconds";
    /// Of an event: how many seconds ago it ended.
    pub(super) const AGO: &str = "ago";
    /// One word for what went wrong.
    pub(super) const ERROR: &str = "error.type";
}

/// Makes steps of spans and events, and queues them. It never waits.
#[derive(Debug)]
pub(crate) struct Collect {
    sender: Sender<Step>,
    metrics: SendMetrics,
    /// With the number of the step, this makes ids that other processes do not make.
    process: RandomState,
    count: AtomicU64,
}

/// A step that has not ended.
struct Open {
    step: Step,
    begun: Instant,
    /// Whether there were steps in it. One without a parent is shown only if there were, or if it failed: most passes do nothing.
    has_steps: bool,
}

/// What a span or an event says.
#[derive(Default)]
struct Said {
    trace: Option<u128>,
    step: Option<String>,
    seconds: Option<f64>,
    ago: f64,
    error: Option<String>,
    fields: Vec<(&'static str, Value)>,
}

impl Collect {
    fn new(sender: Sender<Step>, metrics: SendMetrics) -> Self {
        Self {
            sender,
            metrics,
            process: RandomState::new(),
            count: AtomicU64::new(0),
        }
    }

    fn next_id(&self) -> u64 {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        self.process.hash_one(count).max(1)
    }

    /// The layer with its filter, so that nothing else of the log comes to it.
    pub(crate) fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(self) -> impl Layer<S> {
        self.with_filter(filter_fn(|metadata| metadata.target() == TRACES))
    }

    fn queue(&self, step: Step) {
        if self.sender.try_send(step).is_err() {
            self.metrics.count(SendOutcome::Dropped, 1);
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Collect {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut said = Said::default();
        attributes.record(&mut said);
        let around = span.parent().and_then(|parent| {
            let mut extensions = parent.extensions_mut();
            let open = extensions.get_mut::<Open>()?;
            open.has_steps = true;
            Some((open.step.trace, open.step.id))
        });
        // Without a trace it belongs to nothing that is followed, such as the proof of a new chain.
        let Some(trace) = around.map(|(trace, _)| trace).or(said.trace) else {
            return;
        };
        let now = SystemTime::now();
        let step = Step {
            trace,
            id: self.next_id(),
            parent: around.map(|(_, id)| id),
            name: said.step.unwrap_or_else(|| span.name().to_owned()),
            start: now,
            end: now,
            fields: said.fields,
            error: said.error,
        };
        span.extensions_mut().insert(Open {
            step,
            begun: Instant::now(),
            has_steps: false,
        });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut said = Said::default();
        values.record(&mut said);
        if let Some(open) = span.extensions_mut().get_mut::<Open>() {
            open.step.fields.extend(said.fields);
            open.step.error = said.error.or(open.step.error.take());
        }
    }

    /// A step whose length is known when it is over.
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut said = Said::default();
        event.record(&mut said);
        let around: Option<(u128, Option<u64>)> = match said.trace {
            Some(trace) => Some((trace, None)),
            None => context.event_span(event).and_then(|span| {
                let mut extensions = span.extensions_mut();
                let open = extensions.get_mut::<Open>()?;
                open.has_steps = true;
                Some((open.step.trace, Some(open.step.id)))
            }),
        };
        let (Some((trace, parent)), Some(name)) = (around, said.step) else {
            return;
        };
        let before = |moment: SystemTime, seconds: f64| {
            let length = Duration::try_from_secs_f64(seconds).unwrap_or_default();
            moment.checked_sub(length).unwrap_or(moment)
        };
        let end = before(SystemTime::now(), said.ago);
        self.queue(Step {
            trace,
            id: self.next_id(),
            parent,
            name,
            start: before(end, said.seconds.unwrap_or_default()),
            end,
            fields: said.fields,
            error: said.error,
        });
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else {
            return;
        };
        let Some(open) = span.extensions_mut().remove::<Open>() else {
            return;
        };
        let Open {
            mut step, begun, ..
        } = open;
        if step.parent.is_some() || open.has_steps || step.error.is_some() {
            // By the clock that never jumps.
            step.end = step.start + begun.elapsed();
            self.queue(step);
        }
    }
}

/// The start of a text. Steps wait in a queue, and what a review says comes from outside.
fn short(text: &str) -> Value {
    let end = text.floor_char_boundary(TEXT_BYTES);
    text.get(..end).unwrap_or_default().into()
}

impl Said {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            (field::TRACE, Value::String(uid)) => self.trace = trace_id(&uid),
            (field::STEP, Value::String(name)) => self.step = Some(name),
            (field::ERROR, Value::String(word)) => self.error = Some(word),
            ("message", _) => {}
            (name, value) => self.fields.push((name, value)),
        }
    }
}

impl Visit for Said {
    fn record_f64(&mut self, field: &Field, value: f64) {
        match field.name() {
            field::SECONDS => self.seconds = Some(value),
            field::AGO => self.ago = value,
            _ => self.record_debug(field, &value),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, i64::try_from(value).unwrap_or(i64::MAX).into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, short(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, short(&format!("{value:?}")));
    }
}

#[cfg(test)]
mod tests;
