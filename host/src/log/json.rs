//! Lines of JSON, with the names that the fields of traces have too.

use std::fmt::{self, Debug};

use serde::ser::{SerializeMap, Serializer as _};
use serde_json::{Map, Serializer, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormattedFields};
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use crate::conventions;

/// Writes an event as one object, which has its fields and a list of the spans around it.
pub(super) struct JsonLines;

impl<S> FormatEvent<S, JsonFields> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let scope = context.event_scope();
        let scope = scope.into_iter().flat_map(|scope| scope.from_root());
        let spans: Vec<Value> = scope.map(|span| shown(&span)).collect();
        let line = line(event, &time, &spans).map_err(|_| fmt::Error)?;
        writeln!(writer, "{line}")
    }
}

fn line(event: &Event<'_>, time: &str, spans: &[Value]) -> serde_json::Result<String> {
    let metadata = event.metadata();
    let mut bytes = Vec::new();
    let mut serializer = Serializer::new(&mut bytes);
    let mut line = serializer.serialize_map(None)?;
    line.serialize_entry("timestamp", time)?;
    line.serialize_entry("level", metadata.level().as_str())?;
    let mut fields = Fields {
        metadata,
        line,
        written: Ok(()),
    };
    event.record(&mut fields);
    let Fields {
        mut line, written, ..
    } = fields;
    written?;
    line.serialize_entry("target", metadata.target())?;
    if !spans.is_empty() {
        line.serialize_entry("spans", spans)?;
    }
    line.end()?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A span, with its name and its fields.
fn shown<S: for<'a> LookupSpan<'a>>(span: &SpanRef<'_, S>) -> Value {
    let extensions = span.extensions();
    let fields = extensions.get::<FormattedFields<JsonFields>>();
    let fields = fields.and_then(|fields| serde_json::from_str(fields).ok());
    let fields: Map<String, Value> = fields.unwrap_or_default();
    let fields = fields.into_iter();
    let renamed = fields.map(|(field, value)| (name(span.metadata(), &field), value));
    let name = ("name".to_owned(), span.name().into());
    renamed.chain([name]).collect()
}

/// The name of a field in a line. Libraries have names of their own.
fn name(metadata: &Metadata<'_>, field: &str) -> String {
    if field == "message" || !metadata.target().starts_with("podloom") {
        return field.to_owned();
    }
    conventions::name(field).into_owned()
}

/// Writes the fields of an event into its line.
struct Fields<'m, M: SerializeMap> {
    metadata: &'m Metadata<'m>,
    line: M,
    /// Why nothing more is written, if anything went wrong.
    written: Result<(), M::Error>,
}

impl<M: SerializeMap> Fields<'_, M> {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        if self.written.is_ok() {
            let name = name(self.metadata, field.name());
            self.written = self.line.serialize_entry(&name, &value.into());
        }
    }
}

impl<M: SerializeMap> Visit for Fields<'_, M> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, format!("{value:?}"));
    }
}
