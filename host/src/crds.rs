//! `podloom crds`.

use anyhow::Context;
use serde_json::Value;

use crate::cli::{CrdsArguments, Format};
use crate::error::CommandError;
use crate::output;

/// Prints the CustomResourceDefinitions of the named controllers, in one set of API groups.
pub(crate) fn run(arguments: &CrdsArguments) -> Result<(), CommandError> {
    let duties = arguments.controllers.iter();
    let kinds = duties.flat_map(|duty| duty.row().kinds);
    let definitions = kinds
        .map(|kind| serde_json::to_value((kind.definition)(arguments.selenosis_api)))
        .collect::<Result<Vec<Value>, _>>()
        .context("could not write the CustomResourceDefinitions")?;
    output::print_objects(&definitions, Format::Yaml)
}
