//! The arguments of `podloom bundle`.

use std::path::PathBuf;

use clap::Args;

use super::namespace;

/// Make a ConfigMap of a plugin directory, for kubectl.
///
/// The chain is loaded and proved first, as `podloom chain check` does it: what an operator would refuse is refused here.
/// What goes in is chain.yaml and the files that it names, nothing else of the directory.
///
/// A plugin that is not compressed is compressed, as far as that makes it smaller.
/// Then its `file` in chain.yaml ends in .wasm.gz, its `sha256`, if it has one, is that of the compressed file, and all else of
/// the manifest stays as it was written, comments too.
///
/// Standard error tells how large everything is, and whether `kubectl apply` needs --server-side.
/// A ConfigMap holds 1 MiB; a larger bundle is refused, unless --split may make several.
/// The same directory always becomes the same bytes.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct BundleArguments {
    /// The directory with chain.yaml and the plugins.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Where to write; - is standard output.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(crate) output: PathBuf,

    /// The name of the ConfigMap.
    #[arg(long, default_value = "podloom-plugins", value_parser = config_map_name)]
    pub(crate) name: String,

    /// The namespace of the ConfigMap: the operator's.
    #[arg(short, long, value_name = "NS", default_value = "podloom-system", value_parser = namespace)]
    pub(crate) namespace: String,

    /// Make as many ConfigMaps as are needed: NAME, NAME-2, NAME-3, ..., for one projected volume.
    #[arg(long)]
    pub(crate) split: bool,
}

const EXAMPLES: &str = "\
Examples:
  # Into the ConfigMap that the operator mounts: it follows within two minutes
  podloom bundle my-chain | kubectl apply --server-side -f -

  # Into a file, for a repository of manifests
  podloom bundle my-chain -o podloom-plugins.yaml

  # More than 1 MiB
  podloom bundle my-chain --split | kubectl apply --server-side -f -";

/// Room for the number of a ConfigMap of several.
const LONGEST_NAME: usize = 253 - "-999".len();

/// The name of a ConfigMap: parts with dots between them, each like a DNS label, but of any length.
fn config_map_name(text: &str) -> Result<String, &'static str> {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(is_inner)
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    if text.len() <= LONGEST_NAME && text.split('.').all(is_part) {
        return Ok(text.to_owned());
    }
    Err(
        "a ConfigMap's name is at most 249 lower case letters, digits, dashes and dots, and no dash at an end or beside a dot",
    )
}
