//! Pulls images from mirrors.
//!
//! It shows: image references, a walk over all containers, and a denial that lists everything that has to change.

#[cfg(test)]
mod tests;

use podloom_plugin_sdk::prelude::*;

/// Which registries have mirrors, and what happens to images of other registries.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Config {
    /// List the mirrors.
    mirrors: Vec<Mirror>,
    /// Say what to do with an image of a registry that has no mirror. Default `keep`.
    #[serde(default)]
    others: Others,
}

/// The mirror of one registry.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Mirror {
    /// Name the registry, such as `docker.io`.
    registry: String,
    /// Name the mirror: a registry, and below it a path if it has one, as in `mirror.example.com/hub`.
    mirror: String,
}

/// What happens to an image of a registry that has no mirror.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Others {
    /// Leave it as it is.
    #[default]
    Keep,
    /// Reject the pod.
    Deny,
}

impl Config {
    fn mirror_of(&self, registry: &str) -> Option<&Mirror> {
        let mut mirrors = self.mirrors.iter();
        mirrors.find(|mirror| mirror.registry == registry)
    }

    fn is_mirror(&self, registry: &str) -> bool {
        let mut mirrors = self.mirrors.iter();
        mirrors.any(|mirror| mirror.host() == registry)
    }
}

impl Mirror {
    /// The registry of the mirror.
    fn host(&self) -> &str {
        self.mirror.split('/').next().unwrap_or_default()
    }

    /// Returns the same image in the mirror.
    fn image(&self, original: &ImageRef) -> ImageRef {
        let below = self.mirror.strip_prefix(self.host()).unwrap_or_default();
        let path = format!("{below}/{}", original.repository);
        ImageRef {
            registry: self.host().to_owned(),
            repository: path.trim_start_matches('/').to_owned(),
            ..original.clone()
        }
    }
}

struct RegistryMirror;

impl Mutator for RegistryMirror {
    type Config = Config;
    const NAME: &str = "registry-mirror";
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &str = "Pulls images from mirrors";

    fn needs(_: &Config) -> Needs {
        Needs::default()
            .read_all_containers()
            .write_in_all_containers("image")
    }

    fn validate(config: &Config) -> Vec<String> {
        let mut errors = Vec::new();
        for (index, Mirror { registry, mirror }) in config.mirrors.iter().enumerate() {
            // A registry is what an image's text begins with, and what is read from it again.
            let image: Result<ImageRef, _> = format!("{registry}/app").parse();
            if image.is_ok_and(|image| image.registry == *registry) {
                let mut earlier = config.mirrors.iter().take(index);
                if earlier.any(|other| other.registry == *registry) {
                    errors.push(format!("mirrors[{index}]: {registry} is listed twice"));
                }
            } else {
                errors.push(format!(
                    "mirrors[{index}]: registry `{registry}` is none: write a host, as in docker.io or registry.example.com:5000"
                ));
            }
            match format!("{mirror}/app").parse::<ImageRef>() {
                Ok(image) if mirror.starts_with(&image.registry) => {
                    // A second run would look for the mirror's own mirror.
                    if config.mirror_of(&image.registry).is_some() {
                        errors.push(format!(
                            "mirrors[{index}]: mirror {mirror} is in a registry that has a mirror itself"
                        ));
                    }
                }
                _ => errors.push(format!(
                    "mirrors[{index}]: mirror `{mirror}` is none: write a host, as in mirror.example.com/hub"
                )),
            }
        }
        errors
    }

    fn mutate(config: &Config, _: &Request, pod: &Pod) -> Result<(), Rejection> {
        let mut denials = Vec::new();
        for (_, container) in pod.all_containers()? {
            let Some(text) = container.image()? else {
                continue;
            };
            let path = container.field("image");
            let path = path.path();
            let image: ImageRef = match text.parse() {
                Ok(image) => image,
                // No node can pull it, which the pod's author sees there. This says why nothing was done here.
                Err(problem) => {
                    note(&format!("{path} {problem}; it is left alone"));
                    continue;
                }
            };
            if let Some(mirror) = config.mirror_of(&image.registry) {
                pod.set_text(path, &mirror.image(&image).to_string())?;
            } else if config.others == Others::Deny && !config.is_mirror(&image.registry) {
                denials.push(format!(
                    "{path}: {} has no mirror: use an image of another registry",
                    image.registry
                ));
            }
        }
        Rejection::deny_if_any(&denials)
    }
}

podloom_plugin_sdk::mutator!(RegistryMirror, schema = "config.schema.json");
