//! Prints crates as CycloneDX, the format that most tools for bills of materials read.
//!
//! The format: <https://cyclonedx.org/docs/1.5/json/>.

use auditable_serde::{Package, Source, VersionInfo};
use serde_json::{Value, json};

/// A CycloneDX document about a program: the program itself, its crates, and which uses which.
///
/// The same crates give the same bytes: there is neither a time nor a serial number in it.
#[must_use]
pub fn cyclonedx(crates: &VersionInfo) -> Value {
    let of = |is_root: bool| {
        let packages = crates.packages.iter();
        packages.filter(move |package| package.root == is_root)
    };
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": of(true).next().map(|root| component(root, "application")),
        },
        "components": of(false).map(|package| component(package, "library")).collect::<Vec<_>>(),
        "dependencies": crates.packages.iter().map(|package| uses(crates, package)).collect::<Vec<_>>(),
    })
}

fn component(package: &Package, kind: &str) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": reference(package),
        "name": package.name,
        "version": package.version.to_string(),
    });
    if let (Source::CratesIo, Some(fields)) = (&package.source, component.as_object_mut()) {
        fields.insert("purl".to_owned(), purl(package).into());
    }
    component
}

/// The name that the rest of the document calls a crate by.
fn reference(package: &Package) -> String {
    match package.source {
        Source::CratesIo => purl(package),
        _ => format!("{}@{}", package.name, package.version),
    }
}

/// The URL of a crate of crates.io for scanners, which look up its vulnerabilities by it. No other source has one.
fn purl(package: &Package) -> String {
    let version = package.version.to_string().replace('+', "%2B");
    format!("pkg:cargo/{}@{version}", package.name)
}

fn uses(crates: &VersionInfo, package: &Package) -> Value {
    let used = package.dependencies.iter();
    let used: Vec<String> = used
        .filter_map(|index| crates.packages.get(*index))
        .map(reference)
        .collect();
    json!({ "ref": reference(package), "dependsOn": used })
}

#[cfg(test)]
mod tests;
