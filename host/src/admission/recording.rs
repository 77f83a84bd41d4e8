//! Answers in a file: a line of JSON that says what it is, and one for each pod, sorted.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::answer::Answer;
use super::submit::Submission;
use crate::error::{CommandError, quoted};

const API_VERSION: &str = "podloom.dev/v1alpha1";
const KIND: &str = "AdmissionRecording";
/// How large a file may be.
const LARGEST: usize = 256 << 20;

/// A pod that was sent, and the answer.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    sent: Submission,
    answer: Answer,
}

/// Answers that are being collected, each as its line.
#[derive(Default)]
pub(super) struct Recording {
    lines: Vec<((String, String), String)>,
    bytes: usize,
}

impl Recording {
    pub(super) fn add(&mut self, sent: Submission, answer: Answer) -> Result<(), CommandError> {
        let place = (sent.namespace.clone(), sent.name.clone());
        let line = serde_json::to_string(&Entry { sent, answer });
        let line = line.context("cannot write an answer as JSON")?;
        self.bytes += line.len() + 1;
        if self.bytes > LARGEST {
            return Err(CommandError::invalid(format!(
                "the answers are larger than {} MiB: record fewer namespaces at once",
                LARGEST >> 20
            )));
        }
        self.lines.push((place, line));
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn write(mut self, file: &Path) -> Result<(), CommandError> {
        self.lines.sort();
        let header = json!({ "apiVersion": API_VERSION, "kind": KIND, "pods": self.len() });
        let mut text = format!("{header}\n");
        for (_, line) in &self.lines {
            text.push_str(line);
            text.push('\n');
        }
        let written = fs::write(file, text);
        Ok(written.with_context(|| format!("cannot write {}", file.display()))?)
    }
}

/// The lines of a recording, which can all be read.
pub(super) struct Recorded(String);

impl Recorded {
    pub(super) fn read(file: &Path) -> Result<Self, CommandError> {
        let invalid = |why: &str| CommandError::invalid(format!("{}: {why}", file.display()));
        let size = fs::metadata(file).map_err(|error| invalid(&error.to_string()))?;
        if size.len() > LARGEST as u64 {
            return Err(invalid(&format!("larger than {} MiB", LARGEST >> 20)));
        }
        let text = fs::read_to_string(file).map_err(|error| invalid(&error.to_string()))?;
        Self::of(text).map_err(|why| invalid(&why))
    }

    /// The first user as whom pods were sent; none if all were sent as whoever recorded them.
    pub(super) fn user(&self) -> Option<String> {
        self.entries().find_map(|(submission, _)| submission.user)
    }

    fn of(text: String) -> Result<Self, String> {
        let mut lines = text.lines();
        let header = lines.next().and_then(|it| serde_json::from_str(it).ok());
        let header: Value = header.unwrap_or_default();
        if header["kind"] != KIND {
            return Err("not a recording of podloom admission record".to_owned());
        }
        if header["apiVersion"] != API_VERSION {
            let version = quoted(header["apiVersion"].as_str().unwrap_or_default());
            return Err(format!(
                "a recording of version {version}, and this podloom reads {API_VERSION}: use the podloom that recorded it, or record again"
            ));
        }
        let mut count: u64 = 0;
        for line in lines {
            count += 1;
            serde_json::from_str::<Entry>(line).map_err(|error| {
                let line = count + 1;
                format!("line {line} is broken ({error}): record again")
            })?;
        }
        if count == 0 || header["pods"] != count {
            return Err(format!(
                "{count} answers are there, and {} were recorded: record again",
                header["pods"]
            ));
        }
        Ok(Self(text))
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (Submission, Answer)> {
        let lines = self.0.lines().skip(1);
        lines
            .filter_map(|line| serde_json::from_str(line).ok())
            .map(|Entry { sent, answer }| (sent, answer))
    }
}

#[cfg(test)]
mod tests;
