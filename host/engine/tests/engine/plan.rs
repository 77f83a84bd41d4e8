//! What to do next about a lamp: pure, as every plan.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Resource;
use kube::core::ObjectMeta;
use podloom_engine::conditions::{ConditionStatus, NewCondition, conditions};
use podloom_engine::events::Notice;
use podloom_engine::plan::{Plan, Then, later};
use podloom_engine::write::MetadataPatch;
use serde_json::json;

use crate::kind::{Action, LampStatus, Light, Refused, Variety, World, resource};

/// On each lamp: who lights it.
pub(crate) const LIT_BY: &str = "lights.example.com/lit-by";
/// On each ConfigMap: what was last rendered. A key that went shows in nothing else.
const RENDERED: &str = "lights.example.com/rendered";

/// How long what was refused is tried again.
const TRYING: Duration = Duration::from_mins(10);

pub(crate) fn plan<V: Variety>(world: &World, now: Timestamp) -> Plan<Action> {
    match world.lamp.metadata.deletion_timestamp {
        Some(_) => end::<V>(world),
        None => keep::<V>(world, now),
    }
}

fn keep<V: Variety>(world: &World, now: Timestamp) -> Plan<Action> {
    if world.refused.is_none() {
        if let Some(patch) = missing_metadata::<V>(&world.lamp.metadata) {
            return Plan::act(Action::SetMetadata(patch));
        }
        if world.own_child().is_none() && !world.is_looked {
            return Plan::act(Action::ReadChild);
        }
        let wanted = child::<V>(world);
        let is_free = world.child.is_none() || world.own_child().is_some();
        if is_free && !shows(world, &wanted) {
            let plan = Plan::act(Action::Apply(Box::new(wanted)));
            let status = world.lamp.status.as_ref();
            let is_first = status.is_none_or(|status| status.child.is_none());
            return match is_first {
                true => plan.with_notices([
                    Notice::normal("Wired", "the lamp has a ConfigMap"),
                    Notice::normal("Lit", "the lamp shines"),
                ]),
                false => plan,
            };
        }
    }
    let status = status(world, now);
    if world.lamp.status.as_ref() != Some(&status) {
        return Plan::act(Action::WriteStatus(Box::new(status)));
    }
    match &world.refused {
        Some(Refused { reason, message }) => Plan::wait(Then::Retry {
            reason,
            message: message.clone(),
            until: later(now, TRYING),
        }),
        None => Plan::wait(Then::Change),
    }
}

/// The ConfigMap goes first, and is known to be gone before the finalizer goes.
fn end<V: Variety>(world: &World) -> Plan<Action> {
    let finalizer = V::TRAITS.finalizer.unwrap_or_default();
    let Some(release) = MetadataPatch::without(&world.lamp.metadata, finalizer) else {
        return Plan::wait(Then::Change);
    };
    match world.own_child() {
        Some(child) if child.metadata.deletion_timestamp.is_none() => {
            let uid = child.metadata.uid.clone().unwrap_or_default();
            Plan::act(Action::DeleteChild(uid))
        }
        Some(_) => Plan::wait(Then::Change),
        None if !world.is_looked => Plan::act(Action::ReadChild),
        None => Plan::act(Action::SetMetadata(release))
            .with_notices([Notice::normal("Dark", "the lamp is dark")]),
    }
}

fn missing_metadata<V: Variety>(seen: &ObjectMeta) -> Option<MetadataPatch> {
    let mut patch = MetadataPatch::default();
    let finalizers = seen.finalizers.clone().unwrap_or_default();
    if let Some(ours) = V::TRAITS.finalizer
        && !finalizers.iter().any(|name| name == ours)
    {
        let ours = std::iter::once(ours.to_owned());
        patch.finalizers = Some(finalizers.into_iter().chain(ours).collect());
    }
    let lit_by = seen.labels.as_ref().and_then(|labels| labels.get(LIT_BY));
    if lit_by.map(String::as_str) != Some(V::TRAITS.field_manager) {
        let by = V::TRAITS.field_manager.to_owned();
        patch.labels.insert(LIT_BY, by);
    }
    (patch != MetadataPatch::default()).then_some(patch)
}

/// The ConfigMap that a lamp shall have. The UID of the one that is there keeps it from becoming another's.
fn child<V: Variety>(world: &World) -> ConfigMap {
    let metadata = &world.lamp.metadata;
    let lights = &world.lamp.spec.lights;
    let data: BTreeMap<String, String> = lights
        .iter()
        .map(|(name, color)| (name.clone(), format!("{color:?}")))
        .collect();
    let owner = world.lamp.controller_owner_ref(&resource::<V>());
    let own = world.own_child();
    ConfigMap {
        metadata: ObjectMeta {
            name: metadata.name.clone(),
            namespace: Some(world.place().to_owned()),
            uid: own.and_then(|child| child.metadata.uid.clone()),
            labels: Some([(V::LABEL.to_owned(), world.name().to_owned())].into()),
            annotations: Some([(RENDERED.to_owned(), json!(data).to_string())].into()),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some(data),
        ..ConfigMap::default()
    }
}

/// Whether the ConfigMap is as it shall be, whatever else others wrote into it.
fn shows(world: &World, wanted: &ConfigMap) -> bool {
    let Some(child) = world.own_child() else {
        return false;
    };
    let has = |seen: &Option<BTreeMap<String, String>>, wanted: &Option<BTreeMap<_, _>>| {
        let mut wanted = wanted.iter().flatten();
        wanted.all(|(key, value)| seen.as_ref().and_then(|seen| seen.get(key)) == Some(value))
    };
    has(&child.metadata.annotations, &wanted.metadata.annotations)
        && has(&child.metadata.labels, &wanted.metadata.labels)
        && has(&child.data, &wanted.data)
}

fn status(world: &World, now: Timestamp) -> LampStatus {
    let seen = world.lamp.status.as_ref();
    let (status, reason, message) = match &world.refused {
        Some(refused) => (
            ConditionStatus::False,
            refused.reason,
            refused.message.as_str(),
        ),
        None if world.own_child().is_none() => (
            ConditionStatus::False,
            "NameTaken",
            "another's ConfigMap has the name",
        ),
        None => (ConditionStatus::True, "Lit", ""),
    };
    let ready = NewCondition {
        type_: "Ready",
        status,
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    let light = |color| Light { color, watts: 5 };
    let lights = world.lamp.spec.lights.iter();
    LampStatus {
        child: world
            .own_child()
            .and_then(|child| child.metadata.uid.clone()),
        lights: lights
            .map(|(name, color)| (name.clone(), light(*color)))
            .collect(),
        conditions: Some(conditions(
            seen.and_then(|seen| seen.conditions.as_ref()),
            vec![ready],
            world.lamp.metadata.generation,
            now,
        )),
    }
}
