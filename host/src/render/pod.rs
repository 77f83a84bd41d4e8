//! Passes pods and pod templates through the chain, in place, and reads `--context`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use podloom_mutation::{LaterChange, MutatedPod, PluginRun, PodRequest, named_owner, owner_of};
use serde_json::{Value, json};

use super::{Namespaces, ObjectError, Pass, Rendered, Setting};
use crate::ci;
use crate::cli::RenderArguments;
use crate::error::{CommandError, Diagnostic};
use crate::exceptions::Exceptions;
use crate::manifest;
use crate::manifest::{Depth, Document, DocumentKind, Found, Template, field_name};

/// A pod as the API server would receive it, and what plugins can read about the request.
pub(crate) struct Subject {
    pub(crate) pod: Value,
    pub(crate) request: PodRequest,
}

impl Subject {
    /// With the exceptions that hold for it.
    pub(crate) fn excepted(mut self, exceptions: &Exceptions) -> Self {
        self.request.exceptions = exceptions.of(&self.pod, &self.request);
        self
    }
}

/// The fields of a pod template that become the pod's.
const PARTS: [&str; 2] = ["metadata", "spec"];

/// The pod in a document, or in its pod template.
pub(crate) fn subject(
    document: &Document,
    template: Option<&Template>,
    namespaces: &Namespaces,
    default_namespace: &str,
) -> Subject {
    let namespace = document.namespace(default_namespace);
    subject_of(&document.value, template, namespaces, namespace)
}

/// The pod in an object of this namespace, or in its pod template.
pub(crate) fn subject_of(
    object: &Value,
    template: Option<&Template>,
    namespaces: &Namespaces,
    namespace: &str,
) -> Subject {
    let mut pod = match template {
        None => object.clone(),
        Some(template) => pod_of(object, template),
    };
    drop_nulls(&mut pod);
    let selector = match template {
        Some(template) => Arc::clone(&template.selector),
        // As in the webhook, where only pods of a controller's account have an owner that counts.
        None => Arc::default(),
    };
    let request = PodRequest {
        // The API server generates the names of pods that come from a template.
        name: match template {
            Some(_) => String::new(),
            None => manifest::metadata(object, "name").to_owned(),
        },
        namespace: namespace.to_owned(),
        owner: match template {
            Some(_) => named_owner(
                match object.get("kind").and_then(Value::as_str) {
                    // Of argoproj/argo-rollouts: its ReplicaSets say no more of it than those of Deployments.
                    Some("Rollout") => "Deployment",
                    kind => kind.unwrap_or_default(),
                },
                namespace,
                manifest::metadata(object, "name"),
            ),
            None => owner_of(&pod, namespace),
        },
        selector,
        ..PodRequest::of_pod(&pod)
    };
    let request = request.of_namespace(Some(namespaces.get(namespace)));
    Subject { pod, request }
}

/// As `Deployment shop/web`, with the field of the template if the object can have several.
pub(crate) fn title(document: &Document, template: Option<&str>, namespace: &str) -> String {
    let namespace = document.namespace(namespace);
    let name = match document.name() {
        "" => "(name to be generated)",
        name => name,
    };
    let template = template.map(|path| format!(", {path}"));
    let template = template.unwrap_or_default();
    format!("{} {namespace}/{name}{template}", document.kind)
}

/// Passes a Pod through the chain.
pub(super) fn render(document: &Document, setting: &Setting<'_>) -> Result<Rendered, ObjectError> {
    let Subject { pod, request } = subject(
        document,
        None,
        &setting.namespaces,
        setting.default_namespace,
    );
    let Some((pod, request)) = setting.later.apply(pod, request) else {
        return Ok(Rendered::unchanged(document));
    };
    let before = pod.clone();
    let (value, runs) = mutate(document, pod, request, setting)?;
    Ok(match runs {
        // Without a chain the document is printed unchanged, nulls included.
        None => Rendered::unchanged(document),
        Some(runs) => Rendered {
            value,
            before: Some(before),
            passes: vec![Pass::of_pod(runs)],
            note: None,
        },
    })
}

/// Passes the pods in an object's templates through the chain and puts the results back.
pub(super) fn render_templates(
    document: &Document,
    templates: &[Template],
    setting: &Setting<'_>,
) -> Result<Rendered, ObjectError> {
    let mut rendered = Rendered::unchanged(document);
    let mut errors = Vec::new();
    for template in templates {
        let Subject { pod, request } = subject(
            document,
            Some(template),
            &setting.namespaces,
            setting.default_namespace,
        );
        let field = Some(field_name(&template.path)).filter(|_| templates.len() > 1);
        let unchanged = pod.clone();
        match mutate(document, pod, request, setting) {
            Ok((_, None)) => {}
            Ok((pod, Some(runs))) => {
                put_back(&mut rendered.value, template, pod);
                let before = rendered
                    .before
                    .get_or_insert_with(|| document.value.clone());
                put_back(before, template, unchanged);
                rendered.passes.push(Pass {
                    template: field,
                    runs,
                });
            }
            Err(ObjectError::Invalid {
                diagnostics,
                passes,
            }) => {
                let named = |diagnostic: Diagnostic| Diagnostic {
                    field: field.clone(),
                    ..diagnostic
                };
                errors.extend(diagnostics.into_iter().map(named));
                let passes = passes.into_iter().map(|pass| Pass {
                    template: field.clone(),
                    ..pass
                });
                rendered.passes.extend(passes);
            }
            Err(panicked) => return Err(panicked),
        }
    }
    if errors.is_empty() {
        return Ok(rendered);
    }
    Err(ObjectError::Invalid {
        diagnostics: errors,
        passes: rendered.passes,
    })
}

/// Returns the pod after the chain, and what each plugin did. Without a chain it returns the pod unchanged.
pub(super) fn mutate(
    document: &Document,
    pod: Value,
    request: PodRequest,
    setting: &Setting<'_>,
) -> Result<(Value, Option<Vec<PluginRun>>), ObjectError> {
    let mutated = setting.mutator.pass(pod, request);
    match setting.runtime.block_on(mutated)? {
        Ok(MutatedPod {
            pod, chain, runs, ..
        }) => Ok((pod, chain.map(|_| runs))),
        Err(rejected) => {
            let diagnostic = document.diagnostic(&[], rejected.to_string());
            let diagnostics = vec![diagnostic.of(&ci::REJECTED)];
            let ran = Some(rejected.runs).filter(|runs| !runs.is_empty());
            let passes = ran.map(Pass::of_pod);
            Err(ObjectError::Invalid {
                diagnostics,
                passes: passes.into_iter().collect(),
            })
        }
    }
}

fn pod_of(workload: &Value, template: &Template) -> Value {
    let source = manifest::get(workload, &template.path);
    let mut pod = json!({ "apiVersion": "v1", "kind": "Pod" });
    for part in PARTS {
        if let Some(value) = source.and_then(|source| source.get(part)) {
            pod[part] = value.clone();
        }
    }
    pod
}

fn put_back(workload: &mut Value, template: &Template, mut pod: Value) {
    if let Some(Value::Object(target)) = manifest::get_mut(workload, &template.path) {
        for part in PARTS {
            if let Some(value) = pod.get_mut(part) {
                target.insert(part.to_owned(), value.take());
            }
        }
    }
}

/// The API server treats a null field as absent, and many templates contain `creationTimestamp: null`.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

// `--before` and `--ephemeral`: Pods that exist already, and change.

/// How the Pods that are rendered change.
pub(crate) enum Later {
    /// They are new.
    New,
    /// From what they are now, by namespace and name. Others are new.
    From(HashMap<(String, String), Value>),
    /// They get these ephemeral containers.
    Debugged(Vec<Value>),
}

impl Later {
    /// Reads the file of `--before` or of `--ephemeral`. Pods without a namespace are in this one.
    pub(crate) fn read(
        before: Option<&str>,
        ephemeral: Option<&str>,
        namespace: &str,
    ) -> Result<Self, CommandError> {
        if let Some(file) = before {
            let documents = manifest::read(&[file.to_owned()])?;
            let pods = documents.into_iter().filter(|it| it.kind == "Pod");
            let named = pods.map(|it| {
                let namespace = it.namespace(namespace).to_owned();
                ((namespace, it.name().to_owned()), it.value)
            });
            return Ok(Self::From(named.collect()));
        }
        let Some(file) = ephemeral else {
            return Ok(Self::New);
        };
        let values = manifest::read_values(file)?.into_iter();
        let containers = values.flat_map(|value| match value {
            Value::Array(containers) => containers,
            container => vec![container],
        });
        let containers: Vec<Value> = containers.collect();
        match containers.iter().all(|it| it["name"].is_string()) {
            true => Ok(Self::Debugged(containers)),
            false => Err(CommandError::invalid(format!(
                "{file}: each ephemeral container needs a name, as in `name: debugger`"
            ))),
        }
    }

    /// Whether it says what the pod was before, if it says so of any.
    pub(crate) fn has_before(&self, request: &PodRequest) -> bool {
        let named = || (request.namespace.clone(), request.name.clone());
        match self {
            Self::From(pods) => pods.contains_key(&named()),
            Self::New | Self::Debugged(_) => true,
        }
    }

    /// The pod as it will be, and what changes in it; none if nothing changes that an API server would let change.
    pub(crate) fn apply(&self, pod: Value, mut request: PodRequest) -> Option<(Value, PodRequest)> {
        let (old, new) = match self {
            Self::New => return Some((pod, request)),
            Self::From(pods) => {
                match pods.get(&(request.namespace.clone(), request.name.clone())) {
                    Some(old) => (old.clone(), pod),
                    None => return Some((pod, request)),
                }
            }
            Self::Debugged(containers) => {
                let mut new = pod.clone();
                if let Some(Value::Object(spec)) = new.get_mut("spec") {
                    let list = spec.entry("ephemeralContainers").or_insert(json!([]));
                    let list = list.as_array_mut().into_iter();
                    list.for_each(|list| list.extend(containers.iter().cloned()));
                }
                (pod, new)
            }
        };
        let (later, pod) = LaterChange::between(&old, &new)?;
        request.later = Some(Arc::new(later));
        Some((pod, request))
    }
}

// `--context`: objects that others are rendered with. They are not printed.

/// Only one may read standard input.
pub(super) fn check_arguments(arguments: &RenderArguments) -> Result<(), CommandError> {
    let is_stdin = |file: &String| file == "-";
    let read = [
        ("-f", arguments.files.iter().any(is_stdin)),
        ("--context", arguments.context.iter().any(is_stdin)),
        ("--before", arguments.before.iter().any(is_stdin)),
        ("--ephemeral", arguments.ephemeral.iter().any(is_stdin)),
    ];
    check_stdin(&read)
}

/// Of these arguments, with whether they read standard input, only one may.
pub(crate) fn check_stdin(arguments: &[(&str, bool)]) -> Result<(), CommandError> {
    let mut read = arguments.iter().filter(|(_, is_read)| *is_read);
    match (read.next(), read.next()) {
        (Some((first, _)), Some((second, _))) => Err(CommandError::Usage(format!(
            "{first} - and {second} - both read standard input: write one of them to a file"
        ))),
        _ => Ok(()),
    }
}

/// Adds the context after the objects that were found. What is there already, word for word, is not added again.
pub(super) fn add(
    found: &mut Found,
    arguments: &RenderArguments,
    depth: Depth,
) -> Result<(), CommandError> {
    if arguments.context.is_empty() {
        return Ok(());
    }
    let context = manifest::find(&arguments.context, &[], depth)?;
    found.errors.extend(context.errors);
    let (context, others): (Vec<Document>, Vec<Document>) =
        context.documents.into_iter().partition(is_context);
    let namespace = arguments.namespace.as_str();
    let mut known: BTreeMap<_, &Document> = found
        .documents
        .iter()
        .map(|document| (key(document, namespace), document))
        .collect();
    let is_given = |document: &&Document| {
        let given = known.get(&key(document, namespace));
        given.is_some_and(|given| given.value == document.value)
    };
    let others = others.iter().filter(|document| !is_given(document));
    let left_out = left_out(&others.collect::<Vec<_>>());
    let mut added = Vec::new();
    for document in &context {
        let first = known.insert(key(document, namespace), document);
        if first.is_none_or(|first| first.value != document.value) {
            added.push(document.clone());
        }
    }
    found.documents.extend(added);
    found.warnings.extend(left_out);
    Ok(())
}

fn is_context(document: &Document) -> bool {
    match manifest::kind(document) {
        DocumentKind::Namespace | DocumentKind::BrowserConfig | DocumentKind::TunnelClass => true,
        // The Service of a PortalExpose.
        DocumentKind::Other => document.kind == "Service",
        _ => false,
    }
}

fn key<'a>(document: &'a Document, namespace: &'a str) -> (&'a str, &'a str, &'a str) {
    let home = document.namespace(namespace);
    (&document.kind, home, document.name())
}

/// Somebody may have meant to render them.
fn left_out(others: &[&Document]) -> Option<Diagnostic> {
    let first = others.first()?;
    let more = match others.len() {
        1 => String::new(),
        number => format!(", and {} more of --context", number - 1),
    };
    Some(first.diagnostic(
        &[],
        format!(
            "left out{more}: context are Namespaces, BrowserConfigs, TunnelClasses and Services; give anything else with -f"
        ),
    ))
}
