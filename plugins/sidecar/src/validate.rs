//! What is wrong with a configuration, as far as can be seen without a pod.

use podloom_plugin_sdk::json::Object;
use podloom_plugin_sdk::names as syntax;

use crate::config::{Additions, Config, Placement, Sidecar, VolumeNames};
use crate::containers::overlap;
use crate::{plan, security};

/// What is wrong, and in which part of the configuration.
pub(crate) fn errors(config: &Config) -> Vec<String> {
    let mut errors = Vec::new();
    let mut add = |part: &str, wrong: Vec<String>| {
        errors.extend(wrong.iter().map(|error| format!("{part}: {error}")));
    };
    for (index, sidecar) in config.containers.iter().enumerate() {
        let earlier = config.containers.get(..index).unwrap_or_default();
        let part = format!("container {}", sidecar.name());
        add(&part, container_errors(sidecar, earlier));
    }
    add("volumes", volume_errors(config));
    let secrets = config.image_pull_secrets.iter();
    let wrong = secrets.filter_map(|secret| text_error(secret, "name"));
    add("imagePullSecrets", wrong.collect());
    add("addToContainers", addition_errors(config));
    let selectors = config.never_inject.iter().chain(&config.always_inject);
    let wrong = selectors.flat_map(|selector| selector.validate());
    add("selectors", wrong.collect());
    let retired = config.retired.iter();
    let wrong = retired.filter(|path| !path.starts_with("/spec/") || path.ends_with('/'));
    let wrong = wrong.map(|path| {
        format!("{path} is no path of a part of the spec: copy it from the annotation")
    });
    add("retired", wrong.collect());
    errors
}

fn container_errors(sidecar: &Sidecar, earlier: &[Sidecar]) -> Vec<String> {
    let container = &sidecar.container;
    let mut errors = Vec::new();
    errors.extend(name_error(sidecar.name()));
    errors.extend(text_error(container, "image"));
    if earlier.iter().any(|other| other.name() == sidecar.name()) {
        errors.push("the name is taken by another one".to_owned());
    }
    let policy = container.text("restartPolicy");
    if sidecar.placement != Placement::Native && policy == "Always" {
        let error = "restartPolicy Always makes it a native sidecar: set placement native";
        errors.push(error.to_owned());
    }
    if sidecar.placement == Placement::Native && !matches!(policy, "" | "Always") {
        errors.push("a native sidecar has restartPolicy Always".to_owned());
    }
    if sidecar.placement == Placement::Init {
        errors.extend(init_errors(container));
    } else {
        errors.extend(port_errors(sidecar, earlier));
    }
    if sidecar.restricted {
        errors.extend(security::violations(container).into_iter().map(|violation| {
            format!("{violation} in the restricted Pod Security Standard: change it, or set restricted false")
        }));
    }
    errors.extend(mount_errors(sidecar));
    errors
}

fn init_errors(container: &Object) -> impl Iterator<Item = String> {
    let fields = [
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
    ];
    let wrong = fields.into_iter().filter(|field| container.has(field));
    wrong.map(|field| {
        format!("an init container has no {field}: remove it, or set placement native")
    })
}

fn port_errors(sidecar: &Sidecar, earlier: &[Sidecar]) -> impl Iterator<Item = String> {
    let ours = sidecar.container.get("ports").items();
    let others = earlier
        .iter()
        .filter(|other| other.placement != Placement::Init);
    others.filter_map(|other| {
        let clash = plan::clash_of(ours, other.container.get("ports").items())?;
        Some(format!("it has the same {clash} as {}", other.name()))
    })
}

fn mount_errors(sidecar: &Sidecar) -> Vec<String> {
    let mounts = sidecar.container.objects("volumeMounts");
    let mut errors: Vec<String> = mounts
        .filter_map(|mount| text_error(mount, "name"))
        .collect();
    let mounts = sidecar.container.objects("volumeMounts");
    let mut directories: Vec<&str> = mounts.map(|mount| mount.text("mountPath")).collect();
    if let Some(token) = &sidecar.token {
        if token.expiration_seconds < 600 {
            errors.push("token.expirationSeconds must be at least 600".to_owned());
        }
        if token.audience.is_empty() {
            errors.push("token.audience must not be empty".to_owned());
        }
        directories.push(&token.mount_path);
    }
    errors.extend(
        directories
            .iter()
            .filter_map(|directory| directory_error(directory)),
    );
    let directories = directories
        .iter()
        .map(|directory| directory.trim_end_matches('/'));
    errors.extend(duplicates(directories));
    errors
}

fn volume_errors(config: &Config) -> Vec<String> {
    let volumes = config.volumes.iter();
    let wrong = volumes.filter_map(|volume| name_error(volume.text("name")));
    let mut errors: Vec<String> = wrong.collect();
    let names = VolumeNames::of(config);
    errors.extend(duplicates(names.all(config)));
    errors
}

fn addition_errors(config: &Config) -> Vec<String> {
    let Additions {
        names,
        env,
        volume_mounts,
    } = &config.add_to_containers;
    let mut errors = Vec::new();
    for name in names {
        let mut injected = config.containers.iter();
        if injected.any(|sidecar| sidecar.name() == name) {
            errors.push(format!(
                "{name} is an injected container: configure it there"
            ));
        }
    }
    errors.extend(
        env.iter()
            .filter_map(|variable| text_error(variable, "name")),
    );
    errors.extend(duplicates(env.iter().map(|variable| variable.text("name"))));
    for (index, mount) in volume_mounts.iter().enumerate() {
        let directory = mount.text("mountPath");
        errors.extend(text_error(mount, "name"));
        errors.extend(directory_error(directory));
        let mut earlier = volume_mounts.iter().take(index);
        if earlier.any(|other| overlap(other.text("mountPath"), directory)) {
            errors.push(format!(
                "mountPath {directory} is the same as another, or inside it, or around it"
            ));
        }
    }
    errors
}

fn name_error(name: &str) -> Option<String> {
    syntax::dns_label(name).err()?;
    Some(format!(
        "\"{name}\" is no name: use lower case letters, digits and -, at most 63"
    ))
}

fn text_error(object: &Object, key: &str) -> Option<String> {
    let text = object.text(key);
    (text.is_empty() || !is_plain(text)).then(|| {
        format!("{key} must be a text, without control characters, quotes and backslashes")
    })
}

/// Nothing that has a name in Kubernetes has one with these characters.
fn is_plain(text: &str) -> bool {
    let is_odd = |character: char| character.is_control() || matches!(character, '"' | '\\');
    !text.contains(is_odd)
}

fn directory_error(directory: &str) -> Option<String> {
    (!directory.starts_with('/') || !is_plain(directory))
        .then(|| format!("mountPath \"{directory}\" must be absolute"))
}

/// What is there more than once.
fn duplicates<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let mut seen = Vec::new();
    let mut errors = Vec::new();
    for name in names {
        if seen.contains(&name) {
            errors.push(format!("{name} is there twice"));
        }
        seen.push(name);
    }
    errors
}
