//! `podloom infra check`: checks Clusters, and what they run on, offline, and shows what is sent for them.

use kube::core::Object as Stored;
use podloom_api::{
    CloudKind, CloudObject, ClusterObject, InfrastructureKind, InfrastructureProviderObject,
    ProviderKind,
};
use podloom_engine::finding::Findings;
use podloom_infrastructure::offline::{self, Request};
use podloom_infrastructure::validate;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cli::{Format, InfraCheckArguments};
use crate::error::{CommandError, Diagnostic, escape_controls};
use crate::explain::count;
use crate::manifest::{Depth, Document, DocumentKind, Schemas, Unknown};
use crate::render::{Problems, typed};
use crate::{manifest, output, render};

/// Reads, checks and prints. Prints nothing that is sent if any object has an error, and reports the errors of all.
pub(crate) fn check(arguments: &InfraCheckArguments) -> Result<(), CommandError> {
    let is_input = |file: &String| file == "-";
    if arguments.files.iter().any(is_input) && arguments.previous.iter().any(is_input) {
        let text = "-f - and --previous - do not go together: standard input can be read only once";
        return Err(CommandError::Usage(text.to_owned()));
    }
    let mut problems = Problems::default();
    let (documents, others) = read(&arguments.files, arguments, &mut problems)?;
    let before = match arguments.previous.as_slice() {
        [] => None,
        files => Some(read(files, arguments, &mut problems)?.0),
    };
    let namespace = arguments.namespace.as_str();
    let new = objects(&documents, before.as_deref(), namespace, &mut problems)?;
    let previous = before
        .as_deref()
        .map(|documents| Objects::read(documents, namespace, Status::Read));
    if let Some(previous) = &previous {
        problems.warnings.extend(unrelated(&new, previous));
        let unreadable = previous.unreadable.iter();
        let unreadable = unreadable.map(|(_, diagnostic)| diagnostic.clone());
        problems.errors.extend(unreadable);
    }
    let planned = check_all(&new, previous.as_ref(), arguments, &mut problems);
    problems.finish(arguments.strict, CommandError::Invalid)?;
    let checked = count(documents.len(), "object");
    output::print_note(&match others {
        0 => format!("checked {checked}\n"),
        others => {
            let others = count(others, "object");
            format!("checked {checked}, and left out {others} of other kinds\n")
        }
    });
    print(&planned, arguments)
}

/// The objects of our kinds in some files, and how many objects of other kinds there are.
fn read(
    files: &[String],
    arguments: &InfraCheckArguments,
    problems: &mut Problems,
) -> Result<(Vec<Document>, usize), CommandError> {
    let depth = Depth::of(arguments.recursive);
    let found = manifest::find(files, &[], depth)?;
    let is_readable = found.errors.is_empty();
    problems.errors.extend(found.errors);
    let (documents, others): (Vec<Document>, Vec<Document>) = found
        .documents
        .into_iter()
        .partition(manifest::is_infrastructure);
    // A check that looks at nothing must not succeed.
    if documents.is_empty() && is_readable {
        problems.errors.push(Diagnostic::new(format!(
            "no Cluster, Cloud or InfrastructureProvider in {}: their apiVersion is infrastructure.podloom.dev/v1alpha1",
            files.join(", ")
        )));
    }
    Ok((documents, others.len()))
}

/// Reads the objects, and checks them against their schemas and rules. One that breaks them is checked further if it fits its type.
fn objects<'a>(
    documents: &'a [Document],
    before: Option<&[Document]>,
    namespace: &'a str,
    problems: &mut Problems,
) -> Result<Objects<'a>, CommandError> {
    let previous = |document: &Document| {
        let wanted = identity(document, namespace)?;
        let mut before = before?.iter();
        let found = before.find(|it| identity(it, namespace) == Some(wanted))?;
        Some(&found.value)
    };
    let mut schemas = Schemas::default();
    let checked = manifest::check_with(&mut schemas, documents, Unknown::LeftOut, &previous)?;
    problems.errors.extend(checked.errors);
    problems.warnings.extend(checked.warnings);
    let duplicates = render::duplicates(documents, namespace);
    problems.errors.extend(duplicates);
    let objects = Objects::read(documents, namespace, Status::LeftOut);
    let unreadable = objects.unreadable.iter();
    let unreadable = unreadable.filter(|(index, _)| !checked.refused.contains(index));
    let unreadable = unreadable.map(|(_, diagnostic)| diagnostic.clone());
    problems.errors.extend(unreadable);
    Ok(objects)
}

/// Warns if nothing has a previous version: that looks like success, though no change was checked.
fn unrelated(new: &Objects<'_>, previous: &Objects<'_>) -> Option<Diagnostic> {
    fn any<K>(new: &[Object<'_, K>], previous: &[Object<'_, K>]) -> bool {
        new.iter().any(|it| same(previous, it).is_some())
    }
    let has_any = any(&new.clusters, &previous.clusters)
        || any(&new.clouds, &previous.clouds)
        || any(&new.providers, &previous.providers);
    let text = "no object is in --previous under the same kind, namespace and name, so no change was checked";
    (!has_any).then(|| Diagnostic::new(text))
}

/// Checks all objects. Returns what is sent for those that have no mistake.
fn check_all<'a>(
    new: &'a Objects<'a>,
    previous: Option<&Objects<'_>>,
    arguments: &InfraCheckArguments,
    problems: &mut Problems,
) -> Vec<Planned<'a>> {
    for provider in &new.providers {
        let findings = validate::provider(&provider.value, None);
        report(provider.document, &findings, problems);
    }
    for cloud in &new.clouds {
        let findings = validate::cloud(&cloud.value, None);
        report(cloud.document, &findings, problems);
    }
    let mut planned = Vec::new();
    for cluster in &new.clusters {
        let old = previous.and_then(|it| same(&it.clusters, cluster));
        let Object {
            document, value, ..
        } = cluster;
        let assumed = arguments.allow_file_references.then_some(true);
        let allows = new.allows_file_references(cluster).or(assumed);
        report(document, &validate::cluster(value, None, allows), problems);
        match offline::request(value, old) {
            Request::Unsupported(refusals) => {
                let findings = Findings {
                    refusals,
                    ..Findings::default()
                };
                report(document, &findings, problems);
            }
            request => planned.push(Planned {
                document,
                adopted: value.spec.adopt_infrastructure_id.as_deref(),
                request,
            }),
        }
    }
    planned
}

/// A field that its schema refuses already is not told twice.
fn report(document: &Document, findings: &Findings, problems: &mut Problems) {
    problems.add(document, findings, |_, _| ());
}

// The Clusters, clouds and Infrastructure Managers of some files, as the types of their kinds.

/// An object of a file.
struct Object<'a, K> {
    document: &'a Document,
    value: K,
    identity: Identity<'a>,
}

/// The kind of an object, its namespace, which is empty for a kind that has none, and its name.
type Identity<'a> = (InfrastructureKind, &'a str, &'a str);

fn identity<'a>(document: &'a Document, namespace: &'a str) -> Option<Identity<'a>> {
    let DocumentKind::Infrastructure(kind) = manifest::kind(document) else {
        return None;
    };
    let home = match kind.is_global() {
        true => "",
        false => document.namespace(namespace),
    };
    Some((kind, home, document.name()))
}

/// What is read of the status of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    /// All, if our types can hold it.
    Read,
    /// Nothing: the object is one to apply, and its status means nothing.
    LeftOut,
}

/// The objects of some files.
#[derive(Default)]
struct Objects<'a> {
    clusters: Vec<Object<'a, ClusterObject>>,
    clouds: Vec<Object<'a, CloudObject>>,
    providers: Vec<Object<'a, InfrastructureProviderObject>>,
    /// What does not fit its type, by the index of its document.
    unreadable: Vec<(usize, Diagnostic)>,
}

impl<'a> Objects<'a> {
    fn read(documents: &'a [Document], namespace: &'a str, status: Status) -> Self {
        use InfrastructureKind as Kind;
        let mut objects = Self::default();
        for (index, document) in documents.iter().enumerate() {
            let Some(identity) = identity(document, namespace) else {
                continue;
            };
            let read = match identity.0 {
                Kind::Cluster => {
                    object(document, identity, status).map(|it| objects.clusters.push(it))
                }
                Kind::Cloud | Kind::GlobalCloud => {
                    object(document, identity, status).map(|it| objects.clouds.push(it))
                }
                Kind::InfrastructureProvider | Kind::GlobalInfrastructureProvider => {
                    object(document, identity, status).map(|it| objects.providers.push(it))
                }
            };
            if let Err(diagnostic) = read {
                objects.unreadable.push((index, diagnostic));
            }
        }
        objects
    }

    /// Whether the templates of a Cluster may name files; none if the files lack its cloud, or the provider of that.
    fn allows_file_references(&self, cluster: &Object<'_, ClusterObject>) -> Option<bool> {
        use InfrastructureKind as Kind;
        let (_, home, _) = cluster.identity;
        let cloud_ref = cluster.value.spec.cloud_ref.as_ref()?;
        let named = cloud_ref.name.as_str();
        let wanted = match cloud_ref.kind {
            CloudKind::Cloud => (Kind::Cloud, home, named),
            CloudKind::GlobalCloud => (Kind::GlobalCloud, "", named),
        };
        let cloud = self.clouds.iter().find(|it| it.identity == wanted)?;
        let (_, home, _) = cloud.identity;
        let provider_ref = &cloud.value.spec.provider_ref;
        let named = provider_ref.name.as_str();
        let wanted = match provider_ref.kind {
            ProviderKind::InfrastructureProvider => (Kind::InfrastructureProvider, home, named),
            ProviderKind::GlobalInfrastructureProvider => {
                (Kind::GlobalInfrastructureProvider, "", named)
            }
        };
        let provider = self.providers.iter().find(|it| it.identity == wanted)?;
        Some(provider.value.spec.im.allow_file_references)
    }
}

/// Returns the object of the same kind, namespace and name.
fn same<'o, K>(objects: &'o [Object<'_, K>], other: &Object<'_, K>) -> Option<&'o K> {
    let found = objects.iter().find(|it| it.identity == other.identity);
    found.map(|it| &it.value)
}

/// Reads a document as the type of its kind.
fn object<'a, S, U>(
    document: &'a Document,
    identity: Identity<'a>,
    status: Status,
) -> Result<Object<'a, Stored<S, U>>, Diagnostic>
where
    S: Clone,
    U: Clone,
    Stored<S, U>: DeserializeOwned,
{
    let stored = match status {
        Status::Read => serde_json::from_value(document.value.clone()).ok(),
        Status::LeftOut => None,
    };
    let mut value: Stored<S, U> = match stored {
        Some(value) => value,
        None => typed(document)?,
    };
    // A kind without namespaces has none, whatever its manifest says.
    let home = Some(identity.1).filter(|it| !it.is_empty());
    value.metadata.namespace = home.map(str::to_owned);
    Ok(Object {
        document,
        value,
        identity,
    })
}

// Prints what is sent to Infrastructure Managers.

/// A Cluster, and what is sent for it.
struct Planned<'a> {
    document: &'a Document,
    /// The id of the infrastructure that is taken over.
    adopted: Option<&'a str>,
    request: Request,
}

impl Planned<'_> {
    /// The template, and when it is sent.
    fn sent(&self) -> Option<(&Value, String)> {
        match &self.request {
            Request::First(template) => Some(match self.adopted {
                None => (template, "sent to create its machines".to_owned()),
                Some(id) => (
                    template,
                    format!("sent once the infrastructure {id} is taken over"),
                ),
            }),
            Request::Update { template, retired } if retired.is_empty() => {
                Some((template, "sent as an update".to_owned()))
            }
            Request::Update { template, retired } => Some((
                template,
                format!(
                    "sent as an update; these nodes get no machines, and their names cannot be used again: {}",
                    retired.join(", ")
                ),
            )),
            _ => None,
        }
    }

    /// Why nothing is sent.
    fn silence(&self) -> Option<&'static str> {
        match self.request {
            Request::Registered => Some("it is a registered cluster, so nothing is sent"),
            Request::Same => Some("its template is the same, so nothing is sent"),
            Request::Local => Some(
                "only outputs, inputs, metadata or descriptions are gone from its template, so nothing is sent",
            ),
            _ => None,
        }
    }

    fn json(&self, namespace: &str) -> Value {
        let (request, retired) = match &self.request {
            Request::First(_) if self.adopted.is_some() => ("Adopt", &[][..]),
            Request::First(_) => ("Create", &[][..]),
            Request::Update { retired, .. } => ("Update", retired.as_slice()),
            _ => ("None", &[][..]),
        };
        let at = self.document.position(&[]);
        json!({
            "file": &*at.file,
            "document": at.document,
            "line": at.line,
            "namespace": self.document.namespace(namespace),
            "name": self.document.name(),
            "request": request,
            "retiredNodes": retired,
            "template": self.sent().map(|(template, _)| template),
        })
    }
}

/// Prints the templates on standard output, and on standard error why others are not sent.
fn print(planned: &[Planned<'_>], arguments: &InfraCheckArguments) -> Result<(), CommandError> {
    for (planned, why) in planned.iter().filter_map(|it| Some((it, it.silence()?))) {
        let title = escape_controls(&planned.document.title());
        output::print_note(&format!("{title}: {why}\n"));
    }
    if arguments.output == Format::Json {
        let clusters = planned.iter().map(|it| it.json(&arguments.namespace));
        let text = output::json_text(&json!({ "clusters": clusters.collect::<Value>() }))?;
        return output::print(&text);
    }
    let sent = planned.iter().filter_map(|it| Some((it, it.sent()?)));
    let texts = sent.map(|(planned, (template, when))| {
        let title = escape_controls(&format!("{}: {when}", planned.document.title()));
        Ok(format!("# {title}\n{}", output::yaml(template)?))
    });
    let texts = texts.collect::<anyhow::Result<Vec<String>>>()?;
    output::print(&texts.join("---\n"))
}
