//! The pod of a Browser, from its effective configuration.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, SecurityContext};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use podloom_api::{
    BrowserSpec, ContainerRestartPolicy, ImagePullPolicy, SelenosisApi, SelenosisKind,
    SidecarContainer, names,
};

use super::merge::EffectiveConfig;
use super::options::{NEVER_COPIED, Options, OptionsError, check_copied};
use super::resolve::Resolved;

/// Why no pod can be made although there is a configuration: the Browser itself asks for something impossible.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The session's options cannot be read, or they or the Browser's metadata ask for more than is allowed.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The Browser has no name, as only a file can.
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
    Ok(Pod {
        metadata: ObjectMeta {
            name: metadata.name.clone(),
            namespace: metadata.namespace.clone(),
            labels: Some(labels(name, metadata, browser, config, &options)),
            annotations: annotations(metadata, config),
            owner_references: owner(api, name, metadata).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(pod_spec(name, config, &options)),
        status: None,
    })
}

/// Returns the three labels that name a Browser, on it and on its pod.
pub fn browser_labels(name: &str, browser: &BrowserSpec) -> [(&'static str, String); 3] {
    [
        (names::label::BROWSER, names::label_value(name)),
        (
            names::label::BROWSER_NAME,
            names::label_value(&browser.browser_name),
        ),
        (
            names::label::BROWSER_VERSION,
            names::label_value(&browser.browser_version),
        ),
    ]
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

fn pod_spec(name: &str, config: &EffectiveConfig, options: &Options) -> PodSpec {
    let settings = &config.settings;
    let with_options = |mut container: Container| {
        options.apply(&mut container);
        container
    };
    let sidecars = settings.sidecars.iter().flatten().map(container);
    let init = settings
        .init_containers
        .as_ref()
        .map(|init| init.iter().map(container).map(with_options).collect());
    PodSpec {
        hostname: Some(hostname(name)),
        restart_policy: Some("Never".to_owned()),
        containers: std::iter::once(browser_container(config))
            .chain(sidecars)
            .map(with_options)
            .collect(),
        init_containers: init,
        volumes: settings.volumes.clone(),
        node_selector: settings.node_selector.clone(),
        affinity: settings.affinity.clone(),
        tolerations: settings.tolerations.clone(),
        host_aliases: settings.host_aliases.clone(),
        image_pull_secrets: settings.image_pull_secrets.clone(),
        dns_config: settings.dns_config.clone(),
        security_context: settings.security_context.clone(),
        ..PodSpec::default()
    }
}

fn browser_container(config: &EffectiveConfig) -> Container {
    let settings = &config.settings;
    let privileged = settings.privileged.unwrap_or_default();
    Container {
        name: names::container::BROWSER.to_owned(),
        image: Some(config.image.clone()),
        image_pull_policy: pull_policy(settings.image_pull_policy),
        command: settings.command.clone(),
        args: settings.args.clone(),
        working_dir: settings.working_dir.clone(),
        env: settings.env.clone(),
        resources: settings.resources.clone(),
        volume_mounts: settings.volume_mounts.clone(),
        security_context: privileged.then(|| SecurityContext {
            privileged: Some(true),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}

fn container(sidecar: &SidecarContainer) -> Container {
    Container {
        name: sidecar.name.clone(),
        image: Some(sidecar.image.clone()),
        image_pull_policy: pull_policy(sidecar.image_pull_policy),
        command: sidecar.command.clone(),
        args: sidecar.args.clone(),
        working_dir: sidecar.working_dir.clone(),
        ports: sidecar.ports.clone(),
        env: sidecar.env.clone(),
        resources: sidecar.resources.clone(),
        volume_mounts: sidecar.volume_mounts.clone(),
        security_context: sidecar.security_context.clone(),
        restart_policy: sidecar
            .restart_policy
            .map(ContainerRestartPolicy::as_str)
            .map(str::to_owned),
        ..Container::default()
    }
}

fn pull_policy(policy: Option<ImagePullPolicy>) -> Option<String> {
    policy.map(ImagePullPolicy::as_str).map(str::to_owned)
}

/// The Browser's, then the configuration's, then the session's; the three that name the Browser come last, so that nothing changes them.
fn labels(
    name: &str,
    metadata: &ObjectMeta,
    browser: &BrowserSpec,
    config: &EffectiveConfig,
    options: &Options,
) -> BTreeMap<String, String> {
    let mut labels = metadata.labels.clone().unwrap_or_default();
    labels.extend(config.settings.labels.clone().unwrap_or_default());
    labels.extend(options.labels.clone());
    let fixed = browser_labels(name, browser);
    labels.extend(fixed.map(|(key, value)| (key.to_owned(), value)));
    labels
}

/// The Browser's, then the configuration's.
fn annotations(
    metadata: &ObjectMeta,
    config: &EffectiveConfig,
) -> Option<BTreeMap<String, String>> {
    let mut annotations = metadata.annotations.clone().unwrap_or_default();
    annotations.extend(config.settings.annotations.clone().unwrap_or_default());
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

#[cfg(test)]
mod tests;
