use std::sync::Arc;

use jiff::Timestamp;
use podloom_api::{TunnelClass, TunnelClassObject};
use podloom_engine::cache::{Cache, Watch};
use podloom_engine::kind::{Kind, Source};
use podloom_engine::pass::Next;
use podloom_engine::plan::Plan;
use podloom_engine::testing::{alone, context};
use podloom_scripted::{scripted, status};
use serde_json::{Value, json};

use super::super::{ClassAction, ClassKind};
use crate::settings::TunnelSettings;

/// A class that asks to be the default.
fn class(name: &str, created: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "uid": name, "generation": 1, "resourceVersion": "7", "creationTimestamp": created,
            "annotations": { "portal.gosuda.org/is-default-class": "true" },
        },
        "spec": { "replicas": 1, "size": "small" },
    })
}

const OLD: &str = "2025-01-01T00:00:00Z";
const NEW: &str = "2026-01-01T00:00:00Z";

fn typed(class: &Value) -> TunnelClassObject {
    serde_json::from_value(class.clone()).unwrap()
}

fn kind(classes: &[Value]) -> ClassKind {
    let resource = Arc::new(TunnelClass::resource());
    let classes = classes.iter().cloned();
    let classes = classes.map(|class| serde_json::from_value(class).unwrap());
    let watch = Watch::of_kind::<ClassKind>("TunnelClasses", &resource);
    ClassKind {
        classes: Cache::of(watch, classes),
        resource,
        settings: TunnelSettings::default(),
    }
}

async fn planned(classes: &[Value], class: &Value) -> Plan<ClassAction> {
    let kind = kind(classes);
    let (client, _) = scripted(|_, _| (500, Value::Null));
    let (ctx, class) = (context(client), typed(class));
    let world = kind.observe(&ctx, &class, Source::Cache).await.unwrap();
    kind.plan(&world, Timestamp::UNIX_EPOCH)
}

/// The reason of a condition in the status that is written.
fn reason(plan: &Plan<ClassAction>, type_: &str) -> String {
    let Some(ClassAction::WriteStatus(status)) = &plan.action else {
        unreachable!("{plan:?}")
    };
    let mut conditions = status.conditions.iter().flatten();
    conditions
        .find(|it| it.type_ == type_)
        .unwrap()
        .reason
        .clone()
}

#[tokio::test]
async fn the_older_of_two_defaults_is_the_default() {
    let (old, new) = (class("old", OLD), class("new", NEW));
    let both = [old.clone(), new.clone()];
    assert_eq!(
        reason(&planned(&both, &old).await, "Default"),
        "EffectiveDefault"
    );
    assert_eq!(
        reason(&planned(&both, &new).await, "Default"),
        "ShadowedDefault"
    );
    assert_eq!(
        reason(&planned(&both[1..], &new).await, "Default"),
        "EffectiveDefault"
    );
}

#[tokio::test]
async fn a_class_that_is_being_deleted_is_left_alone() {
    let mut going = class("old", OLD);
    going["metadata"]["deletionTimestamp"] = json!(NEW);
    assert_eq!(planned(&[], &going).await.action, None);
}

#[tokio::test]
async fn a_status_is_written_once() {
    let (client, requests) = scripted(|request, body| {
        assert_eq!(
            request,
            "PATCH /apis/portal.gosuda.org/v1alpha1/tunnelclasses/old/status"
        );
        let mut class = class("old", OLD);
        json_patch::merge(&mut class, &body);
        class["metadata"]["resourceVersion"] = json!("8");
        (200, class)
    });
    let kind = Arc::new(kind(&[class("old", OLD)]));
    let resource = Arc::clone(&kind.resource);
    let passes = alone(kind, &resource, context(client));
    passes.reconcile(&typed(&class("old", OLD))).await.unwrap();
    assert_eq!(requests.made().len(), 1);
}

#[tokio::test]
async fn a_class_that_is_gone_is_no_error() {
    let (client, _) = scripted(|_, _| (404, status(404, "NotFound", "there is none")));
    let kind = Arc::new(kind(&[]));
    let resource = Arc::clone(&kind.resource);
    let passes = alone(kind, &resource, context(client));
    let next = passes.reconcile(&typed(&class("old", OLD))).await.unwrap();
    assert_eq!(next, Next::Resync);
}
