//! Checks objects before they are rendered, so that each error names the position in the user's file.

mod group;
mod words;

use std::collections::BTreeMap;

use anyhow::Context;
use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use podloom_api::{SelenosisApi, SelenosisKind};
use podloom_syntax::names;
use serde_json::{Map, Value, json};

use self::words::{expected_types, in_words, one_of};

use super::document::Document;
use super::embedded;
use super::field::Step;
use super::findings::{Findings, unknown_field, wrong_type};
use super::kinds::{self, DocumentKind};
use super::untouched::{self, Unknown};
use crate::error::{CommandError, quoted, value};

/// Checks every object: our own kinds against their CRDs, pods and templates against the Pod's types.
pub(crate) fn check(documents: &[Document], unknown: Unknown) -> Result<Findings, CommandError> {
    check_with(&mut Schemas::default(), documents, unknown)
}

/// Like [`check`], with schemas that were needed before.
pub(crate) fn check_with(
    schemas: &mut Schemas,
    documents: &[Document],
    unknown: Unknown,
) -> Result<Findings, CommandError> {
    let mut findings = Findings::default();
    for (index, document) in documents.iter().enumerate() {
        let before = findings.errors.len();
        embedded::check_metadata(document, &mut findings);
        let kind = kinds::kind(document);
        match &kind {
            DocumentKind::Browser
            | DocumentKind::BrowserConfig
            | DocumentKind::PortalExpose
            | DocumentKind::TunnelClass
            | DocumentKind::Infrastructure(_)
            | DocumentKind::Cleaner => {
                check_name(document, &mut findings);
                if let Some(schema) = schemas.of(&kind, &document.kind)? {
                    schema.check(document, &mut findings);
                }
            }
            DocumentKind::Namespace => check_name(document, &mut findings),
            DocumentKind::Pod => embedded::check_pod(document, &[], &mut findings),
            DocumentKind::Workload(template) => {
                embedded::check_pod(document, &template.path, &mut findings);
            }
            DocumentKind::Named(templates) => {
                for template in templates {
                    embedded::check_pod(document, &template.path, &mut findings);
                }
                untouched::check_others(document, templates, &mut findings);
            }
            DocumentKind::Other => check_other(document, unknown, &mut findings),
        }
        if findings.errors.len() > before {
            findings.refused.insert(index);
        }
        // In the order of the lines, as the user fixes them.
        if let Some(here) = findings.errors.get_mut(before..) {
            here.sort_by_key(|diagnostic| {
                let position = diagnostic.position.as_ref();
                position.map(|position| (position.line, position.column))
            });
        }
    }
    Ok(findings)
}

/// A pod gets the name of its Browser, so the name must be one that the API server accepts.
fn check_name(document: &Document, findings: &mut Findings) {
    let path = [Step::from("metadata"), Step::from("name")];
    let name = document.name();
    let generated = kinds::descend(&document.value, &["metadata", "generateName"]).is_some();
    let message = if name.is_empty() && generated {
        "there is only generateName, from which the API server would generate a name: set metadata.name"
            .to_owned()
    } else if name.is_empty() {
        "the name is missing: set metadata.name".to_owned()
    } else if names::dns_subdomain(name).is_err() {
        format!(
            "{} is not a valid name: use at most 253 lower-case letters, digits, '-' and '.', and start and end each part with a letter or digit",
            quoted(name)
        )
    } else {
        return;
    };
    findings.errors.push(document.diagnostic(&path, message));
}

/// Checks what is printed unchanged: whether it should be.
fn check_other(document: &Document, unknown: Unknown, findings: &mut Findings) {
    let before = findings.errors.len();
    group::check(document, findings);
    let is_accepted = document.named.as_ref().is_some_and(Vec::is_empty);
    if findings.errors.len() == before && !is_accepted {
        untouched::check(document, unknown, findings);
    }
}

/// The schemas of our kinds, by kind. Each is compiled when it is first needed.
#[derive(Default)]
pub(crate) struct Schemas(BTreeMap<String, Schema>);

impl Schemas {
    /// The schema of a kind of this name; none if the kind is not ours.
    fn of(&mut self, kind: &DocumentKind, name: &str) -> anyhow::Result<Option<&Schema>> {
        if !self.0.contains_key(name)
            && let Some((definition, patterns)) = definition(kind)
        {
            let schema = Schema::new(definition, patterns)?;
            self.0.insert(name.to_owned(), schema);
        }
        Ok(self.0.get(name))
    }
}

/// The definition of one of our kinds.
fn definition(kind: &DocumentKind) -> Option<(CustomResourceDefinition, Patterns)> {
    // Both sets of API groups have the same schemas.
    let selenosis = |kind| podloom_api::crd(SelenosisApi::default(), kind);
    Some(match kind {
        DocumentKind::Browser => (selenosis(SelenosisKind::Browser), Patterns::Checked),
        DocumentKind::BrowserConfig => (selenosis(SelenosisKind::BrowserConfig), Patterns::Checked),
        DocumentKind::PortalExpose => (podloom_api::portal_expose_crd(), Patterns::LeftOut),
        DocumentKind::TunnelClass => (podloom_api::tunnel_class_crd(), Patterns::LeftOut),
        DocumentKind::Infrastructure(kind) => {
            (podloom_api::infrastructure_crd(*kind), Patterns::Checked)
        }
        DocumentKind::Cleaner => (podloom_api::cleaner_crd(), Patterns::Checked),
        _ => return None,
    })
}

/// What happens to the patterns of a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patterns {
    /// They are checked.
    Checked,
    /// They are not, since checks of the controllers say the same in words.
    LeftOut,
}

/// The OpenAPI schema of a CRD, as JSON Schema.
struct Schema {
    text: Value,
    validator: Validator,
}

impl Schema {
    fn new(definition: CustomResourceDefinition, patterns: Patterns) -> anyhow::Result<Self> {
        let kind = definition.spec.names.kind;
        let mut versions = definition.spec.versions.into_iter();
        let schema = versions.next().and_then(|version| version.schema);
        let schema = schema.and_then(|schema| schema.open_api_v3_schema);
        let schema = schema.with_context(|| format!("the CRD of {kind} has no schema"))?;
        let mut text = serde_json::to_value(schema)?;
        close(&mut text, patterns);
        for field in ["apiVersion", "kind", "metadata"] {
            // These fields are the same for every kind and are checked elsewhere.
            if let Some(Value::Object(properties)) = text.get_mut("properties") {
                properties.insert(field.to_owned(), json!({}));
            }
        }
        let validator = jsonschema::validator_for(&text)
            .with_context(|| format!("the CRD of {kind} has an invalid schema"))?;
        Ok(Self { text, validator })
    }

    fn check(&self, document: &Document, findings: &mut Findings) {
        for error in self.validator.iter_errors(&document.value) {
            self.explain(document, &error, findings);
        }
    }

    fn explain(&self, document: &Document, error: &ValidationError<'_>, findings: &mut Findings) {
        // Steps need the document: a version such as "143" is a key, though it looks like an index.
        let mut path = document.steps(error.instance_path().as_str());
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                let known = self.siblings(error.schema_path().as_str());
                for field in unexpected {
                    path.push(Step::Key(field.clone()));
                    let message = unknown_field(field, &known);
                    findings
                        .errors
                        .push(document.diagnostic_at_key(&path, message));
                    path.pop();
                }
            }
            ValidationErrorKind::Required { property } => {
                let field = property.as_str().unwrap_or_default();
                let message = format!("the field {field} is required");
                findings.errors.push(document.diagnostic(&path, message));
            }
            ValidationErrorKind::Type { kind } => {
                let expected = expected_types(kind);
                let message = wrong_type(document, &path, error.instance(), &expected);
                findings.errors.push(document.diagnostic(&path, message));
            }
            ValidationErrorKind::Enum { options } => {
                let message = format!(
                    "is {} and must be {}",
                    value(error.instance()),
                    one_of(options)
                );
                findings.errors.push(document.diagnostic(&path, message));
            }
            kind => {
                let message = in_words(kind, error.instance());
                let message = message.unwrap_or_else(|| error.to_string());
                findings.errors.push(document.diagnostic(&path, message));
            }
        }
    }

    /// The known fields of the map in which an unknown one was found.
    fn siblings(&self, schema_path: &str) -> Vec<&str> {
        let around = schema_path
            .strip_suffix("/additionalProperties")
            .unwrap_or(schema_path);
        self.text
            .pointer(&format!("{around}/properties"))
            .and_then(Value::as_object)
            .map(|properties| properties.keys().map(String::as_str).collect())
            .unwrap_or_default()
    }
}

/// Converts an OpenAPI schema into JSON Schema: forbids unknown fields, translates `nullable`, and leaves out patterns.
fn close(schema: &mut Value, patterns: Patterns) {
    let Value::Object(fields) = schema else {
        return;
    };
    let open = fields.contains_key("additionalProperties")
        || fields.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    if fields.contains_key("properties") && !open {
        fields.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    if fields.get("nullable") == Some(&Value::Bool(true)) {
        allow_null(fields);
    }
    if patterns == Patterns::LeftOut {
        fields.remove("pattern");
    }
    for (keyword, value) in fields {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                let properties = properties.values_mut();
                properties.for_each(|property| close(property, patterns));
            }
            ("items" | "additionalProperties", value @ Value::Object(_)) => close(value, patterns),
            // In a structural schema `allOf`, `anyOf`, `oneOf` and `not` list only some fields. Closing them would reject the
            // fields that only the schema around them lists.
            _ => {}
        }
    }
}

fn allow_null(fields: &mut Map<String, Value>) {
    if let Some(one @ Value::String(_)) = fields.get("type").cloned() {
        fields.insert("type".to_owned(), json!([one, "null"]));
    }
    if let Some(Value::Array(options)) = fields.get_mut("enum")
        && !options.contains(&Value::Null)
    {
        options.push(Value::Null);
    }
}

#[cfg(test)]
mod tests;
