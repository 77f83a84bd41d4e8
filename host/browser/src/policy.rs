//! NetworkPolicies: one for each session, if its BrowserConfig asks for that, and one that lets nothing in for warm pods.
//!
//! That of a session is there before its pod is. A warm pod is behind the other one until the patch that gives it to a Browser: this one
//! changes both labels at once, so at no time is a pod behind neither.

use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicySpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use podloom_api::{PolicyType, SessionNetworkPolicy, names};

use crate::warm::PoolId;

/// Returns the NetworkPolicy of a session: its name and what it selects by have the UID of the Browser, which nobody else can have.
pub(crate) fn of_session(
    policy: &SessionNetworkPolicy,
    browser: &ObjectMeta,
    owner: OwnerReference,
) -> NetworkPolicy {
    let uid = browser.uid.clone().unwrap_or_default();
    let SessionNetworkPolicy {
        policy_types,
        ingress,
        egress,
    } = policy.clone();
    NetworkPolicy {
        metadata: ObjectMeta {
            name: Some(format!("browser-{uid}")),
            namespace: browser.namespace.clone(),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(selector(names::label::SESSION, uid)),
            policy_types: policy_types.map(|types| types.iter().map(ToString::to_string).collect()),
            ingress,
            egress,
        }),
    }
}

/// Returns the NetworkPolicy of the warm pods of a BrowserConfig: nobody can reach them, and they reach no more than a session does.
pub(crate) fn of_warm(
    policy: Option<&SessionNetworkPolicy>,
    id: &PoolId,
    namespace: Option<String>,
    owner: OwnerReference,
) -> NetworkPolicy {
    let mut types = vec![PolicyType::Ingress.to_string()];
    let restricting = policy.filter(|policy| policy.restricts_egress());
    if restricting.is_some() {
        types.push(PolicyType::Egress.to_string());
    }
    NetworkPolicy {
        metadata: ObjectMeta {
            name: Some(format!("warm-{}", id.uid)),
            namespace,
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(selector(names::label::WARM, names::label_value(&id.config))),
            policy_types: Some(types),
            egress: restricting.and_then(|policy| policy.egress.clone()),
            ..NetworkPolicySpec::default()
        }),
    }
}

fn selector(key: &str, value: String) -> LabelSelector {
    LabelSelector {
        match_labels: Some([(key.to_owned(), value)].into()),
        ..LabelSelector::default()
    }
}
