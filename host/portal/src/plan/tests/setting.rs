//! Reads a case: what is different in the world of `base.yaml`.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use podloom_api::RelayConnection;
use podloom_api::names::portal::reason;
use podloom_engine::readable::Readable;
use podloom_mutation::MutatedPod;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::check::{Authority, Blocker};
use crate::plan::{Action, plan};
use crate::relays::{Link, Observation};
use crate::render::{Rendered, Tunnel, finish};
use crate::settings::TunnelSettings;
use crate::verdict::judge;
use crate::world::{
    ChainPolicy, Conflict, Content, Learned, OurIdentity, Refusal, SeenDeployment, SeenIdentity,
    Settings, Try, Turn, World,
};

/// The world of the cases.
#[derive(Deserialize)]
struct Base {
    expose: Value,
    class: Value,
    service: Value,
    secret: Value,
    deployment: Value,
}

/// When the base world became ready.
const READY: &str = "2026-01-01T00:00:30Z";
/// When cases look at it: the time of the relays is over.
const NOW: &str = "2026-01-01T00:30:00Z";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Setting {
    now: Option<Timestamp>,
    /// A merge-patch (RFC 7396), as the others are.
    #[serde(default = "nothing")]
    expose: Value,
    /// Whether there is a status before the patch.
    #[serde(default)]
    no_status: bool,
    classes: Option<Vec<Value>>,
    #[serde(default = "nothing")]
    service: Option<Value>,
    conflict: Option<Other>,
    #[serde(default)]
    identity: Identity,
    #[serde(default = "nothing")]
    secret: Value,
    /// Null if there is none.
    #[serde(default = "nothing")]
    deployment: Option<Value>,
    #[serde(default)]
    deployment_is_unseen: bool,
    /// The Deployment was written from this very world.
    #[serde(default)]
    is_written: bool,
    #[serde(default = "connected")]
    links: Vec<Known>,
    #[serde(default = "chain")]
    chain: Option<String>,
    #[serde(default)]
    chain_policy: Policy,
    #[serde(default)]
    namespace_ends: bool,
    refused: Option<Refused>,
    #[serde(default)]
    queued: bool,
    /// How many seconds ago we wrote the Deployment, whose pods are not all new and ready yet.
    rolls_for: Option<i64>,
    /// In how many seconds the Deployment may be restored again.
    next_repair: Option<i64>,
    #[serde(default)]
    learned: Lessons,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Other {
    name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Identity {
    Unseen,
    Absent,
    NotOurs,
    Unread,
    Invalid,
    /// It is complete for this application.
    Of(String),
    #[default]
    Current,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Known {
    Connected,
    Disconnected,
    Unknown,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Policy {
    #[default]
    Roll,
    Defer,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Refused {
    problem: Failed,
    next: Timestamp,
    /// It was about another template.
    #[serde(default)]
    of_another: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Failed {
    Denied(String),
    Broken(String),
    ResultInvalid(String),
    Deployment(String),
    Identity(String),
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Lessons {
    metadata_rejected: Option<String>,
    #[serde(default)]
    is_confirmed: bool,
    #[serde(default)]
    is_adopted: bool,
    /// What the chain made: the template as it is, or another.
    rendered: Option<Made>,
    /// What plugins said.
    #[serde(default)]
    notes: Vec<String>,
    turn: Option<When>,
    #[serde(default)]
    is_deployment_deleted: bool,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Made {
    Same,
    Another,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum When {
    Now,
    Later,
}

fn nothing<T: DeserializeOwned>() -> T {
    serde_json::from_value(json!({})).unwrap()
}

fn connected() -> Vec<Known> {
    vec![Known::Connected]
}

#[expect(clippy::unnecessary_wraps, reason = "a case may have none")]
fn chain() -> Option<String> {
    Some("chain-1".to_owned())
}

/// A case.
pub(crate) struct Case {
    pub(crate) world: World,
    pub(crate) now: Timestamp,
    pub(crate) chain_policy: ChainPolicy,
}

pub(crate) fn settings(chain_policy: ChainPolicy) -> Settings {
    Settings {
        tunnel: TunnelSettings::default(),
        chain_policy,
        relay_grace: Duration::from_secs(30),
        observation: Observation::Poll,
    }
}

impl Case {
    /// Reads a case.
    pub(crate) fn read(text: &str) -> Self {
        let base = base();
        let setting: Setting = serde_saphyr::from_str(text).unwrap();
        let mut expose = base.expose.clone();
        let was_applied = setting.deployment.is_some() && !setting.deployment_is_unseen;
        match setting.no_status {
            false => expose["status"] = json!(steady(&base).expose.status),
            true if was_applied => {}
            true => expose["status"] = Value::Null,
        }
        json_patch::merge(&mut expose, &setting.expose);
        let mut base = Base { expose, ..base };
        if setting.is_written {
            hash(&mut base, &setting);
        }
        let mut world = world(&base, &setting);
        let input = judge(&world, &settings(ChainPolicy::Roll)).tunnel;
        let tried = world.tunnel_try(input.as_ref().map_or("", |it| &it.input_hash));
        world.refused = setting.refused.map(|refused| refused.of(&tried, &world));
        world.queued = setting.queued.then(|| tried.clone());
        let next = setting.next_repair;
        let now: Timestamp = NOW.parse().unwrap();
        let rolls = setting.rolls_for;
        world.rolls_since = rolls.map(|seconds| now - SignedDuration::from_secs(seconds));
        world.next_repair = next.map(|seconds| now + SignedDuration::from_secs(seconds));
        let Lessons {
            rendered, notes, ..
        } = setting.learned;
        world.learned = Learned {
            metadata_rejected: setting.learned.metadata_rejected,
            is_confirmed: setting.learned.is_confirmed,
            is_adopted: setting.learned.is_adopted,
            rendered: rendered.zip(input).map(|(made, tunnel)| Rendered {
                notes,
                ..finished(&tunnel, world.chain.as_deref(), made)
            }),
            turn: setting.learned.turn.map(|turn| match turn {
                When::Now => Turn::Now,
                When::Later => Turn::Later,
            }),
            is_deployment_deleted: setting.learned.is_deployment_deleted,
            ..Learned::default()
        };
        Self {
            world,
            now: setting.now.unwrap_or_else(|| NOW.parse().unwrap()),
            chain_policy: match setting.chain_policy {
                Policy::Roll => ChainPolicy::Roll,
                Policy::Defer => ChainPolicy::Defer,
            },
        }
    }
}

impl Refused {
    fn of(self, tried: &Try, world: &World) -> Refusal {
        let tried = tried.clone();
        let (tried, problem) = match self.problem {
            Failed::Denied(message) => {
                (tried, Blocker::of_mutators(reason::MUTATOR_DENIED, message))
            }
            Failed::Broken(message) => {
                (tried, Blocker::of_mutators(reason::MUTATOR_FAILED, message))
            }
            Failed::ResultInvalid(message) => (
                tried,
                Blocker::of_mutators(reason::MUTATOR_RESULT_INVALID, message),
            ),
            Failed::Deployment(message) => (
                tried,
                Blocker::of_children(reason::DEPLOYMENT_REJECTED, message),
            ),
            Failed::Identity(message) => {
                let problem = Blocker::of_children(reason::IDENTITY_REJECTED, message);
                (world.identity_try(), problem)
            }
        };
        let another = Try::Tunnel {
            input: "another".to_owned(),
            chain: None,
            namespace: None,
        };
        Refusal {
            tried: if self.of_another { another } else { tried },
            problem,
            next: self.next,
        }
    }
}

/// The base world with its hashes.
fn base() -> Base {
    let mut base: Base = serde_saphyr::from_str(include_str!("../base.yaml")).unwrap();
    hash(&mut base, &nothing());
    base
}

/// Puts hashes of what a world renders on its Deployment, and into its status.
fn hash(base: &mut Base, setting: &Setting) {
    let world = world(base, setting);
    let tunnel = judge(&world, &settings(ChainPolicy::Roll)).tunnel.unwrap();
    let finished = finished(&tunnel, Some("chain-1"), Made::Same);
    let annotations = &mut base.deployment["metadata"]["annotations"];
    annotations["portal.gosuda.org/input-hash"] = json!(tunnel.input_hash);
    annotations["portal.gosuda.org/template-hash"] = json!(finished.template_hash);
    base.expose["status"]["applied"] = json!({
        "generation": 1, "templateHash": finished.template_hash, "chainDigest": "chain-1",
    });
}

/// The base world with the status that it leads to.
fn steady(base: &Base) -> World {
    let mut world = world(base, &nothing());
    let settings = settings(ChainPolicy::Roll);
    while let Some(action) = plan(&world, &settings, READY.parse().unwrap()).action {
        let Action::WriteStatus(status) = action else {
            unreachable!("the base world needs {action:?}")
        };
        Arc::make_mut(&mut world.expose).status = Some(*status);
    }
    world
}

/// What the chain made of a template.
fn finished(tunnel: &Tunnel, chain: Option<&str>, made: Made) -> Rendered {
    let mut pod = tunnel.pod();
    if let Made::Another = made {
        pod["spec"]["priorityClassName"] = json!("high");
    }
    if let Some(chain) = chain {
        pod["metadata"]["annotations"]["podloom.dev/chain"] = json!(chain);
        pod["metadata"]["annotations"]["podloom.dev/mutations"] = json!("[]");
    }
    let mutated = MutatedPod {
        chain: chain.map(str::to_owned),
        ..MutatedPod::untouched(pod)
    };
    finish(tunnel, mutated).unwrap()
}

/// An object of the base world with a difference.
fn typed<T: DeserializeOwned>(base: &Value, difference: &Value) -> T {
    let mut object = base.clone();
    json_patch::merge(&mut object, difference);
    serde_json::from_value(object).unwrap()
}

fn world(base: &Base, setting: &Setting) -> World {
    let class = |difference| Arc::new(typed::<Readable<_>>(&base.class, difference));
    let default = [json!({})];
    let classes = setting.classes.as_deref().unwrap_or(&default);
    let deployment = match &setting.deployment {
        _ if setting.deployment_is_unseen => SeenDeployment::Unseen,
        None => SeenDeployment::Absent,
        Some(difference) => SeenDeployment::Found(Arc::new(typed(&base.deployment, difference))),
    };
    World {
        expose: Arc::new(serde_json::from_value(base.expose.clone()).unwrap()),
        classes: classes.iter().map(class).collect(),
        service: setting
            .service
            .as_ref()
            .map(|it| Arc::new(typed(&base.service, it))),
        conflict: setting.conflict.as_ref().map(|other| Conflict {
            authority: Authority::parse("wss://relay.example.com").unwrap(),
            name: other.name.clone(),
        }),
        identity: identity(base, setting),
        deployment,
        links: setting.links.iter().map(link).collect(),
        chain: setting.chain.clone(),
        namespace_version: Some("1".to_owned()),
        namespace_ends: setting.namespace_ends,
        refused: None,
        queued: None,
        rolls_since: None,
        next_repair: None,
        written: None,
        learned: Learned::default(),
    }
}

fn identity(base: &Base, setting: &Setting) -> SeenIdentity {
    let valid = |app: &str| Content::Valid {
        checksum: "checksum-1".to_owned(),
        app: Some(app.to_owned()),
    };
    let content = match &setting.identity {
        Identity::Unseen => return SeenIdentity::Unseen,
        Identity::Absent => return SeenIdentity::Absent,
        Identity::NotOurs => return SeenIdentity::NotOurs,
        Identity::Unread => None,
        Identity::Invalid => Some(Content::Invalid("identity.json is missing".to_owned())),
        Identity::Of(app) => Some(valid(app)),
        Identity::Current => Some(valid("shop")),
    };
    SeenIdentity::Ours(OurIdentity {
        metadata: Arc::new(typed(&base.secret, &setting.secret)),
        content,
    })
}

fn link(known: &Known) -> Option<Link> {
    let since = || READY.parse().ok();
    match known {
        Known::Connected => Some(Link::stored(RelayConnection::Connected, since(), None)),
        Known::Disconnected => {
            let error = "NoLease: the relay has no lease".to_owned();
            Some(Link::stored(
                RelayConnection::Disconnected,
                None,
                Some(error),
            ))
        }
        Known::Unknown => None,
    }
}

/// What a chain makes of a template that rolls when the chain changes.
pub(crate) fn mutated(tunnel: &Tunnel, chain: Option<&str>) -> Rendered {
    let made = match chain {
        Some("chain-1") => Made::Same,
        _ => Made::Another,
    };
    finished(tunnel, chain, made)
}
