//! The pods on which chains are tried: those of files, or of a cluster.

mod cluster;
mod files;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::Context;
use kube::Client;
use podloom_api::ChainException;
use podloom_mutation::NamespaceMetadata;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc::Sender;

pub(crate) use self::cluster::{KINDS, Listed, Submitted, cleaned, submitted};
use self::files::Files;
use crate::cli::{Against, PodArguments};
use crate::error::{CommandError, Diagnostic, Position, shown};
use crate::exceptions::Exceptions;
use crate::explain::count;
use crate::lists::{self, Pages, Place, Trouble};
use crate::manifest::metadata;
use crate::output::{self, WARNING, paint};
use crate::render::Namespaces;
use crate::render::pod::Subject;

/// A pod before any chain.
pub(crate) struct FoundPod {
    pub(crate) namespace: String,
    /// As `Deployment shop/web`.
    pub(crate) name: String,
    /// Where it is, if it is in a file.
    pub(crate) place: Option<Position>,
    pub(crate) subject: Subject,
}

/// Something that is left out.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Skipped {
    /// What, in the plural: `CronJobs`.
    pub(crate) what: String,
    /// Why.
    pub(crate) why: String,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "skipped: {}: {}", self.what, self.why)
    }
}

impl Skipped {
    /// In one line of a report for people.
    pub(crate) fn line(&self) -> String {
        let said = format!("{}: {}", self.what, self.why);
        format!("{} {}", paint(WARNING, "skipped:"), shown(&said))
    }
}

/// Where pods come from.
pub(crate) enum Feed<'a> {
    Files(Files),
    Cluster(&'a PodArguments),
}

/// Does the work of a command that asks a cluster, on this thread.
pub(crate) fn block_on<T>(
    work: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(work)
}

impl<'a> Feed<'a> {
    /// Reads and checks the files. The cluster is read later, by pages.
    pub(crate) fn open(arguments: &'a PodArguments) -> Result<Self, CommandError> {
        Ok(match arguments.against {
            Some(Against::Cluster) => Self::Cluster(arguments),
            None => Self::Files(Files::read(arguments)?),
        })
    }

    /// Sends all pods; returns what is left out, and why. Ends early if nobody takes them any more.
    pub(crate) async fn run(self, pods: Sender<FoundPod>) -> Result<Vec<Skipped>, CommandError> {
        match self {
            Self::Files(files) => {
                let skipped = files.skipped();
                for pod in files.pods() {
                    if pods.send(pod?).await.is_err() {
                        break;
                    }
                }
                Ok(skipped)
            }
            Self::Cluster(scope) => cluster::send(scope, pods).await,
        }
    }
}

/// The pods of a directory of recorded manifests. Warns of what is left out.
pub(crate) fn corpus(
    directory: &Path,
    namespace: &str,
) -> Result<impl Iterator<Item = Result<FoundPod, CommandError>>, CommandError> {
    let files = Files::of_corpus(directory, namespace)?;
    for skipped in files.skipped() {
        output::warn(&Diagnostic::new(skipped.to_string()));
    }
    Ok(files.pods())
}

/// Finding no pod is an error, since an empty report would look like success.
pub(crate) fn no_pod(skipped: &[Skipped]) -> CommandError {
    let mut message =
        "found no pod: there is no Pod, no object with a pod template, and no Browser".to_owned();
    for skipped in skipped {
        message += &format!("\n{skipped}");
    }
    CommandError::invalid(message)
}

// What is read of a cluster: which namespaces and objects, with the user's own rights.

/// A cluster that is being read.
pub(crate) struct Reading<'a> {
    pub(crate) client: Client,
    scope: &'a PodArguments,
    /// None for all.
    namespace: Option<String>,
    pub(crate) namespaces: Namespaces,
    exceptions: Exceptions,
    /// What could not be read.
    pub(crate) skipped: Vec<Skipped>,
    /// How many pods are left out since nothing that is read stands for them, by the kind of their owner.
    unread: BTreeMap<String, usize>,
}

/// How many kinds of owners are named. A kind is whatever an owner reference says.
const OWNERS: usize = 20;

impl<'a> Reading<'a> {
    /// Connects to the cluster of the kubeconfig's context, and reads the namespaces.
    pub(crate) async fn begin(scope: &'a PodArguments) -> Result<Self, CommandError> {
        let client = lists::connect_to(scope.context.as_deref()).await?;
        let namespace = scope.namespace.as_deref();
        let namespace = namespace.unwrap_or(client.default_namespace()).to_owned();
        let mut reading = Self {
            client,
            scope,
            namespace: (!scope.all_namespaces).then_some(namespace),
            namespaces: Namespaces::default(),
            exceptions: Exceptions::default(),
            skipped: Vec::new(),
            unread: BTreeMap::new(),
        };
        reading.read_namespaces().await?;
        reading.read_exceptions().await?;
        Ok(reading)
    }

    /// Reads which pods are excepted. Without the right to, none is.
    async fn read_exceptions(&mut self) -> Result<(), CommandError> {
        let client = self.client.clone();
        let resource = ChainException::resource();
        let place = self.place(&resource.api_version, &resource.plural);
        let mut pages = Pages::of(&client, &place);
        while let Some(page) = self.next(&mut pages, "ChainExceptions").await? {
            for exception in page {
                let namespace = metadata(&exception, "namespace").to_owned();
                self.exceptions.add(&namespace, exception);
            }
        }
        Ok(())
    }

    /// Reads the labels and annotations of namespaces, once. Without the right to, plugins know no more than their names, as in the
    /// webhook.
    async fn read_namespaces(&mut self) -> Result<(), CommandError> {
        let mut place = Place::new("v1", "namespaces");
        place.fields = self
            .namespace
            .as_ref()
            .map(|name| format!("metadata.name={name}"));
        place.labels.clone_from(&self.scope.namespace_selector);
        let mut pages = Pages::of_metadata(&self.client, &place);
        loop {
            match pages.next().await {
                Ok(None) => return Ok(()),
                Ok(Some(page)) => {
                    for namespace in page {
                        let about = NamespaceMetadata::of(&namespace);
                        let name = metadata(&namespace, "name").to_owned();
                        self.namespaces.insert(name, about);
                    }
                }
                Err(Trouble::Forbidden(message)) if self.scope.namespace_selector.is_none() => {
                    let why = format!(
                        "you may not list them ({message}), so namespaceSelector and plugins see only the label with their name"
                    );
                    self.skip("labels of namespaces", why);
                    return Ok(());
                }
                Err(trouble) => return Err(trouble.into_error("namespaces")),
            }
        }
    }

    /// Where the objects of a kind are.
    pub(crate) fn place(&self, api_version: &str, plural: &str) -> Place {
        let mut place = Place::new(api_version, plural);
        place.namespace.clone_from(&self.namespace);
        place
    }

    /// Where the objects of a kind are, of which only those with the labels are read.
    pub(crate) fn selected(&self, api_version: &str, plural: &str) -> Place {
        let mut place = self.place(api_version, plural);
        place.labels.clone_from(&self.scope.selector);
        place
    }

    /// The next page; none at the end, and if the kind is not served or may not be listed.
    pub(crate) async fn next(
        &mut self,
        pages: &mut Pages<'_>,
        what: &str,
    ) -> Result<Option<Vec<Value>>, CommandError> {
        match pages.next().await {
            Ok(page) => Ok(page),
            Err(Trouble::NotServed) => Ok(None),
            Err(Trouble::Forbidden(message)) => {
                self.skip(what, format!("you may not list them ({message})"));
                Ok(None)
            }
            Err(trouble) => Err(trouble.into_error(what)),
        }
    }

    /// Whether the objects of a namespace are not read: it is not among the selected ones.
    pub(crate) fn is_left_out(&self, namespace: &str) -> bool {
        self.scope.namespace_selector.is_some() && !self.namespaces.contains(namespace)
    }

    /// Counts a pod that is left out, since its owner is of a kind that is not read.
    pub(crate) fn leave_out(&mut self, owner: String) {
        let is_named = self.unread.contains_key(&owner) || self.unread.len() < OWNERS;
        let owner = if is_named { owner } else { "…".to_owned() };
        *self.unread.entry(owner).or_default() += 1;
    }

    /// What of the cluster is left out though it could be read.
    pub(crate) fn left_out(&mut self) -> Vec<Skipped> {
        let unread = std::mem::take(&mut self.unread).into_iter();
        let skipped = unread.map(|(owner, pods)| Skipped {
            what: format!("{} of a {}", count(pods, "pod"), shown(&owner)),
            why: "owners of this kind are not read: put them into files, and name their pod templates with --pod-template".to_owned(),
        });
        skipped.collect()
    }

    /// Says once what is skipped: without rights, an API server refuses both groups of Browsers, even those that it does not have.
    pub(crate) fn skip(&mut self, what: &str, why: String) {
        if self.skipped.iter().any(|it| it.what == what) {
            return;
        }
        self.skipped.push(Skipped {
            what: what.to_owned(),
            why,
        });
    }
}
