//! The arguments of `podloom admission`.

use std::path::PathBuf;

use clap::builder::TypedValueParser;
use clap::{ArgGroup, Args, Subcommand};

use super::{DiffFormat, PodArguments, namespace, one_of};

#[derive(Debug, Subcommand)]
pub(crate) enum AdmissionCommand {
    Diff(Box<AdmissionDiffArguments>),
    Record(Box<AdmissionRecordArguments>),
}

/// Show what becomes different for pods when they are created: at another API server, or since a recording. Nothing is created.
///
/// Each pod is sent to an API server as a dry run, as its owner would create it. So it passes everything that admits pods there:
/// webhooks such as those of Istio or Kyverno, MutatingAdmissionPolicies, ValidatingAdmissionPolicies, quotas, Pod Security, and the
/// defaults of that version of Kubernetes. Podloom need not be installed. The two answers are compared with each other, never with
/// what runs now.
///
/// Pods with the same difference are one group: how many pods in how many namespaces, the names of some, and each change. The worst
/// groups come first: pods that are denied now, pods on which a webhook or policy fails now, pods that are allowed now, and pods that
/// are changed. A * in a path stands for each of the pod's own containers. What rejects the pods is named. That nothing changes is
/// said too. Names, UIDs and times that an API server makes anew are no difference, and neither is the stamp of a chain.
///
/// With --recording, the pods of the recording are sent again, and the answers now are compared with those then. With --to-context,
/// the pods come from files (-f, -k, --corpus) or from the cluster of --context (--against cluster), as for podloom chain diff, and
/// both API servers are asked. One pod is sent for each template.
///
/// You need the right to create pods in their namespaces. Before a pod is sent, values that may be secret become placeholders, unless
/// --keep-values is given. Values are not shown either, but reasons for rejecting a pod and warnings are.
///
/// With --exit-code, the exit code is 4 if there is a difference, and 0 if not.
#[derive(Args, Debug)]
#[command(after_long_help = DIFF_EXAMPLES, override_usage = DIFF_USAGE, group = ArgGroup::new("other").required(true).args(["recording", "to_context"]))]
pub(crate) struct AdmissionDiffArguments {
    /// Compare with the answers in this file of podloom admission record.
    #[arg(long, value_name = "FILE", groups = ["pods"], conflicts_with_all = [
        "files", "kustomizations", "corpus", "against", "namespace", "recursive", "pod_templates", "to_context",
        "into", "user", "as_controllers", "keep_values",
    ])]
    pub(crate) recording: Option<PathBuf>,

    /// Send the pods of the recording as the users that it was recorded with. Who changes the file chooses them.
    #[arg(long, requires = "recording")]
    pub(crate) as_recorded: bool,

    /// The context of the kubeconfig whose API server is asked, by default the current one: for the old answers and for the pods of
    /// --against cluster, or, with --recording, for the answers now.
    #[arg(long, value_name = "CONTEXT")]
    pub(crate) context: Option<String>,

    /// The context of the kubeconfig whose API server gives the new answers.
    #[arg(long, value_name = "CONTEXT")]
    pub(crate) to_context: Option<String>,

    #[command(flatten)]
    pub(crate) pods: PodArguments,

    #[command(flatten)]
    pub(crate) submit: SubmitArguments,

    /// How many pods are sent to each API server in a second.
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) qps: u32,

    /// Leave out changes at this path, and below it, such as /metadata/annotations; repeat it for several paths.
    #[arg(long, value_name = "PATH", value_parser = pod_path)]
    pub(crate) ignore: Vec<String>,

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
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = formats())]
    pub(crate) output: DiffFormat,
}

const DIFF_USAGE: &str = "\
podloom admission diff --recording <FILE> [--context <CONTEXT>] [OPTIONS]
       podloom admission diff <PODS> [--context <CONTEXT>] --to-context <CONTEXT> [OPTIONS]";

const DIFF_EXAMPLES: &str = "\
Examples:
  # What did the upgrade of Istio, Kyverno or Kubernetes change for my pods?
  podloom admission record before.jsonl --against cluster -A
  podloom admission diff --recording before.jsonl

  # What would the new cluster do to the pods of the old one?
  podloom admission diff --against cluster -A --context old --to-context new

  # The pods of a Helm chart, in a namespace of the new cluster that is made for this
  helm template shop ./chart |
    podloom admission diff -f - --context old --to-context new --into trial

  # In CI: fail if anything changes but this annotation
  podloom admission diff --recording before.jsonl -o markdown --exit-code \\
    --ignore /metadata/annotations/sidecar.istio.io~1status >comment.md";

/// Record what an API server would make of pods, to compare it later. Nothing is created.
///
/// Each pod is sent as a dry run, as its owner would create it: podloom admission diff says more about that. The pods come from files
/// or from a cluster, as for podloom chain diff. The file has the pods as they were sent, and the answers: the pods as they would be
/// created, with warnings, or why they are rejected. The same answers give the same file.
///
/// The answers have the values that admission adds. They may be secret, as well as those of the pods themselves with --keep-values.
#[derive(Args, Debug)]
#[command(after_long_help = RECORD_EXAMPLES)]
pub(crate) struct AdmissionRecordArguments {
    /// The file to write. One that is there is replaced.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// The context of the kubeconfig whose API server is asked, also for the pods of --against cluster. By default it is the current
    /// one.
    #[arg(long, value_name = "CONTEXT")]
    pub(crate) context: Option<String>,

    #[command(flatten)]
    pub(crate) pods: PodArguments,

    #[command(flatten)]
    pub(crate) submit: SubmitArguments,

    /// How many pods are sent in a second.
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) qps: u32,
}

const RECORD_EXAMPLES: &str = "\
Examples:
  # Everything that runs
  podloom admission record before.jsonl --against cluster -A

  # The pods of a corpus, as the controllers create them
  podloom admission record before.jsonl --corpus corpus --as-controllers";

/// How pods are sent.
#[derive(Args, Debug, Default)]
pub(crate) struct SubmitArguments {
    /// Send all pods to this namespace instead of their own.
    #[arg(long, value_name = "NAMESPACE", value_parser = namespace)]
    pub(crate) into: Option<String>,

    /// Send the pods as this user, as kubectl --as does.
    #[arg(long = "as", value_name = "USER")]
    pub(crate) user: Option<String>,

    /// Send each pod as the account of the controller that would create it, such as
    /// system:serviceaccount:kube-system:replicaset-controller for a Deployment; all others as yourself, or as --as says.
    #[arg(long)]
    pub(crate) as_controllers: bool,

    /// Send values that would become placeholders. They may be secret.
    #[arg(long)]
    pub(crate) keep_values: bool,
}

/// A path, as reports have it.
fn pod_path(text: &str) -> Result<String, &'static str> {
    match text.strip_prefix('/').is_some_and(|rest| !rest.is_empty()) {
        true => Ok(text.trim_end_matches('/').to_owned()),
        false => Err("write it as reports do, such as /metadata/labels/team"),
    }
}

/// A comparison of API servers is no check of files.
fn formats() -> impl TypedValueParser<Value = DiffFormat> {
    one_of([
        ("text", "Lines for people", DiffFormat::Text),
        ("json", "One object", DiffFormat::Json),
        (
            "markdown",
            "For a comment on a pull request",
            DiffFormat::Markdown,
        ),
    ])
}
