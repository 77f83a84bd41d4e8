//! Objects of our API groups that are none of our kinds: they would be printed unchanged, and nobody would notice.

use podloom_api::{InfrastructureKind, SelenosisApi, SelenosisKind};

use crate::manifest::document::Document;
use crate::manifest::field::Step;
use crate::manifest::findings::Findings;
use crate::manifest::kinds::{self, CLEANER, INFRASTRUCTURE};

/// Catches an object of a kind that its API group does not have.
pub(super) fn check(document: &Document, findings: &mut Findings) {
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
