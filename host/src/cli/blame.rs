//! The arguments of `podloom blame`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};

use super::{namespace, object_name};

/// Show who wrote each line of a pod, as git blame does for a file.
///
/// The pod is printed as YAML. Before each line stands who wrote it: a plugin of the chain that the pod passed, with its version; a
/// field manager that changed it later, such as kubectl-label or kubelet; or "submitted". That one word stands for who made the pod
/// and for the API server, which sets defaults and more (such as nodeName when the pod is scheduled), because nothing says which of
/// them wrote a line. A line that only begins an object or a list belongs to who wrote all that is in it; if several did, nobody is
/// named there.
///
/// What plugins wrote is in the pod's stamp, and what managers wrote in its managedFields. Both are records, and not proofs: everyone
/// who may write the pod may write them. They are not printed themselves. Values are shown as kubectl shows them.
///
/// With --plugins, lines are proved: the chain runs again on the template of which the pod was made, and once more without each
/// plugin. If a plugin's line is neither gone nor different without the plugin, it is marked "not proved". A line that is gone or
/// different without another plugin is marked "depends on" that plugin. The directory must have the very chain that the pod passed,
/// and the template must be known: that of the ReplicaSet, StatefulSet, DaemonSet, Job or ReplicationController that owns the pod, or
/// the one of --template. Otherwise the pod is shown without proof, and the reason is shown too.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
#[command(group = ArgGroup::new("what").required(true).args(["pod", "file"]))]
pub(crate) struct BlameArguments {
    /// The pod in the cluster of the kubeconfig, as pod/NAME or NAME. It is read with your own rights.
    #[arg(value_name = "POD", value_parser = pod_name)]
    pub(crate) pod: Option<String>,

    /// A file with the pod, as kubectl get pod NAME -o yaml --show-managed-fields prints it; - reads standard input.
    #[arg(short, long = "filename", value_name = "FILE")]
    pub(crate) file: Option<String>,

    /// The pod's namespace: in the cluster, by default that of the kubeconfig's context; in a file without one, by default "default".
    #[arg(short, long, value_parser = namespace)]
    pub(crate) namespace: Option<String>,

    /// The directory of the chain that the pod passed, to prove which lines are whose.
    #[arg(long, value_name = "DIR")]
    pub(crate) plugins: Option<PathBuf>,

    /// A file with what the pod was made of: a Deployment or another object with a pod template, or the pod as it was submitted.
    #[arg(long, value_name = "FILE", requires = "plugins")]
    pub(crate) template: Option<String>,

    /// The output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: BlameFormat,
}

/// The format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BlameFormat {
    /// YAML, with who wrote it before each line.
    Text,
    /// One object, which has each path with who wrote it, and no values.
    Json,
}

/// A pod's name, with or without its kind.
fn pod_name(text: &str) -> Result<String, String> {
    let name = match text.split_once('/') {
        Some(("pod" | "pods" | "po", name)) => name,
        Some((kind, _)) => {
            return Err(format!(
                "{kind} is not a pod; only pods can be shown: write pod/NAME or NAME"
            ));
        }
        None => text,
    };
    object_name(name).map_err(str::to_owned)
}

const EXAMPLES: &str = "\
Examples:
  # Who wrote what in this pod?
  podloom blame pod/web-5d9f8c7b6-x2k4v -n shop

  # Prove it with the chain that it passed
  podloom blame pod/web-5d9f8c7b6-x2k4v -n shop --plugins my-chain

  # A pod from a file, and what it was made of
  kubectl get pod debug -o yaml --show-managed-fields >pod.yaml
  podloom blame -f pod.yaml --plugins my-chain --template debug.yaml

  # Which paths did the plugin sidecar write?
  podloom blame pod/debug -o json | jq '.paths | map_values(select(.plugin == \"sidecar\")) | keys'";
