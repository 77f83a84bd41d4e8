//! Objects that are held in little memory until they are needed.

use std::borrow::Borrow;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::document::{Children, Document};
use super::kinds::{self, DocumentKind};

/// The metadata that an outline has.
const NAMED: [&str; 3] = ["name", "generateName", "namespace"];

/// A document whose object is kept as text, unless it is of one of our kinds. The positions of its fields are forgotten, so it is for
/// objects that have no mistakes.
pub(crate) struct Outlined {
    /// The document. If the object is kept as text, it has nothing but the object's name.
    outline: Document,
    /// The object as JSON.
    text: Option<Box<str>>,
}

impl Outlined {
    pub(crate) fn of(mut document: Document) -> Self {
        let text = match kinds::kind(&document) {
            DocumentKind::Pod | DocumentKind::Workload(_) | DocumentKind::Named(_) => {
                Some(document.value.to_string().into_boxed_str())
            }
            // Nothing more is asked about it.
            DocumentKind::Other => None,
            _ => {
                return Self {
                    outline: document,
                    text: None,
                };
            }
        };
        document.value = name_of(&document.value);
        document.written = None;
        document.spans.children = Children::Scalar;
        document.source.text = Arc::from("");
        Self {
            outline: document,
            text,
        }
    }

    /// The document with its object.
    pub(crate) fn unfold(self) -> Document {
        let Self { mut outline, text } = self;
        if let Some(text) = text {
            // It is our own text.
            outline.value = serde_json::from_str(&text).unwrap_or_default();
        }
        outline
    }
}

impl Borrow<Document> for Outlined {
    fn borrow(&self) -> &Document {
        &self.outline
    }
}

fn name_of(object: &Value) -> Value {
    let metadata = object.get("metadata").and_then(Value::as_object);
    let fields = metadata.into_iter().flatten();
    let named = fields.filter(|(field, _)| NAMED.contains(&field.as_str()));
    let named: Map<String, Value> = named
        .map(|(field, value)| (field.clone(), value.clone()))
        .collect();
    json!({ "metadata": named })
}
