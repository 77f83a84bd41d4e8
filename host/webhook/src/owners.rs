//! What the webhook knows of the controllers of pods: by which labels they find their pods again, so that no plugin changes those.
//!
//! Whoever may create a pod may write into it that anything controls it. So a controller counts only if it exists with the same UID,
//! and if the pod comes from the account that makes its pods. Only then the API server is asked, once for all pods of one owner.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kube::api::GetParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, Request};
use kube::{Client, Resource};
use podloom_api::SelenosisApi;
use podloom_mutation::selected_labels;
use podloom_syntax::names::{dns_label, dns_subdomain};
use podloom_turns::{Passage, Rate, lock};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio::time::{self, timeout_at};

use crate::PeerTurns;
use crate::review::{ReviewRequest, Unavailable, UserInfo, shorten};

/// How long a question to the API server may take, once it is asked.
const PATIENCE: Duration = Duration::from_secs(3);
/// How much of the time of a review is kept for the chain; of a short time it is half.
const FOR_CHAIN: Duration = Duration::from_millis(500);
/// How often the log says that a kind is unknown; a metric counts its pods.
const SAID: Duration = Duration::from_mins(10);
/// How many bytes of a name are shown.
const SHOWN: usize = 48;
/// How many bytes of a user are shown: the whole name, for `--controller-user`.
const USER: usize = 112;
/// The longest UID that is compared. Those of the API server have 36 bytes.
const UID_BYTES: usize = 64;

/// kube-controller-manager, if it has one account for all of its controllers.
const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
/// Its members may do anything, so nothing is kept from them. Some clusters run kube-controller-manager as one.
const MASTERS: &str = "system:masters";

/// Kubernetes' own kinds whose controllers create pods, and the ServiceAccounts of these in `kube-system`.
const KUBERNETES: [(&str, &str, &str); 5] = [
    ("apps", "DaemonSet", "daemon-set-controller"),
    ("apps", "ReplicaSet", "replicaset-controller"),
    ("apps", "StatefulSet", "statefulset-controller"),
    ("batch", "Job", "job-controller"),
    ("", "ReplicationController", "replication-controller"),
];

/// A kind whose controller creates pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerKind {
    resource: ApiResource,
    account: String,
}

/// Which labels are protected of a pod whose controller is of no known kind, or not what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownOwners {
    /// None.
    Ignore,
    /// All, although the author of any pod can write such an owner into it.
    Protect,
}

/// The labels that no plugin may change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Their keys.
    pub(crate) labels: Found,
    /// Whether the API server was not asked.
    pub(crate) is_unread: bool,
    /// What the author of the pod should know.
    pub(crate) note: Option<String>,
    /// apiVersion and kind of the controller, if the webhook does not know this kind.
    pub(crate) unknown_kind: Option<String>,
}

/// Knows the controllers of pods.
pub struct Owners {
    client: Client,
    kinds: Vec<OwnerKind>,
    /// The users of kube-controller-manager.
    managers: Vec<String>,
    unknown: UnknownOwners,
    cache: Cache,
    questions: PeerTurns,
    /// The unknown kinds that the log named.
    said: Rate<String>,
}

/// What a pod says of its controller.
#[derive(Default)]
struct Owner<'p> {
    api_version: &'p str,
    kind: &'p str,
    name: &'p str,
    uid: &'p str,
}

/// What is read of an owner: large annotations and templates are skipped.
#[derive(Deserialize)]
struct Read {
    metadata: ReadMetadata,
    #[serde(default)]
    spec: ReadSpec,
}

#[derive(Deserialize)]
struct ReadMetadata {
    uid: String,
}

#[derive(Default, Deserialize)]
struct ReadSpec {
    selector: Option<Value>,
}

impl OwnerKind {
    /// A kind, and the full name of the account that creates its pods.
    pub fn new(kind: &GroupVersionKind, account: String) -> Self {
        Self {
            resource: ApiResource::from_gvk(kind),
            account,
        }
    }

    /// Whether it is a kind of Kubernetes, whose controller is known.
    pub fn is_built_in(&self) -> bool {
        let (group, kind) = (&self.resource.group, &self.resource.kind);
        let mut all = KUBERNETES.into_iter();
        all.any(|(of, built_in, _)| of == group && built_in == kind)
    }

    fn kubernetes() -> impl Iterator<Item = Self> {
        KUBERNETES.into_iter().map(|(group, kind, account)| {
            let kind = GroupVersionKind::gvk(group, "v1", kind);
            Self::new(
                &kind,
                format!("system:serviceaccount:kube-system:{account}"),
            )
        })
    }

    /// Whether the account may create pods for its objects, given those of kube-controller-manager. Who owns a kind of Kubernetes is in
    /// `kube-system`.
    fn may_create(&self, user: &UserInfo, managers: &[String]) -> bool {
        user.username == self.account
            || user.username == CONTROLLER_MANAGER
            || managers.contains(&user.username)
            || user.groups.iter().any(|group| group == MASTERS)
    }
}

/// How an owner is read whose controller creates pods; none if its kind is neither one of Kubernetes nor one of these, in any version.
pub fn pod_maker(api_version: &str, kind: &str, others: &[OwnerKind]) -> Option<ApiResource> {
    let (group, _) = api_version.split_once('/').unwrap_or_default();
    let known = OwnerKind::kubernetes().chain(others.iter().cloned());
    let mut known = known.map(|it| it.resource);
    known.find(|it| it.group == group && it.kind == kind)
}

impl Owners {
    /// Knows Kubernetes' own kinds, and these. Asks the API server in these turns. The managers are users of kube-controller-manager
    /// besides its usual ones.
    pub fn new(
        client: Client,
        others: Vec<OwnerKind>,
        managers: Vec<String>,
        unknown: UnknownOwners,
        questions: PeerTurns,
    ) -> Self {
        Self {
            client,
            kinds: OwnerKind::kubernetes().chain(others).collect(),
            managers,
            unknown,
            cache: Cache::default(),
            questions,
            said: Rate::new(1, SAID),
        }
    }

    /// Returns which labels of a new pod its controller needs.
    ///
    /// # Errors
    /// If the API server does not say it before the deadline: neither all labels nor none would be right.
    pub(crate) async fn kept(
        &self,
        review: &ReviewRequest,
        deadline: Instant,
    ) -> Result<Kept, Unavailable> {
        let Some(owner) = Owner::of(&review.object) else {
            return Ok(Kept::default());
        };
        // The operator finds the pod of a Browser by its name and UID.
        if SelenosisApi::recognize(owner.api_version, owner.kind).is_some() {
            return Ok(Kept::default());
        }
        let Some((index, kind)) = self.known(&owner) else {
            let kind = [owner.api_version, owner.kind].map(|it| shorten(it, SHOWN));
            return Ok(Kept {
                unknown_kind: Some(kind.join(" ")),
                ..self.unknown(review, &owner, "whose kind --pod-owner does not name")
            });
        };
        if !kind.may_create(&review.user_info, &self.managers) {
            let user = shorten(&review.user_info.username, USER);
            let why = format!("and {user} is not the account that creates its pods");
            return Ok(self.unknown(review, &owner, &why));
        }
        let namespace = review.namespace.as_str();
        if dns_label(namespace).is_err()
            || dns_subdomain(owner.name).is_err()
            || owner.uid.len() > UID_BYTES
        {
            return Ok(self.unknown(review, &owner, "which cannot exist"));
        }
        let key = format!("{index}/{namespace}/{}/{}", owner.name, owner.uid);
        let found = async {
            // Each waits for a turn of its own, not for the one who asks: that may be a stranger, whose turns take long.
            let _turn = match self.cache.knows(&key) {
                true => None,
                false => {
                    let (peer, namespace) = review.tenant();
                    let turn = self.questions.take(peer, namespace).await;
                    Some(turn.map_err(|_| Unavailable::Busy)?)
                }
            };
            let asked = (self.cache).get(key.clone(), || self.ask(kind, namespace, &owner));
            let why = |why| Unavailable::Owner(format!("{} {}: {why}", owner.kind, owner.name));
            asked.await.map_err(why)
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let until = deadline - (left / 2).min(FOR_CHAIN);
        let found = timeout_at(until.into(), found).await;
        let found = match found.unwrap_or(Err(Unavailable::Busy)) {
            Err(Unavailable::Busy) => (self.cache.last(&key)).map(Some).ok_or(Unavailable::Busy),
            found => found,
        };
        match found? {
            Some(labels) => Ok(Kept {
                labels,
                ..Kept::default()
            }),
            None => Ok(self.unknown(review, &owner, "which does not exist with this UID")),
        }
    }

    /// Whether the log named this unknown kind not long ago.
    pub(crate) fn is_named(&self, kind: &str) -> bool {
        self.said.is_used_up(&kind.to_owned(), Instant::now())
    }

    /// Whether the log may name this unknown kind: it has not for a while.
    pub(crate) fn may_name(&self, kind: &str) -> bool {
        let passage = self.said.pass(&kind.to_owned(), Instant::now());
        matches!(passage, Passage::Passed | Passage::NoRoom)
    }

    fn known(&self, owner: &Owner<'_>) -> Option<(usize, &OwnerKind)> {
        let group = owner.api_version.split_once('/').map_or("", |it| it.0);
        let mut kinds = self.kinds.iter().enumerate();
        kinds.find(|(_, it)| it.resource.group == group && it.resource.kind == owner.kind)
    }

    fn unknown(&self, review: &ReviewRequest, owner: &Owner<'_>, why: &str) -> Kept {
        let (labels, how_many) = match self.unknown {
            UnknownOwners::Ignore => (Found::default(), "no label"),
            UnknownOwners::Protect => (all_labels(&review.object), "every label"),
        };
        let [kind, name] = [owner.kind, owner.name].map(|text| shorten(text, SHOWN));
        let note =
            format!("{how_many} of this pod is protected: its controller is {kind} {name}, {why}");
        Kept {
            labels,
            note: Some(note),
            ..Kept::default()
        }
    }

    /// Asks the API server for the labels in the selector of an owner; none if it does not exist.
    async fn ask(
        &self,
        kind: &OwnerKind,
        namespace: &str,
        owner: &Owner<'_>,
    ) -> Result<Option<Found>, String> {
        let resource = &kind.resource;
        let path = DynamicObject::url_path(resource, Some(namespace));
        let request = Request::new(path).get(owner.name, &GetParams::default());
        let request = request.map_err(|error| error.to_string())?;
        let asked = self.client.request::<Read>(request);
        match time::timeout(PATIENCE, asked).await {
            Ok(Ok(read)) if read.metadata.uid == owner.uid => {
                let (group, kind) = (&resource.group, &resource.kind);
                Ok(Some(selected_labels(
                    group,
                    kind,
                    read.spec.selector.as_ref(),
                )))
            }
            Ok(Ok(_)) => Ok(None),
            // Without a reason it is not the object that is missing.
            Ok(Err(kube::Error::Api(status))) if status.reason == "NotFound" => Ok(None),
            Ok(Err(kube::Error::Api(status))) if status.is_not_found() => Err(format!(
                "the API server does not serve {} in {}, so correct --pod-owner",
                resource.plural, resource.api_version
            )),
            Ok(Err(kube::Error::Api(status))) if status.is_forbidden() => Err(format!(
                "the webhook may not get {} in namespace {namespace}, so apply the roles that podloom rbac prints",
                resource.plural
            )),
            Ok(Err(_)) | Err(_) => {
                Err("the API server does not answer; try again in a second".to_owned())
            }
        }
    }
}

/// The keys of all labels of a pod.
fn all_labels(pod: &Value) -> Found {
    let labels = pod
        .get("metadata")
        .and_then(|metadata| metadata.get("labels"));
    let labels = labels.and_then(Value::as_object).into_iter().flatten();
    labels.map(|(key, _)| key.clone()).collect()
}

impl Kept {
    /// For a chain that writes no labels: the API server is not asked. All labels are protected, since a candidate that sees the pod
    /// may write some.
    pub(crate) fn unasked(pod: &Value) -> Self {
        let owner = Owner::of(pod);
        Self {
            is_unread: owner.is_some(),
            labels: owner.map(|_| all_labels(pod)).unwrap_or_default(),
            ..Self::default()
        }
    }
}

impl<'p> Owner<'p> {
    /// The controller of a pod. The API server refuses pods with several.
    fn of(pod: &'p Value) -> Option<Self> {
        let owners = pod.get("metadata")?.get("ownerReferences")?.as_array()?;
        let mut owners = owners.iter();
        let owner = owners.find(|owner| owner.get("controller") == Some(&Value::Bool(true)))?;
        let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        Some(Self {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
        })
    }
}

// What was read of owners lately. Many pods of one owner arrive together: one of them asks, and the others wait for its answer.

/// How long it counts which labels an owner needs. Most selectors never change, so what was known also counts while the API server
/// does not answer.
const KNOWN: Duration = Duration::from_secs(60);
/// How long it counts that there is no such owner.
const ABSENT: Duration = Duration::from_secs(2);
/// How long nobody asks again after a failure.
const FAILED: Duration = Duration::from_secs(1);
/// How many owners are remembered at least. At twice as many, half of them are forgotten.
const OWNERS: usize = 1024;
/// How many bytes the keys of one owner may take to be remembered.
const BYTES: usize = 2048;
/// What each key takes besides its text.
const KEY: usize = 32;

/// The keys of the labels that an owner needs.
pub(crate) type Found = Arc<[String]>;
/// None if there is no such owner; the error says why it is not known.
type Answer = Result<Option<Found>, String>;
type Cell = Arc<Place>;

/// What is known of an owner.
#[derive(Default)]
struct Place {
    /// The answer, and how long it counts.
    now: OnceCell<(Answer, time::Instant)>,
    /// What counted before.
    before: Option<Found>,
}

/// Answers about owners: those that were asked for lately, and those before.
#[derive(Default)]
struct Cache(Mutex<[HashMap<String, Cell>; 2]>);

impl Cache {
    /// Returns the answer about an owner. Asks if it is not known, unless somebody else does so already.
    async fn get(&self, owner: String, ask: impl AsyncFnOnce() -> Answer) -> Answer {
        let cell = self.cell(&owner);
        let asked = async || {
            let known = |why| cell.before.clone().map(Some).ok_or(why);
            kept(ask().await.or_else(known))
        };
        // If who asks goes away, another one that waits here asks.
        let (answer, until) = cell.now.get_or_init(asked).await;
        if *until <= time::Instant::now() {
            let [new, _] = &mut *lock(&self.0);
            new.remove(&owner);
        }
        answer.clone()
    }

    fn find(&self, owner: &str) -> Option<Cell> {
        let generations = lock(&self.0);
        let mut generations = generations.iter();
        generations.find_map(|cells| cells.get(owner).cloned())
    }

    /// Whether nobody needs to ask about an owner.
    fn knows(&self, owner: &str) -> bool {
        let cell = self.find(owner);
        let answer = cell.as_ref().and_then(|cell| cell.now.get());
        answer.is_some_and(|(_, until)| time::Instant::now() < *until)
    }

    /// What was known of an owner last.
    fn last(&self, owner: &str) -> Option<Found> {
        let cell = self.find(owner)?;
        match cell.now.get() {
            Some((answer, _)) => answer.clone().ok().flatten(),
            None => cell.before.clone(),
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        lock(&self.0).iter().map(HashMap::len).sum()
    }

    fn cell(&self, owner: &str) -> Cell {
        let [new, old] = &mut *lock(&self.0);
        let now = time::Instant::now();
        let known = new.remove(owner).or_else(|| old.remove(owner));
        let known = known.unwrap_or_default();
        let cell = match known.now.get() {
            Some((answer, until)) if *until <= now => Arc::new(Place {
                before: answer.clone().ok().flatten(),
                ..Place::default()
            }),
            _ => known,
        };
        if new.len() >= OWNERS {
            *old = mem::take(new);
        }
        new.insert(owner.to_owned(), Arc::clone(&cell));
        cell
    }
}

/// An answer, and how long it counts.
fn kept(answer: Answer) -> (Answer, time::Instant) {
    let time = match &answer {
        Ok(Some(labels)) => match labels.iter().map(|key| key.len() + KEY).sum() {
            ..=BYTES => KNOWN,
            _ => Duration::ZERO,
        },
        Ok(None) => ABSENT,
        Err(_) => FAILED,
    };
    (answer, time::Instant::now() + time)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use self::tests::of_tests;
