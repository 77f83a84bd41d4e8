//! What users configure, in Kubernetes' own words.

use std::collections::BTreeMap;

use podloom_plugin_sdk::prelude::*;
use podloom_plugin_sdk::serde::de::{self, Deserializer};

/// The version since which probes and hooks must not name a host.
pub(crate) const PROBE_HOSTS: u16 = 34;

/// Configuration of the plugin hardening. Everything is optional.
#[derive(Deserialize, Default, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// Say what happens to a pod that does not meet the profile. Default: `enforce`.
    pub mode: Mode,

    /// Choose the Pod Security Standard that pods shall meet. Default: `restricted`.
    pub profile: Profile,

    /// Choose the version of the standard: `latest`, or `v1.24` and the like, as in the namespace label
    /// `pod-security.kubernetes.io/enforce-version`. Default: `latest`.
    pub version: Version,

    /// Rewrite explicit settings that violate the profile, where they can be rewritten, instead of refusing them.
    /// Default: false.
    pub force: bool,

    /// Give pods that name no user this one. An image whose user is a name or root does not start under
    /// `runAsNonRoot` without. Default: none.
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub run_as_user: Option<i64>,

    /// Give pods that name no primary group this one. Default: none.
    #[schemars(range(min = 0, max = 2_147_483_647))]
    pub run_as_group: Option<i64>,

    /// Give pods that name no group for their volumes this one. Default: none.
    #[schemars(range(min = 0, max = 2_147_483_647))]
    pub fs_group: Option<i64>,

    /// Give pods and containers without a seccomp profile this one, also where the profile does not ask for any.
    /// Default: `RuntimeDefault` where the profile asks for one, else none.
    pub seccomp_profile: Option<SeccompProfile>,

    /// Make the root file system of containers read-only, unless they say otherwise, and give them writable directories.
    /// Default: left alone.
    pub read_only_root_filesystem: Option<ReadOnlyRoot>,

    /// Set to false to keep the service account's token out of pods that neither ask for it nor mount one.
    /// See `namedAccounts` for pods that name a service account. Default: left alone.
    pub automount_service_account_token: Option<bool>,

    /// Choose what `automountServiceAccountToken: false` does with pods that name a service account other than `default`:
    /// with `keep` they have their token, with `deny` they get none unless they ask for it. No pod is refused for this.
    /// Default: `keep`.
    pub named_accounts: Option<NamedAccounts>,

    /// Set to false to keep the addresses of all Services of the namespace out of the environment of pods that do not say.
    /// Default: left alone.
    pub enable_service_links: Option<bool>,

    /// Choose what happens to ephemeral containers, such as those of `kubectl debug`, in a chain that runs the plugin on `UPDATE` too:
    /// with `check` they must meet the profile as they are, with `harden` what is absent is filled in. Default: `check`.
    pub ephemeral_containers: EphemeralContainers,

    /// Name what is spared, each with a reason. Default: nothing.
    pub exemptions: Vec<Exemption>,

    /// Choose what beyond the profile is reported as a note. Nothing of it is changed or refused. Default: nothing.
    pub report: Vec<Report>,

    /// The fields of a pod that matter.
    #[serde(skip)]
    pub(crate) fields: Vec<&'static str>,
}

impl Config {
    /// Whether an exemption depends on the pod's labels.
    pub(crate) fn asks_for_labels(&self) -> bool {
        let mut exemptions = self.exemptions.iter();
        exemptions.any(|exemption| !exemption.match_labels.is_empty())
    }
}

/// What happens to a pod that does not meet the profile.
#[derive(Clone, Copy, Deserialize, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// Nothing is read, nothing is written.
    Off,
    /// Nothing is written; a note says for each setting what is wrong, or would be written.
    Warn,
    /// What is absent is filled in. What explicitly violates the profile is noted, and the pod let through.
    Mutate,
    /// What is absent is filled in. What explicitly violates the profile is refused, all reasons at once.
    #[default]
    Enforce,
}

/// What happens to an ephemeral container that is added to a pod.
#[derive(Clone, Copy, Deserialize, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum EphemeralContainers {
    /// It must meet the profile as it is.
    #[default]
    Check,
    /// What is absent is filled in.
    Harden,
}

/// What happens to the token of a service account that the pod names. The pod itself is let through in any case.
#[derive(Clone, Copy, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum NamedAccounts {
    /// The pod is left alone, with a note: most pods that name an account use the Kubernetes API.
    Keep,
    /// The pod is denied the token, as with the account `default`. Pods that use the Kubernetes API must ask for it.
    Deny,
}

/// A Pod Security Standard.
#[derive(Clone, Copy, Deserialize, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Profile {
    /// Prevents known ways to gain privileges.
    Baseline,
    /// What is known today about hardening pods.
    #[default]
    Restricted,
}

/// A version of the standard: the minor number of a Kubernetes release.
#[derive(Clone, Copy, JsonSchema)]
#[schemars(extend("pattern" = r"^(latest|v1\.(0|[1-9][0-9]{0,2}))$"))]
pub struct Version(#[schemars(with = "String")] pub u16);

impl Default for Version {
    fn default() -> Self {
        Self(u16::MAX)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "latest" {
            return Ok(Self::default());
        }
        // Its pattern is checked before.
        let minor = text.strip_prefix("v1.").map(str::parse);
        minor
            .and_then(Result::ok)
            .map(Self)
            .ok_or_else(|| de::Error::custom("no version of the standard"))
    }
}

/// A seccomp profile.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SeccompProfile {
    /// Name the kind of profile.
    pub r#type: SeccompType,
    /// Name the profile's file on the node, for `Localhost` alone.
    pub localhost_profile: Option<String>,
}

/// The kinds of seccomp profile that the standards allow.
#[derive(Clone, Copy, Deserialize, PartialEq, Eq, JsonSchema)]
pub enum SeccompType {
    /// That of the container runtime.
    RuntimeDefault,
    /// A file on the node.
    Localhost,
}

/// What comes with a read-only root file system.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReadOnlyRoot {
    /// Mount an empty directory at each of these paths, a volume of its own for each container. It hides what the image
    /// has there. A path at or below an existing mount gets none. Default: `/tmp`, `/var/run` and `/var/cache`, 64Mi each.
    pub empty_dirs: Option<Vec<EmptyDir>>,
    /// Say whether the annotation `cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes` names these directories, so that
    /// they do not keep the cluster autoscaler from removing a node. Default: true where the chain grants the annotation.
    pub safe_to_evict: Option<bool>,
}

/// A writable directory.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EmptyDir {
    /// Name the path in the container.
    pub mount_path: String,
    /// Limit its size: beyond, the pod is evicted. Default: `64Mi`.
    pub size_limit: Option<String>,
    /// Restrict it to containers whose image matches one of these; `*` stands for any text. Default: all.
    #[serde(default)]
    pub images: Vec<String>,
}

/// What is spared. All that is given must hold.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Exemption {
    /// Say why. Goes into a note on each pod that is spared.
    pub reason: String,
    /// Restrict it to these namespaces; `*` stands for any text. Default: all.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// Restrict it to pods of these service accounts; `*` stands for any text. Default: all.
    #[serde(default)]
    pub service_accounts: Vec<String>,
    /// Restrict it to pods with these labels. Who may create pods may set labels: prefer namespaces. Default: all.
    #[serde(default)]
    pub match_labels: BTreeMap<String, String>,
    /// Spare only containers of these names; `*` stands for any text. Default: the whole pod.
    #[serde(default)]
    pub containers: Vec<String>,
}

/// What is reported beyond the profile.
#[derive(Clone, Copy, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Report {
    /// Containers without requests and limits.
    Resources,
    /// Images with the tag `latest`, or with none.
    LatestTag,
    /// Images that are not pinned by a digest.
    Digest,
    /// Images that are not pinned by a digest and whose pull policy is not `Always`: a node may run an old copy.
    PullPolicy,
    /// Pods that do not run in a user namespace (`hostUsers: false`).
    HostUsers,
    /// Containers that run as a user, but in no chosen group (`runAsUser` without `runAsGroup`): a user that the image does not
    /// know is then in group 0.
    RootGroup,
}

/// Everything that is wrong with a configuration and that its schema does not say.
pub(crate) fn errors(config: &Config) -> Vec<String> {
    let mut errors = Vec::new();
    if config.automount_service_account_token == Some(true) {
        errors.push("automountServiceAccountToken: only false is a hardening: leave it out to let the pod and its service account decide".to_owned());
    }
    if config.named_accounts.is_some() && config.automount_service_account_token.is_none() {
        errors.push("namedAccounts: has no effect without automountServiceAccountToken: false: add that, or remove this".to_owned());
    }
    if config.enable_service_links == Some(true) {
        errors.push(
            "enableServiceLinks: only false is a hardening: leave it out to let the pod decide"
                .to_owned(),
        );
    }
    if let Some(seccomp) = &config.seccomp_profile {
        validate_seccomp(seccomp, &mut errors);
    }
    if let Some(read_only) = &config.read_only_root_filesystem {
        for directory in read_only.empty_dirs.iter().flatten() {
            validate_empty_dir(directory, &mut errors);
        }
    }
    for exemption in &config.exemptions {
        validate_exemption(exemption, &mut errors);
    }
    errors
}

fn validate_seccomp(seccomp: &SeccompProfile, errors: &mut Vec<String>) {
    let complaint = match (seccomp.r#type, seccomp.localhost_profile.as_deref()) {
        (SeccompType::RuntimeDefault, Some(_)) => {
            "only a profile of type Localhost has a file: remove it"
        }
        (SeccompType::Localhost, None) => {
            "a profile of type Localhost needs the file's path below the kubelet's seccomp directory"
        }
        (SeccompType::Localhost, Some(file))
            if file.is_empty()
                || file.starts_with('/')
                || file.split('/').any(|part| part == "..")
                || !is_plain(file) =>
        {
            "must be a path below the kubelet's seccomp directory, without quotes, backslashes, control characters or parts .."
        }
        _ => return,
    };
    errors.push(format!("seccompProfile.localhostProfile: {complaint}"));
}

fn validate_empty_dir(directory: &EmptyDir, errors: &mut Vec<String>) {
    let path = &directory.mount_path;
    let mut complain = |complaint: &str| {
        errors.push(format!(
            "readOnlyRootFilesystem.emptyDirs: {path}: {complaint}"
        ));
    };
    if !path.starts_with('/') || path.trim_end_matches('/').is_empty() {
        complain("mountPath must be an absolute path below the root");
    }
    if path.contains(':') || !is_plain(path) {
        complain("mountPath must have no colon, quote, backslash or control character");
    }
    if directory
        .size_limit
        .as_deref()
        .is_some_and(|size| !is_size(size))
    {
        complain("sizeLimit must be a quantity of bytes, such as 64Mi");
    }
}

fn validate_exemption(exemption: &Exemption, errors: &mut Vec<String>) {
    if exemption.reason.trim().is_empty() {
        errors.push("exemptions: each needs a reason".to_owned());
    }
    let dimensions = [
        &exemption.namespaces,
        &exemption.service_accounts,
        &exemption.containers,
    ];
    if dimensions.iter().all(|names| names.is_empty()) && exemption.match_labels.is_empty() {
        errors.push(
            "exemptions: one without namespaces, serviceAccounts, matchLabels and containers spares everything: use mode off for that"
                .to_owned(),
        );
    }
}

/// Whether text has no quotes, backslashes or control characters.
fn is_plain(text: &str) -> bool {
    text.chars()
        .all(|character| !character.is_control() && character != '"' && character != '\\')
}

/// Whether text is a whole number of bytes, of at most twelve digits, with a suffix that Kubernetes knows.
fn is_size(text: &str) -> bool {
    let suffix = text.trim_start_matches(|character: char| character.is_ascii_digit());
    let digits = text.len() - suffix.len();
    (1..=12).contains(&digits)
        && ["", "k", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "Pi"].contains(&suffix)
}
