//! Counts requests to the API server, from its audit log.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

/// The user as which this benchmark calls the API server.
const OURSELVES: &str = "admin";

/// An audit log, if there is one.
pub(crate) struct AuditLog(Option<PathBuf>);

/// A position in the log, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct LogPosition(u64);

/// The number of requests, by verb and resource: `patch browsers/status`.
pub(crate) type RequestCounts = BTreeMap<String, usize>;

impl AuditLog {
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        Self(path)
    }

    /// Returns the log's end.
    pub(crate) fn end(&self) -> Result<LogPosition> {
        let length = match &self.0 {
            Some(path) => path.metadata().map_or(0, |metadata| metadata.len()),
            None => 0,
        };
        Ok(LogPosition(length))
    }

    /// Counts the requests of all other users between two positions.
    pub(crate) fn between(
        &self,
        from: LogPosition,
        to: LogPosition,
    ) -> Result<Option<RequestCounts>> {
        let Some(path) = &self.0 else {
            return Ok(None);
        };
        let mut file = File::open(path).with_context(|| path.display().to_string())?;
        file.seek(SeekFrom::Start(from.0))?;
        let mut requests = RequestCounts::new();
        let mut read = from.0;
        let mut reader = BufReader::new(file);
        let mut line = String::new();
        while read < to.0 && reader.read_line(&mut line)? > 0 {
            read += u64::try_from(line.len())?;
            if let Some(request) = request(&line) {
                *requests.entry(request).or_default() += 1;
            }
            line.clear();
        }
        Ok(Some(requests))
    }
}

/// The verb and resource of the request in a line, unless it is our own request.
fn request(line: &str) -> Option<String> {
    let event: Value = serde_json::from_str(line).ok()?;
    if event.pointer("/user/username")?.as_str()? == OURSELVES {
        return None;
    }
    let verb = event.get("verb")?.as_str()?;
    // A watch is there when it begins, and again when it ends.
    if verb == "watch" && event.get("stage")? != "ResponseStarted" {
        return None;
    }
    let object = event.get("objectRef")?;
    let resource = object.get("resource")?.as_str()?;
    Some(match object.get("subresource").and_then(Value::as_str) {
        Some(subresource) => format!("{verb} {resource}/{subresource}"),
        None => format!("{verb} {resource}"),
    })
}

/// Whether a request changes something.
pub(crate) fn is_write(request: &str) -> bool {
    ["create", "update", "patch", "delete"]
        .iter()
        .any(|verb| request.starts_with(verb))
}

/// Whether a request is about an Event.
pub(crate) fn is_event(request: &str) -> bool {
    request.ends_with(" events")
}

/// Whether a request is overhead: for Events and the Lease, and not for Browsers and pods.
pub(crate) fn is_overhead(request: &str) -> bool {
    is_event(request) || request.ends_with(" leases")
}

/// Whether a request only lists or watches.
pub(crate) fn is_reading(request: &str) -> bool {
    ["list ", "watch "]
        .iter()
        .any(|verb| request.starts_with(verb))
}
