//! Which TunnelClass a PortalExpose uses, and what the status of a TunnelClass says.

use std::sync::Arc;

use jiff::Timestamp;
use kube::core::{ApiResource, ObjectMeta};
use podloom_api::names::portal;
use podloom_api::names::portal::{annotation, condition, reason};
use podloom_api::{TunnelClassObject, TunnelClassSpec, TunnelClassStatus, asks_to_be_default};
use podloom_engine::cache::Cache;
use podloom_engine::conditions::{ConditionStatus, NewCondition, Summary, conditions};
use podloom_engine::error::Error;
use podloom_engine::finding::FieldPath;
use podloom_engine::kind::{Context, Kind, Remains, ResourceScope, Source, Traits};
use podloom_engine::plan::{Plan, Then};
use podloom_engine::readable::Readable;
use podloom_engine::shown::shown;
use podloom_engine::write::Target;
use serde::Serialize;

use super::check::{Blocker, Fault, no, yes};
use super::metrics::CLASS_CONTROLLER;
use super::settings::TunnelSettings;
use super::settings::{ClientVersion, VersionError};

/// What the schema allows. Classes that were stored under an older one may have more.
const REPLICAS_MAX: i32 = 100;
const ENTRIES_MAX: usize = 64;
const VALUE_MAX: usize = 63;

/// A TunnelClass from which tunnels can be made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Class {
    /// Its name.
    pub name: String,
    /// Its spec.
    pub spec: TunnelClassSpec,
    /// The client of its tunnels.
    pub client: Client,
    /// The names of all classes that ask to be the default, in the order in which they would be, if this is one of several.
    pub rivals: Vec<String>,
}

/// A tunnel client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    /// Its image.
    pub image: String,
    /// Its version, not older than [`ClientVersion::OLDEST`].
    pub version: ClientVersion,
}

/// A TunnelClass that may be chosen. Its spec is none if our types cannot hold it.
#[derive(Clone, Copy)]
pub struct Candidate<'a> {
    metadata: &'a ObjectMeta,
    spec: Option<&'a TunnelClassSpec>,
}

impl<'a> From<&'a TunnelClassObject> for Candidate<'a> {
    fn from(class: &'a TunnelClassObject) -> Self {
        Self {
            metadata: &class.metadata,
            spec: Some(&class.spec),
        }
    }
}

impl<'a> From<&'a Readable<TunnelClassObject>> for Candidate<'a> {
    fn from(class: &'a Readable<TunnelClassObject>) -> Self {
        match &class.0 {
            Ok(class) => Self::from(class),
            Err(unreadable) => Self {
                metadata: &unreadable.metadata,
                spec: None,
            },
        }
    }
}

impl<'a> Candidate<'a> {
    fn name(self) -> &'a str {
        self.metadata.name.as_deref().unwrap_or_default()
    }
}

/// Returns the class of that name, or the default if no name is wanted.
///
/// Of several defaults the oldest is used, and of those the first by name.
pub(crate) fn choose<'a, C: Into<Candidate<'a>>>(
    wanted: Option<&str>,
    classes: impl IntoIterator<Item = C>,
    settings: &TunnelSettings,
) -> Result<Class, Blocker> {
    let mut classes = classes.into_iter().map(Into::into);
    let (found, rivals) = match wanted {
        Some(name) => (classes.find(|class| class.name() == name), Vec::new()),
        None => {
            let defaults = defaults(classes);
            let is_one_of_several = defaults.len() > 1;
            let names = defaults.iter().map(|class| class.name().to_owned());
            let rivals = names.filter(|_| is_one_of_several).collect();
            (defaults.first().copied(), rivals)
        }
    };
    let problem = |reason, message| Blocker::new(condition::TUNNEL_CLASS_EXISTS, reason, message);
    let found = found.ok_or_else(|| problem(reason::TUNNEL_CLASS_NOT_FOUND, not_found(wanted)))?;
    let name = found.name().to_owned();
    let used = found.spec.ok_or_else(unreadable);
    let used = used.and_then(|spec| Ok((spec.clone(), of_spec(spec, settings)?)));
    match used {
        Ok((spec, client)) => Ok(Class {
            name,
            spec,
            client,
            rivals,
        }),
        Err(fault) => {
            let message = format!("TunnelClass {} is invalid: {fault}", shown(&name));
            Err(problem(reason::TUNNEL_CLASS_INVALID, message))
        }
    }
}

fn not_found(wanted: Option<&str>) -> String {
    match wanted {
        Some(name) => format!(
            "TunnelClass {} does not exist; create it, or correct spec.tunnelClassName",
            shown(name)
        ),
        None => format!(
            "no TunnelClass has the annotation {}: \"true\"; add it to one, or set spec.tunnelClassName",
            annotation::IS_DEFAULT_CLASS
        ),
    }
}

/// What is wrong with a class that our types cannot hold.
fn unreadable() -> Fault {
    let text = "does not fit the schema of TunnelClasses; compare it with `kubectl explain tunnelclass.spec`";
    fault("spec", text)
}

fn fault(field: &str, text: impl Into<String>) -> Fault {
    Fault::new(FieldPath::dotted(field), reason::TUNNEL_CLASS_INVALID, text)
}

/// Returns the names of all classes that ask to be the default, if this one does too; the first of them is.
pub(super) fn rivals<'a, C: Into<Candidate<'a>>>(
    class: &'a TunnelClassObject,
    all: impl IntoIterator<Item = C>,
) -> Vec<String> {
    // The cache may lag behind the class itself.
    let itself = Candidate::from(class);
    let others = all.into_iter().map(Into::into);
    let others = others.filter(|other| other.name() != itself.name());
    let defaults = defaults(others.chain([itself]));
    defaults
        .iter()
        .map(|class| class.name().to_owned())
        .collect()
}

/// The classes that ask to be the default; the first one is.
fn defaults<'a>(classes: impl Iterator<Item = Candidate<'a>>) -> Vec<Candidate<'a>> {
    let mut defaults: Vec<Candidate<'a>> = classes
        .filter(|class| asks_to_be_default(class.metadata))
        .collect();
    // Objects in files have no time, and come last.
    defaults.sort_by_key(|class| {
        let created = class
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0);
        (created.is_none(), created, class.name())
    });
    defaults
}

/// The client of a class with this spec, or why it cannot be used.
pub(super) fn of_spec(spec: &TunnelClassSpec, settings: &TunnelSettings) -> Result<Client, Fault> {
    let replicas = spec.replicas;
    if !(1..=REPLICAS_MAX).contains(&replicas) {
        let text = format!("is {replicas}; write 1 to {REPLICAS_MAX}");
        return Err(fault("spec.replicas", text));
    }
    let too_large = |field| {
        let text = format!(
            "is too large; it may have {ENTRIES_MAX} entries, with values of {VALUE_MAX} characters"
        );
        Err(fault(field, text))
    };
    let selector = spec.node_selector.iter().flatten();
    let is_too_long = |value: &String| value.chars().count() > VALUE_MAX;
    if selector.clone().count() > ENTRIES_MAX || selector.clone().any(|(_, it)| is_too_long(it)) {
        return too_large("spec.nodeSelector");
    }
    if spec.tolerations.iter().flatten().count() > ENTRIES_MAX {
        return too_large("spec.tolerations");
    }
    let (image, version) = match &spec.client {
        Some(client) => {
            let version = client.version.parse().map_err(|error: VersionError| {
                fault("spec.client.version", format!("is {error}"))
            })?;
            (&client.image, version)
        }
        None => (&settings.image, settings.version),
    };
    if image.is_empty() {
        let text = "is empty; name the image of a tunnel client";
        return Err(fault("spec.client.image", text));
    }
    if version < ClientVersion::OLDEST {
        return Err(too_old(version, spec.client.is_some()));
    }
    let image = image.clone();
    Ok(Client { image, version })
}

/// What is wrong with an old client: of the class, or of the operator's flags.
fn too_old(version: ClientVersion, is_of_class: bool) -> Fault {
    let oldest = ClientVersion::OLDEST;
    let (path, text) = match is_of_class {
        true => (
            FieldPath::dotted("spec.client.version"),
            format!("is {version}; the oldest client that works is {oldest}"),
        ),
        false => (
            FieldPath::default(),
            format!(
                "names no client, and the operator's --portal-tunnel-version is {version}; the oldest client that works is {oldest}"
            ),
        ),
    };
    Fault::new(path, reason::CLIENT_TOO_OLD, text)
}

// What the status of a TunnelClass says.

/// Returns what the status of a TunnelClass says, given all of them.
pub(crate) fn class_conditions<'a, C: Into<Candidate<'a>>>(
    class: &'a TunnelClassObject,
    all: impl IntoIterator<Item = C>,
    settings: &TunnelSettings,
) -> Vec<NewCondition> {
    let valid = valid(class, settings);
    let summary = match valid.status {
        ConditionStatus::True => Summary::Ready,
        _ => Summary::Stalled,
    };
    let summary = summary.conditions(&valid.reason, &valid.message);
    let default = default(class, all.into_iter().map(Into::into));
    let own = [valid, default, replicas_share_hostname(class)];
    own.into_iter().chain(summary).collect()
}

fn valid(class: &TunnelClassObject, settings: &TunnelSettings) -> NewCondition {
    match of_spec(&class.spec, settings) {
        // The operator's flags are not in the message: two operators would overwrite each other's.
        Ok(Client { image, version }) => {
            let message = match &class.spec.client {
                Some(_) => format!("tunnels use the client {version} in the image {image}"),
                None => "tunnels use the operator's default client".to_owned(),
            };
            yes(condition::VALID, reason::VALID, message)
        }
        Err(fault) => no(condition::VALID, fault.reason, fault.to_string()),
    }
}

fn default<'a>(
    class: &'a TunnelClassObject,
    all: impl Iterator<Item = Candidate<'a>>,
) -> NewCondition {
    let (type_, key) = (condition::DEFAULT, annotation::IS_DEFAULT_CLASS);
    if !asks_to_be_default(&class.metadata) {
        let mut annotations = class.metadata.annotations.iter().flatten();
        let message = match annotations.any(|(name, _)| name == key) {
            true => format!("the annotation {key} counts only with the exact value \"true\""),
            false => format!("the annotation {key}: \"true\" would make it the default"),
        };
        return no(type_, reason::NOT_DEFAULT, message);
    }
    let rivals = rivals(class, all);
    let first = rivals.first();
    match first.filter(|name| Some(*name) != class.metadata.name.as_ref()) {
        None => {
            let message = "PortalExposes without spec.tunnelClassName use this class";
            yes(type_, reason::EFFECTIVE_DEFAULT, message)
        }
        Some(older) => {
            let message = format!(
                "TunnelClass {older} is the default: it is older, or of the same age and first by name; remove the annotation {key} from \
                 one of them"
            );
            no(type_, reason::SHADOWED_DEFAULT, message)
        }
    }
}

fn replicas_share_hostname(class: &TunnelClassObject) -> NewCondition {
    let type_ = condition::REPLICAS_SHARE_HOSTNAME;
    match class.spec.replicas {
        replicas @ 2.. => yes(type_, reason::SEVERAL_REPLICAS, several_replicas(replicas)),
        _ => no(type_, reason::ONE_REPLICA, "each tunnel has one pod"),
    }
}

/// What several pods of one tunnel mean.
pub(crate) fn several_replicas(replicas: i32) -> String {
    format!(
        "each tunnel has {replicas} pods that share one hostname; a relay serves one of them at a time, so this is no high availability"
    )
}

// The kind TunnelClass: the status of each says whether it is valid, and whether it is the default.

/// What the controller of TunnelClasses needs besides the [`Context`].
pub(super) struct ClassKind {
    pub(super) resource: Arc<ApiResource>,
    pub(super) classes: Cache<Readable<TunnelClassObject>>,
    pub(super) settings: TunnelSettings,
}

/// A TunnelClass among all of them.
pub(super) struct ClassWorld {
    class: TunnelClassObject,
    /// All of them, itself among them unless the cache is behind.
    all: Vec<Arc<Readable<TunnelClassObject>>>,
}

/// One action for a TunnelClass.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) enum ClassAction {
    /// Write the status.
    WriteStatus(Box<TunnelClassStatus>),
}

impl Kind for ClassKind {
    type Object = TunnelClassObject;
    type World = ClassWorld;
    type Action = ClassAction;
    /// The TunnelClass as it is now; none if it is gone.
    type Outcome = Option<Box<TunnelClassObject>>;

    const TRAITS: Traits = Traits {
        scope: ResourceScope::Cluster,
        ..Traits::of("TunnelClass", CLASS_CONTROLLER, portal::CLASS_FIELD_MANAGER)
    };

    async fn observe(
        &self,
        _: &Context,
        class: &TunnelClassObject,
        _: Source,
    ) -> Result<ClassWorld, Error> {
        Ok(ClassWorld {
            class: class.clone(),
            all: self.classes.all(),
        })
    }

    fn plan(&self, world: &ClassWorld, now: Timestamp) -> Plan<ClassAction> {
        let class = &world.class;
        if class.metadata.deletion_timestamp.is_some() {
            return Plan::wait(Then::Change);
        }
        let all = world.all.iter().map(|class| &**class);
        let found = class_conditions(class, all, &self.settings);
        let seen = class.status.as_ref();
        let before = seen.and_then(|status| status.conditions.as_ref());
        let generation = class.metadata.generation;
        let wanted = TunnelClassStatus {
            observed_generation: generation,
            conditions: Some(conditions(before, found, generation, now)),
        };
        match seen == Some(&wanted) {
            true => Plan::wait(Then::Change),
            false => Plan::act(ClassAction::WriteStatus(Box::new(wanted))),
        }
    }

    async fn act(
        &self,
        ctx: &Context,
        world: &ClassWorld,
        action: &ClassAction,
    ) -> Result<Self::Outcome, Error> {
        let seen = &world.class.metadata;
        let field_manager = Self::TRAITS.field_manager;
        let target = Target::of(&ctx.client, &self.resource, seen, field_manager);
        let ClassAction::WriteStatus(status) = action;
        target
            .write_status(seen, world.class.status.as_ref(), status)
            .await
    }

    fn learn(&self, world: &mut ClassWorld, outcome: Self::Outcome) -> Remains {
        let Some(class) = outcome else {
            return Remains::Unknown;
        };
        world.class = *class;
        Remains::of(&world.class.metadata)
    }

    fn metadata(world: &ClassWorld) -> &ObjectMeta {
        &world.class.metadata
    }
}

#[cfg(test)]
mod tests;
