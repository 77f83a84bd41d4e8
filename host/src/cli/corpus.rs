//! The arguments of `podloom corpus`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Against, namespace};

#[derive(Debug, Subcommand)]
pub(crate) enum CorpusCommand {
    Record(RecordArguments),
}

/// Record the pods of a cluster as files, on which chains and plugins are tried later. The cluster is not changed.
///
/// It reads what podloom chain diff --against cluster reads, with your own rights: the templates of Deployments, StatefulSets,
/// DaemonSets, CronJobs, Jobs, ReplicaSets and ReplicationControllers, pods that nobody owns, and Browsers with their
/// BrowserConfigs. What is made of another of these is left out. Each object is one file: NAMESPACE/KIND.NAME.yaml with the kind in
/// lower case, and NAMESPACE/KIND.GROUP.NAME.yaml for Browsers and BrowserConfigs. The labels and annotations of its namespace are in a
/// file beside it.
///
/// The files are made to be committed. Secrets are never read, and the annotation in which kubectl apply keeps whole objects is left
/// out. Values of environment variables, arguments, commands after the program, HTTP headers, queries of HTTP probes, and what only
/// a volume's driver understands become placeholders such as value-3: the same value of an object gets the same placeholder. Labels,
/// other annotations, names, images and the names of ConfigMaps and Secrets stay as they are, so look at the files before you
/// commit them.
///
/// Recording again into the directory updates the files, and removes those of objects that are gone, unless something could not be
/// read. Files of other origin are left alone. If what you record is less than before, such as another namespace, the rest counts
/// as gone: use a directory for each.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct RecordArguments {
    /// The directory; it is created if it is not there.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Where the pods are read.
    // One value today. It is parsed, so that another one is an error.
    #[arg(long, value_name = "WHAT", default_value = "cluster")]
    pub(crate) from: Against,

    /// The namespace to read, by default that of the kubeconfig's context.
    #[arg(short, long, value_parser = namespace)]
    pub(crate) namespace: Option<String>,

    /// Read all namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,

    /// Read only namespaces with these labels, as the webhook's configuration selects them.
    #[arg(long, value_name = "LABELS", requires = "all_namespaces")]
    pub(crate) namespace_selector: Option<String>,

    /// Read only objects with these labels.
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub(crate) selector: Option<String>,

    /// Keep the values that would become placeholders. They may be secret.
    #[arg(long)]
    pub(crate) keep_values: bool,
}

const EXAMPLES: &str = "\
Examples:
  # Record what runs in the namespaces that the webhook selects
  podloom corpus record corpus -A --namespace-selector podloom.dev/mutate=enabled

  # What would the edited chain change in it?
  podloom chain diff target/plugins my-chain --corpus corpus

  # Does a plugin hold on it?
  podloom plugin test --corpus corpus";
