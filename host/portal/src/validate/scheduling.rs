//! What the API server would reject in the nodeSelector and the tolerations of a pod.

use k8s_openapi::api::core::v1::Toleration;
use podloom_api::TunnelClassSpec;
use podloom_engine::finding::{FieldPath, Finding, Subject};
use podloom_engine::shown::shown;
use podloom_syntax::names;

/// The effects of taints.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
/// The operators whose value is a number, in newer versions of Kubernetes.
const COMPARISONS: [&str; 2] = ["Lt", "Gt"];

pub(super) fn problems(spec: &TunnelClassSpec) -> Vec<Finding> {
    let mut found = Vec::new();
    for (key, value) in spec.node_selector.iter().flatten() {
        let path = FieldPath::dotted("spec.nodeSelector").key(key);
        for problem in [key_problem(key), value_problem(value)]
            .into_iter()
            .flatten()
        {
            found.push(Finding::at(path.clone(), &problem, Subject::Problem));
        }
    }
    for (index, toleration) in spec.tolerations.iter().flatten().enumerate() {
        let path = FieldPath::dotted("spec.tolerations").index(index);
        let problems = of_toleration(toleration).into_iter();
        found
            .extend(problems.map(|(field, text)| {
                Finding::at(path.clone().key(field), &text, Subject::Problem)
            }));
    }
    found
}

/// The wrong fields of a toleration, by the API server's own rules.
fn of_toleration(toleration: &Toleration) -> Vec<(&'static str, String)> {
    let Toleration {
        key,
        operator,
        value,
        effect,
        toleration_seconds,
    } = toleration;
    let [key, operator, value, effect] =
        [key, operator, value, effect].map(|text| text.as_deref().unwrap_or_default());
    let mut found = Vec::new();
    if key.is_empty() && operator != "Exists" {
        let text = "without a key only the operator Exists works; set it, or name a key";
        found.push(("operator", text.to_owned()));
    } else if let Some(problem) = key_problem(key).filter(|_| !key.is_empty()) {
        found.push(("key", problem));
    }
    match operator {
        "" | "Equal" => found.extend(value_problem(value).map(|problem| ("value", problem))),
        "Exists" if !value.is_empty() => {
            let text = "the operator Exists takes no value; remove it, or write Equal";
            found.push(("value", text.to_owned()));
        }
        "Exists" => {}
        // The API server knows whether it has them.
        comparison if COMPARISONS.contains(&comparison) => {}
        other => {
            let text = format!("{:?} is no operator; write Exists or Equal", shown(other));
            found.push(("operator", text));
        }
    }
    if !effect.is_empty() && !EFFECTS.contains(&effect) {
        let known = EFFECTS.join(", ");
        let text = format!(
            "{:?} is no effect; leave it out, or write one of {known}",
            shown(effect)
        );
        found.push(("effect", text));
    } else if toleration_seconds.is_some() && effect != "NoExecute" {
        let text =
            "tolerationSeconds needs the effect NoExecute; set it, or remove tolerationSeconds";
        found.push(("effect", text.to_owned()));
    }
    found
}

fn key_problem(key: &str) -> Option<String> {
    let problem = names::label_key(key).err()?;
    Some(format!("the key {:?} {problem}", shown(key)))
}

fn value_problem(value: &str) -> Option<String> {
    let problem = names::label_value(value).err()?;
    Some(format!("the value {:?} {problem}", shown(value)))
}
