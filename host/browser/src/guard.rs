//! NetworkPolicies: one for each session, if its BrowserConfig asks for that, and one that lets nothing in for the pods that wait.
//!
//! That of a session is there before its pod is. A warm pod is behind the other one until the patch that gives it to a Browser: this one
//! changes both labels at once, so at no time is a pod behind neither.

use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicySpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use podloom_api::{SessionNetworkPolicy, names};

use crate::warm::Pool;

/// Returns the NetworkPolicy of a session. Its name has the UID of the Browser: a Browser that comes again gets another one.
pub(crate) fn of_session(
    policy: &SessionNetworkPolicy,
    browser: &ObjectMeta,
    owner: OwnerReference,
) -> NetworkPolicy {
    let name = browser.name.as_deref().unwrap_or_default();
    let SessionNetworkPolicy {
        policy_types,
        ingress,
        egress,
    } = policy.clone();
    NetworkPolicy {
        metadata: ObjectMeta {
            name: browser.uid.as_ref().map(|uid| format!("browser-{uid}")),
            namespace: browser.namespace.clone(),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(selector(names::label::BROWSER, names::label_value(name))),
            policy_types,
            ingress,
            egress,
        }),
    }
}

/// Returns the NetworkPolicy of the pods of a BrowserConfig that wait: nobody can reach them.
pub(crate) fn of_waiting(
    pool: &Pool,
    namespace: Option<String>,
    owner: OwnerReference,
) -> NetworkPolicy {
    NetworkPolicy {
        metadata: ObjectMeta {
            name: Some(format!("warm-{}", pool.uid)),
            namespace,
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(selector(
                names::label::WARM,
                names::label_value(&pool.config),
            )),
            policy_types: Some(vec!["Ingress".to_owned()]),
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
