//! Label selectors. A value with a comma would be read by the API server as another selector, so each part is checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::core::{Expression, Selector};
use podloom_engine::shown::shown;
use podloom_syntax::names::{label_key, label_value};

/// Why no object can have such labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadSelector(String);

impl fmt::Display for BadSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads labels with their values.
pub(super) fn of_labels(labels: &BTreeMap<String, String>) -> Result<Selector, BadSelector> {
    let equal = |(key, value): (&String, &String)| {
        checked_key(key)?;
        checked_value(key, value)?;
        Ok(Expression::Equal(key.clone(), value.clone()))
    };
    labels.iter().map(equal).collect()
}

/// Reads a selector.
pub(super) fn of(selector: &LabelSelector) -> Result<Selector, BadSelector> {
    let labels = selector.match_labels.as_ref();
    let mut read = labels.map_or_else(|| Ok(Selector::default()), of_labels)?;
    for requirement in selector.match_expressions.iter().flatten() {
        read.extend([expression(requirement)?]);
    }
    Ok(read)
}

fn expression(requirement: &LabelSelectorRequirement) -> Result<Expression, BadSelector> {
    let key = requirement.key.clone();
    checked_key(&key)?;
    let values: BTreeSet<String> = requirement.values.iter().flatten().cloned().collect();
    for value in &values {
        checked_value(&key, value)?;
    }
    // An empty list of values means something else to the API server than here.
    match (requirement.operator.as_str(), values.is_empty()) {
        ("In", false) => Ok(Expression::In(key, values)),
        ("NotIn", false) => Ok(Expression::NotIn(key, values)),
        ("Exists", true) => Ok(Expression::Exists(key)),
        ("DoesNotExist", true) => Ok(Expression::DoesNotExist(key)),
        _ => Err(BadSelector(format!(
            "the requirement for the label {key} needs the operator In or NotIn and values, or Exists or DoesNotExist and none"
        ))),
    }
}

fn checked_key(key: &str) -> Result<(), BadSelector> {
    label_key(key).map_err(|error| BadSelector(format!("the label key {:?} {error}", shown(key))))
}

fn checked_value(key: &str, value: &str) -> Result<(), BadSelector> {
    label_value(value).map_err(|error| {
        BadSelector(format!(
            "the value {:?} of the label {key} {error}",
            shown(value)
        ))
    })
}
