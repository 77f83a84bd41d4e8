//! The fields of one kind as a table, and below it what the API server checks in them.

use std::fmt::Write as _;

use serde_json::Value;

/// The bound of lists and maps that have no closer one; the top of the page says so.
const EVERYWHERE: &str = "1024";

/// What is said of an element in so few words is said of its list already.
const OBVIOUS: usize = 8;

/// A subtree with fewer fields is shown again where it comes again.
const WORTH_A_REFERENCE: usize = 4;

/// Types of Kubernetes that we embed without their descriptions: the field's name, the type, and its package.
const KUBERNETES: [(&str, &str, &str); 15] = [
    ("affinity", "Affinity", CORE),
    ("conditions", "Condition", META),
    ("dnsConfig", "PodDNSConfig", CORE),
    ("env", "EnvVar", CORE),
    ("hostAliases", "HostAlias", CORE),
    ("imagePullSecrets", "LocalObjectReference", CORE),
    ("ports", "ContainerPort", CORE),
    ("resources", "ResourceRequirements", CORE),
    ("state", "ContainerState", CORE),
    ("tolerations", "Toleration", CORE),
    ("volumeMounts", "VolumeMount", CORE),
    ("volumes", "Volume", CORE),
    ("{}.securityContext", "PodSecurityContext", CORE),
    ("template.securityContext", "PodSecurityContext", CORE),
    ("securityContext", "SecurityContext", CORE),
];
const CORE: &str = "k8s.io/api/core/v1";
const META: &str = "k8s.io/apimachinery/pkg/apis/meta/v1";

/// One row of the table, and what is checked in this field.
#[derive(Clone, PartialEq)]
struct Row {
    path: String,
    kind: String,
    text: String,
    required: bool,
    /// What each rule and the pattern say.
    checks: Vec<String>,
}

/// The fields of all kinds so far, and the rows that are not yet printed.
#[derive(Default)]
pub(super) struct Fields {
    kind: String,
    rows: Vec<Row>,
    /// Each subtree that was shown: where, and its rows with paths relative to it.
    shown: Vec<(String, Vec<Row>)>,
    checks: Vec<(String, String)>,
}

impl Fields {
    pub(super) fn begin(&mut self, kind: &str) {
        kind.clone_into(&mut self.kind);
    }

    /// Adds a field with all below it. What is nearly like something that was shown is shown by what differs.
    pub(super) fn walk(&mut self, path: &str, node: &Value, required: bool) {
        if is_worth_a_row(node) && !is_obvious(path, node) {
            self.rows.push(row(path, node, required));
        }
        let below = below(path, node);
        if below.len() >= WORTH_A_REFERENCE {
            if self.refer(path, &below) {
                return;
            }
            self.shown.push((self.named(path), below));
        }
        for (name, child, required) in children(path, node) {
            self.walk(&format!("{path}{name}"), child, required);
        }
    }

    /// Says of a subtree that it is like one that was shown, if so, and adds the rows that differ.
    fn refer(&mut self, path: &str, below: &[Row]) -> bool {
        let differing = |shown: &[Row]| -> Vec<Row> {
            let rows = below.iter().filter(|row| !shown.contains(row));
            rows.cloned().collect()
        };
        let missing = |shown: &[Row]| -> Vec<String> {
            let is_missing = |row: &&Row| below.iter().all(|it| it.path != row.path);
            let rows = shown.iter().filter(is_missing);
            rows.map(|row| format!("`{}`", row.path.trim_start_matches('.')))
                .collect()
        };
        let distance = |shown: &[Row]| differing(shown).len() + missing(shown).len();
        let near = self.shown.iter().min_by_key(|(_, rows)| distance(rows));
        let Some((place, shown)) = near.filter(|(_, rows)| distance(rows) * 4 <= below.len())
        else {
            return false;
        };
        let mut text = format!(" Its fields are those of {place}");
        let absent = missing(shown);
        if !absent.is_empty() {
            write!(text, ", but for {}", absent.join(", ")).unwrap();
        }
        let other = differing(shown);
        text.push_str(if other.is_empty() {
            "."
        } else {
            ", and these differ:"
        });
        if let Some(row) = self.rows.last_mut() {
            row.text.push_str(&text);
        }
        let other = other.into_iter().map(|row| Row {
            path: format!("{path}{}", row.path),
            ..row
        });
        self.rows.extend(other);
        true
    }

    /// A field as other kinds refer to it.
    fn named(&self, path: &str) -> String {
        let kind = &self.kind;
        format!("`{path}` of [{kind}](#{})", kind.to_lowercase())
    }

    /// Adds the rules of something that is no field.
    pub(super) fn check_of(&mut self, name: &str, node: &Value) {
        let checks = checks(node).into_iter();
        self.checks
            .extend(checks.map(|check| (name.to_owned(), check)));
    }

    /// The table of all fields since the last one, and the list of what is checked in them. The first is the whole, so it has no row.
    pub(super) fn tables(&mut self) -> String {
        let mut text = String::new();
        let mut checks = Vec::new();
        for (index, row) in self.rows.drain(..).enumerate() {
            let name = format!("`{}`", row.path);
            let bold = if row.required { "**" } else { "" };
            let (kind, words) = (row.kind, row.text);
            let line = match index {
                0 => format!("{words}\n"),
                _ => format!("| {bold}{name}{bold}<br>{kind} | {words} |"),
            };
            if index == 1 {
                text.push_str("\n| field | what it is |\n|---|---|\n");
            }
            writeln!(text, "{}", line.trim_end()).unwrap();
            checks.extend(row.checks.into_iter().map(|check| (name.clone(), check)));
        }
        checks.append(&mut self.checks);
        if checks.is_empty() {
            return text;
        }
        text.push_str("\nThe API server checks:\n\n");
        while let Some((_, check)) = checks.first().cloned() {
            let (same, others) = checks.into_iter().partition(|(_, it)| *it == check);
            checks = others;
            let names: Vec<String> = same
                .into_iter()
                .map(|(name, _): (String, String)| name)
                .collect();
            let check = match names.len() {
                1 => check,
                _ => check.replace(" matches", " match"),
            };
            writeln!(text, "- {}{check}", names.join(", ")).unwrap();
        }
        text
    }
}

/// What the type's author says about it, in one line.
pub(super) fn prose(node: &Value) -> String {
    let text = node["description"].as_str().unwrap_or_default();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.replace('|', r"\|")
        .replace('<', "&lt;")
        .replace('*', r"\*")
}

pub(super) fn requires(node: &Value, name: &str) -> bool {
    let required = node["required"].as_array();
    required.into_iter().flatten().any(|it| it == name)
}

/// Whether a field says anything about itself that its parent does not say.
fn is_worth_a_row(node: &Value) -> bool {
    node["description"].is_string()
        || node["properties"].is_object()
        || node["x-kubernetes-preserve-unknown-fields"] == true
}

/// Whether this is an element of which its list says all.
fn is_obvious(path: &str, node: &Value) -> bool {
    let words = prose(node).split(' ').count();
    path.ends_with([']', '}']) && words <= OBVIOUS && checks(node).is_empty()
}

fn row(path: &str, node: &Value, required: bool) -> Row {
    let mut kind = kind(path, node);
    let mut text = prose(node);
    let default = match &node["default"] {
        Value::String(text) if !text.is_empty() => text.clone(),
        default => default.to_string(),
    };
    match &node["default"] {
        Value::Null => {}
        Value::Object(_) => kind.push_str(", with defaults"),
        _ => {
            write!(kind, ", default `{default}`").unwrap();
            text = text.replace(&format!(" Defaults to {default}."), "");
        }
    }
    // The type lists them.
    if let Some(values) = values(node, "") {
        text = text.replace(&format!(": {values}."), ".");
    }
    Row {
        path: path.to_owned(),
        kind,
        text,
        required,
        checks: checks(node),
    }
}

/// All rows below a field, with paths relative to it.
fn below(path: &str, node: &Value) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, child, required) in children(path, node) {
        let full = format!("{path}{name}");
        if is_worth_a_row(child) {
            let row = row(&full, child, required);
            rows.push(Row {
                path: name.clone(),
                ..row
            });
        }
        rows.extend(below(&full, child).into_iter().map(|row| Row {
            path: format!("{name}{}", row.path),
            ..row
        }));
    }
    rows
}

/// The fields, the element or the entry of a field; none of a type of Kubernetes.
fn children<'a>(path: &str, node: &'a Value) -> Vec<(String, &'a Value, bool)> {
    if of_kubernetes(path, node).is_some() || is_secret_key(node) {
        return Vec::new();
    }
    let fields = node["properties"].as_object().into_iter().flatten();
    let fields = fields.map(|(name, child)| (format!(".{name}"), child, requires(node, name)));
    let nested = [("items", "[]"), ("additionalProperties", "{}")];
    let nested = nested.into_iter().filter_map(|(key, mark)| {
        let child = node.get(key).filter(|child| child.is_object())?;
        Some((mark.to_owned(), child, false))
    });
    fields.chain(nested).collect()
}

/// The type in words, with a link if it is one of Kubernetes'.
fn kind(path: &str, node: &Value) -> String {
    if let Some((name, package)) = of_kubernetes(path, node) {
        let list = if node["type"] == "array" {
            "list of "
        } else {
            ""
        };
        return format!("{list}[{name}](https://pkg.go.dev/{package}#{name})");
    }
    plain_kind(node, "")
}

fn plain_kind(node: &Value, plural: &str) -> String {
    let bounds = bounds(node);
    let nested = |words: &str, key: &str| {
        format!("{words}{plural}{bounds} of {}", plain_kind(&node[key], "s"))
    };
    if node["additionalProperties"].is_object() {
        return nested("map", "additionalProperties");
    }
    if let Some(values) = values(node, "`") {
        return values;
    }
    if is_secret_key(node) {
        let key = node["properties"]["key"]["default"].as_str();
        return match plural {
            "" => format!("key of a Secret (`{}`)", key.unwrap_or_default()),
            _ => "keys of Secrets".to_owned(),
        };
    }
    match (
        node["type"].as_str().unwrap_or_default(),
        node["format"].as_str(),
    ) {
        ("array", _) => nested("list", "items"),
        ("string", Some("date-time")) => format!("time{plural}"),
        ("object", _) if node["x-kubernetes-preserve-unknown-fields"] == true => {
            format!("object{plural} with any fields")
        }
        (kind, _) => format!("{kind}{plural}{bounds}"),
    }
}

/// Whether this names a key of a Secret; the top of the page says how.
fn is_secret_key(node: &Value) -> bool {
    let fields = node["properties"].as_object().into_iter().flatten();
    fields.map(|(name, _)| name).eq(["key", "name"])
}

/// The values that there are, as a sentence has them, between quotes.
fn values(node: &Value, quote: &str) -> Option<String> {
    let values = node["enum"].as_array().into_iter().flatten();
    let values: Vec<_> = values
        .filter_map(Value::as_str)
        .map(|it| format!("{quote}{it}{quote}"))
        .collect();
    let (last, others) = values.split_last()?;
    Some(match others {
        [] => last.clone(),
        _ => format!("{} or {last}", others.join(", ")),
    })
}

/// The type of Kubernetes that this is, and its package: one with nested fields of which none is described.
fn of_kubernetes(path: &str, node: &Value) -> Option<(&'static str, &'static str)> {
    let open = node["x-kubernetes-preserve-unknown-fields"] == true;
    if open || !has_fields(node) || describes(node) {
        return None;
    }
    let mut known = KUBERNETES.iter();
    let found = known.find(|(field, ..)| path.ends_with(field));
    found.map(|(_, name, package)| (*name, *package))
}

fn nested(node: &Value) -> impl Iterator<Item = &Value> {
    let fields = node["properties"]
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.values());
    fields.chain(
        ["items", "additionalProperties"]
            .into_iter()
            .filter_map(|key| node.get(key)),
    )
}

fn has_fields(node: &Value) -> bool {
    node["properties"].is_object() || nested(node).any(has_fields)
}

fn describes(node: &Value) -> bool {
    nested(node).any(|child| child["description"].is_string() || describes(child))
}

/// How large a value may be, as ` 1–63`.
fn bounds(node: &Value) -> String {
    for (least, most) in [
        ("minLength", "maxLength"),
        ("minimum", "maximum"),
        ("minItems", "maxItems"),
        ("minProperties", "maxProperties"),
    ] {
        let bound = |key: &str| node[key].as_f64().map(|bound| bound.to_string());
        match (bound(least), bound(most)) {
            (None, None) => {}
            (None, Some(most)) if most == EVERYWHERE && least != "minLength" => {}
            (None, Some(most)) => return format!(" ≤{most}"),
            (Some(least), None) => return format!(" ≥{least}"),
            (Some(least), Some(most)) => return format!(" {least}–{most}"),
        }
    }
    String::new()
}

/// What the rules and the pattern of a field say.
fn checks(node: &Value) -> Vec<String> {
    let pattern = node["pattern"].as_str();
    let pattern = pattern.map(|code| format!(" matches `{code}`"));
    let rules = node["x-kubernetes-validations"].as_array();
    let rules = rules.into_iter().flatten();
    let rules = rules.map(|rule| format!(": {}", rule["message"].as_str().unwrap_or_default()));
    pattern.into_iter().chain(rules).collect()
}
