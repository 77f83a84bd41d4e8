//! Reads the operator's own metrics, as Prometheus does. What the page shows is what they say.

use std::collections::BTreeMap;

use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

/// Samples of some metrics.
pub(super) struct Samples(Vec<Sample>);

/// One line of a metric.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: String,
}

impl Samples {
    /// The samples of the metrics with these names. What cannot be read is left out.
    pub(super) fn read(registry: &Registry, names: &[&str]) -> Self {
        let mut page = String::new();
        if let Err(error) = text::encode(&mut page, registry) {
            tracing::warn!(%error, "could not read the metrics for the console");
        }
        let lines = page.lines().filter(|line| {
            let end = line.find(['{', ' ']).unwrap_or(line.len());
            line.get(..end).is_some_and(|name| names.contains(&name))
        });
        Self(lines.filter_map(Sample::parse).collect())
    }

    /// The samples of one metric.
    pub(super) fn of(&self, name: &str) -> impl Iterator<Item = &Sample> {
        self.0.iter().filter(move |sample| sample.name == name)
    }
}

impl Sample {
    fn parse(line: &str) -> Option<Self> {
        let name_end = line.find(['{', ' '])?;
        let (name, mut rest) = line.split_at_checked(name_end)?;
        let mut labels = BTreeMap::new();
        if let Some(listed) = rest.strip_prefix('{') {
            rest = listed;
            while !rest.starts_with('}') {
                let (label, quoted) = rest.split_once("=\"")?;
                let (value, after) = unquoted(quoted)?;
                labels.insert(label.to_owned(), value);
                rest = after.strip_prefix(',').unwrap_or(after);
            }
            rest = rest.strip_prefix('}')?;
        }
        Some(Self {
            name: name.to_owned(),
            labels,
            value: rest.split_whitespace().next()?.to_owned(),
        })
    }

    /// The value of a label; empty if there is none.
    pub(super) fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }

    /// The value of a counter, a bucket or a number of things.
    pub(super) fn count(&self) -> u64 {
        self.value.parse().unwrap_or_default()
    }
}

/// A value up to its closing quotation mark, and what comes after that.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests;
