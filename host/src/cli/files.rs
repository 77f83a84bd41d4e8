//! The arguments of `podloom render` and `podloom infra`, which read manifests.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};

use super::{ReportFile, TunnelArguments, namespace};
use crate::manifest::NamedTemplate;

/// Render manifests offline into the pods that the operator would create.
///
/// For a Browser, its final pod is printed. A BrowserConfig in the Browser's namespace configures the pod, so pass that file too.
/// For a PortalExpose, the Deployment of its tunnel is printed, as an operator makes it that has the same flags for tunnels. It needs
/// a TunnelClass.
/// Pods and pod templates (of Deployments, CronJobs, ...) are passed through the plugin chain.
/// All other objects are printed as they were written, with their comments; the items of a List, and JSON, are reformatted. Each
/// object is printed where it stood among the others. Plugins can read the labels and annotations of Namespaces.
/// What is needed but must not be printed is given with --context.
/// A pod template in one of these objects is a warning, since no plugin sees it.
///
/// If any object has an error or is rejected by a plugin, the errors of all objects are listed on standard error, and no object is
/// printed. Browsers are not rendered while a file cannot be read or a BrowserConfig has errors, so their own pods may have more.
#[derive(Args, Debug)]
#[command(after_long_help = RENDER_EXAMPLES)]
#[command(group = ArgGroup::new("input").required(true).multiple(true).args(["files", "kustomizations"]))]
pub(crate) struct RenderArguments {
    /// Files or directories with YAML or JSON; - reads standard input.
    #[arg(short, long = "filename", value_name = "FILE", num_args = 1..)]
    pub(crate) files: Vec<String>,

    /// Directories with a kustomization.yaml. They are built with kubectl kustomize, or kustomize build if there is no kubectl.
    #[arg(short = 'k', long = "kustomize", value_name = "DIR", num_args = 1..)]
    pub(crate) kustomizations: Vec<String>,

    /// Files or directories with objects that are needed to render the others, and are not printed: Namespaces, BrowserConfigs,
    /// TunnelClasses and Services. An object that -f or -k gives too is printed.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) context: Vec<String>,

    /// Read subdirectories too.
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,

    /// The namespace of objects without metadata.namespace.
    #[arg(short, long, default_value = "default", value_parser = namespace)]
    pub(crate) namespace: String,

    /// The directory of the plugin chain: chain.yaml and the plugin files. Without it no plugin runs.
    #[arg(short, long, value_name = "DIR", env = "PODLOOM_PLUGINS")]
    pub(crate) plugins: Option<PathBuf>,

    /// A file with Pods as they are now. A Pod of the same name that is rendered is a change of that one: only plugins run on it that
    /// have UPDATE in match.operations.
    #[arg(long, value_name = "FILE")]
    pub(crate) before: Option<String>,

    /// A file with ephemeral containers, each a document or all in a list. Each Pod that is rendered exists already and gets them, as by
    /// kubectl debug.
    #[arg(long, value_name = "FILE", conflicts_with = "before")]
    pub(crate) ephemeral: Option<String>,

    /// Where objects of an unknown kind have a pod template, as GROUP/KIND=/path. In the path, * is every element of a list. Repeat
    /// the option for several templates. An empty path (GROUP/KIND=) says that the kind has none.
    #[arg(long = "pod-template", value_name = "TEMPLATE", value_parser = NamedTemplate::parse)]
    pub(crate) pod_templates: Vec<NamedTemplate>,

    /// Print only the objects that the chain changes, the pods of Browsers and the Deployments of PortalExposes.
    #[arg(long)]
    pub(crate) only_changed: bool,

    /// Print Browsers and PortalExposes as they are, for kubectl apply and as a Helm post-renderer: the operator makes their pods.
    /// They are still checked and passed through the chain.
    #[arg(long, conflicts_with = "diff")]
    pub(crate) no_expand: bool,

    /// Treat warnings as errors, also those of plugins: print no object if there are any.
    #[arg(long)]
    pub(crate) strict: bool,

    /// Show on standard error what each plugin changed in each pod, with all of its notes. Without it, a note is shown once for all pods
    /// that have it. With -o json, this is one JSON object, which has the warnings and errors too.
    #[arg(short, long)]
    pub(crate) explain: bool,

    /// Instead of the objects, print what the chain changes in each: a diff of its YAML with sorted keys. For a Browser, the diff of
    /// its pod; for a PortalExpose, of its Deployment.
    #[arg(long, conflicts_with = "output")]
    pub(crate) diff: bool,

    /// The output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml")]
    pub(crate) output: RenderFormat,

    #[command(flatten)]
    pub(crate) tunnel: TunnelArguments,
}

const RENDER_EXAMPLES: &str = "\
Examples:
  # Render all manifests of a directory
  podloom render -f deploy/examples --plugins target/plugins

  # Show only what the plugins changed
  podloom render -f browser.yaml -f config.yaml --plugins target/plugins --explain >/dev/null
  podloom render -f deployment.yaml --plugins target/plugins --diff

  # Pass other pod templates through the chain, here those of a Helm chart; its other objects are passed on
  helm template shop ./chart | podloom render -f - --no-expand --plugins target/plugins | kubectl apply -f -

  # The labels of a Namespace that somebody else applies, and a BrowserConfig from elsewhere
  podloom render -f browser.yaml --context namespace.yaml configs/ --plugins target/plugins

  # Pass the pod templates of kinds through the chain that podloom does not know
  podloom render -f jobs.yaml --plugins target/plugins \\
    --pod-template keda.sh/ScaledJob=/spec/jobTargetRef/template \\
    --pod-template jobset.x-k8s.io/JobSet='/spec/replicatedJobs/*/template/spec/template'

  # In CI: fail if a pod is not seen by the chain, and keep a report
  podloom render -k deploy -p target/plugins --strict --explain -o json >pods.json 2>report.json
  podloom render -f deploy -p target/plugins -o sarif >podloom.sarif";

/// The format in which objects are printed, or what is found in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RenderFormat {
    /// One document per object.
    Yaml,
    /// One object, or a List if there are several.
    Json,
    /// No object, but the errors, warnings and notes, for code scanning.
    Sarif,
    /// No object, but a test for each, which fails by errors, for lists of tests.
    Junit,
}

impl RenderFormat {
    pub(crate) const fn report(self) -> Option<ReportFile> {
        match self {
            Self::Yaml | Self::Json => None,
            Self::Sarif => Some(ReportFile::Sarif),
            Self::Junit => Some(ReportFile::Junit),
        }
    }
}

/// The format in which objects are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One document per object.
    Yaml,
    /// One object, or a List if there are several.
    Json,
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
#[command(after_long_help = INFRA_EXAMPLES)]
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

const INFRA_EXAMPLES: &str = "\
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
