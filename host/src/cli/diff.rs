//! The arguments of `podloom chain diff`.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};

use super::PodArguments;

/// Show what becomes different if the chain NEW replaces the chain OLD. Nothing is changed.
///
/// Both chains run on each pod, with what the webhook would tell plugins about it, and their results are compared with each other,
/// never with what runs now. The stamps of the chains are no difference. Pods with the same difference are one group: how many pods
/// in how many namespaces, the names of some, and each change with the plugin that made it. The worst groups come first: pods that
/// are denied now, pods on which a plugin fails now, pods that are allowed now, and pods that are changed. A * in a path stands for
/// each of the pod's own containers. That nothing changes is said too.
///
/// The pods come from files, which are read as podloom render reads them, or from the cluster of the kubeconfig, with your own
/// rights: the templates of Deployments, StatefulSets, DaemonSets, CronJobs, Jobs, ReplicaSets and ReplicationControllers, pods that
/// nobody owns, and the pods that the operator renders for Browsers. What is made of another of these is left out. Kinds that you may
/// not list are named as skipped, and pods of other owners are counted.
/// A pod that nobody owns is taken as it is in the cluster, so it already has what a chain wrote when it was created.
///
/// Values are not shown, since they may be secret, but plugins' reasons for rejecting a pod are.
///
/// With --exit-code, the exit code is 4 if there is a difference, and 0 if not.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct DiffArguments {
    /// The directory of the chain that serves now, or none for no chain.
    #[arg(value_name = "OLD")]
    pub(crate) old: ChainSource,

    /// The directory of the chain that shall replace it, or none for no chain.
    #[arg(value_name = "NEW")]
    pub(crate) new: ChainSource,

    #[command(flatten)]
    pub(crate) pods: PodArguments,

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
