//! The arguments of `podloom drift`.

use std::path::PathBuf;

use clap::Args;
use podloom_controllers::duties::WEBHOOK_NAME;

use super::{ReportFormat, namespace, object_name};

/// Show which pods of a cluster missed the chain, and which were changed after it. Nothing is changed.
///
/// A pod has missed the chain if it has no stamp, although the webhook configuration is older than the pod and selects it now, and a
/// plugin of the chain matches it now: it was created before its namespace got the label, for example, or while the webhook did not
/// answer and failurePolicy was Ignore. Which plugins match is known with --plugins; without it, every pod that the webhook selects
/// counts as matched.
///
/// A pod was changed after the chain if its managedFields say that somebody other than the one who created it wrote a path that the
/// chain had written. What somebody removed does not show there. The pods of Podloom's own Deployments have no stamp of their own if
/// only the Deployment passed the chain; then the Deployment's stamp counts.
///
/// Both are listed by namespace and owner, with what to do: new pods pass the chain. Pods of other chains are counted by chain, which
/// is no error: they get the present chain when they are replaced. Pods that have ended or are being deleted do not count, nor do
/// mirror pods.
///
/// The cluster is that of the kubeconfig, read with your own rights. What you may not list, other than pods, is named as skipped, and
/// pods of which something is not known for that reason are counted as unclear. So are pods that are larger than 512 KiB, which are not
/// read.
///
/// With --exit-code, the exit code is 4 if a pod missed the chain or was changed, and 0 if not. If the webhook configuration is not
/// there, or you may not read it, nothing is known of pods that missed the chain; then it is 3 instead of 0.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct DriftArguments {
    /// The namespace, by default that of the kubeconfig's context.
    #[arg(short, long, value_parser = namespace)]
    pub(crate) namespace: Option<String>,

    /// All namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,

    /// Only pods with these labels.
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub(crate) selector: Option<String>,

    /// The directory of the chain that serves now.
    #[arg(long, value_name = "DIR")]
    pub(crate) plugins: Option<PathBuf>,

    /// The name of the MutatingWebhookConfiguration: what --webhook-name of podloom run says.
    #[arg(long, value_name = "NAME", default_value = WEBHOOK_NAME, value_parser = object_name)]
    pub(crate) webhook_configuration: String,

    /// Exit with code 4 if a pod missed the chain or was changed, and with 3 if nothing is known of pods that missed it.
    #[arg(long)]
    pub(crate) exit_code: bool,

    /// The format of the report.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: ReportFormat,
}

const EXAMPLES: &str = "\
Examples:
  # Did anything in this namespace miss the chain?
  podloom drift -n shop

  # In the whole cluster, with the chain that serves now
  podloom drift -A --plugins target/plugins

  # For a CronJob that looks every night
  podloom drift -A -o json --exit-code";
