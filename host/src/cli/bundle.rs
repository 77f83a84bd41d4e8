//! The arguments of `podloom bundle`.

use std::path::PathBuf;

use clap::Args;
use podloom_syntax::names;

use super::namespace;

/// Pack a plugin directory into a ConfigMap for kubectl apply, or into an image for a registry.
///
/// The chain is checked first, as with `podloom chain check`, so an operator will accept the result.
/// The bundle contains chain.yaml and the files that it names, and no other files of the directory.
///
/// Plugins are compressed if that makes them smaller. For a compressed plugin, the chain.yaml in the bundle
/// names a file that ends in .wasm.gz, and a `sha256` is replaced by the digest of that file. Everything else stays as
/// written, comments too.
///
/// With --oci, an ordinary image with one layer is written, as an OCI image layout in a tar file. Kubernetes mounts it as an image
/// volume. This command uploads nothing: skopeo, oras and crane do.
///
/// Sizes are printed on standard error, with a note if `kubectl apply` needs --server-side.
/// A ConfigMap holds 1 MiB. A larger bundle is an error, unless --split allows several ConfigMaps.
/// The same directory always gives the same output.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct BundleArguments {
    /// The directory with chain.yaml and the plugin files.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// The file to write; - is standard output, which cannot be an image.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(crate) output: PathBuf,

    /// Write an image of this name, with registry and tag, instead of a ConfigMap; repeat it for several names.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["name", "namespace", "split"])]
    pub(crate) oci: Vec<String>,

    /// The name of the ConfigMap.
    #[arg(long, default_value = "podloom-plugins", value_parser = config_map_name)]
    pub(crate) name: String,

    /// The namespace of the ConfigMap; use the operator's own.
    #[arg(short, long, value_name = "NS", default_value = "podloom-system", value_parser = namespace)]
    pub(crate) namespace: String,

    /// Write several ConfigMaps if one is too small: NAME, NAME-2, NAME-3, ... Mount them as one projected volume.
    #[arg(long)]
    pub(crate) split: bool,
}

const EXAMPLES: &str = "\
Examples:
  # Update the ConfigMap that the operator mounts; the operator loads the new chain within two minutes
  podloom bundle my-chain | kubectl apply --server-side -f -

  # Write a file, for a repository of manifests
  podloom bundle my-chain -o podloom-plugins.yaml

  # A bundle of more than 1 MiB
  podloom bundle my-chain --split | kubectl apply --server-side -f -

  # An image for an image volume
  podloom bundle my-chain --oci registry.example.com/podloom-plugins:42 -o podloom-plugins.tar
  skopeo copy oci-archive:podloom-plugins.tar docker://registry.example.com/podloom-plugins:42";

/// Leaves room for the number that --split appends.
const LONGEST_NAME: usize = 253 - "-999".len();

/// The name of a ConfigMap: parts separated by dots, each like a DNS label but of any length.
fn config_map_name(text: &str) -> Result<String, &'static str> {
    if text.len() <= LONGEST_NAME && names::dns_subdomain(text).is_ok() {
        return Ok(text.to_owned());
    }
    Err(
        "use at most 249 lower-case letters, digits, dashes and dots, and start and end each part between dots with a letter or digit",
    )
}
