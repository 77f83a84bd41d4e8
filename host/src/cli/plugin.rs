//! The arguments of `podloom plugin`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{is_dns_label, namespace};

#[derive(Debug, Subcommand)]
pub(crate) enum PluginCommand {
    New(NewArguments),
    Build(BuildArguments),
    Inspect(InspectArguments),
    Test(TestArguments),
}

/// Begin a plugin: a crate of its own that builds at once, to be changed into what you want.
///
/// It has everything that a plugin has: configuration with a schema, native tests, pods to try it on, the bundle that an operator
/// loads, and a README with the commands.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  podloom plugin new my-plugin
  cd my-plugin
  cargo test
  podloom plugin build

  # With the SDK of a checkout of Podloom
  podloom plugin new my-plugin --sdk podloom/plugin-sdk")]
pub(crate) struct NewArguments {
    /// The plugin's name, and its crate's: lower case letters, digits and dashes.
    #[arg(value_parser = plugin_name)]
    pub(crate) name: String,

    /// The directory to make; by default one of the plugin's name, here. If it exists, it has to be empty.
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,

    /// The SDK of a checkout of Podloom, its directory plugin-sdk; by default the SDK of this version from crates.io.
    #[arg(long, value_name = "DIR", env = "PODLOOM_SDK")]
    pub(crate) sdk: Option<PathBuf>,
}

/// Build a plugin, put it into its bundle, and tell how large it is.
///
/// Cargo makes a release of the crate for wasm32-unknown-unknown; if Rust lacks that target, rustup is asked to add it.
/// Rustflags of the environment are left out: those of a plugin stand in its .cargo/config.toml.
/// What comes out is compressed, loaded into the engine that operators have, and only if it is a plugin put into the bundle,
/// in one step, so that an operator that watches the bundle never sees half a file.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  podloom plugin build
  podloom plugin build my-plugin -o my-chain")]
pub(crate) struct BuildArguments {
    /// The directory of the plugin's crate.
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) directory: PathBuf,

    /// The bundle that the plugin is put into; by default the directory bundle in that of the crate.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
}

/// Show what a plugin is: name, version, contract, what it needs, its configuration's schema.
///
/// What a plugin needs may depend on its configuration: give it with --config.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  podloom plugin inspect target/plugins/labels.wasm.gz
  podloom plugin inspect my-plugin.wasm --config config.yaml
  podloom plugin inspect my-plugin.wasm -o json | jq .configSchema")]
pub(crate) struct InspectArguments {
    /// The plugin: .wasm or .wasm.gz.
    pub(crate) file: PathBuf,

    /// Its configuration, YAML or JSON.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// How to print; text is for people.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: InspectFormat,
}

/// How a plugin's description is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InspectFormat {
    /// A table.
    Text,
    /// An object, with the schema as it is.
    Json,
}

/// Try a plugin on pods: what it writes, whether twice the same, how long it takes, how much memory it has.
///
/// Without --allow or --chain the plugin gets exactly what it says it needs, so a write that it did not ask for is refused here
/// too.
/// It runs on each pod again to see that it is deterministic, and on its own result to see that it is idempotent.
/// A plugin that is not, or that denies the pod, ends the command with exit code 1.
///
/// A golden file holds what has to come out: the pod without the annotations that the host adds, or why it is denied.
/// --cases takes every NAME.pod.yaml of a directory, and compares what comes out with NAME.golden.yaml. NAME.config.yaml, if it
/// is there, is the plugin's configuration in this case.
#[derive(Args, Debug)]
#[command(after_long_help = TEST_EXAMPLES)]
pub(crate) struct TestArguments {
    /// The plugin: .wasm or .wasm.gz.
    pub(crate) file: PathBuf,

    /// A file with pods, or workloads with a pod template; - reads standard input.
    #[arg(short, long, value_name = "FILE", required_unless_present = "cases")]
    pub(crate) pod: Option<String>,

    /// A directory of cases, instead of --pod and --golden.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["pod", "golden"])]
    pub(crate) cases: Option<PathBuf>,

    /// The plugin's configuration, YAML or JSON; by default that of --chain, or none.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// What has to come out of --pod.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) golden: Option<PathBuf>,

    /// Write golden files anew: what comes out now is right.
    #[arg(short, long)]
    pub(crate) update: bool,

    /// Let the plugin write below this path and nowhere else, as `allow` in chain.yaml does; give it several times for several.
    #[arg(long = "allow", value_name = "PATH", conflicts_with = "chain")]
    pub(crate) allow: Vec<String>,

    /// Give the plugin what its entry in this chain.yaml gives it: rights, configuration, limits. `match` is not asked.
    #[arg(long, value_name = "FILE|DIR")]
    pub(crate) chain: Option<PathBuf>,

    /// The entry's name in --chain; by default the one that has the plugin's file.
    #[arg(long, value_name = "NAME", requires = "chain")]
    pub(crate) entry: Option<String>,

    /// Let a second run over its own result write again; --chain knows by itself.
    #[arg(long)]
    pub(crate) not_idempotent: bool,

    /// The namespace of pods that name none.
    #[arg(short, long, default_value = "default", value_parser = namespace)]
    pub(crate) namespace: String,
}

const TEST_EXAMPLES: &str = "\
Examples:
  podloom plugin test my-plugin.wasm --pod pod.yaml
  podloom plugin test target/plugins/labels.wasm.gz --pod pod.yaml --config config.yaml
  podloom render -f browsers.yaml | podloom plugin test my-plugin.wasm --pod -

  # Are the rights and the configuration of a chain enough?
  podloom plugin test bundle/my-plugin.wasm.gz --chain bundle --pod pod.yaml
  podloom plugin test my-plugin.wasm --allow '/spec/containers/*/env' --pod pod.yaml

  # All cases of a directory; then, when what comes out now is right, as golden files
  podloom plugin test bundle/my-plugin.wasm.gz --chain bundle --cases cases
  podloom plugin test bundle/my-plugin.wasm.gz --chain bundle --cases cases --update";

/// Names that rustc, cargo or the crate's own dependencies have for something else.
const TAKEN: [&str; 58] = [
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "const",
    "continue",
    "core",
    "crate",
    "do",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "podloom-plugin-sdk",
    "priv",
    "proc-macro",
    "pub",
    "ref",
    "return",
    "self",
    "serde",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
];

/// A plugin's name is a DNS label, and a package's begins with a letter.
fn plugin_name(text: &str) -> Result<String, String> {
    if !is_dns_label(text) || !text.starts_with(|first: char| first.is_ascii_lowercase()) {
        return Err(
            "a plugin's name is 1 to 63 lower case letters, digits and dashes, begins with a letter and does not end in a dash"
                .to_owned(),
        );
    }
    if TAKEN.contains(&text) {
        return Err(format!(
            "{text} means something else to Rust; `{text}-plugin` would do"
        ));
    }
    Ok(text.to_owned())
}
