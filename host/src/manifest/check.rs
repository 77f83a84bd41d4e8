//! Checks objects before anything is made of them, so that a mistake is named where it is written.

use anyhow::Context;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{ValidationError, Validator};
use podloom_api::SelenosisApi;
use serde_json::{Map, Value, json};

use super::document::Document;
use super::embedded;
use super::field::Step;
use super::findings::{Findings, unknown_field, wrong_type};
use super::kinds::{self, Kind};
use crate::refusal::Failure;

/// Checks every object: our own kinds against their CRDs, pods and templates against the Pod's types.
pub(crate) fn check(documents: &[Document]) -> Result<Findings, Failure> {
    let schemas = Schemas::new()?;
    let mut findings = Findings::default();
    for document in documents {
        let before = findings.refusals.len();
        embedded::check_metadata(document, &mut findings);
        match kinds::kind(document) {
            Kind::Browser => {
                check_name(document, &mut findings);
                schemas.browser.check(document, &mut findings);
            }
            Kind::BrowserConfig => {
                check_name(document, &mut findings);
                schemas.browser_config.check(document, &mut findings);
            }
            Kind::Namespace => check_name(document, &mut findings),
            Kind::Pod => embedded::check_pod(document, &[], &mut findings),
            Kind::Workload(template) => {
                embedded::check_pod(document, &template.steps(), &mut findings);
            }
            Kind::Other => check_group(document, &mut findings),
        }
        // From the first line of a document to its last, as one mends it.
        if let Some(here) = findings.refusals.get_mut(before..) {
            here.sort_by_key(|refusal| {
                let place = refusal.place.as_ref();
                place.map(|place| (place.line, place.column))
            });
        }
    }
    Ok(findings)
}

/// A render names pods after their Browsers, so it needs names that the API server would take.
fn check_name(document: &Document, findings: &mut Findings) {
    let path = [Step::from("metadata"), Step::from("name")];
    let name = document.name();
    let generated = kinds::descend(&document.value, &["metadata", "generateName"]).is_some();
    let message = if name.is_empty() && generated {
        "only generateName is given, and it is the API server that makes a name of it: give a name"
            .to_owned()
    } else if name.is_empty() {
        "every object needs a name".to_owned()
    } else if !is_dns_subdomain(name) {
        format!(
            "{name:?} is no valid name: at most 253 lower-case letters, digits, '-' and '.', each part starting and ending with a letter or digit"
        )
    } else {
        return;
    };
    findings.refusals.push(document.refuse(&path, message));
}

fn is_dns_subdomain(name: &str) -> bool {
    name.len() <= 253
        && name.split('.').all(|part| {
            !part.is_empty()
                && !part.starts_with('-')
                && !part.ends_with('-')
                && part
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        })
}

/// One of our kinds in a group that is not its own would pass through unseen.
fn check_group(document: &Document, findings: &mut Findings) {
    let ours = document
        .api_version
        .split_once('/')
        .is_some_and(|(group, _)| group == "selenosis.io" || group.ends_with(".selenosis.io"));
    if !ours {
        return;
    }
    let kind = podloom_api::SelenosisKind::ALL
        .into_iter()
        .find(|kind| kind.name() == document.kind);
    let message = match kind {
        Some(kind) => {
            let versions = SelenosisApi::ALL
                .map(|api| format!("{}/{}", api.group(kind), SelenosisApi::VERSION));
            format!("a {} is of {}", document.kind, versions.join(" or "))
        }
        None => "the kinds of this group are Browser and BrowserConfig".to_owned(),
    };
    let field = if kind.is_some() { "apiVersion" } else { "kind" };
    findings
        .refusals
        .push(document.refuse(&[Step::from(field)], message));
}

struct Schemas {
    browser: Schema,
    browser_config: Schema,
}

impl Schemas {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            browser: Schema::new(podloom_api::SelenosisKind::Browser)?,
            browser_config: Schema::new(podloom_api::SelenosisKind::BrowserConfig)?,
        })
    }
}

/// The schema that a CRD gives the API server, as JSON Schema.
struct Schema {
    text: Value,
    validator: Validator,
}

impl Schema {
    fn new(kind: podloom_api::SelenosisKind) -> anyhow::Result<Self> {
        // Both sets of groups share their schemas.
        let definition = podloom_api::crds(SelenosisApi::default())
            .into_iter()
            .find(|definition| definition.spec.names.kind == kind.name())
            .and_then(|definition| definition.spec.versions.into_iter().next())
            .and_then(|version| version.schema?.open_api_v3_schema)
            .with_context(|| format!("the CRD of {} has no schema", kind.name()))?;
        let mut text = serde_json::to_value(definition)?;
        close(&mut text);
        for field in ["apiVersion", "kind", "metadata"] {
            // What these hold is checked elsewhere: the same for every kind.
            if let Some(Value::Object(properties)) = text.get_mut("properties") {
                properties.insert(field.to_owned(), json!({}));
            }
        }
        let validator = jsonschema::validator_for(&text)
            .with_context(|| format!("the CRD of {} has a bad schema", kind.name()))?;
        Ok(Self { text, validator })
    }

    fn check(&self, document: &Document, findings: &mut Findings) {
        for error in self.validator.iter_errors(&document.value) {
            self.explain(document, &error, findings);
        }
    }

    fn explain(&self, document: &Document, error: &ValidationError<'_>, findings: &mut Findings) {
        // A version such as "143" is a key, though its segment looks like an index.
        let mut path = document.steps(error.instance_path().as_str());
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                let known = self.siblings(error.schema_path().as_str());
                for field in unexpected {
                    path.push(Step::Key(field.clone()));
                    let message = unknown_field(field, &known);
                    findings.refusals.push(document.refuse_key(&path, message));
                    path.pop();
                }
            }
            ValidationErrorKind::Required { property } => {
                let field = property.as_str().unwrap_or_default();
                let message = format!("the field {field} is required");
                findings.refusals.push(document.refuse(&path, message));
            }
            ValidationErrorKind::Type { kind } => {
                let expected = expected_types(kind);
                let message = wrong_type(document, &path, error.instance(), &expected);
                findings.refusals.push(document.refuse(&path, message));
            }
            ValidationErrorKind::Enum { options } => {
                let message = format!("is {} and must be {}", error.instance(), one_of(options));
                findings.refusals.push(document.refuse(&path, message));
            }
            kind => {
                let message = too_large(kind, error.instance());
                let message = message.unwrap_or_else(|| error.to_string());
                findings.refusals.push(document.refuse(&path, message));
            }
        }
    }

    /// The fields that are known where an unknown one was found.
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

/// Says how large something is and how large it may be, without showing it.
fn too_large(kind: &ValidationErrorKind, value: &Value) -> Option<String> {
    let (size, limit, what) = match (kind, value) {
        (ValidationErrorKind::MaxLength { limit }, Value::String(text)) => {
            (text.chars().count(), limit, "characters")
        }
        (ValidationErrorKind::MaxItems { limit }, Value::Array(items)) => {
            (items.len(), limit, "entries")
        }
        (ValidationErrorKind::MaxProperties { limit }, Value::Object(fields)) => {
            (fields.len(), limit, "entries")
        }
        _ => return None,
    };
    Some(format!("has {size} {what}, use at most {limit}"))
}

/// The values of an enumeration, without the null that stands for no value.
fn one_of(options: &Value) -> String {
    let options: Vec<String> = options
        .as_array()
        .into_iter()
        .flatten()
        .filter(|option| !option.is_null())
        .map(Value::to_string)
        .collect();
    options.join(" or ")
}

fn expected_types(kind: &TypeKind) -> String {
    let names: Vec<String> = match kind {
        TypeKind::Single(one) => vec![one.to_string()],
        TypeKind::Multiple(several) => several.iter().map(|one| one.to_string()).collect(),
    };
    names
        .iter()
        .map(|name| match name.as_str() {
            "object" => "a map",
            "array" => "a list",
            "string" => "a string",
            "integer" => "an integer",
            "number" => "a number",
            "boolean" => "a boolean",
            other => other,
        })
        .filter(|name| *name != "null")
        .collect::<Vec<_>>()
        .join(" or ")
}

/// Makes JSON Schema of what the API server reads: unknown fields are errors there, and `nullable` is a word of its own.
fn close(schema: &mut Value) {
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
    for (keyword, value) in fields {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                properties.values_mut().for_each(close);
            }
            ("items" | "additionalProperties", value @ Value::Object(_)) => close(value),
            // `allOf`, `anyOf`, `oneOf` and `not` only narrow in a structural schema: closing them would refuse what the
            // schema around them knows.
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
