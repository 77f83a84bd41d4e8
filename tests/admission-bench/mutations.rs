//! The mutations of the comparison, each in the words of a chain and in those of policies.

use std::iter;

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
    for count in RULES {
        let name = format!("{count} rules");
        let each: Vec<_> = labels(count).into_iter().map(|label| vec![label]).collect();
        let mutations: Vec<Value> = each.iter().map(|label| apply_labels(label)).collect();
        let plugins = each.iter().enumerate();
        let plugins = plugins.map(|(at, label)| labels_plugin(&format!("labels-{at}"), label));
        let alone = mutations.iter().map(|mutation| vec![mutation.clone()]);
        let all = labels_plugin("labels", &labels(count));
        cells.push(cell(&name, "one plugin", By::Chain(vec![all])));
        if count > 1 {
            cells.push(cell(&name, "as many plugins", By::Chain(plugins.collect())));
            cells.push(cell(
                &name,
                "as many policies",
                By::Policies(alone.collect()),
            ));
        }
        cells.push(cell(&name, "one policy", By::Policies(vec![mutations])));
    }
    cells.extend(iter::once(nothing()));
    cells
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
