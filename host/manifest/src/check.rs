//! Checks objects before they are rendered, so that each error names the position in the user's file.

use std::collections::{BTreeMap, HashSet};

use anyhow::Context;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{ValidationError, Validator};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use podloom_api::{DNS_SUBDOMAIN, IM_URL, InfrastructureKind, SelenosisApi, SelenosisKind, UUID};
use podloom_pod_path::{ViolationKind, nearest};
use podloom_syntax::names;
use serde_json::{Map, Value, json};

use super::Findings;
use super::document::{self, Document, Step};
use super::kinds::{self, CLEANER, DocumentKind, INFRASTRUCTURE};
use super::rules::{self, About, Broken, Rules};
use super::untouched::{self, Unknown};
use crate::error::{CommandError, Diagnostic, quoted, value};

/// The version of an object that is stored, if it is known.
pub type Previous<'a> = &'a dyn Fn(&Document) -> Option<&'a Value>;

/// Checks every object: our own kinds against their CRDs, pods and templates against the Pod's types.
pub fn check(documents: &[Document], unknown: Unknown) -> Result<Findings, CommandError> {
    check_with(&mut Schemas::default(), documents, unknown, &|_| None)
}

/// Like [`check`], with schemas that were needed before, and with what cannot be changed in objects that are stored.
pub fn check_with(
    schemas: &mut Schemas,
    documents: &[Document],
    unknown: Unknown,
    previous: Previous<'_>,
) -> Result<Findings, CommandError> {
    let mut findings = Findings::default();
    for (index, document) in documents.iter().enumerate() {
        let before = findings.errors.len();
        check_metadata(document, &mut findings);
        let kind = kinds::kind(document);
        match &kind {
            DocumentKind::Browser
            | DocumentKind::BrowserConfig
            | DocumentKind::PortalExpose
            | DocumentKind::TunnelClass
            | DocumentKind::Infrastructure(_)
            | DocumentKind::Cleaner
            | DocumentKind::ChainException => {
                check_name(document, &mut findings);
                if let Some(schema) = schemas.of(&kind, &document.kind)? {
                    schema.check(document, previous(document), before, &mut findings)?;
                }
            }
            DocumentKind::Namespace => check_name(document, &mut findings),
            DocumentKind::Pod => check_pod(document, &[], &mut findings),
            DocumentKind::Workload(template) => {
                check_pod(document, &template.path, &mut findings);
            }
            DocumentKind::Named(templates) => {
                for template in templates {
                    check_pod(document, &template.path, &mut findings);
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
    check_group(document, findings);
    let is_accepted = document.named.as_ref().is_some_and(Vec::is_empty);
    if findings.errors.len() == before && !is_accepted {
        untouched::check(document, unknown, findings);
    }
}

/// The schemas of our kinds, by kind. Each is compiled when it is first needed.
#[derive(Default)]
pub struct Schemas(BTreeMap<String, Schema>);

impl Schemas {
    /// The schema of a kind of this name; none if the kind is not ours.
    fn of(&mut self, kind: &DocumentKind, name: &str) -> anyhow::Result<Option<&mut Schema>> {
        if !self.0.contains_key(name)
            && let Some((definition, extent)) = definition(kind)
        {
            let schema = Schema::new(definition, extent)?;
            self.0.insert(name.to_owned(), schema);
        }
        Ok(self.0.get_mut(name))
    }
}

/// The definition of one of our kinds, and what of it is checked.
fn definition(kind: &DocumentKind) -> Option<(CustomResourceDefinition, Extent)> {
    // Both sets of API groups have the same schemas.
    let selenosis = |kind| podloom_api::crd(SelenosisApi::default(), kind);
    Some(match kind {
        DocumentKind::Browser => (selenosis(SelenosisKind::Browser), Extent::Whole),
        DocumentKind::BrowserConfig => (selenosis(SelenosisKind::BrowserConfig), Extent::Whole),
        DocumentKind::PortalExpose => (podloom_api::portal_expose_crd(), Extent::Bounds),
        DocumentKind::TunnelClass => (podloom_api::tunnel_class_crd(), Extent::Bounds),
        DocumentKind::Infrastructure(kind) => {
            (podloom_api::infrastructure_crd(*kind), Extent::Whole)
        }
        DocumentKind::Cleaner => (podloom_api::cleaner_crd(), Extent::Whole),
        DocumentKind::ChainException => (podloom_api::chain_exception_crd(), Extent::Whole),
        _ => return None,
    })
}

/// What of a schema is checked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// All of it.
    Whole,
    /// Neither its patterns nor its rules, since checks of the controllers say the same in words.
    Bounds,
}

/// The OpenAPI schema of a CRD, as JSON Schema, and its rules.
struct Schema {
    text: Value,
    validator: Validator,
    rules: Rules,
    /// The rules about changes, once they were needed: few commands know a change.
    changes: Option<Rules>,
}

impl Schema {
    fn new(definition: CustomResourceDefinition, extent: Extent) -> anyhow::Result<Self> {
        let kind = definition.spec.names.kind;
        let mut versions = definition.spec.versions.into_iter();
        let schema = versions.next().and_then(|version| version.schema);
        let schema = schema.and_then(|schema| schema.open_api_v3_schema);
        let schema = schema.with_context(|| format!("the CRD of {kind} has no schema"))?;
        let mut text = serde_json::to_value(schema)?;
        close(&mut text, extent);
        for field in ["apiVersion", "kind", "metadata"] {
            // These fields are the same for every kind and are checked elsewhere.
            if let Some(Value::Object(properties)) = text.get_mut("properties") {
                properties.insert(field.to_owned(), json!({}));
            }
        }
        let validator = jsonschema::validator_for(&text)
            .with_context(|| format!("the CRD of {kind} has an invalid schema"))?;
        let rules = match extent {
            Extent::Whole => Rules::of(&text, About::Object)
                .with_context(|| format!("the CRD of {kind} has an invalid rule"))?,
            Extent::Bounds => Rules::default(),
        };
        Ok(Self {
            text,
            validator,
            rules,
            changes: None,
        })
    }

    fn check(
        &mut self,
        document: &Document,
        previous: Option<&Value>,
        before: usize,
        findings: &mut Findings,
    ) -> anyhow::Result<()> {
        for error in self.validator.iter_errors(&document.value) {
            self.explain(document, &error, findings);
        }
        let refused = findings.errors.get(before..).unwrap_or_default();
        let mut broken = self.broken(&document.value, previous)?;
        if refused.is_empty() {
            broken.rules.append(&mut broken.failures);
        }
        let broken = broken.rules.into_iter();
        let broken = broken.map(|(path, message)| document.diagnostic(&path, message));
        // A field that the schema itself refuses is not named twice.
        let known: HashSet<_> = refused.iter().map(Diagnostic::place).collect();
        let broken: Vec<Diagnostic> = broken.filter(|it| !known.contains(&it.place())).collect();
        findings.errors.extend(broken);
        Ok(())
    }

    /// The rules that an object breaks. What cannot be evaluated matters only if the schema itself allows the object.
    fn broken(&mut self, object: &Value, previous: Option<&Value>) -> anyhow::Result<Broken> {
        if self.rules.is_empty() && previous.is_none() {
            return Ok(Broken::default());
        }
        let complete = |object: &Value| rules::complete(&self.text, object.clone());
        let object = complete(object);
        let mut broken = self.rules.evaluate(&[&object]);
        if let Some(previous) = previous.map(complete) {
            let changes = match self.changes.take() {
                Some(changes) => changes,
                None => Rules::of(&self.text, About::Change)?,
            };
            let changes = self.changes.insert(changes);
            broken.extend(changes.evaluate(&[&object, &previous]));
        }
        Ok(broken)
    }

    fn explain(&self, document: &Document, error: &ValidationError<'_>, findings: &mut Findings) {
        // Steps need the document: a version such as "143" is a key, though it looks like an index.
        let mut path = document::steps(&document.value, error.instance_path().as_str());
        let message = match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                let known = self.siblings(error.schema_path().as_str());
                for field in unexpected {
                    path.push(Step::Key(field.clone()));
                    let unknown = document.diagnostic_at_key(&path, unknown_field(field, &known));
                    findings.errors.push(unknown);
                    path.pop();
                }
                return;
            }
            ValidationErrorKind::Required { property } => {
                let field = property.as_str().unwrap_or_default();
                format!("the field {field} is required")
            }
            ValidationErrorKind::Type { kind } => {
                wrong_type(document, &path, error.instance(), &expected_types(kind))
            }
            ValidationErrorKind::Enum { options } => {
                let (is, options) = (value(error.instance()), one_of(options));
                format!("is {is} and must be {options}")
            }
            kind => {
                let message = in_words(kind, error.instance());
                message.unwrap_or_else(|| error.to_string())
            }
        };
        findings.errors.push(document.diagnostic(&path, message));
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
fn close(schema: &mut Value, extent: Extent) {
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
    if extent == Extent::Bounds {
        fields.remove("pattern");
    }
    for (keyword, value) in fields {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                let properties = properties.values_mut();
                properties.for_each(|property| close(property, extent));
            }
            ("items" | "additionalProperties", value @ Value::Object(_)) => close(value, extent),
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

// Objects of our API groups that are none of our kinds: they would be printed unchanged, and nobody would notice.

/// Catches an object of a kind that its API group does not have.
fn check_group(document: &Document, findings: &mut Findings) {
    let group = document.api_version.split_once('/');
    let group = group.map_or("", |(group, _)| group);
    let found = if group == "selenosis.io" || group.ends_with(".selenosis.io") {
        selenosis(document)
    } else if kinds::is_infrastructure(document) {
        infrastructure(document)
    } else if kinds::is_cleaner(document) {
        cleaner(document)
    } else {
        return;
    };
    let (field, message) = found;
    let path = [Step::from(field)];
    findings.errors.push(document.diagnostic(&path, message));
}

/// The field that is wrong, and what to write.
type Wrong = (&'static str, String);

fn selenosis(document: &Document) -> Wrong {
    let mut kinds = SelenosisKind::ALL.into_iter();
    match kinds.find(|kind| kind.name() == document.kind) {
        Some(kind) => {
            let versions = SelenosisApi::ALL
                .map(|api| format!("{}/{}", api.group(kind), SelenosisApi::VERSION));
            let message = format!(
                "wrong API group for a {}: write {}",
                document.kind,
                versions.join(" or ")
            );
            ("apiVersion", message)
        }
        None => (
            "kind",
            "unknown kind: this API group has Browser and BrowserConfig".to_owned(),
        ),
    }
}

fn infrastructure(document: &Document) -> Wrong {
    let names = InfrastructureKind::ALL.map(InfrastructureKind::name);
    let written = document.kind.as_str();
    match names.iter().find(|name| name.eq_ignore_ascii_case(written)) {
        Some(name) if *name == written => (
            "apiVersion",
            format!("unknown version of {name}: write {INFRASTRUCTURE}"),
        ),
        Some(name) => ("kind", format!("unknown kind: write {name}")),
        None => (
            "kind",
            format!("unknown kind: this API group has {}", names.join(", ")),
        ),
    }
}

fn cleaner(document: &Document) -> Wrong {
    match document.kind == "Cleaner" {
        true => (
            "apiVersion",
            format!("unknown version of Cleaner: write {CLEANER}"),
        ),
        false => (
            "kind",
            "unknown kind: this API group has Cleaner".to_owned(),
        ),
    }
}

// What a schema says, in words.

/// The error for a value that breaks a limit or has another form; none if the schema's own words must do.
fn in_words(kind: &ValidationErrorKind, value: &Value) -> Option<String> {
    match kind {
        ValidationErrorKind::Pattern { pattern } => form(pattern).map(str::to_owned),
        kind => out_of_bounds(kind, value),
    }
}

/// What a text must be that has to match a pattern. It does not repeat the text: a URL may have a password in it.
fn form(pattern: &str) -> Option<&'static str> {
    match pattern {
        IM_URL => Some(
            "must be a URL: http:// or https://, a host, and if needed a port and a path; no user name, query or fragment",
        ),
        UUID => Some(
            "must be a UUID in lower-case letters, such as 5b0ae1a6-0e2f-11f0-8de9-0242ac120002",
        ),
        DNS_SUBDOMAIN => Some(
            "must have lower-case letters, digits, '-' and '.', with a letter or digit at the start and the end of each part",
        ),
        _ => None,
    }
}

/// The error for a value that is too large or too small: a number, or the size of something else, and the limit.
fn out_of_bounds(kind: &ValidationErrorKind, value: &Value) -> Option<String> {
    let (size, limit, what) = match (kind, value) {
        (ValidationErrorKind::Minimum { limit }, Value::Number(number)) => {
            return Some(format!("is {number}, use at least {}", whole(limit)));
        }
        (ValidationErrorKind::Maximum { limit }, Value::Number(number)) => {
            return Some(format!("is {number}, use at most {}", whole(limit)));
        }
        (ValidationErrorKind::MaxLength { limit }, Value::String(text)) => {
            (text.chars().count(), limit, "characters")
        }
        (ValidationErrorKind::MinLength { limit }, Value::String(text)) => {
            let size = text.chars().count();
            return Some(format!("has {size} characters, use at least {limit}"));
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

/// A limit as people write it: CRDs have floating-point numbers.
fn whole(limit: &Value) -> String {
    limit
        .as_f64()
        .map_or_else(|| limit.to_string(), |limit| limit.to_string())
}

/// The values of an enum, without null.
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

// The result of checking objects, and the wording of the messages.

/// How many known fields a message lists at most.
const MOST_LISTED: usize = 24;

/// The message for an unknown field. It suggests a similar field, or lists the known ones.
pub(super) fn unknown_field(field: &str, known: &[&str]) -> String {
    match nearest(field, known.iter().copied()) {
        Some(meant) => format!("unknown field; did you mean {meant}?"),
        // Nobody reads a list that is too long.
        None if known.is_empty() || known.len() > MOST_LISTED => "unknown field".to_owned(),
        None => format!("unknown field; known fields: {}", known.join(", ")),
    }
}

/// The message for a value of the wrong type. If only quotes are missing or too many, it says so.
pub(super) fn wrong_type(
    document: &Document,
    path: &[Step],
    found: &Value,
    expected: &str,
) -> String {
    let written = document.written(path);
    let noun = match found {
        Value::Null => {
            return format!("is empty and must be {expected}: set a value or remove the field");
        }
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "map",
    };
    match (found, written) {
        (Value::Bool(_) | Value::Number(_), Some(written)) if expected.contains("string") => {
            format!("is the {noun} {written} and must be {expected}: write \"{written}\"")
        }
        (Value::Bool(_) | Value::Number(_), Some(written)) => {
            format!("is the {noun} {written} and must be {expected}")
        }
        (Value::String(text), _) if is_scalar_of(text, expected) => {
            format!(
                "is the string {} and must be {expected}: write it without quotes",
                quoted(text)
            )
        }
        _ => format!("is a {noun} and must be {expected}"),
    }
}

/// Whether a string would be of the expected type without its quotes.
fn is_scalar_of(text: &str, expected: &str) -> bool {
    match text {
        "true" | "false" => expected.contains("boolean"),
        text => expected.contains("integer") && text.parse::<i64>().is_ok(),
    }
}

// Checks pods and pod templates against the Pod's schema.

/// Checks the `metadata` of any object.
pub(super) fn check_metadata(document: &Document, findings: &mut Findings) {
    let Some(metadata) = document.value.get("metadata") else {
        return;
    };
    report(document, &[], &json!({ "metadata": metadata }), findings);
}

/// Checks a pod, or the pod template at a path of a workload.
pub(super) fn check_pod(document: &Document, at: &[Step], findings: &mut Findings) {
    let template = document::get(&document.value, at);
    let Some(template) = template.filter(|template| !template.is_null()) else {
        let message = format!("the pod template of the {} is missing", document.kind);
        findings.errors.push(document.diagnostic(at, message));
        return;
    };
    if !template.is_object() {
        let message = wrong_type(document, at, template, "a map");
        findings.errors.push(document.diagnostic(at, message));
        return;
    }
    let mut pod = json!({ "spec": template.get("spec") });
    if !at.is_empty() {
        pod["metadata"] = template.get("metadata").cloned().unwrap_or_default();
    }
    if !pod["spec"]["containers"].is_array() {
        let path = [at, &["spec".into(), "containers".into()]].concat();
        let message = "the list of containers is missing";
        findings.errors.push(document.diagnostic(&path, message));
    }
    report(document, at, &pod, findings);
}

fn report(document: &Document, at: &[Step], pod: &Value, findings: &mut Findings) {
    let above: String = at
        .iter()
        .map(|step| match step {
            Step::Key(key) => format!("/{}", document::escape(key)),
            Step::Index(index) => format!("/{index}"),
        })
        .collect();
    for violation in podloom_pod_path::examine(pod) {
        let path = document::steps(&document.value, &format!("{above}{}", violation.path));
        match violation.kind {
            ViolationKind::Type { expected, found } => {
                let message = wrong_type(document, &path, &found, &expected);
                findings.errors.push(document.diagnostic(&path, message));
            }
            ViolationKind::Unknown { known } => {
                let field = match path.last() {
                    Some(Step::Key(field)) => field.as_str(),
                    _ => "",
                };
                let message = unknown_field(field, &known);
                findings
                    .warnings
                    .push(document.diagnostic_at_key(&path, message));
            }
        }
    }
}

#[cfg(test)]
mod tests;
