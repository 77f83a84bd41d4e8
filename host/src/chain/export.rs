//! `podloom chain export`: the rules of the plugin `labels` as policies of Kubernetes.

mod compare;
mod rules;

use podloom_mutators::{Chain, MANIFEST, Plugin, cel_literal};
use serde::Deserialize;
use serde_json::{Value, json};

use self::compare::{Trial, Tried};
use self::rules::{Config, Map, Step, steps};
use crate::cli::{ExportArguments, Format};
use crate::error::{CommandError, Diagnostic};
use crate::explain::count;
use crate::feed::FoundPod;
use crate::output::print_objects;
use crate::{feed, load, output};

/// The name that the author of the plugin gave it.
const LABELS: &str = "labels";

/// Makes a policy of each plugin `labels` of a chain, compares both on pods, and prints the policies.
pub(crate) fn run(arguments: &ExportArguments) -> Result<(), CommandError> {
    let chain = load::chain(&arguments.directory)?;
    let (mut policies, mut refused) = (Vec::new(), Vec::new());
    for (number, plugin) in chain.plugins().iter().enumerate() {
        if plugin.description.name != LABELS {
            continue;
        }
        let place = format!(
            "{}/{MANIFEST}: {}",
            arguments.directory.display(),
            plugin.name
        );
        match Policy::of(&chain, number, &arguments.unselected) {
            Ok(policy) => policies.push(policy),
            Err(why) => refused.extend(why.into_iter().map(|why| format!("{place}: {why}"))),
        }
    }
    if policies.is_empty() && refused.is_empty() {
        refused.push(format!(
            "{}: no plugin is the standard plugin labels",
            arguments.directory.display()
        ));
    }
    if !refused.is_empty() {
        let refused = refused.into_iter().map(Diagnostic::new);
        return Err(CommandError::Invalid(refused.collect()));
    }
    for policy in &policies {
        let Tried { pods, taken } = compare(arguments, &chain, policy)?;
        output::print_note(&format!(
            "{}: plugin and policy make the same of {}, of which the plugin takes {taken}\n",
            policy.plugin.name,
            count(pods, "pod")
        ));
    }
    output::print(&heading(&chain))?;
    let objects: Vec<Value> = policies.iter().flat_map(Policy::objects).collect();
    print_objects(&objects, Format::Yaml)
}

/// Tries a policy on the pods of the corpus, or on the sample pods.
fn compare(
    arguments: &ExportArguments,
    chain: &Chain,
    policy: &Policy,
) -> Result<Tried, CommandError> {
    let trial = Trial::new(chain, policy).map_err(CommandError::invalid)?;
    let Some(directory) = &arguments.corpus else {
        return trial.try_samples().map_err(CommandError::invalid);
    };
    let mut tried = Tried::default();
    for pod in feed::corpus(directory, &arguments.namespace)? {
        let FoundPod { name, subject, .. } = pod?;
        // The operator makes the pods of Browsers, and no policy sees their kind.
        if subject.request.kind == "Pod" {
            let done = trial.try_pod(&name, &subject.pod, subject.request, &mut tried);
            done.map_err(CommandError::invalid)?;
        }
    }
    match tried.pods {
        0 => Err(feed::no_pod(&[])),
        _ => Ok(tried),
    }
}

/// What is to be known of the policies, as comments.
fn heading(chain: &Chain) -> String {
    format!(
        "\
# The plugin labels of the chain {}
# as policies, for Kubernetes 1.36 or newer. They are for the pods that reach the webhook:
# - The bindings select namespaces as deploy/ does. Change them if your webhook selects others.
# - Pods of Browsers whose namespace is not selected need the plugin: keep it with match.kinds [Browser].
# - A policy leaves no stamp, no notes and no warnings, so blame and drift know nothing of what it writes.
# - It does not know selectors of owners. A selector with NotIn or DoesNotExist must not name these labels.
",
        chain.digest()
    )
}

/// What a plugin does, as a MutatingAdmissionPolicy.
struct Policy<'c> {
    /// Of the plugin in the chain, from 0.
    number: usize,
    plugin: &'c Plugin,
    /// Which pods it is for.
    conditions: Vec<String>,
    steps: Vec<Step>,
}

/// Which pods the webhook leaves alone: a kubelet made them of files.
const NO_MIRROR: &str = "!(request.userInfo.username.startsWith('system:node:') && has(object.metadata.annotations) && 'kubernetes.io/config.mirror' in object.metadata.annotations)";

impl<'c> Policy<'c> {
    /// Or what cannot be said.
    fn of(chain: &'c Chain, number: usize, unselected: &[String]) -> Result<Self, Vec<String>> {
        let plugin = chain.plugins().get(number);
        let plugin = plugin.ok_or_else(|| vec!["there is no such plugin".to_owned()])?;
        let config = Config::deserialize(plugin.config()).map_err(|it| vec![it.to_string()])?;
        let (steps, mut refused) = steps(&config, unselected);
        if steps.is_empty() && refused.is_empty() {
            refused.push("it has no rule".to_owned());
        }
        let earlier = (0..number).filter_map(|earlier| chain.order_dependence(earlier, number));
        refused.extend(earlier.map(|why| {
            format!(
                "policies come before the chain, so the order would change, and it matters: {why}"
            )
        }));
        let Some(mut conditions) = plugin.selection().conditions() else {
            refused.push(
                "`match.kinds` has no Pod, so no pod reaches it through the webhook".to_owned(),
            );
            return Err(refused);
        };
        conditions.insert(0, NO_MIRROR.to_owned());
        match refused.is_empty() {
            true => Ok(Self {
                number,
                plugin,
                conditions,
                steps,
            }),
            false => Err(refused),
        }
    }

    /// The patch in CEL. A map that stays empty is left out when the API server reads the pod again.
    fn expression(&self) -> String {
        let mut patches = Vec::new();
        for map in Map::BOTH {
            let adds = |step: &Step| step.map == map && step.value.is_some();
            if self.steps.iter().any(adds) {
                let (there, field) = (map.is_in("object"), map.field());
                patches.push(format!(
                    "({there} ? [] : [JSONPatch{{op: 'add', path: '/metadata/{field}', value: {{}}}}])"
                ));
            }
        }
        for step in &self.steps {
            let (condition, path) = (step.condition(), cel_literal(&step.path()));
            let patch = match &step.value {
                Some(value) => format!("JSONPatch{{op: 'add', path: {path}, value: {value}}}"),
                None => format!("JSONPatch{{op: 'remove', path: {path}}}"),
            };
            patches.push(format!("({condition} ? [{patch}] : [])"));
        }
        patches.join(" +\n")
    }

    /// The policy and its binding.
    fn objects(&self) -> [Value; 2] {
        let name = format!("{}.podloom.dev", self.plugin.name);
        let conditions = self.conditions.iter().enumerate();
        let conditions = conditions.map(|(number, expression)| {
            json!({ "name": format!("condition-{number}"), "expression": expression })
        });
        let pods = json!({
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"], "scope": "Namespaced",
        });
        let matches = self.plugin.matches();
        let selector = matches.get("namespaceSelector").cloned();
        let system = [
            "kube-system",
            "kube-public",
            "kube-node-lease",
            "podloom-system",
        ];
        let api = "admissionregistration.k8s.io/v1";
        [
            json!({
                "apiVersion": api, "kind": "MutatingAdmissionPolicy", "metadata": { "name": name },
                "spec": {
                    "failurePolicy": self.plugin.failure_policy.as_str(),
                    "reinvocationPolicy": "Never",
                    "matchConstraints": {
                        "resourceRules": [pods],
                        "namespaceSelector": selector.unwrap_or_else(|| json!({})),
                    },
                    "matchConditions": conditions.collect::<Value>(),
                    "mutations": [{ "patchType": "JSONPatch", "jsonPatch": { "expression": self.expression() } }],
                },
            }),
            json!({
                "apiVersion": api, "kind": "MutatingAdmissionPolicyBinding", "metadata": { "name": name },
                "spec": {
                    "policyName": name,
                    "matchResources": { "namespaceSelector": {
                        "matchLabels": { "podloom.dev/mutate": "enabled" },
                        "matchExpressions": [
                            { "key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": system },
                        ],
                    } },
                },
            }),
        ]
    }
}
