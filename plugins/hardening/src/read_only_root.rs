//! Read-only root file systems, and the writable directories that come with them.

use std::collections::BTreeMap;

use podloom_plugin_sdk::json::{Object, Value};
use podloom_plugin_sdk::path::covers;
use podloom_plugin_sdk::{Findings, note};

use crate::config::ReadOnlyRoot;
use crate::exempt::matches_any;
use crate::plan::Plan;
use crate::view::{Container, View};

const DEFAULT_PATHS: [&str; 3] = ["/tmp", "/var/run", "/var/cache"];
const DEFAULT_SIZE: &str = "64Mi";

/// The longest name that a volume can have, less room for a number.
const NAME_LENGTH: usize = 63 - 4;

/// The names of the pod's volumes, each with the first number with which it may still be free.
type Names = BTreeMap<String, usize>;

/// Makes the root file system of each container read-only that does not say, and gives it its directories.
pub(crate) fn fill(config: &ReadOnlyRoot, view: &View, plan: &mut Plan) {
    let mut names = Names::new();
    for volume in &view.spec.volumes {
        names.insert(volume.text("name").to_owned(), 2);
    }
    let mut writable = Findings::default();
    let may_change = |container: &&Container| container.context.writable && !container.exempt;
    for container in view.containers.iter().filter(may_change) {
        let context = &container.context;
        let field = "readOnlyRootFilesystem";
        match context.settings.read_only_root_filesystem {
            // Where it was read-only already, its author has seen to what it writes.
            Some(true) => {}
            Some(false) => writable.add(&context.field(field), "explicitly false, left as it is"),
            None => {
                plan.fill(context, field, true);
                add_directories(config, container, &mut names, plan);
            }
        }
    }
    for text in writable.notes() {
        note(&text);
    }
}

fn add_directories(
    config: &ReadOnlyRoot,
    container: &Container,
    names: &mut Names,
    plan: &mut Plan,
) {
    let mut mounted: Vec<&str> = mount_paths(container).collect();
    for (path, size) in directories(config, container) {
        if mounted.iter().any(|mount| covers(mount, path)) {
            continue;
        }
        mounted.push(path);
        let name = unused_name(names, container, path);
        let volume = Object::from([
            ("name", Value::from(name.as_str())),
            ("emptyDir", Object::from([("sizeLimit", size)]).into()),
        ]);
        plan.set("/spec/volumes/-", volume);
        plan.empty_dirs.push(name.clone());
        let mount = Object::from([("name", name.as_str()), ("mountPath", path)]);
        plan.set(format!("{}/volumeMounts/-", container.path), mount);
    }
}

/// The directories that a container gets, with their sizes.
fn directories<'c>(config: &'c ReadOnlyRoot, container: &Container) -> Vec<(&'c str, &'c str)> {
    let Some(configured) = &config.empty_dirs else {
        return DEFAULT_PATHS.map(|path| (path, DEFAULT_SIZE)).to_vec();
    };
    let image = &container.image;
    let meant = configured
        .iter()
        .filter(|directory| directory.images.is_empty() || matches_any(&directory.images, image));
    meant
        .map(|directory| {
            (
                directory.mount_path.trim_end_matches('/'),
                directory.size_limit.as_deref().unwrap_or(DEFAULT_SIZE),
            )
        })
        .collect()
}

/// The paths at which a container mounts volumes, without a slash at the end.
pub(crate) fn mount_paths(container: &Container) -> impl Iterator<Item = &str> {
    let mounts = container.volume_mounts.iter();
    let paths = mounts.filter_map(|mount| mount.mount_path.as_deref());
    paths.map(|path| path.trim_end_matches('/'))
}

/// A name of container and path, so that it stays the same when other containers come; with a number where it is taken.
/// It is valid even if the container's name is not: the API server refuses that one, and says so.
fn unused_name(names: &mut Names, container: &Container, path: &str) -> String {
    let letters = container.name.chars().chain(path.chars());
    let letters = letters.map(|character| {
        if character.is_ascii_alphanumeric() {
            character.to_ascii_lowercase()
        } else {
            '-'
        }
    });
    let mut stem = "writable-".to_owned();
    stem.extend(letters.take(NAME_LENGTH - stem.len()));
    let stem = stem.trim_end_matches('-');
    let Some(mut next) = names.get(stem).copied() else {
        names.insert(stem.to_owned(), 2);
        return stem.to_owned();
    };
    loop {
        let suffix = format!("-{next}");
        let room = NAME_LENGTH + 4 - suffix.len();
        let name = stem.get(..room).unwrap_or(stem).to_owned() + &suffix;
        next += 1;
        if !names.contains_key(&name) {
            names.insert(stem.to_owned(), next);
            names.insert(name.clone(), 2);
            return name;
        }
    }
}
