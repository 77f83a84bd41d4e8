//! A kind that lights lamps: each has one ConfigMap, which says what colors its lights have.

use std::collections::{BTreeMap, HashMap};
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{self, BoxFuture};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::{ApiResource, GroupVersionKind, Object, ObjectMeta};
use podloom_engine::answer::{Deleted, Patched, Stored};
use podloom_engine::backoff::Waits;
use podloom_engine::cache::{Cache, Watch};
use podloom_engine::error::{Attempt, Error};
use podloom_engine::events::Notice;
use podloom_engine::kind::{
    Context, Done, Kind, Remains, ResourceScope, Source, Traits, Unreadable,
};
use podloom_engine::plan::Plan;
use podloom_engine::readable::Answered;
use podloom_engine::scope::WatchScope;
use podloom_engine::wiring::Wiring;
use podloom_engine::write::{Deletion, MetadataPatch, Target};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::plan::plan;

pub(crate) const GROUP: &str = "lights.example.com";

/// An object of either scope.
pub(crate) type Lamp = Object<LampSpec, LampStatus>;

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct LampSpec {
    /// The namespace of the ConfigMap, for what has none of its own.
    pub(crate) place: Option<String>,
    pub(crate) lights: BTreeMap<String, Color>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Color {
    Red,
    Green,
    Blue,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LampStatus {
    /// The UID of the ConfigMap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) child: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) lights: BTreeMap<String, Light>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) conditions: Option<Vec<Condition>>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct Light {
    pub(crate) color: Color,
    pub(crate) watts: u32,
}

/// What the varieties of the kind differ in.
pub(crate) trait Variety: Send + Sync + 'static {
    const TRAITS: Traits;
    const PLURAL: &'static str;
    /// On each ConfigMap: the name of its owner.
    const LABEL: &'static str;
}

/// In namespaces.
pub(crate) struct Lamps;
/// In the cluster.
pub(crate) struct Streets;
/// In namespaces, and needs no finalizer.
pub(crate) struct Lanterns;

impl Variety for Lamps {
    const TRAITS: Traits = Traits {
        finalizer: Some("lights.example.com/lamp"),
        backoff: Waits {
            first: Duration::from_millis(300),
            longest: Duration::from_millis(1200),
        },
        ..Traits::of("Lamp", "lamp", "lamplighter")
    };
    const PLURAL: &'static str = "lamps";
    const LABEL: &'static str = "lights.example.com/lamp";
}

impl Variety for Streets {
    const TRAITS: Traits = Traits {
        scope: ResourceScope::Cluster,
        finalizer: Some("lights.example.com/street"),
        backoff: Waits {
            first: Duration::from_millis(600),
            longest: Duration::from_millis(600),
        },
        unreadable: Unreadable::Keep,
        ..Traits::of("Street", "street", "street-lighter")
    };
    const PLURAL: &'static str = "streets";
    const LABEL: &'static str = "lights.example.com/street";
}

impl Variety for Lanterns {
    const TRAITS: Traits = Traits {
        ..Traits::of("Lantern", "lantern", "lantern-lighter")
    };
    const PLURAL: &'static str = "lanterns";
    const LABEL: &'static str = "lights.example.com/lantern";
}

/// What the API server calls a variety.
pub(crate) fn resource<V: Variety>() -> ApiResource {
    let kind = GroupVersionKind::gvk(GROUP, "v1", V::TRAITS.kind);
    ApiResource::from_gvk_with_plural(&kind, V::PLURAL)
}

/// The kind at work.
pub(crate) struct Lighter<V> {
    resource: Arc<ApiResource>,
    child: ApiResource,
    children: Cache<ConfigMap>,
    stage: Stage,
    variety: PhantomData<fn() -> V>,
}

/// All that a plan depends on.
pub(crate) struct World {
    pub(crate) lamp: Lamp,
    /// The ConfigMap of the lamp's name, whoever owns it.
    pub(crate) child: Option<Arc<ConfigMap>>,
    /// Whether the API server says that, and not a cache.
    pub(crate) is_looked: bool,
    /// What the API server does not allow, and why.
    pub(crate) refused: Option<Refused>,
}

pub(crate) struct Refused {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) enum Action {
    SetMetadata(MetadataPatch),
    ReadChild,
    Apply(Box<ConfigMap>),
    WriteStatus(Box<LampStatus>),
    DeleteChild(String),
}

pub(crate) enum ActionOutcome {
    Lamp(Box<Lamp>),
    Child(Option<Arc<ConfigMap>>),
    Refused(Refused),
    ChildAsked,
    Gone,
}

const READ: Attempt = Attempt::new("ReadChild", "read configmap");
const APPLY: Attempt = Attempt::new("ApplyChild", "apply configmap");
const DELETE: Attempt = Attempt::new("DeleteChild", "delete configmap");

impl World {
    /// Where the lamp's ConfigMap is.
    pub(crate) fn place(&self) -> &str {
        let own = self.lamp.metadata.namespace.as_deref();
        own.or(self.lamp.spec.place.as_deref()).unwrap_or("default")
    }

    pub(crate) fn name(&self) -> &str {
        self.lamp.metadata.name.as_deref().unwrap_or_default()
    }

    /// The ConfigMap, if the lamp owns it.
    pub(crate) fn own_child(&self) -> Option<&ConfigMap> {
        self.child.as_deref().filter(|child| {
            let owners = child.metadata.owner_references.iter().flatten();
            let mut owners = owners.map(|owner| owner.uid.as_str());
            owners.any(|uid| Some(uid) == self.lamp.metadata.uid.as_deref())
        })
    }
}

impl<V: Variety> Kind for Lighter<V> {
    type Object = Lamp;
    type World = World;
    type Action = Action;
    type Outcome = ActionOutcome;

    const TRAITS: Traits = V::TRAITS;

    async fn observe(&self, _: &Context, lamp: &Lamp, _: Source) -> Result<World, Error> {
        self.stage.looked_at(&lamp.metadata);
        let mut world = World {
            lamp: lamp.clone(),
            child: None,
            is_looked: false,
            refused: None,
        };
        world.child = self.children.get(Some(world.place()), world.name());
        Ok(world)
    }

    fn plan(&self, world: &World, now: Timestamp) -> Plan<Action> {
        plan::<V>(world, now)
    }

    async fn act(
        &self,
        ctx: &Context,
        world: &World,
        action: &Action,
    ) -> Result<ActionOutcome, Error> {
        let seen = &world.lamp.metadata;
        let lamp = Target::of(&ctx.client, &self.resource, seen, V::TRAITS.field_manager);
        let child = Target {
            resource: &self.child,
            namespace: Some(world.place()),
            ..lamp
        };
        Ok(match action {
            Action::SetMetadata(patch) => match lamp.set_metadata(seen, patch).await? {
                Patched::Object(answered) => marked(*answered),
                Patched::Gone => ActionOutcome::Gone,
                Patched::Rejected(message) => refused("MetadataRefused", message),
            },
            Action::WriteStatus(status) => {
                self.stage.pass(world.name()).await;
                let before = world.lamp.status.as_ref();
                let written = lamp.write_status(seen, before, &**status).await?;
                written.map_or(ActionOutcome::Gone, ActionOutcome::Lamp)
            }
            Action::ReadChild => ActionOutcome::Child(child.read(READ).await?.map(Arc::new)),
            Action::Apply(wanted) => match child.apply(wanted, APPLY).await? {
                Stored::Object(applied) => ActionOutcome::Child(Some(Arc::from(applied))),
                Stored::Exists => ActionOutcome::Child(child.read(READ).await?.map(Arc::new)),
                Stored::Invalid(message)
                | Stored::Rejected {
                    sentence: message, ..
                }
                | Stored::Unanswered(message) => refused("Refused", message),
            },
            Action::DeleteChild(uid) => {
                match child.delete(uid, Deletion::Graceful, DELETE).await? {
                    Deleted::Asked => ActionOutcome::ChildAsked,
                    Deleted::Gone => ActionOutcome::Child(None),
                }
            }
        })
    }

    fn report(&self, done: &Done<'_, Self>, notices: Vec<Notice>) -> Vec<Notice> {
        match done.outcome {
            ActionOutcome::Refused(_) | ActionOutcome::Gone => Vec::new(),
            _ => notices,
        }
    }

    fn learn(&self, world: &mut World, outcome: ActionOutcome) -> Remains {
        match outcome {
            ActionOutcome::Lamp(lamp) => {
                world.lamp = *lamp;
                return Remains::of(&world.lamp.metadata);
            }
            ActionOutcome::Child(child) => {
                world.child = child;
                world.is_looked = true;
            }
            // It may go at once, or wait for others.
            ActionOutcome::ChildAsked => {
                world.child = None;
                world.is_looked = false;
            }
            ActionOutcome::Refused(refused) => world.refused = Some(refused),
            ActionOutcome::Gone => return Remains::Unknown,
        }
        Remains::Object
    }

    fn metadata(world: &World) -> &ObjectMeta {
        &world.lamp.metadata
    }
}

fn marked(answered: Answered<Lamp>) -> ActionOutcome {
    ActionOutcome::Lamp(Box::new(answered.0))
}

fn refused(reason: &'static str, message: String) -> ActionOutcome {
    ActionOutcome::Refused(Refused { reason, message })
}

/// The watches of a variety, and its work on them. Its caches are awaited from this call on, and `more` before any pass.
pub(crate) fn start<V: Variety, C: IntoIterator<Item = BoxFuture<'static, ()>>>(
    scope: &WatchScope,
    stage: &Stage,
    more: C,
) -> impl Future<Output = ()> + Send + use<V, C> {
    let resource = Arc::new(resource::<V>());
    let scopes = std::slice::from_ref(scope);
    let lamps = Cache::new(scopes, Watch::of_kind::<Lighter<V>>(V::PLURAL, &resource));
    let children = Watch {
        label: V::LABEL,
        prune: |child: &mut ConfigMap| child.metadata.managed_fields = None,
        ..Watch::of("ConfigMap", "ConfigMaps")
    };
    let children = Cache::new(scopes, children);
    let wiring = Wiring::<Lighter<V>>::new(&lamps).owns(&children);
    let wiring = more.into_iter().fold(wiring, Wiring::awaits);
    let filling = future::join(lamps.fill(), children.fill());
    let kind = Lighter::<V> {
        resource,
        child: ApiResource::erase::<ConfigMap>(&()),
        children,
        stage: stage.clone(),
        variety: PhantomData,
    };
    let work = wiring.run(scopes, kind);
    future::select(work.boxed(), filling.boxed()).map(drop)
}

/// What tests see of the kind from within, and where they hold it.
#[derive(Clone, Default)]
pub(crate) struct Stage(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// How often each object was observed, by its name.
    looks: Mutex<HashMap<String, u32>>,
    /// By the name of an object whose next status is held back.
    held: Mutex<HashMap<String, Arc<Held>>>,
}

/// A status that is about to be written.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) reached: Notify,
    pub(crate) go: Notify,
}

impl Stage {
    /// How often an object was observed.
    pub(crate) fn looks(&self, name: &str) -> u32 {
        let looks = self.0.looks.lock().unwrap();
        looks.get(name).copied().unwrap_or_default()
    }

    /// Holds the next status of an object back.
    pub(crate) fn hold(&self, name: &str) -> Arc<Held> {
        let held = Arc::new(Held::default());
        let mut all = self.0.held.lock().unwrap();
        all.insert(name.to_owned(), Arc::clone(&held));
        held
    }

    fn looked_at(&self, object: &ObjectMeta) {
        let name = object.name.clone().unwrap_or_default();
        *self.0.looks.lock().unwrap().entry(name).or_default() += 1;
    }

    async fn pass(&self, name: &str) {
        let held = self.0.held.lock().unwrap().remove(name);
        if let Some(held) = held {
            held.reached.notify_one();
            held.go.notified().await;
        }
    }
}
