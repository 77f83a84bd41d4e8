//! Read-only root file systems, and the writable directories that come with them.

use podloom_plugin_sdk::note;

use crate::config::ReadOnlyRoot;
use crate::exempt::matches_any;
use crate::plan::{Plan, at};
use crate::view::{Container, Spec};

const DEFAULT_PATHS: [&str; 3] = ["/tmp", "/var/run", "/var/cache"];
const DEFAULT_SIZE: &str = "64Mi";

/// The longest name that a volume can have, less room for a number.
const NAME_LENGTH: usize = 63 - 4;

/// Makes the root file system of each container read-only that does not say, and gives it its directories.
pub(crate) fn fill(config: &ReadOnlyRoot, spec: &Spec, containers: &[Container], plan: &mut Plan) {
    let mut names: Vec<String> = spec
        .volumes
        .iter()
        .filter_map(|volume| volume.name.as_deref().map(str::to_owned))
        .collect();
    for container in containers
        .iter()
        .filter(|container| container.writable && !container.exempt)
    {
        let context = &container.security_context;
        let field = "readOnlyRootFilesystem";
        match context.read_only_root_filesystem {
            // Where it was read-only already, its author has seen to what it writes.
            Some(true) => {}
            Some(false) => note(
                &[
                    &at(&context.path, field),
                    ": explicitly false, left as it is",
                ]
                .concat(),
            ),
            None => {
                plan.fill(context, field, "true");
                add_directories(config, container, &mut names, plan);
            }
        }
    }
}

fn add_directories(
    config: &ReadOnlyRoot,
    container: &Container,
    names: &mut Vec<String>,
    plan: &mut Plan,
) {
    let mut mounted: Vec<&str> = mount_paths(container).collect();
    for (path, size) in directories(config, container) {
        if mounted.iter().any(|mount| is_at_or_below(path, mount)) {
            continue;
        }
        mounted.push(path);
        let name = unused_name(names, container, path);
        let volume = [
            r#"{"name":""#,
            &name,
            r#"","emptyDir":{"sizeLimit":""#,
            size,
            r#""}}"#,
        ]
        .concat();
        plan.set("/spec/volumes/-".to_owned(), volume);
        let mount = [r#"{"name":""#, &name, r#"","mountPath":""#, path, r#""}"#].concat();
        plan.set(at(container.path(), "volumeMounts/-"), mount);
        names.push(name);
    }
}

/// The directories that a container gets, with their sizes. Their text stands in JSON as it is: validation has seen to that.
fn directories<'c>(config: &'c ReadOnlyRoot, container: &Container) -> Vec<(&'c str, &'c str)> {
    let Some(configured) = &config.empty_dirs else {
        return DEFAULT_PATHS.map(|path| (path, DEFAULT_SIZE)).to_vec();
    };
    let image = container.image.as_deref().unwrap_or_default();
    configured
        .iter()
        .filter(|directory| directory.images.is_empty() || matches_any(&directory.images, image))
        .map(|directory| {
            (
                directory.mount_path.trim_end_matches('/'),
                directory.size_limit.as_deref().unwrap_or(DEFAULT_SIZE),
            )
        })
        .collect()
}

/// The paths at which a container mounts volumes, without a slash at the end.
pub(crate) fn mount_paths<'c>(container: &'c Container<'_>) -> impl Iterator<Item = &'c str> {
    let mounts = container.volume_mounts.iter();
    mounts.filter_map(|mount| Some(mount.mount_path.as_deref()?.trim_end_matches('/')))
}

fn is_at_or_below(path: &str, mount: &str) -> bool {
    path.strip_prefix(mount)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A name that tells container and path, so that it stays the same when other containers come; a number where it is taken.
fn unused_name(names: &[String], container: &Container, path: &str) -> String {
    let mut name = String::from("writable-");
    name.push_str(container.name.as_deref().unwrap_or_default());
    for character in path.chars() {
        name.push(if character.is_ascii_alphanumeric() {
            character.to_ascii_lowercase()
        } else {
            '-'
        });
    }
    name.truncate(NAME_LENGTH);
    let stem = name.trim_end_matches('-').len();
    name.truncate(stem);
    let mut number = 1_u32;
    while names.contains(&name) {
        number += 1;
        name.truncate(stem);
        name.push('-');
        name.push_str(&number.to_string());
    }
    name
}
