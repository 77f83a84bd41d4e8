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
`kubectl explain cleaner.spec.targets` shows the same in a terminal, for a kind that the cluster has.

- Each table has a field with its type below it, and what it is. A field in **bold** is required.
- `[]` stands for each element of a list, `{}` for each entry of a map.
- Bounds follow the type: `string 1–253` has that many characters, `list ≤64` that many elements, `map ≤64` that many entries, and `integer 1–100` is in that range.
- Each list and each map of a spec has at most 1024 entries, if nothing else is said.
- Types of Kubernetes are linked: everything in them is as in any pod.
- A key of a Secret is an object with the fields `name`, which is required, and `key`, whose default is in parentheses; each is a string of 1 to 253 characters.
- Below a table is what else the API server checks: its messages, and the patterns of strings.
- Browser and BrowserConfig have other groups for `--selenosis-api split`: `browser.selenosis.io` and `browserconfig.selenosis.io`.

";

/// Of each API group: the folder with its definitions, and the page that explains it.
const PLACES: [(&str, &str, &str); 5] = [
    ("selenosis.io", "", "BROWSERS.md"),
    ("portal.gosuda.org", "portal/", "PORTAL.md"),
    (
        "infrastructure.podloom.dev",
        "infrastructure/",
        "INFRASTRUCTURE.md",
    ),
    ("cleaner.vtex.dev", "cleaner/", "CLEANER.md"),
    ("chain.podloom.dev", "rollout/", "CHANGES.md"),
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
    let place = PLACES.iter().find(|(group, ..)| *group == crd.spec.group);
    let (_, folder, guide) = match name.as_str() {
        "ChainException" => &("", "webhook/", "CHAIN.md"),
        _ => place.unwrap(),
    };
    let definition = format!("{folder}{}", file(crd));
    writeln!(
        page,
        "\n## {name}\n\n[Guide](../deploy/{guide}), [definition]({definition}).",
    )
    .unwrap();
    for part in ["spec", "status"] {
        writeln!(page, "\n### {name} {part}\n").unwrap();
        fields.begin(name);
        fields.walk(part, &schema["properties"][part], false);
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
        "| **`spec.targets[].reference.kind`**<br>string 1–63 |",
        "| `spec.deletion.maxObjects`<br>integer 1–2000, default `100` |",
        "| **`spec.app.service.port`**<br>integer 1–65535 | Give the port of the Service, 1 to 65535. |",
        "| `spec.browsers{}{}.env`<br>list of [EnvVar](https://pkg.go.dev/k8s.io/api/core/v1#EnvVar) |",
        "- `spec.browserName`: browserName cannot be changed: create another Browser\n",
        "- `spec.targets[].reference.version` matches `^[a-z]([-a-z0-9]*[a-z0-9])?$`\n",
        "- the whole object: ",
    ] {
        assert!(page.contains(line), "{line}");
    }
    for crd in kinds() {
        check_complete(&crd, &page);
    }
}

/// The message of each rule and each pattern of a kind's definition is somewhere on the page.
fn check_complete(crd: &CustomResourceDefinition, page: &str) {
    fn texts<'a>(node: &'a Value, found: &mut Vec<&'a str>) {
        match node {
            Value::Array(nodes) => nodes.iter().for_each(|node| texts(node, found)),
            Value::Object(fields) => {
                for (name, value) in fields {
                    match value {
                        Value::String(text) if name == "message" || name == "pattern" => {
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
