//! What the command prints.

use std::collections::BTreeSet;

use anstyle::Style;
use podloom_engine::shown::short_digest;
use podloom_mutators::MutationEntry;
use serde_json::{Map, Value, json};

use super::authors::{self, Author, Authors, Line, is_at_or_below};
use super::proof::{Proof, Tree};
use crate::cli::ReportFormat;
use crate::error::{escape_controls, shown};
use crate::manifest::metadata;
use crate::output::{self, ADDED, CHANGED, QUIET, WARNING, paint};
use crate::stamp::Stamp;

/// The pod with who wrote its lines, as text.
pub(super) fn render(
    pod: &Value,
    authors: &Authors<'_>,
    proof: &Proof,
    format: ReportFormat,
) -> anyhow::Result<String> {
    let mut lines = authors::of(pod)?;
    authors.blame(&mut lines, proof);
    match format {
        ReportFormat::Text => Ok(text_of(pod, &lines, authors, proof)),
        ReportFormat::Json => output::json_text(&json_of(pod, &lines, authors, proof)),
    }
}

/// As `shop/web`.
fn name(pod: &Value) -> String {
    let text = |field: &str| Some(metadata(pod, field)).filter(|it| !it.is_empty());
    let name = text("name").or_else(|| text("generateName"));
    let name = name.unwrap_or("(without a name)");
    match text("namespace") {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

/// The managers that made the pod, each once.
fn makers<'a>(authors: &'a Authors<'_>) -> BTreeSet<&'a str> {
    let makers = authors.fields.entries().filter(|entry| entry.is_maker);
    makers.map(|entry| entry.manager.as_str()).collect()
}

/// The paths that a plugin wrote, and where the pod has nothing: it removed that, or somebody did later.
fn gone<'p>(lines: &[Line], plugin: &'p MutationEntry) -> Vec<&'p str> {
    let is_there = |path: &str| lines.iter().any(|line| is_at_or_below(&line.path, path));
    let paths = plugin.paths.iter().map(String::as_str);
    paths.filter(|path| !is_there(path)).collect()
}

/// The plugins that cannot be left out, and why.
fn untried<'p>(
    plugins: &'p [MutationEntry],
    without: &'p [Result<Tree, String>],
) -> impl Iterator<Item = (&'p str, &'p str)> {
    let plugins = plugins.iter().zip(without);
    plugins.filter_map(|(plugin, tree)| Some((plugin.name.as_str(), tree.as_ref().err()?.as_str())))
}

/// The other plugins on which a line depends.
fn others<'p>(line: &Line, plugins: &'p [MutationEntry]) -> Vec<&'p str> {
    let others = line.depends_on.iter().filter_map(|it| plugins.get(*it));
    others.map(|entry| entry.name.as_str()).collect()
}

// Who wrote which path, for programs.

fn json_of(pod: &Value, lines: &[Line], authors: &Authors<'_>, proof: &Proof) -> Value {
    let plugins = authors.plugins();
    let values = lines.iter().filter(|line| !line.is_head);
    let paths: Map<String, Value> = values
        .map(|line| (line.path.clone(), who(line, plugins, proof.is_done())))
        .collect();
    json!({
        "pod": name(pod),
        "stamp": stamp(lines, authors),
        "submittedBy": makers(authors),
        "hasManagedFields": authors.fields.entries().next().is_some(),
        "proof": proof_json(plugins, proof),
        "paths": paths,
    })
}

/// Who wrote a path: a plugin, a manager, or who submitted it.
fn who(line: &Line, plugins: &[MutationEntry], is_proof: bool) -> Value {
    let mut who = match &line.author {
        Some(Author::Plugin(index)) => {
            let plugin = plugins.get(*index);
            let mut who = json!({
                "plugin": plugin.map(|it| &it.name),
                "version": plugin.map(|it| &it.version),
            });
            if is_proof {
                who["proved"] = line.is_proved.into();
            }
            who
        }
        Some(Author::Manager(name)) => json!({ "manager": name }),
        Some(Author::Submitted) | None => json!({ "submitted": true }),
    };
    if !line.depends_on.is_empty() {
        who["dependsOn"] = others(line, plugins).into();
    }
    who
}

/// None without a stamp.
fn stamp(lines: &[Line], authors: &Authors<'_>) -> Value {
    let Some(stamp) = &authors.stamp else {
        return Value::Null;
    };
    let Some((chain, plugins)) = stamp.chain() else {
        return json!({ "readable": false });
    };
    let plugins = plugins.iter().map(|plugin| {
        json!({
            "name": plugin.name,
            "version": plugin.version,
            "sha256": plugin.sha256,
            "cut": plugin.cut,
            "exception": plugin.exception,
            "notThere": gone(lines, plugin),
        })
    });
    json!({ "readable": true, "chain": chain, "plugins": plugins.collect::<Value>() })
}

/// None if nobody asked for it.
fn proof_json(plugins: &[MutationEntry], proof: &Proof) -> Value {
    match proof {
        Proof::NotAsked => Value::Null,
        Proof::Impossible(why) => json!({ "provable": false, "reason": why }),
        Proof::Done {
            template, without, ..
        } => {
            let untried = untried(plugins, without);
            let untried = untried.map(|(plugin, why)| json!({ "plugin": plugin, "reason": why }));
            json!({
                "provable": true,
                "template": template,
                "notProvable": untried.collect::<Value>(),
            })
        }
    }
}

// The pod with a gutter, for people.

/// The longest gutter; who has a longer name moves his line to the right.
const WIDEST: usize = 48;

fn text_of(pod: &Value, lines: &[Line], authors: &Authors<'_>, proof: &Proof) -> String {
    let mut text = String::new();
    for (style, line) in notes(pod, lines, authors, proof) {
        text.push_str(&paint(style, &format!("# {}", shown(&line))));
        text.push('\n');
    }
    let plugins = authors.plugins();
    let gutters: Vec<(Style, String)> = lines
        .iter()
        .map(|line| gutter(line, plugins, proof.is_done()))
        .collect();
    let widths = gutters.iter().map(|(_, gutter)| gutter.chars().count());
    let width = widths.filter(|width| *width <= WIDEST).max();
    let width = width.unwrap_or_default();
    for ((style, gutter), line) in gutters.iter().zip(lines) {
        let gutter = paint(*style, &format!("{gutter:width$}"));
        let row = format!("{gutter} | {}", line.text);
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

/// Who wrote a line.
fn gutter(line: &Line, plugins: &[MutationEntry], is_proof: bool) -> (Style, String) {
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
    let others = others(line, plugins);
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
/// What is to be said of a plugin that ran.
fn of_plugin(lines: &[Line], plugin: &MutationEntry) -> Vec<(Style, String)> {
    let (name, mut notes) = (&plugin.name, Vec::new());
    if let Some(exception) = &plugin.exception {
        let text = format!("{name} let it pass because of the ChainException {exception}.");
        notes.push((WARNING, text));
    }
    if plugin.cut {
        let text = format!(
            "Lines of {name} may be missing: the stamp had no room for all of its paths. They are shown as \"submitted\"."
        );
        notes.push((WARNING, text));
    }
    let gone = gone(lines, plugin).join(", ");
    if !gone.is_empty() {
        notes.push((
            QUIET,
            format!("{name} also wrote what is not there: {gone}"),
        ));
    }
    notes
}

fn notes(
    pod: &Value,
    lines: &[Line],
    authors: &Authors<'_>,
    proof: &Proof,
) -> Vec<(Style, String)> {
    let mut notes = vec![(QUIET, format!("Pod {}", name(pod)))];
    notes.push(match authors.stamp.as_ref().map(Stamp::chain) {
        None => (
            WARNING,
            "It has no stamp, so it did not pass a chain of podloom: no line is a plugin's.".to_owned(),
        ),
        Some(None) => (
            WARNING,
            "Its stamp cannot be read, so somebody has changed it: which lines are a plugin's is not known."
                .to_owned(),
        ),
        Some(Some((chain, plugins))) => {
            let names: Vec<String> = plugins.iter().map(titled).collect();
            let names = match names.is_empty() {
                true => "no plugin ran".to_owned(),
                false => names.join(", "),
            };
            (QUIET, format!("It passed the chain {}: {names}", short_digest(chain)))
        }
    });
    notes.push((QUIET, submitted(authors)));
    if authors.fields.is_cut() {
        let text = "Its managedFields are too long: some managers may be missing.";
        notes.push((WARNING, text.to_owned()));
    }
    notes.extend(authors.plugins().iter().flat_map(|it| of_plugin(lines, it)));
    match proof {
        Proof::NotAsked => {}
        Proof::Impossible(why) => notes.push((WARNING, format!("Not provable: {why}."))),
        Proof::Done {
            template, without, ..
        } => {
            let text = format!(
                "Proved by leaving out each plugin in turn, on the template of {template}."
            );
            notes.push((QUIET, text));
            let untried = untried(authors.plugins(), without);
            notes.extend(
                untried
                    .map(|(plugin, why)| (WARNING, format!("Not provable for {plugin}: {why}."))),
            );
        }
    }
    notes
}

/// What the word stands for.
fn submitted(authors: &Authors<'_>) -> String {
    let makers: Vec<&str> = makers(authors).into_iter().collect();
    match (authors.fields.entries().count(), makers.as_slice()) {
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
