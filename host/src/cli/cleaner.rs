//! The arguments of the controller of Cleaners, and of the command about Cleaners.

use std::collections::BTreeSet;

use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use podloom_cleaner::{CleanerSettings, GroupResource, LifetimeSettings};

use super::{ReportFormat, namespace, text_or_json};

/// The options of the controller of Cleaners.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Cleaner controller")]
pub(crate) struct CleanerArguments {
    /// How many Cleaners are looked at at the same time, instead of --concurrency; at least 8. If all namespaces are watched, one of
    /// them gets a quarter of these, so there are at least 32.
    // The field of another controller has this name too.
    #[arg(
        id = "cleaner_workers",
        long = "cleaner-workers",
        value_name = "N",
        env = "PODLOOM_CLEANER_WORKERS",
        default_value = "32",
        value_parser = clap::value_parser!(u16).range(8..)
    )]
    pub(crate) workers: u16,

    /// How many threads evaluate conditions of one namespace at the same time. For all other namespaces there are as many more.
    #[arg(
        long = "cleaner-evaluation-threads",
        value_name = "N",
        env = "PODLOOM_CLEANER_EVALUATION_THREADS",
        default_value = "2",
        value_parser = clap::value_parser!(u8).range(1..)
    )]
    pub(crate) evaluation_threads: u8,

    /// Delete nothing in these namespaces, separated by commas: a Cleaner there is invalid. The list replaces the default; an empty
    /// list excludes no namespace. The webhook warns about Cleaners in them, so give it the same list.
    #[arg(
        long = "cleaner-excluded-namespaces",
        value_name = "LIST",
        env = "PODLOOM_CLEANER_EXCLUDED_NAMESPACES",
        default_value = "kube-system,kube-public,kube-node-lease",
        value_parser = namespaces
    )]
    excluded_namespaces: BTreeSet<String>,

    /// Let Cleaners look at and delete objects of this cluster-scoped kind, written as its plural and its group, such as
    /// clusterroles.rbac.authorization.k8s.io or, for the core, namespaces; repeat the option for several. By default targets are
    /// only objects of the Cleaner's own namespace. With a kind here, whoever may create Cleaners may delete any object of it.
    #[arg(
        long = "cleaner-cluster-scoped",
        value_name = "KIND",
        env = "PODLOOM_CLEANER_CLUSTER_SCOPED",
        value_delimiter = ','
    )]
    cluster_scoped: Vec<GroupResource>,

    /// Let Cleaners send CloudEvents to the operator's own machine, such as to 127.0.0.1. By default this is blocked, since any
    /// user who may create Cleaners chooses where the operator sends them. Use it for tests.
    #[arg(long = "cleaner-allow-loopback-sinks", env = "PODLOOM_CLEANER_ALLOW_LOOPBACK_SINKS", value_parser = FalseyValueParser::new())]
    allow_loopback_sinks: bool,

    /// Make a Cleaner for each object of this kind that says how long it lives by the annotation janitor/ttl or janitor/expires, or the
    /// label cleanup.kyverno.io/ttl. Write the kind as its plural and its group, such as deployments.apps or, for the core, pods; repeat
    /// the option for several. Only kinds whose objects are in a namespace. With a kind here, whoever may annotate or label an object of
    /// it has the operator delete it.
    #[arg(
        long = "cleaner-ttl-kinds",
        value_name = "KIND",
        env = "PODLOOM_CLEANER_TTL_KINDS",
        value_delimiter = ','
    )]
    ttl_kinds: Vec<GroupResource>,

    /// Let the Cleaners that --cleaner-ttl-kinds makes delete nothing, and only report what they would delete.
    #[arg(long = "cleaner-ttl-dry-run", env = "PODLOOM_CLEANER_TTL_DRY_RUN", value_parser = FalseyValueParser::new())]
    ttl_dry_run: bool,
}

impl CleanerArguments {
    /// Which objects get a Cleaner.
    pub(crate) fn lifetimes(&self) -> LifetimeSettings {
        LifetimeSettings {
            kinds: self.ttl_kinds.iter().cloned().collect(),
            is_dry_run: self.ttl_dry_run,
        }
    }

    /// What holds for every Cleaner.
    pub(crate) fn settings(&self) -> CleanerSettings {
        CleanerSettings {
            excluded_namespaces: self.excluded_namespaces.clone(),
            cluster_scoped: self.cluster_scoped.iter().cloned().collect(),
            ttl_dry_run: self.ttl_dry_run,
            allow_loopback_sinks: self.allow_loopback_sinks,
        }
    }
}

/// Parses a list of namespaces that are separated by commas. It may be empty.
fn namespaces(list: &str) -> Result<BTreeSet<String>, String> {
    let names = list.split(',').map(str::trim);
    let names = names.filter(|_| !list.trim().is_empty());
    names
        .map(|name| namespace(name).map_err(|error| format!("{name:?}: {error}")))
        .collect()
}

/// Check Cleaners, and show what each would delete, and when. Nothing is deleted.
///
/// Checks what the API server and the operator check, and compiles the conditions. All mistakes are listed at once on standard
/// error, each with its file, document and field.
///
/// If there is no mistake, the conditions are evaluated. They see the other objects of the files, as if the cluster had exactly
/// these; write them by hand, or take them from the cluster with kubectl get -o yaml. With --against cluster, they see the cluster
/// of the kubeconfig, read with your own rights. The report has the value of each condition, what holds the Cleaner back, what it
/// would delete, and when the operator would look again.
///
/// The time of a Cleaner counts from metadata.creationTimestamp. If a file has none, the time is taken to be over; with --against
/// cluster, the Cleaner of the same name in the cluster has it.
///
/// The exit code is 1 if there is a mistake, or if a condition cannot be evaluated, and 0 otherwise, whether the conditions are
/// true or not.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct CleanerCheckArguments {
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

    /// Evaluate at this time instead of now, such as 2026-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) at: Option<Timestamp>,

    /// Read the targets from there instead of the files. Other objects in the files are then not used.
    #[arg(long, value_name = "WHAT")]
    pub(crate) against: Option<Against>,

    /// The namespaces in which nothing is deleted, the same as for podloom run.
    #[arg(
        long = "cleaner-excluded-namespaces",
        value_name = "LIST",
        env = "PODLOOM_CLEANER_EXCLUDED_NAMESPACES",
        default_value = "kube-system,kube-public,kube-node-lease",
        value_parser = namespaces
    )]
    excluded_namespaces: BTreeSet<String>,

    /// A cluster-scoped kind that targets may have, the same as for podloom run; repeat the option for several. Of files, it is known of
    /// Kubernetes' own kinds, of those whose CustomResourceDefinition is among the files, and of those that this option names;
    /// --against cluster knows it of all.
    #[arg(
        long = "cleaner-cluster-scoped",
        value_name = "KIND",
        env = "PODLOOM_CLEANER_CLUSTER_SCOPED",
        value_delimiter = ','
    )]
    cluster_scoped: Vec<GroupResource>,

    /// Treat warnings as errors. A target that conditions see and that is missing is a warning.
    #[arg(long)]
    pub(crate) strict: bool,

    /// The format of the report.
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = text_or_json("Lines for people", "One object"))]
    pub(crate) output: ReportFormat,
}

/// Where targets are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Against {
    /// The cluster of the current context of the kubeconfig.
    Cluster,
}

impl CleanerCheckArguments {
    /// What the operator's flags say.
    pub(crate) fn settings(&self) -> CleanerSettings {
        CleanerSettings {
            excluded_namespaces: self.excluded_namespaces.clone(),
            cluster_scoped: self.cluster_scoped.iter().cloned().collect(),
            ttl_dry_run: false,
            allow_loopback_sinks: false,
        }
    }
}

fn time(text: &str) -> Result<Timestamp, &'static str> {
    text.parse()
        .map_err(|_| "write a date, a time and its zone, for example 2026-01-31T12:00:00Z")
}

const EXAMPLES: &str = "\
Examples:
  # Compile the conditions, and evaluate them on these objects
  podloom cleaner check -f cleaner.yaml -f job.yaml

  # What would it do in two weeks?
  kubectl get cleaner,job,pod -o yaml | podloom cleaner check -f - --at 2026-01-31T12:00:00Z

  # What would it delete in the cluster now?
  podloom cleaner check -f cleaner.yaml --against cluster

  # In CI: fail if a manifest has a mistake or a warning
  podloom cleaner check -f manifests/ --strict >/dev/null

An error names file, document and field, and says what to do:
  error: cleaner.yaml:14:5: document 1, Cleaner demo, spec.conditions[0]: 1:1: unknown name \"jb\";
  known here: job, time";
