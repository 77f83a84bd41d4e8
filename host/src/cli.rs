//! The command line.

mod bundle;
mod controllers;
mod duration;
mod plugin;
mod rbac;
mod run;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use podloom_api::SelenosisApi;
use tracing_subscriber::filter::Targets;

pub(crate) use bundle::BundleArguments;
pub(crate) use controllers::Controllers;
pub(crate) use plugin::{
    BuildArguments, InspectArguments, InspectFormat, NewArguments, PluginCommand, TestArguments,
};
pub(crate) use rbac::{RbacArguments, Whose};
pub(crate) use run::{ElectionArguments, LogFormat, OwnPodArguments, RunArguments};

/// A Kubernetes operator whose pods pass through a chain of sandboxed WebAssembly plugins.
#[derive(Debug, Parser)]
#[command(name = "podloom", version, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 fine, 1 the input was refused, 2 wrong usage, 3 anything else."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// When to colour what is written for people.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,

    /// What to log on standard error: a level, or levels by target, such as info,podloom::plugin=debug.
    /// By default warn; the operator's is info.
    #[arg(long, global = true, value_name = "FILTER", env = "PODLOOM_LOG")]
    pub(crate) log: Option<Targets>,
}

/// When to colour.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Color {
    /// Decides for the whole process.
    pub(crate) fn apply(self) {
        match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Box<RunArguments>),
    Render(RenderArguments),
    /// Write plugins, look at them, try them on pods.
    #[command(subcommand)]
    Plugin(PluginCommand),
    /// Check plugin chains.
    #[command(subcommand)]
    Chain(ChainCommand),
    Bundle(BundleArguments),
    Crds(CrdsArguments),
    Rbac(RbacArguments),
}

/// Render manifests offline: what the operator would make of them, through the same chain.
///
/// Browsers become their final pods.
/// Pods, and whatever has a pod template (Deployment, CronJob, ...), go through the chain in place.
/// BrowserConfigs and Namespaces are read, not printed: Browsers are looked up in the BrowserConfigs of their namespace, and
/// plugins see the labels and annotations of namespaces.
/// Everything else is printed as it came.
///
/// If anything is refused, everything that is wrong is listed and no object is printed.
#[derive(Args, Debug)]
#[command(after_long_help = RENDER_EXAMPLES)]
pub(crate) struct RenderArguments {
    /// Files and directories with YAML or JSON; - reads standard input.
    #[arg(short, long = "filename", value_name = "FILE", required = true, num_args = 1..)]
    pub(crate) files: Vec<String>,

    /// Read the directories inside directories too.
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,

    /// The namespace of objects that name none.
    #[arg(short, long, default_value = "default", value_parser = namespace)]
    pub(crate) namespace: String,

    /// The directory of the plugin chain; without it pods are rendered, and not mutated.
    #[arg(short, long, value_name = "DIR", env = "PODLOOM_PLUGINS")]
    pub(crate) plugins: Option<PathBuf>,

    /// Show on standard error what each plugin did to each pod, and why.
    #[arg(short, long)]
    pub(crate) explain: bool,

    /// How to print.
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml")]
    pub(crate) output: Format,
}

const RENDER_EXAMPLES: &str = "\
Examples:
  # Every manifest of a directory, through a chain
  podloom render -f deploy/examples --plugins target/plugins

  # What did the plugins change?
  podloom render -f browser.yaml -f config.yaml --plugins target/plugins --explain >/dev/null

  # Any pod template, not only Browsers
  helm template shop ./chart | podloom render -f - --plugins target/plugins | kubectl apply -f -";

/// How objects are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A document for each object.
    Yaml,
    /// One object, or a List of several.
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ChainCommand {
    Check(CheckArguments),
    /// Print the JSON Schema of chain.yaml, for editors.
    Schema,
}

/// Load a chain and prove it, as the operator would before it serves it.
///
/// Shows for each plugin what it may read and write, which pods it sees, and its limits.
/// Besides what is shown, every plugin sees the labels and annotations of the submitted object and of its namespace.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  podloom chain check target/plugins")]
pub(crate) struct CheckArguments {
    /// The directory with chain.yaml and the plugins.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

/// Print the CustomResourceDefinitions, for kubectl apply.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  podloom crds | kubectl apply -f -
  podloom crds --selenosis-api split")]
pub(crate) struct CrdsArguments {
    /// The controllers whose kinds are meant, separated by commas, as in podloom run.
    #[arg(long, value_name = "LIST", default_value = "browser", env = "PODLOOM_CONTROLLERS", value_parser = controllers::parse)]
    pub(crate) controllers: Controllers,

    /// The API groups: seed is selenosis.io for both kinds, split is one group for each.
    #[arg(long, value_name = "GROUPS", default_value = "seed", env = "PODLOOM_SELENOSIS_API", value_parser = ["seed", "split"])]
    selenosis_api: String,
}

impl CrdsArguments {
    /// The set of API groups that was asked for.
    pub(crate) fn api(&self) -> SelenosisApi {
        // The parser has let only known names pass.
        self.selenosis_api.parse().unwrap_or_default()
    }
}

/// A namespace is a DNS label.
fn namespace(text: &str) -> Result<String, &'static str> {
    if is_dns_label(text) {
        return Ok(text.to_owned());
    }
    Err("a namespace is 1 to 63 lower case letters, digits and dashes, and no dash at an end")
}

/// A DNS label, as RFC 1123 has it.
fn is_dns_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let has_good_ends = !text.starts_with('-') && !text.ends_with('-');
    (1..=63).contains(&text.len()) && text.bytes().all(is_inner) && has_good_ends
}
