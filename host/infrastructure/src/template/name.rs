//! The name that we give an infrastructure, as an Infrastructure Manager returns it.

use serde::Deserialize;

/// What matters of a template.
#[derive(Deserialize)]
struct Template {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
struct Metadata {
    infra_name: Option<String>,
}

/// Whether a template has the name; none if that cannot be said. A text that does not even contain it is somebody else's, whatever it is.
pub(crate) fn is_named(text: &str, name: &str) -> Option<bool> {
    if !text.contains(name) {
        return Some(false);
    }
    let template: Template = serde_saphyr::from_str(text).ok()?;
    Some(template.metadata.infra_name.as_deref() == Some(name))
}

#[cfg(test)]
mod tests;
