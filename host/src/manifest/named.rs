//! Pod templates in kinds that render does not know, as `--pod-template GROUP/KIND=/path` names them.

use super::document::Document;
use super::kinds;

/// Where a kind has pod templates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedTemplate {
    /// The group and the kind, as `keda.sh/ScaledJob`; the core group has no name.
    kind: String,
    /// A JSON pointer in which `*` stands for every element of a list. None if the kind has no pod template.
    pointer: Option<String>,
}

impl NamedTemplate {
    /// Reads the value of the option.
    ///
    /// # Errors
    ///
    /// A sentence that says what to write.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let form =
            "write GROUP/KIND=/path, for example keda.sh/ScaledJob=/spec/jobTargetRef/template";
        let (kind, pointer) = text.split_once('=').ok_or(form)?;
        let name = kind.rsplit('/').next().unwrap_or_default();
        if name.is_empty() || kind.starts_with('/') || kind.matches('/').count() > 1 {
            return Err(form.to_owned());
        }
        if !name.starts_with(|first: char| first.is_ascii_uppercase()) {
            return Err(format!("a kind starts with an upper-case letter; {form}"));
        }
        if kinds::is_known(kind) {
            return Err(format!("podloom render knows the kind {kind} already"));
        }
        let is_pointer = pointer.starts_with('/') && !pointer.split('/').skip(1).any(str::is_empty);
        if !pointer.is_empty() && !is_pointer {
            return Err(format!(
                "the path starts with a slash and has no empty part; {form}"
            ));
        }
        if pointer.contains('[') {
            return Err(
                "use * for every element of a list: single elements cannot be named".to_owned(),
            );
        }
        Ok(Self {
            kind: kind.to_owned(),
            pointer: Some(pointer.to_owned()).filter(|pointer| !pointer.is_empty()),
        })
    }
}

/// Records in each document what is named for its kind.
pub(crate) fn apply(documents: &mut [Document], named: &[NamedTemplate]) {
    for document in documents {
        let kind = kinds::group_and_kind(document);
        let mine: Vec<&NamedTemplate> = named.iter().filter(|named| named.kind == kind).collect();
        if !mine.is_empty() {
            let pointers = mine.into_iter().filter_map(|named| named.pointer.clone());
            document.named = Some(pointers.collect());
        }
    }
}

#[cfg(test)]
mod tests;
