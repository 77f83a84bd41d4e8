//! What is wrong with a configuration, as far as can be seen without a pod.

use crate::additions::overlap;
use crate::config::{Config, Placement, Sidecar};
use crate::json::Object;
use crate::ports;
use crate::security;
use crate::text;
use crate::volumes;

/// What is wrong, and in which part of the configuration.
struct Errors {
    part: String,
    messages: Vec<String>,
}

impl Errors {
    #[inline(never)]
    fn add(&mut self, parts: &[&str]) {
        text::push(&mut self.messages, &[&self.part, ": ", &parts.concat()]);
    }

    #[inline(never)]
    fn check_name(&mut self, name: &str) {
        if !is_name(name) {
            self.add(&[
                "\"",
                name,
                "\" is no name: use lower case letters, digits and -, at most 63",
            ]);
        }
    }
}

pub(crate) fn validate(config: &Config) -> Vec<String> {
    let mut errors = Errors {
        part: String::new(),
        messages: Vec::new(),
    };
    for (index, sidecar) in config.containers.iter().enumerate() {
        errors.part = ["container ", sidecar.name()].concat();
        let earlier = config.containers.get(..index).unwrap_or_default();
        check_container(sidecar, earlier, &mut errors);
    }
    errors.part = "volumes".to_owned();
    for volume in &config.volumes {
        errors.check_name(volume.string("name"));
    }
    check_unique(&volumes::names(config), &mut errors);
    errors.part = "imagePullSecrets".to_owned();
    for secret in &config.image_pull_secrets {
        check_text(secret, "name", &mut errors);
    }
    errors.part = "addToContainers".to_owned();
    check_additions(config, &mut errors);
    errors.part = "selectors".to_owned();
    let selectors = config.never_inject.iter().chain(&config.always_inject);
    for requirement in selectors.flat_map(|selector| &selector.match_expressions) {
        if !requirement.is_valid() {
            errors.add(&[
                &requirement.key,
                ": In and NotIn need values, Exists and DoesNotExist take none",
            ]);
        }
    }
    errors.part = "retired".to_owned();
    for path in &config.retired {
        if !path.starts_with("/spec/") || path.ends_with('/') {
            errors.add(&[
                path,
                " is no path of a part of the spec: copy it from the annotation",
            ]);
        }
    }
    errors.messages
}

fn check_container(sidecar: &Sidecar, earlier: &[Sidecar], errors: &mut Errors) {
    let container = &sidecar.container;
    errors.check_name(sidecar.name());
    check_text(container, "image", errors);
    if earlier.iter().any(|other| other.name() == sidecar.name()) {
        errors.add(&["the name is taken by another one"]);
    }
    let policy = container.string("restartPolicy");
    if sidecar.placement != Placement::Native && policy == "Always" {
        errors.add(&["restartPolicy Always makes it a native sidecar: set placement native"]);
    }
    if sidecar.placement == Placement::Native && !matches!(policy, "" | "Always") {
        errors.add(&["a native sidecar has restartPolicy Always"]);
    }
    if sidecar.placement == Placement::Init {
        for field in [
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
            "lifecycle",
        ] {
            if container.has(field) {
                errors.add(&[
                    "an init container has no ",
                    field,
                    ": remove it, or set placement native",
                ]);
            }
        }
    } else {
        let ours = container.objects("ports");
        for other in earlier
            .iter()
            .filter(|other| other.placement != Placement::Init)
        {
            if let Some(clash) = ports::find(&ours, &other.container.objects("ports")) {
                errors.add(&["it has the same ", clash.name(), " as ", other.name()]);
            }
        }
    }
    if sidecar.restricted {
        for violation in security::violations(container) {
            errors.add(&[
                violation,
                " in the restricted Pod Security Standard: change it, or set restricted false",
            ]);
        }
    }
    check_mounts(sidecar, errors);
}

fn check_mounts(sidecar: &Sidecar, errors: &mut Errors) {
    let mut directories = Vec::new();
    for mount in sidecar.container.objects("volumeMounts") {
        check_text(&mount, "name", errors);
        directories.push(mount.string("mountPath").to_owned());
    }
    if let Some(token) = &sidecar.token {
        if token.expiration_seconds < 600 {
            errors.add(&["token.expirationSeconds must be at least 600"]);
        }
        if token.audience.is_empty() {
            errors.add(&["token.audience must not be empty"]);
        }
        directories.push(token.mount_path.clone());
    }
    for directory in &mut directories {
        check_directory(directory, errors);
        directory.truncate(directory.trim_end_matches('/').len());
    }
    check_unique(&directories, errors);
}

fn check_additions(config: &Config, errors: &mut Errors) {
    let additions = &config.add_to_containers;
    for name in &additions.names {
        if config
            .containers
            .iter()
            .any(|sidecar| sidecar.name() == name)
        {
            errors.add(&[name, " is an injected container: configure it there"]);
        }
    }
    let mut variables = Vec::new();
    for variable in &additions.env {
        check_text(variable, "name", errors);
        variables.push(variable.string("name").to_owned());
    }
    check_unique(&variables, errors);
    for (index, mount) in additions.volume_mounts.iter().enumerate() {
        let directory = mount.string("mountPath");
        check_text(mount, "name", errors);
        check_directory(directory, errors);
        let earlier = additions.volume_mounts.get(..index).unwrap_or_default();
        if earlier
            .iter()
            .any(|other| overlap(other.string("mountPath"), directory))
        {
            errors.add(&[
                "mountPath ",
                directory,
                " is the same as another, or inside it, or around it",
            ]);
        }
    }
}

#[inline(never)]
fn check_text(object: &Object, key: &str, errors: &mut Errors) {
    let text = object.string(key);
    // No text that names something has a character that JSON escapes, and paths could not be compared.
    if text.is_empty() || text.contains('\\') {
        errors.add(&[
            key,
            " must be a text, without control characters, quotes and backslashes",
        ]);
    }
}

fn check_directory(directory: &str, errors: &mut Errors) {
    if !directory.starts_with('/') || directory.contains('\\') {
        errors.add(&["mountPath \"", directory, "\" must be absolute"]);
    }
}

#[inline(never)]
fn check_unique(names: &[String], errors: &mut Errors) {
    for (index, name) in names.iter().enumerate() {
        if names.get(..index).unwrap_or_default().contains(name) {
            errors.add(&[name, " is there twice"]);
        }
    }
}

/// Whether this is a DNS label, as names of containers and volumes are.
fn is_name(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&name.len())
        && name.bytes().all(is_inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}
