//! Makes steps of spans.

use std::fmt;
use std::time::{Duration, Instant, SystemTime};

use podloom_controllers::{SendMetrics, SendOutcome, TRACES};
use tokio::sync::mpsc::Sender;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::step::{FieldValue, Step, StepId, StepIds, TraceId};

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
    pub(super) const ERROR: &str = "error";
}

/// Makes steps of spans and events, and queues them. It never waits.
#[derive(Debug)]
pub(crate) struct Collect {
    sender: Sender<Step>,
    ids: StepIds,
    metrics: SendMetrics,
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
    trace: Option<TraceId>,
    step: Option<String>,
    seconds: Option<f64>,
    ago: f64,
    error: Option<String>,
    fields: Vec<(&'static str, FieldValue)>,
}

impl Collect {
    pub(super) fn new(sender: Sender<Step>, metrics: SendMetrics) -> Self {
        Self {
            sender,
            ids: StepIds::default(),
            metrics,
        }
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
            id: self.ids.next(),
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
        let around: Option<(TraceId, Option<StepId>)> = match said.trace {
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
            id: self.ids.next(),
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
fn short(text: &str) -> String {
    let end = text.floor_char_boundary(TEXT_BYTES);
    text.get(..end).unwrap_or_default().to_owned()
}

impl Said {
    fn put(&mut self, field: &Field, value: FieldValue) {
        match (field.name(), value) {
            (field::TRACE, FieldValue::Text(uid)) => self.trace = TraceId::of(&uid),
            (field::STEP, FieldValue::Text(name)) => self.step = Some(name),
            (field::ERROR, FieldValue::Text(word)) => self.error = Some(word),
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
        self.put(field, FieldValue::Integer(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        self.put(field, FieldValue::Integer(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, FieldValue::Truth(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, FieldValue::Text(short(value)));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, FieldValue::Text(short(&format!("{value:?}"))));
    }
}
