//! `podloom post-render` and `podloom fn`: the chain as a step of other tools, which write manifests to standard input.

use anyhow::Context;
use clap::Parser;
use podloom_mutation::Severity;
use serde_json::{Value, json};

use super::{Problems, Settled, pod, remarks, render_found, settle, sort};
use crate::cli::{FnArguments, NeededArguments, PostRenderArguments, RenderArguments};
use crate::error::{CommandError, Diagnostic, Position};
use crate::manifest::{self, Depth, Found};
use crate::output;

/// `podloom render` as Helm calls it.
pub(crate) fn post_render(arguments: &PostRenderArguments) -> Result<(), CommandError> {
    let mut render = rendering(&arguments.namespace, &arguments.needed);
    render.plugins = Some(arguments.plugins.clone());
    render.strict = arguments.strict;
    super::run(&render)
}

/// The arguments of a render that reads standard input, and replaces no object by another one.
fn rendering(namespace: &str, needed: &NeededArguments) -> RenderArguments {
    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        render: RenderArguments,
    }
    let line = [
        "render",
        "--no-expand",
        "--filename",
        "-",
        "--namespace",
        namespace,
    ];
    let NeededArguments {
        context,
        pod_templates,
    } = needed.clone();
    RenderArguments {
        context,
        pod_templates,
        ..Line::parse_from(line).render
    }
}

/// The API group of what a KRM function gets. Its versions differ in nothing that is read here.
const GROUP: &str = "config.kubernetes.io/";
/// Where a tool says of which file an item is, the present name first.
const PATHS: [&str; 2] = [
    "internal.config.kubernetes.io/path",
    "config.kubernetes.io/path",
];
const INDICES: [&str; 2] = [
    "internal.config.kubernetes.io/index",
    "config.kubernetes.io/index",
];

/// `podloom fn`: passes the items of a ResourceList through the chain, and says in its results what is wrong with which item.
pub(crate) fn function(arguments: &FnArguments) -> Result<(), CommandError> {
    let mut list = resource_list()?;
    let items = list.get("items").and_then(Value::as_array);
    let items = items.cloned().unwrap_or_default();
    let mut render = rendering(&arguments.namespace, &arguments.needed);
    render.plugins = Some(chain_of(&list, arguments)?);
    let mut problems = Problems::default();
    let (values, notes) = passed(&items, &render, &mut problems)?;
    // Functions before this one have said something too.
    let said = list.get("results").and_then(Value::as_array);
    let mut said = said.cloned().unwrap_or_default();
    said.extend(results(&items, &problems, &notes));
    if problems.errors.is_empty() {
        list["items"] = values.into();
    }
    if !said.is_empty() {
        list["results"] = said.into();
    }
    output::print(&output::yaml(&list)?)?;
    let all = problems.errors.iter_mut().chain(&mut problems.warnings);
    all.for_each(|it| placed(it, &items));
    problems.finish(false, CommandError::Invalid)
}

/// What a tool writes to a function: one ResourceList.
fn resource_list() -> Result<Value, CommandError> {
    const ADVICE: &str =
        "kustomize and kpt write one; to pass plain manifests, use podloom render -f -";
    let mut values = manifest::read_values("-")?.into_iter();
    let (Some(list), None) = (values.next(), values.next()) else {
        let text =
            format!("standard input has no ResourceList, or more than one document: {ADVICE}");
        return Err(CommandError::invalid(text));
    };
    let field = |name: &str| list.get(name).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (field("apiVersion"), field("kind"));
    if !version.starts_with(GROUP) || kind != "ResourceList" {
        let text = format!(
            "standard input is {} {}, not a ResourceList of {GROUP}v1: {ADVICE}",
            crate::error::quoted(version),
            crate::error::quoted(kind)
        );
        return Err(CommandError::invalid(text));
    }
    match list.get("items") {
        None | Some(Value::Null | Value::Array(_)) => Ok(list),
        Some(_) => Err(CommandError::invalid(
            "items of the ResourceList is not a list",
        )),
    }
}

/// The directory of the chain: that of the command line, or of the function's configuration.
fn chain_of(list: &Value, arguments: &FnArguments) -> Result<std::path::PathBuf, CommandError> {
    let places = [
        "/functionConfig/data/plugins",
        "/functionConfig/spec/plugins",
    ];
    let named = places.into_iter().find_map(|it| list.pointer(it));
    match (&arguments.plugins, named) {
        // What a repository says never replaces the chain of who runs this.
        (Some(plugins), _) => Ok(plugins.clone()),
        (None, Some(Value::String(named))) if !named.is_empty() => Ok(named.into()),
        (None, Some(_)) => Err(CommandError::invalid(
            "data.plugins of the functionConfig is no directory: write a text",
        )),
        (None, None) => Err(CommandError::invalid(
            "no chain is named: set data.plugins in the functionConfig, --plugins, or PODLOOM_PLUGINS",
        )),
    }
}

/// The items after the chain, if none has an error, and the notes of plugins.
fn passed(
    items: &[Value],
    render: &RenderArguments,
    problems: &mut Problems,
) -> Result<(Vec<Value>, Vec<Diagnostic>), CommandError> {
    let mut found = Found::default();
    for (index, item) in items.iter().enumerate() {
        let text = serde_json::to_string(item).context("could not write an item")?;
        let mut read = manifest::parsed(&name_of(index), &text);
        // The items of a list are documents of their own.
        let kind = item.get("kind");
        let is_itself = read.documents.iter().any(|it| it.value.get("kind") == kind);
        if !is_itself && read.errors.is_empty() {
            let text = "it is a list, whose own items would not pass the chain: put these into the ResourceList";
            read.errors.push(Diagnostic::at(place_of(index), text));
        }
        found.errors.append(&mut read.errors);
        found.documents.append(&mut read.documents);
    }
    manifest::name_templates(&mut found.documents, &render.pod_templates);
    let given = found.documents.len();
    pod::add(&mut found, render, Depth::Flat)?;
    let mut outcomes = render_found(&found, given, render, problems)?;
    for (document, result) in &mut outcomes {
        if let Ok(rendered) = result {
            rendered.keep_source(document);
        }
    }
    let outcomes: Vec<Settled<'_>> = settle(outcomes, problems)?;
    let said = |severity| remarks(&outcomes, severity, &render.namespace);
    problems.warnings.extend(said(Severity::Warning));
    let notes = said(Severity::Normal);
    sort(&mut problems.errors);
    let rendered = outcomes.into_iter().filter_map(|it| it.rendered);
    Ok((rendered.map(|it| it.value).collect(), notes))
}

/// What messages call an item, as its file.
fn name_of(index: usize) -> String {
    format!("items[{index}]")
}

/// Which item a message is about.
fn index_of(diagnostic: &Diagnostic, items: &[Value]) -> Option<usize> {
    let file = &diagnostic.position.as_ref()?.file;
    (0..items.len()).find(|index| **file == *name_of(*index))
}

fn annotation(item: &Value, names: [&str; 2]) -> Option<String> {
    let annotations = item.get("metadata")?.get("annotations")?;
    let mut found = names.into_iter().filter_map(|name| annotations.get(name));
    found.next()?.as_str().map(str::to_owned)
}

/// The place of an item in the list.
fn place_of(index: usize) -> Position {
    Position {
        file: name_of(index).into(),
        document: index + 1,
        line: 0,
        column: 0,
    }
}

/// Names the file of an item instead of its text here, which nobody has seen.
fn placed(diagnostic: &mut Diagnostic, items: &[Value]) {
    let Some(index) = index_of(diagnostic, items) else {
        return;
    };
    let path = items.get(index).and_then(|item| annotation(item, PATHS));
    diagnostic.position = Some(Position {
        file: path.unwrap_or_else(|| name_of(index)).into(),
        ..place_of(index)
    });
}

/// What a tool shows for each item.
fn results(items: &[Value], problems: &Problems, notes: &[Diagnostic]) -> Vec<Value> {
    let all = [
        ("error", problems.errors.as_slice()),
        ("warning", &problems.warnings),
        ("info", notes),
    ];
    let all = all.into_iter().flat_map(|(severity, all)| {
        all.iter()
            .map(move |diagnostic| result(items, severity, diagnostic))
    });
    all.collect()
}

fn result(items: &[Value], severity: &str, diagnostic: &Diagnostic) -> Value {
    let item = index_of(diagnostic, items).and_then(|index| items.get(index));
    let metadata = |field: &str| Some(item?.get("metadata")?.get(field)?.clone());
    let annotation = |names| annotation(item?, names);
    let reference = item.map(|item| {
        output::object([
            ("apiVersion", item.get("apiVersion").cloned()),
            ("kind", item.get("kind").cloned()),
            ("name", metadata("name")),
            ("namespace", metadata("namespace")),
        ])
    });
    let file = annotation(PATHS).map(|path| {
        let index = annotation(INDICES).and_then(|it| it.parse::<u64>().ok());
        output::object([
            ("path", Some(path.into())),
            ("index", index.map(Into::into)),
        ])
    });
    // What several pods have in common is said once.
    let message = match &diagnostic.object {
        Some(pods) if severity != "error" => format!("{} ({pods})", diagnostic.message),
        _ => diagnostic.message.clone(),
    };
    output::object([
        ("message", Some(message.into())),
        ("severity", Some(severity.into())),
        ("resourceRef", reference),
        (
            "field",
            diagnostic
                .field
                .as_ref()
                .map(|path| json!({ "path": path })),
        ),
        ("file", file),
    ])
}
