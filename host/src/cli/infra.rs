//! The arguments of `podloom infra`.

use clap::{Args, Subcommand};

use super::{Format, namespace};

#[derive(Debug, Subcommand)]
pub(crate) enum InfraCommand {
    Check(InfraCheckArguments),
}

/// Check Clusters, clouds and Infrastructure Managers offline, and show what is sent for each Cluster.
///
/// Checks what the API server checks, and what the operator checks before it sends a template. All mistakes are listed at once on
/// standard error, each with its file, document and field, and with what to write instead. Objects of other kinds are not checked.
///
/// If there is no mistake, the template of each Cluster is printed as the Infrastructure Manager gets it: without members that are
/// null, and with the name of the infrastructure, in which `<uid>` stands for the UID that the API server gives.
///
/// An Infrastructure Manager only adds to the template that it has, so not every change is possible. With --previous, changes are
/// checked too: what would be sent for them is printed, and what would be ignored is an error (the reason UnsupportedChange).
///
/// Templates must not name files, which the Infrastructure Manager would read from its own machine, unless its provider has
/// allowFileReferences. If the files have the Cluster's Cloud and the provider of that, this is checked; if not, it is a warning.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct InfraCheckArguments {
    /// Files or directories with YAML or JSON; - reads standard input.
    #[arg(
        short,
        long = "filename",
        value_name = "FILE",
        num_args = 1..,
        required = true
    )]
    pub(crate) files: Vec<String>,

    /// Read subdirectories too.
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,

    /// The namespace of objects without metadata.namespace.
    #[arg(short, long, default_value = "default", value_parser = namespace)]
    pub(crate) namespace: String,

    /// Files or directories with the objects as they were applied before, or as kubectl get -o yaml prints them: their status also
    /// has the names of nodes that were removed earlier. - reads standard input.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) previous: Vec<String>,

    /// Let templates name files if their provider is not among the files.
    #[arg(long)]
    pub(crate) allow_file_references: bool,

    /// Treat warnings as errors.
    #[arg(long)]
    pub(crate) strict: bool,

    /// The format of what is sent: with yaml, one document for each Cluster; with json, one object that says for each Cluster what
    /// is requested.
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml")]
    pub(crate) output: Format,
}

const EXAMPLES: &str = "\
Examples:
  # Check all manifests of a directory, and show what an Infrastructure Manager gets
  podloom infra check -f deploy/examples/infrastructure

  # May this template be changed so? What is applied now comes from the cluster
  kubectl get cluster demo -o yaml | podloom infra check -f cluster.yaml --previous -

  # In CI: compare with the branch that is deployed, and fail if there is a mistake or a warning
  git show main:cluster.yaml >before.yaml
  podloom infra check -f cluster.yaml --previous before.yaml --strict >/dev/null

An error names file, document and field, and says what to do:
  error: cluster.yaml:14:9: document 1, Cluster demo, spec.tosca.topology_template.policies: the
  list cannot become shorter; undo this, or create another Cluster";
