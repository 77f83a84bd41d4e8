//! The arguments of `podloom chain tighten`.

use std::path::PathBuf;

use clap::Args;

use super::PodArguments;

/// Find the smallest `allow` and `read` with which every pod comes out of a chain the same. With --write, change chain.yaml.
///
/// The chain runs on each pod, and what each plugin reads and writes is recorded. What it never used is dropped, and what it used of a
/// wide grant stands in its place: the labels that it wrote instead of all labels, the one container instead of all, as long as
/// they are no more than five. The result is tried again on all pods: each must come out byte for byte the same, or be
/// rejected for the same reason, with the same notes. A grant is kept if one pod comes out differently without it, or if the plugin
/// declares that it needs it with its configuration.
///
/// For each grant, the report says how often it was used and what becomes of it. What was granted and never used is listed, and
/// so is what plugins declare and never used.
///
/// It can only know what these pods show: take many pods, of all kinds that the chain serves. They are read once and kept in memory.
///
/// Without --write, chain.yaml stays as it is, and the change is shown as a diff. With it, only the two lists are changed: comments,
/// order and style stay. Check the result with podloom chain check and podloom chain diff before it serves. The exit code is 0 whether
/// or not there is something to tighten.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct TightenArguments {
    /// The directory with chain.yaml and the plugin files.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    #[command(flatten)]
    pub(crate) pods: PodArguments,

    /// Change chain.yaml.
    #[arg(long)]
    pub(crate) write: bool,
}

const EXAMPLES: &str = "\
Examples:
  # What is granted and never used by the pods of a corpus?
  podloom chain tighten my-chain --corpus corpus

  # The same for what runs in the cluster, and write it
  podloom chain tighten my-chain --against cluster -A --write";
