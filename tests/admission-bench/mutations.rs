//! The mutations of the comparison, each in the words of a chain and in those of policies.

use serde_json::{Map, Value, json};

/// How many rules there are in the cells that show what each of them costs.
const RULES: [usize; 3] = [1, 10, 50];

/// One row of the table.
pub(crate) struct Cell {
    pub(crate) mutation: String,
    pub(crate) by_whom: &'static str,
    pub(crate) by: By,
}

/// Who changes the pods of a cell.
pub(crate) enum By {
    Nobody,
    /// A chain with these entries.
    Chain(Vec<Value>),
    /// Policies, each with its mutations.
    Policies(Vec<Vec<Value>>),
}

/// All cells. The chain comes first: it shows what the policies have to make of a pod. Nothing comes first and last, to show how much
/// the machine has changed meanwhile.
pub(crate) fn cells() -> Vec<Cell> {
    let nothing = || cell("nothing", "nobody", By::Nobody);
    let two = labels(2);
    let mut cells = vec![
        nothing(),
        cell(
            "two labels",
            "chain",
            By::Chain(vec![labels_plugin("labels", &two)]),
        ),
        cell("two labels", "policy", one(apply_labels(&two))),
        cell(
            "two labels",
            "policy, JSONPatch",
            one(patch(&patch_labels(&two))),
        ),
        cell(
            "security context",
            "chain",
            By::Chain(vec![hardening_plugin()]),
        ),
        cell(
            "security context",
            "policy, JSONPatch",
            one(patch(SECURITY_CONTEXT)),
        ),
        cell("sidecar", "chain", By::Chain(vec![sidecar_plugin()])),
        cell("sidecar", "policy", one(apply(SIDECAR))),
    ];
    cells.extend(RULES.into_iter().flat_map(rules));
    cells.push(nothing());
    cells
}

/// The cells of so many rules, each of which sets one label.
fn rules(count: usize) -> Vec<Cell> {
    let all = labels(count);
    let each = || all.chunks(1);
    let plugins = each().enumerate();
    let plugins = plugins.map(|(at, label)| labels_plugin(&format!("labels-{at}"), label));
    let applied: Vec<Value> = each().map(apply_labels).collect();
    let alone = |mutation| vec![mutation];
    let mut cells = vec![
        ("one plugin", By::Chain(vec![labels_plugin("labels", &all)])),
        ("one policy", one(apply_labels(&all))),
    ];
    if count > 1 {
        let patched = each().map(|label| alone(patch(&patch_labels(label))));
        let each_applied = applied.iter().cloned().map(alone);
        cells.extend([
            ("a plugin each", By::Chain(plugins.collect())),
            ("a mutation each", By::Policies(vec![applied.clone()])),
            ("a policy each", By::Policies(each_applied.collect())),
            ("a policy each, JSONPatch", By::Policies(patched.collect())),
        ]);
    }
    let name = format!("rules: {count}");
    let cells = cells.into_iter();
    cells
        .map(|(by_whom, by)| cell(&name, by_whom, by))
        .collect()
}

fn cell(mutation: &str, by_whom: &'static str, by: By) -> Cell {
    Cell {
        mutation: mutation.to_owned(),
        by_whom,
        by,
    }
}

/// A key and its value.
type Label = (String, String);

fn labels(count: usize) -> Vec<Label> {
    let label = |number| (format!("rule-{number}"), format!("value-{number}"));
    (0..count).map(label).collect()
}

fn labels_plugin(name: &str, labels: &[Label]) -> Value {
    let rule = |(key, value): &Label| json!({ "key": key, "value": value });
    let rules: Vec<Value> = labels.iter().map(rule).collect();
    json!({
        "name": name, "file": "labels.wasm.gz", "allow": ["/metadata/labels"], "config": { "labels": rules },
    })
}

fn hardening_plugin() -> Value {
    json!({
        "name": "hardening", "file": "hardening.wasm.gz",
        "allow": ["/spec/securityContext", "/spec/containers/*/securityContext", "/spec/initContainers/*/securityContext"],
        "config": { "mode": "mutate" },
    })
}

fn sidecar_plugin() -> Value {
    let container = json!({
        "name": "companion", "image": "registry.k8s.io/pause:3.10",
        "resources": { "requests": { "cpu": "1m", "memory": "4Mi" } },
    });
    json!({
        "name": "sidecar", "file": "sidecar.wasm.gz",
        "allow": ["/spec/initContainers/[name=companion]", "/metadata/annotations/sidecar.podloom.dev~1injected"],
        "config": { "containers": [{ "container": container, "restricted": false }] },
    })
}

/// One policy with one mutation.
fn one(mutation: Value) -> By {
    By::Policies(vec![vec![mutation]])
}

fn apply(expression: &str) -> Value {
    json!({ "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": expression } })
}

fn patch(expression: &str) -> Value {
    json!({ "patchType": "JSONPatch", "jsonPatch": { "expression": expression } })
}

fn apply_labels(labels: &[Label]) -> Value {
    let pairs = labels.iter().cloned();
    let map: Map<String, Value> = pairs.map(|(key, value)| (key, value.into())).collect();
    let map = Value::from(map);
    apply(&format!(
        "Object{{metadata: Object.metadata{{labels: {map}}}}}"
    ))
}

fn patch_labels(labels: &[Label]) -> String {
    let one = |(key, value): &Label| {
        format!(r#"JSONPatch{{op: "add", path: "/metadata/labels/{key}", value: "{value}"}}"#)
    };
    let all: Vec<String> = labels.iter().map(one).collect();
    format!("[{}]", all.join(", "))
}

/// As the plugin, it leaves what a container says itself. It is no ApplyConfiguration, since `drop` is an atomic list.
const SECURITY_CONTEXT: &str = r#"
(has(object.spec.securityContext) ? [] : [JSONPatch{op: "add", path: "/spec/securityContext", value: Object.spec.securityContext{}}]) +
(has(object.spec.securityContext) && has(object.spec.securityContext.runAsNonRoot) ? [] :
  [JSONPatch{op: "add", path: "/spec/securityContext/runAsNonRoot", value: true}]) +
(has(object.spec.securityContext) && has(object.spec.securityContext.seccompProfile) ? [] :
  [JSONPatch{op: "add", path: "/spec/securityContext/seccompProfile",
    value: Object.spec.securityContext.seccompProfile{type: "RuntimeDefault"}}]) +
object.spec.containers.transformList(at, it, !has(it.securityContext),
  JSONPatch{op: "add", path: "/spec/containers/" + string(at) + "/securityContext", value: Object.spec.containers.securityContext{}}) +
object.spec.containers.transformList(at, it, !has(it.securityContext) || !has(it.securityContext.allowPrivilegeEscalation),
  JSONPatch{op: "add", path: "/spec/containers/" + string(at) + "/securityContext/allowPrivilegeEscalation", value: false}) +
object.spec.containers.transformList(at, it, !has(it.securityContext) || !has(it.securityContext.capabilities),
  JSONPatch{op: "add", path: "/spec/containers/" + string(at) + "/securityContext/capabilities",
    value: Object.spec.containers.securityContext.capabilities{drop: ["ALL"]}})
"#;

const SIDECAR: &str = r#"
Object{spec: Object.spec{initContainers: [Object.spec.initContainers{
  name: "companion", image: "registry.k8s.io/pause:3.10", restartPolicy: "Always",
  resources: Object.spec.initContainers.resources{requests: {"cpu": "1m", "memory": "4Mi"}}
}]}}
"#;
