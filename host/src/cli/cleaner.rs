//! The arguments of the controller of Cleaners, and of the command about Cleaners.

mod check;

use std::collections::BTreeSet;

use clap::Args;
use clap::builder::FalseyValueParser;
use podloom_controllers::{CleanerSettings, GroupResource};

pub(crate) use check::{Against, CleanerCheckArguments, CleanerCommand, ReportFormat};

use super::namespace;

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
}

impl CleanerArguments {
    /// What holds for every Cleaner.
    pub(crate) fn settings(&self) -> CleanerSettings {
        CleanerSettings {
            excluded_namespaces: self.excluded_namespaces.clone(),
            cluster_scoped: self.cluster_scoped.iter().cloned().collect(),
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
