//! The pod with a gutter, for people.

use anstyle::Style;
use podloom_mutators::MutationEntry;

use super::Report;
use crate::blame::authors::{Author, Blamed};
use crate::blame::proof::Proof;
use crate::blame::stamp::Stamp;
use crate::blame::trials::short;
use crate::error::{escape_controls, shown};
use crate::output::{ADDED, CHANGED, QUIET, WARNING, paint};

/// The longest gutter; who has a longer name moves his line to the right.
const WIDEST: usize = 48;

pub(super) fn of(report: &Report<'_>) -> String {
    let mut text = String::new();
    for (style, line) in notes(report) {
        text.push_str(&paint(style, &format!("# {}", shown(&line))));
        text.push('\n');
    }
    let plugins = report.stamp.plugins();
    let is_proof = report.proof.trees().is_some();
    let gutters: Vec<(Style, String)> = report
        .lines
        .iter()
        .map(|line| gutter(line, plugins, is_proof))
        .collect();
    let widths = gutters.iter().map(|(_, gutter)| gutter.chars().count());
    let width = widths
        .filter(|width| *width <= WIDEST)
        .max()
        .unwrap_or_default();
    for ((style, gutter), line) in gutters.iter().zip(report.lines) {
        let gutter = paint(*style, &format!("{gutter:width$}"));
        let row = format!("{gutter} | {}", line.line.text);
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

/// Who wrote a line.
fn gutter(line: &Blamed, plugins: &[MutationEntry], is_proof: bool) -> (Style, String) {
    let (style, mut text) = match &line.author {
        None => return (QUIET, String::new()),
        Some(Author::Submitted) => (QUIET, "submitted".to_owned()),
        Some(Author::Manager(name)) => (CHANGED, name.clone()),
        Some(Author::Plugin(index)) => (ADDED, plugins.get(*index).map(titled).unwrap_or_default()),
    };
    let mut remarks = Vec::new();
    if is_proof && !line.is_proved && matches!(line.author, Some(Author::Plugin(_))) {
        remarks.push("not proved".to_owned());
    }
    let others = line.depends_on.iter().filter_map(|it| plugins.get(*it));
    let others: Vec<&str> = others.map(|entry| entry.name.as_str()).collect();
    if !others.is_empty() {
        remarks.push(format!("depends on {}", others.join(", ")));
    }
    if !remarks.is_empty() {
        text.push_str(&format!(" ({})", remarks.join("; ")));
    }
    (style, escape_controls(&text))
}

fn titled(plugin: &MutationEntry) -> String {
    format!("{} {}", plugin.name, plugin.version)
}

/// What is to know before reading the lines.
fn notes(report: &Report<'_>) -> Vec<(Style, String)> {
    let mut notes = vec![(QUIET, format!("Pod {}", report.name()))];
    notes.push(match report.stamp {
        Stamp::None => (
            WARNING,
            "It has no stamp, so it did not pass a chain of podloom: no line is a plugin's.".to_owned(),
        ),
        Stamp::Unreadable => (
            WARNING,
            "Its stamp cannot be read, so somebody has changed it: which lines are a plugin's is not known."
                .to_owned(),
        ),
        Stamp::Read { chain, plugins } => {
            let names: Vec<String> = plugins.iter().map(titled).collect();
            let names = match names.is_empty() {
                true => "no plugin ran".to_owned(),
                false => names.join(", "),
            };
            (QUIET, format!("It passed the chain {}: {names}", short(chain)))
        }
    });
    notes.push((QUIET, submitted(report)));
    if report.fields.is_cut() {
        let text = "Its managedFields are too long: some managers may be missing.";
        notes.push((WARNING, text.to_owned()));
    }
    for plugin in report.stamp.plugins() {
        if plugin.cut {
            let name = &plugin.name;
            let text = format!(
                "Lines of {name} may be missing: the stamp had no room for all of its paths. They are shown as \"submitted\"."
            );
            notes.push((WARNING, text));
        }
        let gone = report.gone(plugin);
        if !gone.is_empty() {
            let text = format!(
                "{} also wrote what is not there: {}",
                plugin.name,
                gone.join(", ")
            );
            notes.push((QUIET, text));
        }
    }
    notes.extend(proof(report.proof));
    notes
}

/// What the word stands for.
fn submitted(report: &Report<'_>) -> String {
    let makers: Vec<&str> = report.makers().into_iter().collect();
    match (report.fields.entries().count(), makers.as_slice()) {
        (0, _) => "It has no managedFields (kubectl prints them with --show-managed-fields), so \"submitted\" is every line that is \
                   not a plugin's."
            .to_owned(),
        (_, []) => "\"submitted\" is what somebody submitted or the API server set: nothing says which.".to_owned(),
        (_, makers) => format!(
            "\"submitted\" is what {} submitted or the API server set: nothing says which.",
            makers.join(" and ")
        ),
    }
}

fn proof(proof: &Proof) -> Vec<(Style, String)> {
    match proof {
        Proof::NotAsked => Vec::new(),
        Proof::Impossible(why) => vec![(WARNING, format!("Not provable: {why}."))],
        Proof::Done {
            template, untried, ..
        } => {
            let text = format!(
                "Proved by leaving out each plugin in turn, on the template of {template}."
            );
            let mut notes = vec![(QUIET, text)];
            notes.extend(
                untried
                    .iter()
                    .map(|(plugin, why)| (WARNING, format!("Not provable for {plugin}: {why}."))),
            );
            notes
        }
    }
}
