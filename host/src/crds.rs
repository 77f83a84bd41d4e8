//! `podloom crds`.

use anyhow::Context;
use serde_json::Value;

use crate::cli::{CrdsArguments, Format};
use crate::output;
use crate::refusal::Failure;

/// Prints the CustomResourceDefinitions of one set of API groups.
pub(crate) fn run(arguments: &CrdsArguments) -> Result<(), Failure> {
    let definitions = podloom_api::crds(arguments.api())
        .iter()
        .map(serde_json::to_value)
        .collect::<Result<Vec<Value>, _>>()
        .context("could not write the CustomResourceDefinitions")?;
    output::print_objects(&definitions, Format::Yaml)
}
