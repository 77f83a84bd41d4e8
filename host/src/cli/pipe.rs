//! The arguments of the commands that other tools call: `podloom post-render` and `podloom fn`.

use std::path::PathBuf;

use clap::Args;

use super::namespace;
use crate::manifest::NamedTemplate;

/// Pass manifests on standard input through a plugin chain, and print them: for Helm.
///
/// As podloom render -f - --no-expand. With Helm 4, hooks of a chart pass too.
///
/// Helm does not tell a post-renderer the namespace of the release, so objects without metadata.namespace are passed as those of
/// HELM_NAMESPACE or --namespace; plugins that go by namespaces need it. Helm 4 does not show what a plugin says: to see why it failed,
/// use helm template ... | podloom render -f - --no-expand. A program of the name podloom-post-renderer, for example a link to this one,
/// is this command.
#[derive(Args, Debug)]
#[command(after_long_help = POST_RENDER_EXAMPLES)]
pub(crate) struct PostRenderArguments {
    /// The directory of the plugin chain: chain.yaml and the plugin files.
    #[arg(short, long, value_name = "DIR", env = "PODLOOM_PLUGINS")]
    pub(crate) plugins: PathBuf,

    /// The namespace of objects without metadata.namespace.
    #[arg(short, long, default_value = "default", env = "HELM_NAMESPACE", value_parser = namespace)]
    pub(crate) namespace: String,

    #[command(flatten)]
    pub(crate) needed: NeededArguments,

    /// Treat warnings as errors, also those of plugins: print no object if there are any.
    #[arg(long)]
    pub(crate) strict: bool,
}

/// What the objects alone do not say.
#[derive(Args, Clone, Debug)]
pub(crate) struct NeededArguments {
    /// Files or directories with objects that are needed to check the others, and are not printed: Namespaces, BrowserConfigs,
    /// TunnelClasses and Services.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) context: Vec<String>,

    /// Where objects of an unknown kind have a pod template, as GROUP/KIND=/path; see podloom render --help.
    #[arg(long = "pod-template", value_name = "TEMPLATE", value_parser = NamedTemplate::parse)]
    pub(crate) pod_templates: Vec<NamedTemplate>,
}

const POST_RENDER_EXAMPLES: &str = "\
Examples:
  # Helm 3
  export PODLOOM_PLUGINS=$PWD/my-chain HELM_NAMESPACE=shop
  helm upgrade --install shop ./chart -n shop --post-renderer podloom --post-renderer-args post-render

  # Helm 4, with the same variables: install the plugin once
  helm plugin install deploy/helm-plugin
  helm upgrade --install shop ./chart -n shop --post-renderer podloom";

/// Pass the items of a ResourceList on standard input through a plugin chain, and print it: a KRM function, for kustomize and kpt.
///
/// The results name each item, field and file that has an error, a warning or a note of a plugin. If an item has an error, the items are
/// printed as they came, and the exit code is 1.
#[derive(Args, Debug)]
#[command(after_long_help = FN_EXAMPLES)]
pub(crate) struct FnArguments {
    /// The directory of the plugin chain. Without it, that of data.plugins of the functionConfig. kustomize takes both as relative to
    /// the directory of the kustomization.
    #[arg(short, long, value_name = "DIR", env = "PODLOOM_PLUGINS")]
    pub(crate) plugins: Option<PathBuf>,

    /// The namespace of objects without metadata.namespace.
    #[arg(short, long, default_value = "default", value_parser = namespace)]
    pub(crate) namespace: String,

    #[command(flatten)]
    pub(crate) needed: NeededArguments,
}

const FN_EXAMPLES: &str = "\
Examples:
  # kustomization.yaml: transformers: [podloom.yaml]. podloom.yaml:
  #   apiVersion: v1
  #   kind: ConfigMap
  #   metadata:
  #     name: podloom
  #     annotations:
  #       config.kubernetes.io/function: |
  #         exec: {path: podloom, args: [fn]}
  #   data:
  #     plugins: my-chain
  kustomize build --enable-alpha-plugins --enable-exec .

  # kpt
  kpt fn eval shop --exec 'podloom fn --plugins my-chain'";
