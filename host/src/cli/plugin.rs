//! The arguments of `podloom plugin`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{CheckFormat, ReportFormat, is_dns_label, namespace, text_or_json};

#[derive(Debug, Subcommand)]
pub(crate) enum PluginCommand {
    New(NewArguments),
    Build(BuildArguments),
    Inspect(InspectArguments),
    Test(Box<TestArguments>),
    Pack(PackArguments),
}

/// Create the crate of a new plugin: a small working example to change.
///
/// It has everything that a plugin needs: a configuration with a schema, native tests, pods to test it on, a plugin
/// directory that an operator can load, and a README with the commands.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  podloom plugin new my-plugin
  cd my-plugin
  cargo test
  podloom plugin build

  # Use the SDK of a checkout of Podloom
  podloom plugin new my-plugin --sdk podloom/plugin-sdk")]
pub(crate) struct NewArguments {
    /// The name of the plugin and its crate: lower-case letters, digits and dashes.
    #[arg(value_parser = plugin_name)]
    pub(crate) name: String,

    /// The directory to create; by default the plugin's name. An existing directory must be empty.
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,

    /// The directory plugin-sdk in a checkout of Podloom. By default the crate uses the SDK from crates.io, in the
    /// version of this program.
    #[arg(long, value_name = "DIR", env = "PODLOOM_SDK")]
    pub(crate) sdk: Option<PathBuf>,
}

/// Build a plugin, put it into a plugin directory, and print its size.
///
/// Runs cargo in release mode for the target wasm32-unknown-unknown; if the target is missing, rustup installs it. RUSTFLAGS of
/// the environment are ignored: a plugin's flags are in its .cargo/config.toml. The module is compressed. This command then loads
/// it, with the engine that the operator also uses. If that succeeds, the module replaces the file in the plugin directory, in
/// one step, so an operator that watches the directory never reads a partial file.
///
/// A plugin has the schema of its configuration in it. If the type of the configuration has changed since the schema's file was
/// written, this command fails, and says how to write the file again. To find that out, it compiles the crate's native tests.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  podloom plugin build
  podloom plugin build my-plugin -o my-chain")]
pub(crate) struct BuildArguments {
    /// The directory of the plugin's crate.
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) directory: PathBuf,

    /// The plugin directory; by default the directory bundle in the crate.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
}

/// Show what a plugin file contains: name, version, contract, the paths that it needs, its configuration's schema.
///
/// The paths may depend on the configuration, so pass the configuration with --config.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  podloom plugin inspect target/plugins/labels.wasm.gz
  podloom plugin inspect my-plugin.wasm --config config.yaml
  podloom plugin inspect my-plugin.wasm -o json | jq .configSchema")]
pub(crate) struct InspectArguments {
    /// The plugin file, .wasm or .wasm.gz.
    pub(crate) file: PathBuf,

    /// The plugin's configuration, YAML or JSON.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// The output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = text_or_json("A table for people", "One object, with the whole schema"))]
    pub(crate) output: ReportFormat,
}

/// Pack a plugin as an artifact for a registry, as other tools for WebAssembly read it.
///
/// The plugin is checked first. The artifact has the format that the CNCF describes for Wasm: one layer with the Wasm file as it is,
/// and a config that lists imports and exports. It is written as an OCI image layout in a tar file; this command uploads nothing.
/// The same file always gives the same artifact.
///
/// An operator loads plugin directories, not single plugins: pack one with podloom bundle --oci.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  podloom plugin pack my-plugin.wasm.gz --oci registry.example.com/plugins/my-plugin:0.1.0 -o my-plugin.tar
  oras cp --from-oci-layout my-plugin.tar:registry.example.com/plugins/my-plugin:0.1.0 registry.example.com/plugins/my-plugin:0.1.0
  oras pull registry.example.com/plugins/my-plugin:0.1.0   # writes my-plugin.wasm")]
pub(crate) struct PackArguments {
    /// The plugin file, .wasm or .wasm.gz.
    pub(crate) file: PathBuf,

    /// The name of the artifact, with registry and tag; repeat it for several names.
    #[arg(long = "oci", value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,

    /// The file to write.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

/// Test a plugin on pods: show what it writes, how long a call takes and how much memory it uses.
///
/// Without FILE, in a plugin's crate, this command does everything: it builds the plugin into the crate's directory bundle, runs it
/// on the crate's directory cases with the rights and the configuration of bundle/chain.yaml, and tries the whole chain of
/// the bundle. If the schema of the configuration is old, this is an error; with --update, it is rewritten.
///
/// With FILE, but without --allow or --chain, the plugin may write exactly the paths that it asks for.
/// It runs on each pod several times to check that it is deterministic, and on its own result to check that it is idempotent.
/// If one of these checks fails, or if the plugin denies the pod, the exit code is 1.
///
/// A golden file contains the expected result: the pod without the annotations that Podloom adds, or the reason of the denial.
/// --cases runs the plugin on every NAME.pod.yaml of a directory, with the configuration in NAME.config.yaml if that exists, and
/// compares the result with NAME.golden.yaml. NAME.before.yaml has the pods as they were before, and NAME.ephemeral.yaml the ephemeral
/// containers that they get: then the plugin sees a change of a pod that exists, as with `operations: [CREATE, UPDATE]` in its match.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = TEST_EXAMPLES)]
pub(crate) struct TestArguments {
    /// The plugin file, .wasm or .wasm.gz; or the directory of a plugin's crate, by default the current one.
    #[arg(value_name = "FILE|DIR")]
    pub(crate) plugin: Option<PathBuf>,

    /// A file with pods or workloads; - reads standard input.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) pod: Option<String>,

    /// A file with the same pods before a change; --pod has them after it. They are matched by namespace and name.
    #[arg(long, value_name = "FILE", requires = "pod")]
    pub(crate) before: Option<String>,

    /// A file with ephemeral containers that the pods of --pod get, as by kubectl debug: each a document, or all in a list.
    #[arg(long, value_name = "FILE", requires = "pod", conflicts_with = "before")]
    pub(crate) ephemeral: Option<String>,

    /// A directory of cases; replaces --pod and --golden. In a crate, by default its directory cases.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["pod", "golden"])]
    pub(crate) cases: Option<PathBuf>,

    /// Also run the plugin on the pods of a directory that podloom corpus record wrote, or of any other with manifests. Only their
    /// number and what is wrong is shown.
    #[arg(long, value_name = "DIR")]
    pub(crate) corpus: Option<PathBuf>,

    /// The plugin's configuration, YAML or JSON; by default the configuration in --chain; without --chain, none.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// The golden file for --pod: the file with the expected result.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) golden: Option<PathBuf>,

    /// Overwrite the golden files with the current results; in a crate also the schema of the configuration, if it is old.
    #[arg(short, long)]
    pub(crate) update: bool,

    /// Allow writes only to this path and below it, like `allow` in chain.yaml; repeat it for several paths.
    #[arg(long = "allow", value_name = "PATH", conflicts_with = "chain")]
    pub(crate) allow: Vec<String>,

    /// Use the rights, configuration and limits of the plugin's entry in this chain.yaml. `match`, `failurePolicy` and `sha256`
    /// are ignored. In a crate, by default its directory bundle.
    #[arg(long, value_name = "FILE|DIR")]
    pub(crate) chain: Option<PathBuf>,

    /// The name of the entry in --chain; by default the entry whose `file` is the name of the plugin file.
    #[arg(long, value_name = "NAME", requires = "chain")]
    pub(crate) entry: Option<String>,

    /// Do not require that the plugin is idempotent, like `idempotent: false` in chain.yaml.
    #[arg(long)]
    pub(crate) not_idempotent: bool,

    /// The namespace of pods without metadata.namespace.
    #[arg(short, long, default_value = "default", value_parser = namespace)]
    pub(crate) namespace: String,

    /// The output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: CheckFormat,
}

const TEST_EXAMPLES: &str = "\
Examples:
  # In the crate of a plugin: build it, and run it on its cases; when the results are right, write them as golden files
  podloom plugin test
  podloom plugin test --update

  # A plugin file alone
  podloom plugin test my-plugin.wasm --pod pod.yaml
  podloom plugin test target/plugins/labels.wasm.gz --pod pod.yaml --config config.yaml
  podloom render -f browsers.yaml | podloom plugin test my-plugin.wasm --pod -

  # Test with the rights and the configuration of a chain, or with given rights
  podloom plugin test bundle/my-plugin.wasm.gz --chain bundle --pod pod.yaml
  podloom plugin test my-plugin.wasm --allow '/spec/containers/*/env' --pod pod.yaml

  # What would it say to kubectl debug, or to a new image?
  podloom plugin test my-plugin.wasm --pod pod.yaml --ephemeral debugger.yaml
  podloom plugin test my-plugin.wasm --pod new.yaml --before old.yaml

  # Run all cases of a directory
  podloom plugin test bundle/my-plugin.wasm.gz --chain bundle --cases cases

  # Build the plugin of this crate, and run it on its cases and on what a company runs
  podloom plugin test --corpus corpus

  # In CI
  podloom plugin test -o junit >junit.xml";

/// Names that rustc, cargo or the crate's dependencies already use.
const TAKEN: &str = "abstract alloc as async await become box break const continue core crate do dyn else enum extern false final \
     fn for gen if impl in let loop macro match mod move mut override podloom-plugin-sdk priv proc-macro pub ref return self serde \
     static std struct super test trait true try type typeof unsafe unsized use virtual where while yield";

/// Parses a plugin's name: a DNS label that starts with a letter, as a package name must.
fn plugin_name(text: &str) -> Result<String, String> {
    if !is_dns_label(text) || !text.starts_with(|first: char| first.is_ascii_lowercase()) {
        return Err(
            "use 1 to 63 lower-case letters, digits and dashes; start with a letter and do not end with a dash"
                .to_owned(),
        );
    }
    if TAKEN.split_whitespace().any(|taken| taken == text) {
        return Err(format!(
            "{text} is reserved in Rust; use another name, for example {text}-plugin"
        ));
    }
    Ok(text.to_owned())
}
