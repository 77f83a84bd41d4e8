//! Finds who wrote each line.

use std::collections::BTreeSet;

use podloom_mutators::MutationEntry;
use podloom_pod_path::element_segments;
use serde_json::{Map, Value, json};

use super::proof::Proof;
use crate::managed_fields::{Entry, ManagedFields};
use crate::manifest::escape;
use crate::output;
use crate::stamp::{self, Stamp};

/// How many elements of lists are looked at to find out who wrote the lines: some seconds.
const WORK: u64 = 100_000_000;

/// Who wrote a line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Author {
    /// The plugin of this number in the stamp.
    Plugin(usize),
    /// A field manager, after the pod was made.
    Manager(String),
    /// Who made the pod, or the API server, which sets defaults and more. Nothing tells them apart.
    Submitted,
}

/// Knows who wrote what.
pub(super) struct Authors<'a> {
    pub(super) stamp: Option<Stamp>,
    /// Those of the stamp, if a chain can have written it.
    plugins: Vec<MutationEntry>,
    pub(super) fields: ManagedFields<'a>,
}

impl<'a> Authors<'a> {
    pub(super) fn of(pod: &'a Value) -> Self {
        let stamp = Stamp::of(pod);
        let chain = stamp.as_ref().and_then(Stamp::chain);
        Self {
            plugins: chain.map_or_else(Vec::new, |(_, plugins)| plugins.to_vec()),
            stamp,
            fields: ManagedFields::of(pod, WORK),
        }
    }

    /// Those of the stamp, in the order of the chain.
    pub(super) fn plugins(&self) -> &[MutationEntry] {
        &self.plugins
    }

    /// Finds who wrote each line, and what depends on which plugin if there is a proof.
    pub(super) fn blame(&self, lines: &mut [Line], proof: &Proof) {
        for line in lines.iter_mut().filter(|line| !line.is_head) {
            let author = self.author(&line.path);
            let all = 0..self.plugins().len();
            line.depends_on = all.filter(|it| proof.depends(*it, &line.path)).collect();
            if let Author::Plugin(index) = author {
                line.is_proved = line.depends_on.remove(&index);
            }
            line.author = Some(author);
        }
        give_heads(lines);
    }

    fn author(&self, path: &str) -> Author {
        let mut owners = self.fields.owners(path);
        // What the maker still owns, nobody has changed.
        if owners.iter().any(|owner| owner.is_maker) {
            owners.clear();
        }
        let (edits, rest): (Vec<&Entry>, Vec<&Entry>) =
            owners.into_iter().partition(|owner| owner.is_later_edit());
        last(&edits)
            .or_else(|| self.plugin(path))
            .or_else(|| last(&rest))
            .unwrap_or(Author::Submitted)
    }

    /// Whether the value is as it was before the pod passed the chain.
    pub(super) fn is_as_made(&self, path: &str) -> bool {
        let owners = self.fields.owners(path);
        owners.iter().any(|owner| owner.is_maker) && self.plugin(path).is_none()
    }

    /// The last plugin that wrote the value, or an object or list around it.
    fn plugin(&self, path: &str) -> Option<Author> {
        let wrote = |entry: &MutationEntry| {
            let mut paths = entry.paths.iter();
            paths.any(|written| is_at_or_below(path, written))
        };
        self.plugins().iter().rposition(wrote).map(Author::Plugin)
    }
}

/// The manager that wrote last.
fn last(owners: &[&Entry]) -> Option<Author> {
    let last = owners.iter().max_by_key(|owner| owner.time)?;
    Some(Author::Manager(last.manager.clone()))
}

/// Whether a path is another one, or leads to something in it.
pub(super) fn is_at_or_below(path: &str, other: &str) -> bool {
    let rest = path.strip_prefix(other);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Line {
    /// The plugins without which this line is gone or different.
    fn needs(&self) -> BTreeSet<usize> {
        let mut needs = self.depends_on.clone();
        if let Some(Author::Plugin(index)) = self.author {
            needs.insert(index);
        }
        needs
    }
}

/// A head is there as long as anything in its object or list is. So it belongs to the plugin without which all of that is gone, or
/// to who wrote all of it.
fn give_heads(lines: &mut [Line]) {
    // From the end, so that heads in an object or list come before its own.
    for index in (0..lines.len()).rev() {
        let Some((head, below)) = lines.get_mut(index..).and_then(<[_]>::split_first_mut) else {
            continue;
        };
        if !head.is_head {
            continue;
        }
        let is_in = |line: &&Line| {
            let rest = line.path.strip_prefix(&head.path);
            rest.is_some_and(|rest| rest.starts_with('/'))
        };
        let inside = below.iter().take_while(is_in);
        let mut values = inside.filter(|line| !line.is_head);
        let Some(first) = values.next() else {
            continue;
        };
        let mut author = first.author.clone();
        let (mut is_proved, mut needs) = (first.is_proved, first.needs());
        for value in values {
            if value.author != author {
                author = None;
            }
            is_proved &= value.is_proved;
            needs = needs.intersection(&value.needs()).copied().collect();
        }
        if author.is_none()
            && let Some(plugin) = needs.first()
        {
            (author, is_proved) = (Some(Author::Plugin(*plugin)), true);
        }
        if let Some(Author::Plugin(index)) = author {
            needs.remove(&index);
        }
        head.author = author;
        head.is_proved = is_proved;
        head.depends_on = needs;
    }
}

// A pod as lines of YAML, each with the path of its value.

/// The entries of YAML are indented by this much.
const STEP: usize = 2;

/// A line of a pod.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    pub(super) text: String,
    /// Of its value, with elements of lists named as in the stamp.
    pub(super) path: String,
    /// Whether it only begins an object or a list, which is on the next lines.
    pub(super) is_head: bool,
    /// None for a head of what several have written.
    pub(super) author: Option<Author>,
    /// Whether the line is gone or different without the plugin that wrote it.
    pub(super) is_proved: bool,
    /// The other plugins without which the line is gone or different, by their numbers in the stamp.
    pub(super) depends_on: BTreeSet<usize>,
}

/// The lines of a pod, without managedFields and the stamp, which say who wrote the others.
pub(super) fn of(pod: &Value) -> anyhow::Result<Vec<Line>> {
    let mut pod = pod.clone();
    remove_records(&mut pod);
    let mut lines = Vec::new();
    if let Value::Object(fields) = &pod {
        write_fields(&mut lines, fields, "", 0)?;
    }
    Ok(lines)
}

fn remove_records(pod: &mut Value) {
    let had_stamp = stamp::remove(pod);
    let Some(metadata) = pod.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    metadata.remove("managedFields");
    let annotations = metadata.get("annotations").and_then(Value::as_object);
    if had_stamp && annotations.is_some_and(Map::is_empty) {
        metadata.remove("annotations");
    }
}

fn write_fields(
    lines: &mut Vec<Line>,
    fields: &Map<String, Value>,
    path: &str,
    indent: usize,
) -> anyhow::Result<()> {
    for (key, value) in fields {
        let path = format!("{path}/{}", escape(key));
        let has_more = match value {
            Value::Object(inner) => !inner.is_empty(),
            Value::Array(elements) => !elements.is_empty(),
            _ => false,
        };
        if has_more {
            let text = output::yaml(&json!({ key: null }))?;
            let text = text.trim_end().trim_end_matches("null").trim_end();
            lines.push(line(text, &path, indent, true));
        }
        match value {
            Value::Object(inner) if has_more => write_fields(lines, inner, &path, indent + STEP)?,
            Value::Array(elements) if has_more => write_elements(lines, elements, &path, indent)?,
            scalar => write_scalar(lines, &json!({ key.as_str(): scalar }), &path, indent)?,
        }
    }
    Ok(())
}

fn write_elements(
    lines: &mut Vec<Line>,
    elements: &[Value],
    path: &str,
    indent: usize,
) -> anyhow::Result<()> {
    for (segment, element) in element_segments(path, elements).iter().zip(elements) {
        let path = format!("{path}/{segment}");
        let first = lines.len();
        match element {
            Value::Object(inner) if !inner.is_empty() => {
                write_fields(lines, inner, &path, indent + STEP)?;
            }
            Value::Array(inner) if !inner.is_empty() => {
                write_elements(lines, inner, &path, indent + STEP)?;
            }
            scalar => {
                write_scalar(lines, &json!([scalar]), &path, indent)?;
                continue;
            }
        }
        // The dash stands where the first line of the element is indented.
        if let Some(line) = lines.get_mut(first) {
            line.text.replace_range(indent..=indent, "-");
        }
    }
    Ok(())
}

/// Writes an object or a list with one scalar, or with an empty object or list.
fn write_scalar(
    lines: &mut Vec<Line>,
    value: &Value,
    path: &str,
    indent: usize,
) -> anyhow::Result<()> {
    let text = output::yaml(value)?;
    lines.extend(text.lines().map(|text| line(text, path, indent, false)));
    Ok(())
}

fn line(text: &str, path: &str, indent: usize, is_head: bool) -> Line {
    let indent = if text.is_empty() { 0 } else { indent };
    Line {
        text: format!("{:indent$}{text}", ""),
        path: path.to_owned(),
        is_head,
        ..Line::default()
    }
}

#[cfg(test)]
mod tests;
