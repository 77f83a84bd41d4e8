//! Writes `crds/REFERENCE.md`: every field of every kind, from the same definitions as the files beside it.

use std::fmt::Write as _;

use serde_json::Value;

use super::{CustomResourceDefinition, file, kinds, schema};
use fields::Fields;

mod fields;

const PAGE: &str = "crds/REFERENCE.md";

const TOP: &str = "\
# API reference

Every kind that Podloom serves, with every field of it.
This page is made from the same types as the CustomResourceDefinitions; change those, not this page.

- `[]` in a field's name stands for each element of a list, `{}` for each entry of a map.
- What is not required may be left out.
- Each list and each map of a spec has at most 1024 entries, if nothing else is said.
- Types of Kubernetes are linked, not repeated: everything in them is as in any pod.
- Browser and BrowserConfig have other groups for `--selenosis-api split`: `browser.selenosis.io` and `browserconfig.selenosis.io`.
- `kubectl explain cleaner.spec.targets` shows the same in a terminal, for a kind that the cluster has.

";

/// Of each API group: the folder with its definitions, and the page that explains it.
const PLACES: [(&str, &str, &str); 4] = [
    ("selenosis.io", "", "BROWSERS.md"),
    ("portal.gosuda.org", "portal/", "PORTAL.md"),
    (
        "infrastructure.podloom.dev",
        "infrastructure/",
        "INFRASTRUCTURE.md",
    ),
    ("cleaner.vtex.dev", "cleaner/", "CLEANER.md"),
];

fn page() -> String {
    let mut page = TOP.to_owned();
    page.push_str(
        "| kind | group and version | scope | short name | what it is |\n|---|---|---|---|---|\n",
    );
    for crd in kinds() {
        let names = &crd.spec.names;
        let short = names.short_names.iter().flatten();
        let short: Vec<_> = short.map(|name| format!("`{name}`")).collect();
        writeln!(
            page,
            "| [{}](#{}) | `{}` | {} | {} | {} |",
            names.kind,
            names.kind.to_lowercase(),
            version(&crd),
            scope(&crd),
            short.join(", "),
            fields::prose(&schema(&crd)),
        )
        .unwrap();
    }
    let mut fields = Fields::default();
    for crd in kinds() {
        kind(&crd, &mut fields, &mut page);
    }
    page
}

fn version(crd: &CustomResourceDefinition) -> String {
    format!("{}/{}", crd.spec.group, crd.spec.versions[0].name)
}

fn scope(crd: &CustomResourceDefinition) -> &'static str {
    match crd.spec.scope.as_str() {
        "Cluster" => "cluster",
        _ => "namespace",
    }
}

/// The section of a kind.
fn kind(crd: &CustomResourceDefinition, fields: &mut Fields, page: &mut String) {
    let schema = schema(crd);
    let name = &crd.spec.names.kind;
    let columns = crd.spec.versions[0].additional_printer_columns.iter();
    let columns = columns.flatten().filter(|column| column.priority.is_none());
    let columns: Vec<_> = columns.map(|column| column.name.as_str()).collect();
    let place = PLACES.iter().find(|(group, ..)| *group == crd.spec.group);
    let (_, folder, guide) = place.unwrap();
    let definition = format!("{folder}{}", file(crd));
    writeln!(
        page,
        "\n## {name}\n\n{}\n\n\
         [deploy/{guide}](../deploy/{guide}) explains it; the definition is [{definition}]({definition}).\n\
         `kubectl get {}` shows {}.",
        fields::prose(&schema),
        crd.spec.names.plural,
        columns.join(", "),
    )
    .unwrap();
    for part in ["spec", "status"] {
        let node = &schema["properties"][part];
        let required = fields::requires(&schema, part);
        writeln!(page, "\n### {name} {part}\n").unwrap();
        fields.begin(name);
        fields.walk(part, node, required);
        if part == "spec" {
            fields.check_of("the whole object", &schema);
        }
        page.push_str(&fields.tables());
    }
}

/// As with the definitions: on a developer's machine the page is rewritten, and the test fails once; in CI it only fails.
#[test]
fn the_reference_is_fresh() {
    let path = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(PAGE);
    let page = page();
    if std::fs::read_to_string(&path).is_ok_and(|found| found == page) {
        return;
    }
    if std::env::var_os("CI").is_none() {
        std::fs::write(&path, page).unwrap();
    }
    panic!("{PAGE} was not what the types give; run this test again and commit it");
}

/// What a reader looks for: each field with its bounds, its default, its pattern and its rules.
#[test]
fn the_reference_has_types_defaults_bounds_patterns_and_rules() {
    let page = page();
    for line in [
        "| `spec.targets[].reference.kind` | string, **required** |",
        "| `spec.deletion.maxObjects` | integer, default `100` |",
        "| `spec.app.service.port` | integer, **required** | Give the port of the Service, 1 to 65535. |",
        "| `spec.browsers{}{}.env` | list of [EnvVar](https://pkg.go.dev/k8s.io/api/core/v1#EnvVar) |",
        "- `spec.browserName`: browserName cannot be changed: create another Browser\n  `self == oldSelf`\n",
        "- the whole object: ",
    ] {
        assert!(page.contains(line), "{line}");
    }
    for crd in kinds() {
        check_complete(&crd, &page);
    }
}

/// Each rule and each pattern of a kind's definition is somewhere on the page.
fn check_complete(crd: &CustomResourceDefinition, page: &str) {
    fn texts<'a>(node: &'a Value, found: &mut Vec<&'a str>) {
        match node {
            Value::Array(nodes) => nodes.iter().for_each(|node| texts(node, found)),
            Value::Object(fields) => {
                for (name, value) in fields {
                    match value {
                        Value::String(text) if name == "rule" || name == "pattern" => {
                            found.push(text)
                        }
                        _ => texts(value, found),
                    }
                }
            }
            _ => {}
        }
    }
    let schema = schema(crd);
    let mut found = Vec::new();
    texts(&schema, &mut found);
    for text in found {
        let is_quantity = text.starts_with(r"^(\+|-)?");
        assert!(is_quantity || page.contains(text), "{text}");
    }
}
