//! The arguments of `podloom chain diff`.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgGroup, Args, ValueEnum};

use super::{Against, namespace};
use crate::manifest::NamedTemplate;

/// Show what becomes different if the chain NEW replaces the chain OLD. Nothing is changed.
///
/// Both chains run on each pod, with what the webhook would tell plugins about it, and their results are compared with each other,
/// never with what runs now. The stamps of the chains are no difference. Pods with the same difference are one group: how many pods
/// in how many namespaces, the names of some, and each change with the plugin that made it. The worst groups come first: pods that
/// are denied now, pods on which a plugin fails now, pods that are allowed now, and pods that are changed. A * in a path stands for
/// each of the pod's own containers. That nothing changes is said too.
///
/// The pods come from files, which are read as podloom render reads them, or from the cluster of the kubeconfig, with your own
/// rights: the templates of Deployments, StatefulSets, DaemonSets, CronJobs, Jobs without a CronJob and ReplicaSets that nobody owns,
/// pods that nobody owns, and the pods that the operator renders for Browsers. Kinds that you may not list are named as skipped.
/// A pod that nobody owns is taken as it is in the cluster, so it already has what a chain wrote when it was created.
///
/// Values are not shown, since they may be secret, but plugins' reasons for rejecting a pod are.
///
/// With --exit-code, the exit code is 4 if there is a difference, and 0 if not.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
#[command(group = ArgGroup::new("pods").required(true).multiple(true).args(["files", "kustomizations", "corpus", "against"]))]
pub(crate) struct DiffArguments {
    /// The directory of the chain that serves now, or none for no chain.
    #[arg(value_name = "OLD")]
    pub(crate) old: ChainSource,

    /// The directory of the chain that shall replace it, or none for no chain.
    #[arg(value_name = "NEW")]
    pub(crate) new: ChainSource,

    /// Files or directories with YAML or JSON; - reads standard input.
    #[arg(short, long = "filename", value_name = "FILE", num_args = 1..)]
    pub(crate) files: Vec<String>,

    /// Directories with a kustomization.yaml. They are built with kubectl kustomize, or kustomize build if there is no kubectl.
    #[arg(short = 'k', long = "kustomize", value_name = "DIR", num_args = 1..)]
    pub(crate) kustomizations: Vec<String>,

    /// A directory with recorded manifests: the same as -f DIR -R.
    #[arg(long, value_name = "DIR")]
    pub(crate) corpus: Option<String>,

    /// Read the pods from there instead of files.
    #[arg(long, value_name = "WHAT", conflicts_with_all = ["files", "kustomizations", "corpus"])]
    pub(crate) against: Option<Against>,

    /// Read subdirectories too.
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,

    /// Of files: the namespace of objects without metadata.namespace, by default "default". Of a cluster: the namespace to read, by
    /// default that of the kubeconfig's context.
    #[arg(short, long, value_parser = namespace)]
    pub(crate) namespace: Option<String>,

    /// Read all namespaces of the cluster.
    #[arg(short = 'A', long, requires = "against", conflicts_with_all = ["namespace", "files", "kustomizations", "corpus"])]
    pub(crate) all_namespaces: bool,

    /// Read only namespaces with these labels, as the webhook's configuration selects them.
    #[arg(long, value_name = "LABELS", requires = "all_namespaces", conflicts_with_all = ["files", "kustomizations", "corpus"])]
    pub(crate) namespace_selector: Option<String>,

    /// Read only objects of the cluster with these labels.
    #[arg(short = 'l', long, value_name = "LABELS", requires = "against", conflicts_with_all = ["files", "kustomizations", "corpus"])]
    pub(crate) selector: Option<String>,

    /// Where objects of an unknown kind have a pod template, as GROUP/KIND=/path. In the path, * is every element of a list. Repeat
    /// the option for several templates.
    #[arg(long = "pod-template", value_name = "TEMPLATE", value_parser = NamedTemplate::parse, conflicts_with = "against")]
    pub(crate) pod_templates: Vec<NamedTemplate>,

    /// Show the old and the new value of each change. Changes to other values are other groups then.
    #[arg(long)]
    pub(crate) show_values: bool,

    /// How many pods of each group are named.
    #[arg(long, value_name = "N", default_value = "3")]
    pub(crate) names: usize,

    /// Exit with code 4 if there is a difference.
    #[arg(long)]
    pub(crate) exit_code: bool,

    /// The output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: DiffFormat,
}

/// Where a chain comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChainSource {
    /// There is no chain.
    None,
    /// The directory with chain.yaml and the plugin files.
    Directory(PathBuf),
}

impl FromStr for ChainSource {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "none" => Self::None,
            directory => Self::Directory(directory.into()),
        })
    }
}

/// The format of the differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiffFormat {
    /// Lines for people.
    Text,
    /// One object.
    Json,
    /// For a comment on a pull request.
    Markdown,
}

const EXAMPLES: &str = "\
Examples:
  # What would the edited chain change in these manifests?
  podloom chain diff target/plugins my-chain -f deploy/examples

  # And in everything that runs in namespaces which the webhook selects?
  podloom chain diff target/plugins my-chain --against cluster -A \\
    --namespace-selector podloom.dev/mutate=enabled

  # What does a first chain change?
  podloom chain diff none my-chain --against cluster -n shop

  # In CI: comment on a pull request, and fail if anything changes
  podloom chain diff main/chain chain --corpus corpus -o markdown --exit-code >comment.md";
