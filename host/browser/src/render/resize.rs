//! A pod that waits with less than its session needs is resized in place when the session takes it: what can be resized, and the patch.
//!
//! The rules are those of the API server for the subresource `resize`, and of nodes: it changes cpu and memory of containers that go on
//! running, removes neither, and keeps the QoS class; what was made from the amounts when a container started stays as it is.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use podloom_syntax::Quantity;
use serde_json::{Map, Value, json};

use super::merge::EffectiveConfig;
use super::options::Options;
use super::pod::pod_spec;

const LISTS: [&str; 2] = ["initContainers", "containers"];
const RESIZABLE: [&str; 2] = ["cpu", "memory"];

/// Removes from the spec of a pod what a resize may change.
pub(crate) fn without_resources(spec: &mut Value) {
    for list in LISTS {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        let containers = containers.into_iter().flatten();
        for container in containers.filter_map(Value::as_object_mut) {
            container.remove("resources");
        }
    }
}

/// Returns the spec of a patch that gives a pod the resources of another; none if it has them. Both specs are the same otherwise.
pub(crate) fn patch(from: &Value, to: &Value) -> Option<Value> {
    let mut spec = Map::new();
    for list in LISTS {
        let changed = changed(list, from, to);
        let changed: Vec<Value> = changed
            .map(|(_, to)| json!({ "name": to["name"], "resources": written_out(to) }))
            .collect();
        if !changed.is_empty() {
            spec.insert(list.to_owned(), changed.into());
        }
    }
    (!spec.is_empty()).then(|| spec.into())
}

/// Returns whether a pod has what the spec of a patch asked for: an admission policy may have changed it.
pub(crate) fn is_done(asked: &Value, spec: &Value) -> bool {
    LISTS.into_iter().all(|list| {
        containers(list, asked).all(|asked| {
            let mut there = containers(list, spec).filter(|it| it["name"] == asked["name"]);
            let has = |there| {
                let (asked, there) = (amounts(asked), amounts(there));
                asked
                    .iter()
                    .all(|(of, amount)| there.get(of) == Some(amount))
            };
            there.any(has)
        })
    })
}

/// Returns why the pod of a version cannot wait with these resources of its browser; none if it can.
pub(super) fn problem(
    effective: &EffectiveConfig,
    resources: &ResourceRequirements,
) -> Option<String> {
    let spec = |config: EffectiveConfig| {
        serde_json::to_value(pod_spec("", config, &Options::default())).unwrap_or_default()
    };
    let mut small = effective.clone();
    small.settings.resources = Some(resources.clone());
    obstacle(&spec(small), &spec(effective.clone()))
}

/// Returns why one spec cannot become the other by a resize; none if it can. Both are the same but for the resources.
pub(crate) fn obstacle(from: &Value, to: &Value) -> Option<String> {
    let of_containers = LISTS.into_iter().find_map(|list| {
        changed(list, from, to).find_map(|(from, to)| obstacle_of(list, from, to))
    });
    let is_resized = LISTS
        .into_iter()
        .any(|list| changed(list, from, to).next().is_some());
    of_containers.or_else(|| is_resized.then(|| obstacle_of_pod(from, to)).flatten())
}

fn obstacle_of_pod(from: &Value, to: &Value) -> Option<String> {
    let (before, after) = (qos(from), qos(to));
    if to["resources"].is_object() {
        Some("a pod with resources of its own is not resized".to_owned())
    } else if to["os"]["name"] == "windows" {
        Some("a pod for Windows cannot be resized".to_owned())
    } else if before != after {
        Some(format!(
            "a resize cannot change the QoS class from {before} to {after}"
        ))
    } else {
        early_variable(to).or_else(|| memory_volume(from, to))
    }
}

/// Returns a variable that keeps the amount from when its container started.
fn early_variable(spec: &Value) -> Option<String> {
    let all = LISTS.into_iter().flat_map(|list| containers(list, spec));
    let mut variables = all.flat_map(|container| {
        let env = container["env"].as_array().into_iter().flatten();
        env.map(move |variable| (container, variable))
    });
    let (container, variable) =
        variables.find(|(_, variable)| variable["valueFrom"]["resourceFieldRef"].is_object())?;
    Some(format!(
        "variable {} of container {} is read from its resources when it starts, before the resize",
        text(&variable["name"]),
        text(&container["name"])
    ))
}

/// Returns a volume in memory whose size comes from what the pod may use when it starts.
fn memory_volume(from: &Value, to: &Value) -> Option<String> {
    let limit = |container: &Value| amounts(container).remove(&("limits", "memory".to_owned()));
    let small = changed("containers", from, to)
        .filter(|(from, to)| limit(from) != limit(to))
        .filter_map(|(from, to)| limit(from).or_else(|| limit(to))?)
        .min()?;
    let mut volumes = to["volumes"].as_array().into_iter().flatten();
    let volume = volumes.find(|volume| {
        let directory = &volume["emptyDir"];
        // As for nodes, 0 is none.
        let size = amount(&directory["sizeLimit"]).filter(|size| !size.is_zero());
        directory["medium"] == "Memory" && size.is_none_or(|size| size > small)
    })?;
    Some(format!(
        "volume {} gets its size from limits.memory when the pod starts: give it a sizeLimit of at most {small}",
        text(&volume["name"])
    ))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn amount(value: &Value) -> Option<Quantity> {
    match value {
        Value::Null => None,
        Value::String(text) => text.parse().ok(),
        number => number.to_string().parse().ok(),
    }
}

/// The containers whose resources differ, as they are in both specs.
fn changed<'p>(
    list: &'static str,
    from: &'p Value,
    to: &'p Value,
) -> impl Iterator<Item = (&'p Value, &'p Value)> {
    let pairs = containers(list, from).zip(containers(list, to));
    pairs.filter(|(from, to)| amounts(from) != amounts(to) || claims(from) != claims(to))
}

fn containers<'p>(list: &str, spec: &'p Value) -> impl Iterator<Item = &'p Value> + use<'p> {
    spec[list].as_array().into_iter().flatten()
}

fn claims(container: &Value) -> &Value {
    &container["resources"]["claims"]
}

/// The resources of a container, with the requests that the API server takes from its limits: a resize would leave those of before.
fn written_out(container: &Value) -> Value {
    let mut resources = container["resources"].clone();
    let mut requests = resources["limits"].as_object().cloned().unwrap_or_default();
    let given = resources["requests"].as_object().cloned();
    requests.extend(given.unwrap_or_default());
    if !requests.is_empty() {
        resources["requests"] = requests.into();
    }
    resources
}

/// What a container requests and may use: the amount of each resource, by `requests` or `limits`.
fn amounts(container: &Value) -> BTreeMap<(&'static str, String), Option<Quantity>> {
    let resources = written_out(container);
    let of = |kind: &'static str| {
        let amounts = resources[kind].as_object().into_iter();
        amounts
            .flatten()
            .map(move |(resource, value)| ((kind, resource.clone()), amount(value)))
    };
    of("requests").chain(of("limits")).collect()
}

fn obstacle_of(list: &str, from: &Value, to: &Value) -> Option<String> {
    let name = text(&to["name"]);
    if list == "initContainers" && to["restartPolicy"] != "Always" {
        return Some(format!(
            "a resize cannot change init container {name}, which has ended"
        ));
    }
    if claims(from) != claims(to) {
        return Some(format!("a resize cannot change claims of container {name}"));
    }
    let (before, after) = (amounts(from), amounts(to));
    let mut changed = before.keys().chain(after.keys());
    changed.find_map(|of @ (kind, resource)| {
        if before.get(of) == after.get(of) {
            None
        } else if !RESIZABLE.contains(&resource.as_str()) {
            Some(format!(
                "a resize cannot change {kind}.{resource} of container {name}"
            ))
        } else if !after.contains_key(of) {
            Some(format!(
                "a resize cannot remove {kind}.{resource} of container {name}"
            ))
        } else if *kind == "limits" && resource == "memory" && after.get(of) < before.get(of) {
            Some(format!(
                "a resize cannot lower limits.memory of container {name}"
            ))
        } else {
            restarts(to, resource).then(|| {
                format!("a resize of {resource} restarts container {name}, by its resizePolicy")
            })
        }
    })
}

fn restarts(container: &Value, resource: &str) -> bool {
    let mut policies = container["resizePolicy"].as_array().into_iter().flatten();
    policies.any(|it| it["resourceName"] == resource && it["restartPolicy"] == "RestartContainer")
}

/// The QoS class of a pod without resources of its own.
fn qos(spec: &Value) -> &'static str {
    let all = LISTS.into_iter().flat_map(|list| containers(list, spec));
    let (mut has_any, mut is_guaranteed) = (false, true);
    for amounts in all.map(amounts) {
        for resource in RESIZABLE {
            let of = |kind| {
                let amount = amounts.get(&(kind, resource.to_owned())).copied().flatten();
                amount.filter(|amount| !amount.is_zero())
            };
            let (limit, request) = (of("limits"), of("requests"));
            has_any |= request.is_some() || limit.is_some();
            is_guaranteed &= limit.is_some() && request == limit;
        }
    }
    match (has_any, is_guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests;
