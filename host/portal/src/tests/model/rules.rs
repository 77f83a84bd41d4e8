//! The rules of a tunnel that no history may break: what PORTAL.md and ARCHITECTURE.md say of PortalExposes, and what users rely on.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use podloom_api::names::portal::{FINALIZER, IDENTITY_KEY, annotation, condition};
use podloom_model::process::Heard;
use podloom_model::store::{Store, Stored};
use podloom_model::{RestRule, Rule, Sent, Write};
use serde_json::{Value, json};

use super::around::{identity, lives};
use super::{CHAINS, CLASSES, DEADLINE, DEPLOYMENTS, EXPOSES, SECRETS, SERVICES};
use crate::naming;

/// What is known of the Deployments that the operator made.
#[derive(Clone, Default, Hash)]
pub(super) struct Made {
    /// By UID. An apply that makes one names none, and takes over what somebody else made meanwhile. The operator looks just before, so
    /// that this takes one that is on its way for long.
    all: Vec<String>,
    /// Those that came from a request that was on its way for long, when a pass had looked for them already, or the PortalExpose was
    /// deleted. Garbage collection deletes those that the operator does not see in time.
    unforeseen: Vec<String>,
}

impl Made {
    /// Notes what a write changed.
    pub(super) fn note(&mut self, write: &Write<'_>) {
        let is_new = write.created(DEPLOYMENTS).is_some();
        // What somebody made after the operator has looked, an apply takes over: it names no UID.
        let was_seen = write.effect.before.as_deref().is_some_and(|before| {
            let seen = write.store.get(DEPLOYMENTS, before.meta("name"));
            seen.is_some_and(|it| it.uid() == before.uid())
        });
        let is_unseen = write.is_late() || !was_seen;
        let is_blind = is_unseen && write.effect.asked.is_apply && !names_uid(write);
        let Some(deployment) = write.effect.after.as_deref().filter(|_| is_new || is_blind) else {
            return;
        };
        let uid = deployment.uid().to_owned();
        let owner = expose_of(write.store, deployment);
        let is_deleted = owner.is_none_or(Stored::is_deleted);
        if write.is_late() && (is_deleted || write.is_at_work) {
            self.unforeseen.push(uid.clone());
        }
        self.all.push(uid);
    }
}

/// The rules about each write.
pub(super) const OF_WRITES: &[(&str, Rule<Made>)] = &[
    ("a_key_stays", a_key_stays),
    (
        "nothing_is_made_for_what_is_gone",
        nothing_is_made_for_what_is_gone,
    ),
    ("only_own_secrets_are_written", only_own_secrets_are_written),
    (
        "only_own_deployments_are_written",
        only_own_deployments_are_written,
    ),
    ("the_finalizer_comes_first", the_finalizer_comes_first),
    ("the_finalizer_goes_last", the_finalizer_goes_last),
    ("a_hostname_has_one_tunnel", a_hostname_has_one_tunnel),
];

/// The rules about a state at rest.
pub(super) const AT_REST: &[(&str, RestRule)] = &[
    ("what_is_wanted_is_there", what_is_wanted_is_there),
    ("what_is_shown_is_true", what_is_shown_is_true),
    ("a_loser_has_no_tunnel", a_loser_has_no_tunnel),
    ("nothing_is_left", nothing_is_left),
];

fn names_uid(write: &Write<'_>) -> bool {
    write.effect.asked.body["metadata"]["uid"].is_string()
}

/// The PortalExpose whose Deployment this is.
fn expose_of<'a>(store: &'a Store, deployment: &Stored) -> Option<&'a Stored> {
    let name = deployment.meta("name").strip_suffix(naming::DEPLOYMENT)?;
    let expose = store.get(EXPOSES, name)?;
    (expose.uid() == deployment.controller()).then_some(&**expose)
}

fn has_finalizer(expose: &Stored) -> bool {
    expose.finalizers().any(|it| it == FINALIZER)
}

/// Whether an object has the labels of what belongs to the PortalExpose of this name.
fn has_labels(stored: &Stored, name: &str) -> bool {
    stored.value["metadata"]["labels"] == json!(naming::labels(name))
}

fn is_own_secret(secret: &Stored) -> bool {
    let name = secret
        .meta("name")
        .strip_suffix(naming::SECRET)
        .unwrap_or_default();
    let meant = &secret.value["metadata"]["annotations"][annotation::IDENTITY_FOR];
    has_labels(secret, name) && (meant.is_null() || *meant == name)
}

fn key(secret: &Stored) -> Option<Value> {
    Some(identity(&secret.value)?["private_key"].clone())
}

fn a_key_stays(write: &Write<'_>, _: &Made) -> Option<String> {
    let (before, after) = write.patched(SECRETS)?;
    let (before, after) = (key(before), after.and_then(key));
    (before != after).then(|| format!("it was {before:?} and is {after:?}"))
}

fn nothing_is_made_for_what_is_gone(write: &Write<'_>, _: &Made) -> Option<String> {
    let child = write.created(SECRETS).or(write.created(DEPLOYMENTS))?;
    let is_known = write.is_late() || write.sent == Sent::InTime(Heard::Lives);
    (!is_known).then(|| {
        format!(
            "{} was made, and the API server did not say that its PortalExpose lives",
            child.uid()
        )
    })
}

fn only_own_secrets_are_written(write: &Write<'_>, _: &Made) -> Option<String> {
    let effect = write.effect;
    let before = effect
        .before
        .as_deref()
        .filter(|_| effect.asked.resource == SECRETS)?;
    let may = !write.is("DELETE", SECRETS) && is_own_secret(before);
    (!may).then(|| format!("{} is somebody else's", before.uid()))
}

fn only_own_deployments_are_written(write: &Write<'_>, made: &Made) -> Option<String> {
    let asked = &write.effect.asked;
    let before = write.effect.before.as_deref();
    let before = before.filter(|_| asked.resource == DEPLOYMENTS)?;
    let owner = &asked.body["metadata"]["ownerReferences"][0]["uid"];
    let controller = before.controller();
    let has_other = owner.is_string() && !controller.is_empty() && owner != controller;
    let is_own = made.all.iter().any(|it| it == before.uid()) && !has_other;
    (!is_own).then(|| format!("{} is somebody else's", before.uid()))
}

fn the_finalizer_comes_first(write: &Write<'_>, _: &Made) -> Option<String> {
    let child = write.created(SECRETS).or(write.created(DEPLOYMENTS))?;
    let name = super::expose_of(child.meta("name"));
    let expose = write
        .store
        .get(EXPOSES, name)
        .filter(|_| !write.is_late())?;
    (!has_finalizer(expose)).then(|| format!("{} was made without it", child.uid()))
}

fn the_finalizer_goes_last(write: &Write<'_>, made: &Made) -> Option<String> {
    let (before, after) = write.patched(EXPOSES)?;
    if !has_finalizer(before) || after.is_some_and(has_finalizer) {
        return None;
    }
    let name = naming::deployment_name(before.meta("name"));
    let deployment = write.store.get(DEPLOYMENTS, &name)?;
    let is_left = deployment.controller() == before.uid()
        && !made.unforeseen.iter().any(|it| it == deployment.uid());
    is_left.then(|| format!("its Deployment {} is there", deployment.uid()))
}

/// Only PortalExposes that nobody has edited count: after an edit, a younger one may keep the hostname that it has.
fn a_hostname_has_one_tunnel(write: &Write<'_>, _: &Made) -> Option<String> {
    let new = write.created(DEPLOYMENTS).filter(|_| !write.is_late())?;
    let owner = expose_of(write.store, new)?;
    let deployments = write.store.all(DEPLOYMENTS);
    let mut others = deployments
        .values()
        .filter_map(|it| expose_of(write.store, it));
    let other = others.find(|it| are_rivals(it, owner) && are_unchanged(it, owner))?;
    Some(format!("{} has it", other.uid()))
}

fn are_rivals(one: &Stored, other: &Stored) -> bool {
    one.uid() != other.uid()
        && one.value["spec"]["app"]["name"] == other.value["spec"]["app"]["name"]
}

fn are_unchanged(one: &Stored, other: &Stored) -> bool {
    [one, other]
        .iter()
        .all(|it| it.value["metadata"]["generation"] == 1)
}

fn age(expose: &Stored) -> (&str, &str) {
    (expose.meta("creationTimestamp"), expose.meta("name"))
}

fn has_older_rival(store: &Store, expose: &Stored) -> bool {
    let all = store.all(EXPOSES);
    all.values()
        .any(|it| are_rivals(it, expose) && age(it) < age(expose))
}

/// The Deployment of a PortalExpose; none if there is none, or it is somebody else's.
fn tunnel<'a>(store: &'a Store, expose: &Stored) -> Option<&'a Stored> {
    let found = store.get(DEPLOYMENTS, &naming::deployment_name(expose.meta("name")))?;
    (found.controller() == expose.uid()).then_some(&**found)
}

/// Whether an object in the place of a child is of no use.
fn has_bad_child(store: &Store, expose: &Stored) -> bool {
    let name = expose.meta("name");
    let deployment = store.get(DEPLOYMENTS, &naming::deployment_name(name));
    let secret = store.get(SECRETS, &naming::secret_name(name));
    deployment.is_some() && tunnel(store, expose).is_none()
        || secret.is_some_and(|it| !is_own_secret(it) || identity(&it.value).is_none())
}

fn is_blocked(store: &Store, expose: &Stored) -> bool {
    store.get(CLASSES, "standard").is_none()
        || store.get(SERVICES, "web").is_none()
        || has_older_rival(store, expose)
        || has_bad_child(store, expose)
}

/// What each PortalExpose that nothing blocks lacks.
fn what_is_wanted_is_there(store: &Store) -> Option<String> {
    let exposes = store.all(EXPOSES);
    let mut free = exposes.values().filter(|it| !is_blocked(store, it));
    free.find_map(|expose| {
        let Some(secret) = store.get(SECRETS, &naming::secret_name(expose.meta("name"))) else {
            return Some(format!(
                "{} has no Secret: {}",
                expose.uid(),
                expose.value["status"]
            ));
        };
        let Some(deployment) = tunnel(store, expose) else {
            return Some(format!("{} has no Deployment", expose.uid()));
        };
        lacking_in_secret(expose, secret)
            .or_else(|| lacking_in_deployment(store, expose, deployment))
    })
}

fn lacking_in_secret(expose: &Stored, secret: &Stored) -> Option<String> {
    let (spec, metadata) = (&expose.value["spec"], &secret.value["metadata"]);
    let app = identity(&secret.value).unwrap_or_default()["name"].clone();
    let owners = metadata["ownerReferences"].as_array();
    let is_owned = owners
        .into_iter()
        .flatten()
        .any(|it| it["uid"] == expose.uid());
    let is_right = app == spec["app"]["name"]
        && is_owned == (spec["identityPolicy"] == "Delete")
        && metadata["annotations"][annotation::IDENTITY_FOR] == expose.meta("name");
    (!is_right).then(|| format!("{} is not right: {app}, {metadata}", secret.uid()))
}

fn lacking_in_deployment(store: &Store, expose: &Stored, deployment: &Stored) -> Option<String> {
    let (metadata, spec) = (&deployment.value["metadata"], &deployment.value["spec"]);
    let (template, chain) = (&spec["template"], store.get(CHAINS, "chain")?.phase());
    let container = &template["spec"]["containers"][0];
    let class = store.get(CLASSES, "standard")?;
    let cpu = if class.value["spec"]["size"] == "small" {
        "500m"
    } else {
        "2"
    };
    let secret = store.get(SECRETS, &naming::secret_name(expose.meta("name")))?;
    let value = secret.value["data"][IDENTITY_KEY].clone();
    let right = [
        ("labels", has_labels(deployment, expose.meta("name"))),
        (
            "name",
            container["args"]
                .as_array()?
                .contains(&expose.value["spec"]["app"]["name"]),
        ),
        ("class", container["resources"]["limits"]["cpu"] == cpu),
        (
            "chain",
            metadata["annotations"]["podloom.dev/chain"] == chain,
        ),
        (
            "plugins",
            template["metadata"]["annotations"]["example.com/chain"] == chain,
        ),
        (
            "key",
            template["metadata"]["annotations"][annotation::IDENTITY_CHECKSUM] == checksum(&value),
        ),
        (
            "deadline",
            spec["progressDeadlineSeconds"] == DEADLINE.as_secs(),
        ),
    ];
    let (wrong, _) = right.into_iter().find(|(_, is_right)| !is_right)?;
    Some(format!(
        "{} has the wrong {wrong}: {}",
        deployment.uid(),
        deployment.value
    ))
}

fn what_is_shown_is_true(store: &Store) -> Option<String> {
    let exposes = store.all(EXPOSES);
    exposes.values().find_map(|expose| {
        let status = &expose.value["status"];
        let conditions = status["conditions"].as_array();
        let shows = |type_: &str| {
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|it| it["type"] == type_ && it["status"] == "True")
        };
        let applied = tunnel(store, expose).map(|it| &it.value["metadata"]);
        let applied = applied.map_or(&Value::Null, |it| &it["generation"]);
        let is_blocked = is_blocked(store, expose);
        let right = [
            ("phase", (expose.phase() == "Ready") != is_blocked),
            (
                "generation",
                status["observedGeneration"] == expose.value["metadata"]["generation"],
            ),
            (
                "applied generation",
                is_blocked || status["applied"]["generation"] == *applied,
            ),
            (
                "Service",
                shows(condition::SERVICE_EXISTS) == store.get(SERVICES, "web").is_some(),
            ),
            (
                "TunnelClass",
                shows(condition::TUNNEL_CLASS_EXISTS) == store.get(CLASSES, "standard").is_some(),
            ),
            (
                "hostname",
                shows(condition::HOSTNAME_UNIQUE) != has_older_rival(store, expose),
            ),
            (
                "children",
                !(shows(condition::TUNNEL_DEPLOYMENT_READY) && has_bad_child(store, expose)),
            ),
        ];
        let (wrong, _) = right.into_iter().find(|(_, is_right)| !is_right)?;
        Some(format!("{}: {wrong}: {status}", expose.uid()))
    })
}

fn a_loser_has_no_tunnel(store: &Store) -> Option<String> {
    let exposes = store.all(EXPOSES);
    let mut losers = exposes.values().filter(|it| tunnel(store, it).is_some());
    let rivals = |loser: &Stored| {
        exposes
            .values()
            .any(|it| are_rivals(it, loser) && age(it) < age(loser) && are_unchanged(it, loser))
    };
    let loser = losers.find(|it| rivals(it))?;
    Some(format!("{} has a tunnel", loser.uid()))
}

fn nothing_is_left(store: &Store) -> Option<String> {
    let exposes = store.all(EXPOSES);
    if let Some(deleted) = exposes.values().find(|it| it.is_deleted()) {
        return Some(format!("{} is deleted and does not go", deleted.uid()));
    }
    let deployments = store.all(DEPLOYMENTS);
    let mut owned = deployments
        .values()
        .filter(|it| !it.controller().is_empty());
    let left = owned.find(|it| !lives(store, it.controller()))?;
    Some(format!("{} has no PortalExpose", left.uid()))
}

/// The hash of the value of a Secret, as the pod template has it.
fn checksum(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    let bytes = STANDARD.decode(text);
    crate::identity::checksum(&bytes.unwrap_or_default())
}
