//! What `podloom drift` prints.

mod json;
mod table;
mod text;

use super::Scope;
use super::findings::Findings;
use super::judge::Unclear;
use crate::cli::ReportFormat;
use crate::error::CommandError;
use crate::explain;
use crate::feed::Skipped;
use crate::output;

/// What was found, and where.
pub(super) struct Report<'a> {
    pub(super) scope: &'a Scope,
    pub(super) findings: &'a Findings,
    /// Whether it is known which plugins match.
    pub(super) knows_chain: bool,
    pub(super) skipped: &'a [Skipped],
}

/// Prints the report on standard output.
pub(super) fn print(report: &Report<'_>, format: ReportFormat) -> Result<(), CommandError> {
    let text = match format {
        ReportFormat::Text => text::of(report),
        ReportFormat::Json => output::json_text(&json::of(report))?,
    };
    output::print(&text)
}

/// The report for people.
#[cfg(test)]
pub(super) fn text_of(report: &Report<'_>) -> String {
    text::of(report)
}

/// The report for programs.
#[cfg(test)]
pub(super) fn json_of(report: &Report<'_>) -> serde_json::Value {
    json::of(report)
}

/// `412 pods`
fn pods(number: u64) -> String {
    explain::count(usize::try_from(number).unwrap_or(usize::MAX), "pod")
}

/// Why it is not known whether pods missed the chain.
fn why(unclear: Unclear) -> &'static str {
    match unclear {
        Unclear::Configuration => "which pods the webhook selects could not be read",
        Unclear::Namespace => "the labels of their namespaces could not be read",
        Unclear::Conditions => {
            "the webhook configuration has matchConditions, which are not evaluated here"
        }
        Unclear::Size => {
            "they are larger than 512 KiB, or nested too deep, so they were not looked at"
        }
        Unclear::Deployment => "the stamps on the Deployments of their tunnels could not be read",
    }
}
