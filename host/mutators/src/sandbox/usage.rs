//! Limits on what a guest uses of the host: memory, tables, instances, log lines and notes.

use podloom_mutation::{CallFailure, Note, Severity};
use wasmtime::ResourceLimiter;

use crate::engine::{CORE_INSTANCES, TABLE_ELEMENTS};
use crate::limits::{LOG_LINE_BYTES, LOG_LINES, NOTE_BYTES, NOTES};
use crate::text::one_line;

/// Limits the memory of one call: all memories of the plugin together.
pub(super) struct GuestLimiter {
    limit: usize,
    memory: usize,
}

impl GuestLimiter {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, memory: 0 }
    }

    /// How much the guest has so far. WebAssembly memory never shrinks.
    pub(super) fn memory(&self) -> usize {
        self.memory
    }
}

/// A refused growth ends the call: a guest that went on would fail later with a less helpful message.
impl ResourceLimiter for GuestLimiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        self.memory = self.memory.saturating_add(desired.saturating_sub(current));
        if self.memory > self.limit {
            return Err(CallFailure::OutOfMemory { limit: self.limit }.into());
        }
        Ok(true)
    }

    fn table_growing(
        &mut self,
        _: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if desired > TABLE_ELEMENTS {
            return Err(CallFailure::OverLimit(format!(
                "it wants a table of more than {TABLE_ELEMENTS} entries"
            ))
            .into());
        }
        Ok(true)
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        Err(CallFailure::OverLimit(format!(
            "its memory cannot grow: {}",
            one_line(&error.to_string(), 200)
        ))
        .into())
    }

    fn table_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        Err(CallFailure::OverLimit(format!(
            "its table cannot grow: {}",
            one_line(&error.to_string(), 200)
        ))
        .into())
    }

    fn instances(&self) -> usize {
        CORE_INSTANCES as usize
    }

    fn tables(&self) -> usize {
        CORE_INSTANCES as usize
    }

    fn memories(&self) -> usize {
        CORE_INSTANCES as usize
    }
}

/// What a guest logged and noted during one call.
#[derive(Default)]
pub(super) struct GuestOutput {
    lines: usize,
    warnings: Said,
    notes: Said,
    /// The lines that name a place where its program denies.
    pub(super) denials: Vec<String>,
    /// The last line that it logged as an error.
    pub(super) last_error: Option<String>,
}

/// The first notes of a severity. Of each as many are kept as are shown of both, so that the last warning comes before the first note.
#[derive(Default)]
struct Said {
    first: Vec<String>,
    further: usize,
}

/// What to do with a log line.
pub(super) enum LogLine {
    Keep(String),
    /// The first one over the limit; the host logs once that lines are dropped.
    FirstDropped,
    Dropped,
}

impl GuestOutput {
    pub(super) fn line(&mut self, message: &str) -> LogLine {
        self.lines = self.lines.saturating_add(1);
        match self.lines {
            0..=LOG_LINES => LogLine::Keep(one_line(message, LOG_LINE_BYTES)),
            line if line == LOG_LINES + 1 => LogLine::FirstDropped,
            _ => LogLine::Dropped,
        }
    }

    pub(super) fn note(&mut self, severity: Severity, message: &str) {
        let said = match severity {
            Severity::Warning => &mut self.warnings,
            Severity::Normal => &mut self.notes,
        };
        match said.first.len() {
            0..NOTES => said.first.push(one_line(message, NOTE_BYTES)),
            _ => said.further = said.further.saturating_add(1),
        }
    }

    /// The warnings, then the notes, as many as are shown, and how many are not.
    pub(super) fn into_notes(self) -> Vec<Note> {
        let Self {
            warnings, notes, ..
        } = self;
        let room = NOTES.saturating_sub(warnings.first.len());
        let cut = notes.first.len().saturating_sub(room);
        let not_shown = not_shown(warnings.further, notes.further.saturating_add(cut));
        let warnings = warnings.first.into_iter().map(Note::warning);
        let notes = notes.first.into_iter().take(room).map(Note::normal);
        warnings.chain(notes).chain(not_shown).collect()
    }
}

/// The note that counts those that are not shown.
fn not_shown(warnings: usize, notes: usize) -> Option<Note> {
    let count = |count: usize, word: &str| match count {
        0 => None,
        1 => Some(format!("1 more {word}")),
        count => Some(format!("{count} more {word}s")),
    };
    let counts = [count(warnings, "warning"), count(notes, "note")];
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    let text = format!("not shown: {}", counts.join(" and "));
    match (warnings, notes) {
        (0, 0) => None,
        (0, _) => Some(Note::normal(text)),
        _ => Some(Note::warning(text)),
    }
}
