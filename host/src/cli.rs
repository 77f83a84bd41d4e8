//! The command line.

mod admission;
mod chain;
mod cleaner;
mod cluster;
mod controllers;
mod duration;
mod duties;
mod files;
mod pipe;
mod plugin;
mod rbac;
mod rollout;
mod run;
mod webhook;

use std::collections::BTreeSet;
use std::path::PathBuf;

use anstream::ColorChoice;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use podloom_api::SelenosisApi;
use podloom_controllers::duties::Duty;
use podloom_mutators::PublicKey;
use podloom_syntax::names;
use tracing_subscriber::filter::Targets;

pub(crate) use admission::{
    AdmissionCommand, AdmissionDiffArguments, AdmissionRecordArguments, SubmitArguments,
};
pub(crate) use chain::{
    BundleArguments, DiffArguments, DiffFormat, ExportArguments, PodArguments, TightenArguments,
};
pub(crate) use cleaner::{Against, CleanerCheckArguments};
pub(crate) use cluster::{
    BlameArguments, CorpusCommand, DriftArguments, RecordArguments, RepairArguments,
};
pub(crate) use duties::{PortalArguments, TunnelArguments};
pub(crate) use files::{Format, InfraCheckArguments, RenderArguments, RenderFormat};
pub(crate) use pipe::{FnArguments, NeededArguments, PostRenderArguments};
pub(crate) use plugin::{
    BuildArguments, InspectArguments, NewArguments, PackArguments, PluginCommand, TestArguments,
};
pub(crate) use rbac::{RbacArguments, Whose};
pub(crate) use rollout::{PodsArguments, RolloutArguments, RolloutCommand, StatusArguments};
pub(crate) use run::{OwnPodArguments, RunArguments};
pub(crate) use webhook::{Heal, ReportGroup};

/// A Kubernetes operator that creates pods for browser sessions, and changes them with a chain of sandboxed WebAssembly plugins.
#[derive(Debug, Parser)]
#[command(name = "podloom", version, max_term_width = 100)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// When to colour the output.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", value_parser = colors(), display_order = LAST)]
    pub(crate) color: ColorChoice,

    /// What to log on standard error: a level (off, error, warn, info, debug, trace), or levels for parts of the program, for
    /// example info,podloom=debug. The default is info for podloom run, warn for all other commands.
    #[arg(long, global = true, value_name = "FILTER", env = "PODLOOM_LOG", display_order = LAST)]
    pub(crate) log: Option<Targets>,
}

/// The options that every command has come after its own.
const LAST: usize = 900;

const AFTER_HELP: &str = "\
Examples:
  # What pod does the operator make of this Browser, and what did each plugin change?
  podloom render -f browser.yaml -f config.yaml --plugins my-chain --explain

  # Who wrote each line of this pod?
  podloom blame pod/web-5d9f8c7b6-x2k4v -n shop

  # Run the operator against the cluster of the current context
  podloom run --plugins my-chain

Exit codes: 0 success, 1 invalid input or a failed check, 2 wrong usage, 3 any other error,
4 with --exit-code: chain diff or admission diff found a difference, or drift a pod that drifted;
  with rollout status --wait: the candidate was taken back.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Box<RunArguments>),
    Render(RenderArguments),
    PostRender(PostRenderArguments),
    Fn(FnArguments),
    Blame(BlameArguments),
    /// Create, build, inspect and test plugins.
    #[command(subcommand)]
    Plugin(PluginCommand),
    /// Check, compare, tighten and export plugin chains, and print the JSON Schema of chain.yaml.
    #[command(subcommand)]
    Chain(ChainCommand),
    /// Record the pods of a cluster, to try chains and plugins on them.
    #[command(subcommand)]
    Corpus(CorpusCommand),
    /// Compare what API servers would make of pods, whatever admits them, and record it.
    #[command(subcommand)]
    Admission(AdmissionCommand),
    /// Check manifests of Clusters, clouds and Infrastructure Managers.
    #[command(subcommand)]
    Infra(CheckCommand<InfraCheckArguments>),
    /// Check manifests of Cleaners, and show what they would delete.
    #[command(subcommand)]
    Cleaner(CheckCommand<CleanerCheckArguments>),
    Drift(DriftArguments),
    /// Show and steer how a candidate comes to serve.
    #[command(subcommand)]
    Rollout(RolloutCommand),
    Bundle(BundleArguments),
    Sbom(SbomArguments),
    Crds(CrdsArguments),
    Rbac(RbacArguments),
    Completion(CompletionArguments),
}

/// Print what this program or a plugin is made of: its software bill of materials.
///
/// It lists the crates whose code is in the file, and which crate uses which, as a CycloneDX document in JSON. The list is in the file
/// itself, in the section .dep-v0, where Trivy, Syft, Grype and cargo-audit find it too. `podloom plugin build` adds it to a plugin.
/// Plugins that were built by other tools may have none.
///
/// What a file says of itself is no proof: who signed it is (`podloom chain verify`).
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  podloom sbom > podloom.cdx.json
  podloom sbom my-chain/labels.wasm.gz")]
pub(crate) struct SbomArguments {
    /// The plugin, a .wasm or .wasm.gz file. Without it, this program.
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// Print a script that completes podloom's commands and options in a shell.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  source <(podloom completion bash)
  podloom completion zsh > \"${fpath[1]}/_podloom\"
  podloom completion fish > ~/.config/fish/completions/podloom.fish")]
pub(crate) struct CompletionArguments {
    /// The shell.
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CheckCommand<A: Args> {
    Check(A),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ChainCommand {
    Check(CheckArguments),
    Diff(Box<DiffArguments>),
    Tighten(Box<TightenArguments>),
    Export(ExportArguments),
    Verify(VerifyArguments),
    /// Print the JSON Schema of chain.yaml, for completion in editors.
    Schema,
}

/// Check who signed a plugin chain, as `podloom run --require-signature` does. Nothing is loaded, and no network is used.
///
/// What is signed is chain.yaml, which must have the sha256 of each plugin's file. The signature is in chain.yaml.sig, as bytes or in
/// base64. Keys may be ECDSA with P-256, Ed25519, or RSA with at least 2048 bits; all are used with SHA-256 but Ed25519.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  # Make a key, sign and verify
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem
  openssl pkey -in key.pem -pubout -out key.pub
  openssl dgst -sha256 -sign key.pem -out my-chain/chain.yaml.sig my-chain/chain.yaml
  podloom chain verify my-chain --key key.pub")]
pub(crate) struct VerifyArguments {
    /// The directory with chain.yaml and chain.yaml.sig.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// A PEM file with a public key; repeat it for several keys, of which one must have signed.
    #[arg(short, long = "key", value_name = "KEY", required = true, value_parser = public_key)]
    pub(crate) keys: Vec<PublicKey>,
}

/// Check a plugin chain as the operator does before it uses one: load it, and run each plugin on sample pods.
///
/// Prints for each plugin what it may read and write, which pods it is called for, and its limits; and for each two plugins whether
/// their order matters. It does not matter if neither may write what the other may read: then both orders give the same bytes, or both
/// reject the pod, for every pod of a cluster. The others are run in both orders on the sample pods and on yours, and the smallest pod
/// on which that makes a difference is shown.
///
/// In addition, every plugin may read the labels and annotations of the Browser that the pod is for (without a Browser, those of
/// the original pod), and of the namespace.
///
/// The sample pods cannot show everything: a plugin that is not idempotent on some other pod passes. So also pass pods of your
/// own with --pods or --corpus. The chain runs on them as `match` in chain.yaml says; on the sample pods every plugin runs.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  podloom chain check target/plugins
  podloom chain check target/plugins --pods deployment.yaml --pods pod.yaml
  podloom chain check target/plugins --corpus corpus
  podloom chain check my-chain -o sarif >podloom.sarif")]
pub(crate) struct CheckArguments {
    /// The directory with chain.yaml and the plugin files.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Also run the chain on the pods and workloads of this file or directory; repeat it for several. - reads standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) pods: Vec<String>,

    /// Also run the chain on the pods of a directory that podloom corpus record wrote, or of any other with manifests.
    #[arg(long, value_name = "DIR")]
    pub(crate) corpus: Option<PathBuf>,

    /// The namespace of pods without metadata.namespace.
    #[arg(short, long, default_value = "default", value_parser = namespace)]
    pub(crate) namespace: String,

    /// The output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: CheckFormat,
}

/// The format of what a check finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckFormat {
    /// Lines for people.
    Text,
    /// What was found, for code scanning. The lines for people are on standard error.
    Sarif,
    /// What was tried, for lists of tests. The lines for people are on standard error.
    Junit,
}

/// A report that stands on standard output in place of everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportFile {
    Sarif,
    Junit,
}

impl CheckFormat {
    pub(crate) const fn report(self) -> Option<ReportFile> {
        match self {
            Self::Text => None,
            Self::Sarif => Some(ReportFile::Sarif),
            Self::Junit => Some(ReportFile::Junit),
        }
    }
}

/// Print the CustomResourceDefinitions of the controllers' kinds, for kubectl apply.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  podloom crds | kubectl apply -f -
  podloom crds --selenosis-api split")]
pub(crate) struct CrdsArguments {
    /// Print the kinds of these controllers, separated by commas. Use the same list as for podloom run.
    #[arg(long, value_name = "LIST", default_value = "browser", env = "PODLOOM_CONTROLLERS", value_parser = controllers::parse)]
    pub(crate) controllers: BTreeSet<Duty>,

    /// The API groups of Browser and BrowserConfig: with seed, both are in selenosis.io; with split, they are in
    /// browser.selenosis.io and browserconfig.selenosis.io.
    #[arg(long, value_name = "GROUPS", default_value = "seed", env = "PODLOOM_SELENOSIS_API", value_parser = selenosis_api())]
    pub(crate) selenosis_api: SelenosisApi,
}

/// Parses one of these names, each with what `--help` says about it, if anything, and with what it stands for.
fn one_of<T: Clone + Send + Sync + 'static, const N: usize>(
    values: [(&'static str, &'static str, T); N],
) -> impl TypedValueParser<Value = T> {
    let names = values.each_ref().map(|(name, help, _)| match *help {
        "" => PossibleValue::new(*name),
        help => PossibleValue::new(*name).help(help),
    });
    PossibleValuesParser::new(names).try_map(move |name| {
        let found = values.iter().find(|(known, ..)| *known == name);
        found.map(|(.., value)| value.clone()).ok_or("unknown")
    })
}

/// When to colour the output.
fn colors() -> impl TypedValueParser<Value = ColorChoice> {
    let auto = "On a terminal, unless the environment variable NO_COLOR is set";
    one_of([
        ("auto", auto, ColorChoice::Auto),
        ("always", "Always", ColorChoice::Always),
        ("never", "Never", ColorChoice::Never),
    ])
}

/// Parses the name of a set of API groups.
fn selenosis_api() -> impl TypedValueParser<Value = SelenosisApi> {
    one_of([
        ("seed", "", SelenosisApi::Seed),
        ("split", "", SelenosisApi::Split),
    ])
}

/// The format of a report or of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportFormat {
    Text,
    Json,
}

/// Parses the format of what a command prints, which is either of these.
fn text_or_json(
    text: &'static str,
    json: &'static str,
) -> impl TypedValueParser<Value = ReportFormat> {
    one_of([
        ("text", text, ReportFormat::Text),
        ("json", json, ReportFormat::Json),
    ])
}

/// A namespace is a DNS label.
fn namespace(text: &str) -> Result<String, &'static str> {
    if is_dns_label(text) {
        return Ok(text.to_owned());
    }
    Err("use 1 to 63 lower-case letters, digits and dashes, without a dash at the start or end")
}

/// The names of most objects are DNS labels, joined by dots.
fn object_name(text: &str) -> Result<String, &'static str> {
    if text.len() <= 253 && text.split('.').all(is_dns_label) {
        return Ok(text.to_owned());
    }
    Err("use lower-case letters, digits, dashes and dots, with a letter or digit at both ends")
}

/// Whether a text is a DNS label by RFC 1123.
fn is_dns_label(text: &str) -> bool {
    names::dns_label(text).is_ok()
}

/// Reads a public key, for an option that names its file.
fn public_key(path: &str) -> Result<PublicKey, String> {
    let pem = std::fs::read(path).map_err(|error| error.to_string())?;
    PublicKey::from_pem(&pem).map_err(|error| format!("the file {error}"))
}

#[cfg(test)]
mod tests;
