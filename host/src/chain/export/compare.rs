//! Whether a policy makes of a pod what the plugin makes of it.

use jiff::Timestamp;
use podloom_cel::{Budget, Outcome, Program, Variables, compile_all, evaluate_all};
use podloom_mutation::{Dimension, NamespaceMetadata, PluginOutcome, PodRequest};
use podloom_mutators::{Chain, sample_pods};
use podloom_pod_path::compare;
use serde_json::{Map as Object, Value, json};

use super::Policy;
use super::rules::{Map, Step};
use crate::error::shown;
use crate::stamp;

/// What the expressions see, and what the plugin wrote, to which their values are compared.
const VARIABLES: [&str; 4] = ["object", "request", "namespaceObject", "written"];

/// The plugin alone, and the expressions of its policy.
pub(super) struct Trial<'p> {
    plugin: Chain,
    policy: &'p Policy<'p>,
    /// The conditions of the policy, those of its steps, and whether each value is what the plugin wrote.
    programs: Vec<Program>,
}

impl<'p> Trial<'p> {
    pub(super) fn new(chain: &Chain, policy: &'p Policy<'p>) -> Result<Self, String> {
        let mut expressions = policy.conditions.clone();
        expressions.extend(policy.steps.iter().map(Step::condition));
        let values = policy.steps.iter().enumerate();
        expressions.extend(values.map(|(number, step)| match &step.value {
            Some(value) => format!("{value} == written[{number}]"),
            None => format!("written[{number}] == null"),
        }));
        let expressions: Vec<&str> = expressions.iter().map(String::as_str).collect();
        let programs = compile_all(&expressions, &VARIABLES);
        let programs = programs.map_err(|failed| {
            failed
                .first()
                .map_or_else(String::new, |it| it.text().to_owned())
        })?;
        Ok(Self {
            plugin: chain.select(&[policy.number]),
            policy,
            programs,
        })
    }

    /// Tries the sample pods, with and without the keys that the policy changes, in namespaces with and without what it reads.
    pub(super) fn try_samples(&self) -> Result<Tried, String> {
        let longest = "x".repeat(63);
        let values = [None, Some(""), Some("a"), Some(longest.as_str())];
        let mut tried = Tried::default();
        for (name, pod, request) in sample_pods() {
            for (own, of_namespace) in values.iter().flat_map(|own| values.map(|it| (*own, it))) {
                let mut pod = pod.clone();
                for step in &self.policy.steps {
                    set(&mut pod, step, own.map(Value::from));
                }
                let about = self.namespace(of_namespace);
                let request = PodRequest::clone(&request).of_namespace(Some(about));
                self.try_pod(&format!("sample pod {name}"), &pod, request, &mut tried)?;
            }
        }
        Ok(tried)
    }

    /// A namespace that has this value for each key that is read, or none of them.
    fn namespace(&self, value: Option<&str>) -> NamespaceMetadata {
        let of = |map: Map| {
            let reads = self.policy.steps.iter().flat_map(|step| &step.reads);
            let keys = reads.filter(|(of, _)| *of == map).map(|(_, key)| key);
            let entries = keys.filter_map(|key| Some((key.clone(), value?.to_owned())));
            entries.collect()
        };
        NamespaceMetadata {
            labels: of(Map::Labels),
            annotations: of(Map::Annotations),
        }
    }

    /// Passes a pod through the plugin and the policy. It is an error if that is not the same, stamps aside.
    pub(super) fn try_pod(
        &self,
        name: &str,
        pod: &Value,
        request: PodRequest,
        tried: &mut Tried,
    ) -> Result<(), String> {
        let place = |problem: String| format!("{}: {problem}", shown(name));
        let variables = variables(pod, &request);
        let mutated = self.plugin.mutate(pod.clone(), request);
        let mutated = mutated.map_err(|why| place(format!("the plugin rejects it: {why}")))?;
        tried.pods += 1;
        let outcome = mutated.runs.first().map(|run| &run.outcome);
        // The policy has the same selector.
        if outcome == Some(&PluginOutcome::Skipped(Dimension::NamespaceSelector)) {
            return Ok(());
        }
        tried.taken += usize::from(!matches!(outcome, Some(PluginOutcome::Skipped(_))));
        let written = stamp::without(&mutated.pod);
        let made = self.made(pod, &written, variables).map_err(place)?;
        match compare(&without_empty(made), &without_empty(written), &|_| true).first() {
            None => Ok(()),
            Some(change) => Err(place(different(&change.path))),
        }
    }

    /// What the policy makes of a pod. It is an error if it writes another value than the plugin.
    fn made(
        &self,
        pod: &Value,
        written: &Value,
        mut variables: Variables,
    ) -> Result<Value, String> {
        let steps = &self.policy.steps;
        let values = steps.iter().map(|step| written.pointer(&step.path()));
        let values: Value = values.map(|it| it.cloned().unwrap_or_default()).collect();
        insert(&mut variables, "written", &values);
        let now = Timestamp::UNIX_EPOCH;
        let outcomes = evaluate_all(&self.programs, &variables, now, Budget::EVALUATION).outcomes;
        let mut outcomes = outcomes.iter();
        let mut made = pod.clone();
        for outcome in outcomes.by_ref().take(self.policy.conditions.len()) {
            if !is_true(outcome)? {
                return Ok(made);
            }
        }
        let equal = outcomes.clone().skip(steps.len());
        for (step, (applies, equal)) in steps.iter().zip(outcomes.zip(equal)) {
            if is_true(applies)? {
                let path = step.path();
                if !is_true(equal)? {
                    return Err(different(&path));
                }
                set(&mut made, step, written.pointer(&path).cloned());
            }
        }
        Ok(made)
    }
}

/// On how many pods a policy was tried, and how many of them the plugin takes.
#[derive(Clone, Copy, Default)]
pub(super) struct Tried {
    pub(super) pods: usize,
    pub(super) taken: usize,
}

fn different(path: &str) -> String {
    format!(
        "the policy makes another pod than the plugin, at {}",
        shown(path)
    )
}

fn is_true(outcome: &Outcome) -> Result<bool, String> {
    match outcome {
        Outcome::True => Ok(true),
        Outcome::False => Ok(false),
        Outcome::Error(failure) => Err(format!("the policy fails: {}", failure.text())),
    }
}

/// What the API server shows to expressions.
fn variables(pod: &Value, request: &PodRequest) -> Variables {
    let mut variables = Variables::default();
    insert(&mut variables, "object", pod);
    let user = json!({ "username": "" });
    let seen = json!({ "namespace": request.namespace, "userInfo": user });
    insert(&mut variables, "request", &seen);
    let mut metadata = json!({ "name": request.namespace });
    let maps = [&request.namespace_labels, &request.namespace_annotations];
    for (map, entries) in Map::BOTH.into_iter().zip(maps) {
        if !entries.is_empty() {
            metadata[map.field()] = json!(entries);
        }
    }
    insert(
        &mut variables,
        "namespaceObject",
        &json!({ "metadata": metadata }),
    );
    variables
}

/// A pod that is nested too deep was refused before; without it, each expression fails.
fn insert(variables: &mut Variables, name: &str, value: &Value) {
    let _refused = variables.insert(name, value);
}

/// Gives a pod the value for the key of a step, or removes the key.
fn set(pod: &mut Value, step: &Step, value: Option<Value>) {
    let metadata = pod.get_mut("metadata").and_then(Value::as_object_mut);
    let map = metadata.map(|it| it.entry(step.map.field()).or_insert_with(|| json!({})));
    if let Some(map) = map.and_then(Value::as_object_mut) {
        match value {
            Some(value) => map.insert(step.key.clone(), value),
            None => map.remove(&step.key),
        };
    }
}

/// The API server does not keep maps without entries.
fn without_empty(mut pod: Value) -> Value {
    if let Some(metadata) = pod.get_mut("metadata").and_then(Value::as_object_mut) {
        for map in Map::BOTH {
            let is_empty = |it: &Value| it.as_object().is_some_and(Object::is_empty);
            if metadata.get(map.field()).is_some_and(is_empty) {
                metadata.remove(map.field());
            }
        }
    }
    pod
}
