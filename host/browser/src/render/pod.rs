//! The pod of a Browser, from its effective configuration.

use std::collections::BTreeMap;
use std::io;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, SecurityContext};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use podloom_api::{
    BrowserConfigSpec, BrowserSpec, PodSettings, SelenosisApi, SelenosisKind, SidecarContainer,
    VersionConfig, Versions, names,
};
use podloom_mutation::named_owner;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::merge::EffectiveConfig;
use super::options::{NEVER_COPIED, Options, OptionsError, check_copied};
use super::resolve::Resolved;

/// Why no pod can be made though there is a configuration: what the Browser itself asks for is invalid.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The session's options are invalid, or they or the Browser's metadata ask for more than is allowed.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The Browser has no name. Only a file can lack it.
    #[error("the Browser has no name, give it a metadata.name")]
    Unnamed,
}

/// Makes the pod of a Browser, as it is before any plugin sees it.
///
/// `api` is the set of groups that the Browser is served in; its owner reference needs it.
/// A Browser without UID, as files have it, gives a pod without owner.
pub fn render_pod(
    api: SelenosisApi,
    metadata: &ObjectMeta,
    browser: &BrowserSpec,
    resolved: &Resolved<'_>,
) -> Result<Pod, RenderError> {
    let name = metadata.name.as_deref().ok_or(RenderError::Unnamed)?;
    let options = Options::read(metadata)?;
    options.check(resolved)?;
    check_copied(metadata, resolved)?;
    let config = &resolved.effective;
    let settings = &config.settings;
    Ok(Pod {
        metadata: ObjectMeta {
            name: metadata.name.clone(),
            namespace: metadata.namespace.clone(),
            labels: Some(labels(name, metadata, browser, settings, &options)),
            annotations: annotations(metadata, settings),
            owner_references: owner(api, name, metadata).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(pod_spec(name, config.clone(), &options)),
        status: None,
    })
}

/// Returns whose pod that of a session is, as `podloom_mutation::owner_of` writes it: all sessions of one browser and version of a
/// namespace belong together. None without the labels of a session.
pub fn owner_of_session(pod: &Value, namespace: &str) -> Option<String> {
    let labels = pod.get("metadata")?.get("labels")?;
    let label = |key: &str| labels.get(key)?.as_str();
    let browser = label(names::label::BROWSER_NAME)?;
    let version = label(names::label::BROWSER_VERSION)?;
    Some(named_owner(
        SelenosisKind::Browser.name(),
        namespace,
        &format!("{browser}:{version}"),
    ))
}

/// Returns the three labels that identify a Browser and its pod.
pub fn browser_labels(name: &str, browser: &BrowserSpec) -> [(&'static str, String); 3] {
    // A new field that is no label belongs into the pod's spec: give it to `pod_spec`.
    let BrowserSpec {
        browser_name,
        browser_version,
    } = browser;
    [
        (names::label::BROWSER, name),
        (names::label::BROWSER_NAME, browser_name),
        (names::label::BROWSER_VERSION, browser_version),
    ]
    .map(|(label, value)| (label, names::label_value(value)))
}

/// Returns a Browser's name as a host name: dots become dashes, as a host name is a single label, and what is too long is cut.
pub fn hostname(name: &str) -> String {
    let label: String = name
        .chars()
        .map(|c| if c == '.' { '-' } else { c })
        .take(63)
        .collect();
    label.trim_matches('-').to_owned()
}

/// Names every field of the configuration, so that a new one does not compile until it has its place in the pod.
pub(super) fn pod_spec(name: &str, config: EffectiveConfig, options: &Options) -> PodSpec {
    let VersionConfig { image, settings } = config;
    let PodSettings {
        // They are in the pod's metadata.
        labels: _,
        annotations: _,
        env,
        resources,
        image_pull_policy,
        volumes,
        volume_mounts,
        node_selector,
        affinity,
        tolerations,
        host_aliases,
        init_containers,
        sidecars,
        privileged,
        image_pull_secrets,
        dns_config,
        security_context,
        working_dir,
        command,
        args,
    } = settings;
    let browser = SidecarContainer {
        name: names::container::BROWSER.to_owned(),
        image,
        command,
        args,
        working_dir,
        ports: None,
        env,
        volume_mounts,
        image_pull_policy,
        resources,
        security_context: privileged.unwrap_or_default().then(as_privileged),
        restart_policy: None,
    };
    let render = |it| container(it, options);
    let containers = std::iter::once(browser).chain(sidecars.into_iter().flatten());
    PodSpec {
        hostname: Some(hostname(name)),
        restart_policy: Some("Never".to_owned()),
        containers: containers.map(render).collect(),
        init_containers: init_containers.map(|init| init.into_iter().map(render).collect()),
        volumes,
        node_selector,
        affinity,
        tolerations,
        host_aliases,
        image_pull_secrets,
        dns_config,
        security_context,
        ..PodSpec::default()
    }
}

/// Names every field, as [`pod_spec`] does. The browser is a container like the others.
fn container(container: SidecarContainer, options: &Options) -> Container {
    let SidecarContainer {
        name,
        image,
        command,
        args,
        working_dir,
        ports,
        env,
        volume_mounts,
        image_pull_policy,
        resources,
        security_context,
        restart_policy,
    } = container;
    let mut container = Container {
        name,
        image: Some(image),
        command,
        args,
        working_dir,
        ports,
        env,
        volume_mounts,
        image_pull_policy: image_pull_policy.map(|policy| policy.as_str().to_owned()),
        resources,
        security_context,
        restart_policy: restart_policy.map(|policy| policy.as_str().to_owned()),
        ..Container::default()
    };
    options.apply(&mut container);
    container
}

fn as_privileged() -> SecurityContext {
    SecurityContext {
        privileged: Some(true),
        ..SecurityContext::default()
    }
}

/// The Browser's, then the configuration's, then the session's; the three that name the Browser come last, so that nothing
/// changes them.
fn labels(
    name: &str,
    metadata: &ObjectMeta,
    browser: &BrowserSpec,
    settings: &PodSettings,
    options: &Options,
) -> BTreeMap<String, String> {
    let mut labels = metadata.labels.clone().unwrap_or_default();
    labels.extend(settings.labels.clone().unwrap_or_default());
    labels.extend(options.labels.clone());
    let fixed = browser_labels(name, browser);
    labels.extend(fixed.map(|(key, value)| (key.to_owned(), value)));
    // What looks like a warm pod would be nobody's, and only the host puts a pod behind the NetworkPolicy of a session.
    labels.remove(names::label::WARM);
    labels.remove(names::label::SESSION);
    labels
}

/// The Browser's, then the configuration's.
fn annotations(metadata: &ObjectMeta, settings: &PodSettings) -> Option<BTreeMap<String, String>> {
    let mut annotations = metadata.annotations.clone().unwrap_or_default();
    annotations.extend(settings.annotations.clone().unwrap_or_default());
    for key in NEVER_COPIED {
        annotations.remove(key);
    }
    (!annotations.is_empty()).then_some(annotations)
}

fn owner(api: SelenosisApi, name: &str, metadata: &ObjectMeta) -> Option<OwnerReference> {
    let resource = api.resource(SelenosisKind::Browser);
    metadata.uid.as_ref().map(|uid| OwnerReference {
        api_version: resource.api_version,
        kind: resource.kind,
        name: name.to_owned(),
        uid: uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    })
}

// The hash of a BrowserConfig's merged configuration.

/// Finishes the hash that `status.version` publishes: 16 hex digits over the JSON of the merged configuration.
///
/// It changes when any pod would, and not when a setting only moves from the template into the versions.
pub(super) fn version_of(hash: Sha256) -> String {
    let digest = hash.finalize();
    digest
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Tells versions apart by what their pods are made from, without their names.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EffectiveDigest {
    sha256: [u8; 32],
    /// How many bytes of JSON the version has once it is merged.
    pub(crate) bytes: usize,
}

impl EffectiveDigest {
    pub(crate) fn of(effective: &EffectiveConfig) -> Self {
        let text = sorted(effective);
        Self {
            sha256: Sha256::digest(&text).into(),
            bytes: text.len(),
        }
    }
}

/// A value as JSON whose fields are in order of their names.
pub(super) fn sorted(value: impl Serialize) -> String {
    serde_json::json!(value).to_string()
}

// How large a BrowserConfig is once it is merged.

/// Returns how many bytes a BrowserConfig has once each version is merged over the template.
///
/// Accepting it takes time in proportion, and 1 MiB of manifest can become gigabytes.
pub fn merged_size(spec: &BrowserConfigSpec) -> usize {
    let versions = spec.browsers.values().map(Versions::len).sum();
    size(&spec.template)
        .saturating_mul(versions)
        .saturating_add(size(&spec.browsers))
}

/// How many bytes of JSON a value has.
fn size(value: &impl Serialize) -> usize {
    let mut bytes = Count(0);
    // Nothing fails: counting does not, and neither do maps with texts as keys.
    let _ = serde_json::to_writer(&mut bytes, value);
    bytes.0
}

struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
