//! The arguments of `podloom rollout`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::{ReportFormat, duration, namespace, object_name, text_or_json};

#[derive(Debug, Subcommand)]
pub(crate) enum RolloutCommand {
    Status(StatusArguments),
    /// Hold the present step. Pods go on to be judged.
    Pause(RolloutArguments),
    /// Go on with the steps; or begin again with a candidate that was taken back or given up.
    Resume(RolloutArguments),
    /// Have every pod pass the candidate now, without further steps.
    Promote(RolloutArguments),
    /// Have no pod pass the candidate any more.
    Abort(RolloutArguments),
    Pods(PodsArguments),
}

/// List the pods that passed the candidate and are still there, for example after it was taken back.
///
/// You need the right to list pods of all namespaces.
#[derive(Args, Debug)]
pub(crate) struct PodsArguments {
    #[command(flatten)]
    pub(crate) rollout: RolloutArguments,

    /// Those of this candidate: its digest, or the start of it. Without this, the present one.
    #[arg(long, value_name = "DIGEST")]
    pub(crate) candidate: Option<String>,

    /// The output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = text_or_json("For people", "A list of objects with namespace, owner and pod"))]
    pub(crate) output: ReportFormat,
}

/// Show how far the rollout of a candidate is: both chains, the step, what became of the pods of each, and what each replica says.
///
/// The ChainRollout is read with your own rights.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    pub(crate) rollout: RolloutArguments,

    /// Wait until the rollout is over. The exit code is 4 if the candidate was taken back or given up.
    #[arg(short, long)]
    pub(crate) wait: bool,

    /// Wait for the rollout of this candidate: its digest, or the start of it, as podloom chain check prints it. Without this, the verdict
    /// may be about the candidate before, until all replicas have the new one.
    #[arg(long, value_name = "DIGEST", requires = "wait")]
    pub(crate) candidate: Option<String>,

    /// How long to wait at most; for ever by default.
    #[arg(long, value_name = "TIME", requires = "wait", value_parser = duration::parse_positive)]
    pub(crate) timeout: Option<Duration>,

    /// The output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = text_or_json("For people", "The status of the ChainRollout"))]
    pub(crate) output: ReportFormat,
}

/// Which ChainRollout.
#[derive(Args, Debug)]
pub(crate) struct RolloutArguments {
    /// The name of the ChainRollout. Without it, the one that counts: the oldest of the namespace.
    #[arg(value_name = "NAME", value_parser = object_name)]
    pub(crate) name: Option<String>,

    /// The namespace of the operator.
    #[arg(short, long, value_name = "NS", default_value = "podloom-system", value_parser = namespace)]
    pub(crate) namespace: String,
}

const EXAMPLES: &str = "\
Examples:
  # How far is it?
  podloom rollout status

  # In a pipeline: wait until every pod passes the candidate, at most two hours
  podloom rollout status --wait --candidate 5d0c1b0e1a7e --timeout 2h

  # Which pods did the bad candidate leave behind?
  podloom rollout pods

  # What each replica counted
  podloom rollout status -o json | jq .replicas";
