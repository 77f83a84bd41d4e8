//! The arguments that say which pods a command reads.

use clap::{ArgGroup, Args};

use super::{Against, namespace};
use crate::manifest::NamedTemplate;

/// Pods of files, or of a cluster.
#[derive(Args, Debug, Default)]
#[command(group = ArgGroup::new("pods").required(true).multiple(true).args(["files", "kustomizations", "corpus", "against"]))]
pub(crate) struct PodArguments {
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
}
