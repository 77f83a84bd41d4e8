//! Preflight: does the API server serve a duty's kinds, and does the operator have every right that the duty needs?
//!
//! It is checked before the duty starts, again after each answer that may mean a missing kind or right, and now and then without a
//! cause.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use podloom_api::SelenosisApi;
use podloom_controllers::duties::{Need, OwnKind, ResourceScope, Right, RightScope, Row, Switch};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::checks::APPLY_ROLES;
use super::state::{Access, DutyState, Lack, Role};
use crate::client::Requests;

/// How soon to check again while a kind is missing.
const RECHECK_KINDS: Duration = Duration::from_secs(3);
/// How soon to check again while a right is missing.
const RECHECK_RIGHTS: Duration = Duration::from_secs(30);
/// How soon to check again after the API server refused a request that it allowed before. An exceeded quota looks the same, so as long
/// as nothing is missing the pause doubles, up to the second value.
const RECHECK_AFTER_FAILURE: Duration = Duration::from_secs(5);
const LONGEST_RECHECK_AFTER_FAILURE: Duration = Duration::from_mins(2);
/// How often a follower checks without a cause. It sends few other requests, so the API server seldom refuses one.
const FOLLOWER_INTERVAL: Duration = Duration::from_mins(2);
/// How often everybody else does. A right that is seldom needed is seldom missed.
const WORKING_INTERVAL: Duration = Duration::from_mins(10);
/// The shortest time between two checks without a cause, for each right to check: with many namespaces there are hundreds.
const INTERVAL_PER_RIGHT: Duration = Duration::from_millis(500);
/// How many access reviews are sent at once.
const CONCURRENT_REVIEWS: usize = 16;

/// What to check for one duty.
pub(super) struct Preflight {
    pub(super) row: &'static Row,
    pub(super) client: Client,
    pub(super) api: SelenosisApi,
    /// None means all.
    pub(super) namespaces: Vec<String>,
    /// Namespace and name of the Lease; none without leader election.
    pub(super) lease: Option<(String, String)>,
    /// The operator's own namespace.
    pub(super) own_namespace: String,
    /// The namespace of the Secrets that cluster-scoped objects name.
    pub(super) secret_namespace: String,
    /// The name of the webhook configurations.
    pub(super) webhook_name: String,
    /// The requests of all clients.
    pub(super) requests: Requests,
}

/// One verb of a right, in one namespace or in all.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NeededVerb {
    right: &'static Right,
    verb: &'static str,
    namespace: Option<String>,
    /// The name of the object, if it is known: a role may grant the right for that object only.
    name: Option<String>,
}

impl Preflight {
    /// Checks until stopped: at short intervals while something is missing; later after each answer that may mean a missing kind or
    /// right, and now and then without a cause.
    pub(super) async fn keep_checking(&self, state: &DutyState) {
        tokio::select! {
            () = state.stop.cancelled() => {}
            () = self.check_forever(state) => {}
        }
    }

    async fn check_forever(&self, state: &DutyState) {
        let mut failures = self.requests.access_failures();
        let mut pause = RECHECK_AFTER_FAILURE;
        loop {
            let checked_at = Instant::now();
            match self.check(state).await {
                Ok(None) => {
                    note(state, Access::Granted);
                    if self.fails_before_recheck(state, &mut failures).await {
                        let longest = match state.lacks.borrow().is_empty() {
                            true => LONGEST_RECHECK_AFTER_FAILURE,
                            false => RECHECK_RIGHTS,
                        };
                        sleep_until(checked_at + pause.min(longest)).await;
                        pause = (pause * 2).min(LONGEST_RECHECK_AFTER_FAILURE);
                    } else {
                        pause = RECHECK_AFTER_FAILURE;
                    }
                }
                Ok(Some((reasons, again))) => {
                    note(state, Access::Lacking(reasons));
                    pause = RECHECK_AFTER_FAILURE;
                    sleep(again).await;
                }
                Err(error) => {
                    if let Some(reason) = error.denial() {
                        note(state, Access::Lacking(vec![reason]));
                        pause = RECHECK_AFTER_FAILURE;
                    } else if !state.has_verdict() {
                        // Else the last verdict stays: an API server that is down has taken nothing from us.
                        let reason = format!("{:#}", anyhow::Error::new(error));
                        note(state, Access::Unanswered(reason));
                    }
                    sleep(RECHECK_KINDS).await;
                }
            }
        }
    }

    /// Checks once. If anything is missing, sentences say what, and after what time to check again.
    async fn check(
        &self,
        state: &DutyState,
    ) -> Result<Option<(Vec<String>, Duration)>, CheckError> {
        let kinds = self.unusable_kinds().await?;
        if !kinds.is_empty() {
            return Ok(Some((kinds, RECHECK_KINDS)));
        }
        let missing = self.missing_rights().await?;
        let subject = if missing.is_empty() {
            String::new()
        } else {
            subject(&self.client).await
        };
        let (mut reasons, mut lacks) = (Vec::new(), Vec::<Lack>::new());
        for lacking in &missing {
            let reason = |resources: &str| lacking.describe(resources, &subject);
            match lacking.right.need.without() {
                None => reasons.push(reason(&lacking.resource(self.api))),
                // The first verb and the first namespace are enough.
                Some(without) if lacks.iter().all(|lack| lack.without != without) => {
                    let alike = missing.iter().filter(|it| it.is_like(lacking));
                    let resources: Vec<_> = alike.map(|it| it.resource(self.api)).collect();
                    lacks.push(Lack {
                        reason: reason(&resources.join(", ")),
                        without,
                        is_for_labels: lacking.right.need == Need::ForLabels(without),
                    });
                }
                Some(_) => {}
            }
        }
        note_lacks(state, lacks);
        Ok((!reasons.is_empty()).then_some((reasons, RECHECK_RIGHTS)))
    }

    /// The kinds that the API server does not serve, or serves with another scope, each with the remedy.
    async fn unusable_kinds(&self) -> Result<Vec<String>, CheckError> {
        let mut unusable = Vec::new();
        for kind in self.row.kinds {
            match self.scope_of(kind).await? {
                Some(scope) if scope == kind.scope => {}
                Some(scope) => unusable.push(self.wrong_scope(kind, scope)),
                None if kind.is_optional => {}
                None => unusable.push(format!(
                    "{} is not served: install it with `{}`",
                    kind.full_name(self.api),
                    self.install()
                )),
            }
        }
        Ok(unusable)
    }

    /// The scope with which the API server serves a kind; none if it does not serve it.
    async fn scope_of(&self, kind: &OwnKind) -> Result<Option<ResourceScope>, CheckError> {
        let version = format!("{}/{}", kind.group.name(self.api), kind.version);
        let listed = match in_time(self.client.list_api_group_resources(&version)).await {
            Ok(listed) => listed.resources,
            // For an unknown group the API server answers 404 in plain text, so there is only the status code to match.
            Err(CheckError::Request(kube::Error::Api(status))) if status.code == 404 => Vec::new(),
            Err(error) => return Err(error),
        };
        let served = listed.iter().find(|served| served.name == kind.plural);
        Ok(served.map(|served| {
            if served.namespaced {
                ResourceScope::Namespaced
            } else {
                ResourceScope::Cluster
            }
        }))
    }

    fn wrong_scope(&self, kind: &OwnKind, found: ResourceScope) -> String {
        let name = kind.full_name(self.api);
        let install = self.install();
        format!(
            "{name} is installed with scope {}, but the operator needs scope {}, and the scope of a CustomResourceDefinition cannot be \
             changed. Replace it: remove the finalizers from all its objects (nothing else removes them), delete it and its objects \
             with `kubectl delete crd {name}`, install it with `{install}`, and create the objects again from your manifests",
            found.name(),
            kind.scope.name(),
        )
    }

    /// The command that installs the duty's kinds.
    fn install(&self) -> String {
        format!(
            "podloom crds --controllers {} --selenosis-api {} | kubectl apply -f -",
            self.row.name, self.api
        )
    }

    async fn missing_rights(&self) -> Result<Vec<NeededVerb>, CheckError> {
        let reviews: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let reviewed = stream::iter(self.needed()).map(|needed| {
            let reviews = &reviews;
            async move {
                let review = needed.review(self.api);
                let answer = in_time(reviews.create(&PostParams::default(), &review)).await?;
                let is_allowed = answer.status.is_some_and(|status| status.allowed);
                Ok::<_, CheckError>((!is_allowed).then_some(needed))
            }
        });
        let missing: Vec<Option<NeededVerb>> =
            reviewed.buffered(CONCURRENT_REVIEWS).try_collect().await?;
        Ok(missing.into_iter().flatten().collect())
    }

    /// Every verb of every right, in every namespace where it is needed.
    fn needed(&self) -> Vec<NeededVerb> {
        let watched: Vec<Option<String>> = match self.namespaces.as_slice() {
            [] => vec![None],
            some => some.iter().cloned().map(Some).collect(),
        };
        let namespaces = |scope| match scope {
            RightScope::WatchedNamespaces => watched.clone(),
            RightScope::AllNamespaces | RightScope::Cluster => vec![None],
            RightScope::Namespace(name) => vec![Some(name.to_owned())],
            RightScope::OwnNamespace => vec![Some(self.own_namespace.clone())],
            RightScope::GlobalSecrets => vec![Some(self.secret_namespace.clone())],
            RightScope::LeaseNamespace => {
                let lease = self.lease.iter();
                lease
                    .map(|(namespace, _)| Some(namespace.clone()))
                    .collect()
            }
        };
        let mut needed = Vec::new();
        for right in self.row.all_rights() {
            for namespace in namespaces(right.scope) {
                needed.extend(right.verbs.iter().map(|verb| NeededVerb {
                    right,
                    verb,
                    namespace: namespace.clone(),
                    name: self.name_of(right, verb),
                }));
            }
        }
        needed
    }

    /// Waits until the next check is due. Returns true if an answer of the API server may mean a missing kind or right, false if the
    /// interval is over.
    async fn fails_before_recheck(
        &self,
        state: &DutyState,
        failures: &mut watch::Receiver<u64>,
    ) -> bool {
        let rights = u32::try_from(self.needed().len()).unwrap_or(u32::MAX);
        let shortest = INTERVAL_PER_RIGHT.saturating_mul(rights);
        let checked_at = Instant::now();
        loop {
            let lacks = !state.lacks.borrow().is_empty();
            let pause = match lacks {
                true => RECHECK_RIGHTS,
                false => FOLLOWER_INTERVAL,
            };
            tokio::select! {
                // It fails only when no client is left, and this is one.
                _ = failures.changed() => return true,
                () = sleep(pause) => {}
            }
            // The role may have changed meanwhile.
            let interval = match *state.role.borrow() {
                Role::Follower(_) => FOLLOWER_INTERVAL,
                Role::Undecided | Role::Leader | Role::Alone => WORKING_INTERVAL,
            };
            let interval = if lacks { RECHECK_RIGHTS } else { interval };
            if checked_at.elapsed() >= interval.max(shortest) {
                return false;
            }
        }
    }

    /// The object that the right is checked for. `create` cannot be limited to a name.
    fn name_of(&self, right: &Right, verb: &str) -> Option<String> {
        if let Some(object) = right.object {
            return Some(object.name(&self.webhook_name));
        }
        let (_, lease) = self.lease.as_ref()?;
        (right.scope == RightScope::LeaseNamespace && verb != "create").then(|| lease.clone())
    }
}

impl NeededVerb {
    fn review(&self, api: SelenosisApi) -> SelfSubjectAccessReview {
        SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    group: Some(self.right.group.name(api).to_owned()),
                    resource: Some(self.right.resource.to_owned()),
                    subresource: self.right.subresource.map(str::to_owned),
                    verb: Some(self.verb.to_owned()),
                    namespace: self.namespace.clone(),
                    name: self.name.clone(),
                    ..ResourceAttributes::default()
                }),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        }
    }

    /// Whether one sentence tells that both are missing.
    fn is_like(&self, other: &Self) -> bool {
        self.right.why == other.right.why
            && (self.verb, &self.namespace) == (other.verb, &other.namespace)
    }

    /// What the right is for.
    fn resource(&self, api: SelenosisApi) -> String {
        let resource = match self.right.group.name(api) {
            "" => self.right.resource.to_owned(),
            group => format!("{}.{group}", self.right.resource),
        };
        let name = self
            .name
            .as_ref()
            .map_or_else(String::new, |name| format!(" {name}"));
        let subresource = self
            .right
            .subresource
            .map_or_else(String::new, |name| format!("/{name}"));
        format!("{resource}{subresource}{name}")
    }

    /// The error if the right to these resources is missing.
    fn describe(&self, resources: &str, subject: &str) -> String {
        let place = match (&self.namespace, self.right.scope) {
            (Some(namespace), _) => format!(" in namespace {namespace}"),
            (None, RightScope::Cluster) => String::new(),
            (None, _) => " in all namespaces".to_owned(),
        };
        format!(
            "{subject} may not {} {resources}{place}; the operator {}",
            self.verb, self.right.why
        )
    }
}

/// The name by which the API server knows this account.
async fn subject(client: &Client) -> String {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let (parameters, review) = (PostParams::default(), SelfSubjectReview::default());
    let answer = in_time(reviews.create(&parameters, &review)).await.ok();
    answer
        .and_then(|review| review.status?.user_info?.username)
        .unwrap_or_else(|| "this account".to_owned())
}

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Why a check has no result.
#[derive(Debug, thiserror::Error)]
enum CheckError {
    #[error("the request to the API server failed")]
    Request(#[from] kube::Error),
    #[error("no answer from the API server after {} s", TIMEOUT.as_secs())]
    Unanswered,
}

impl CheckError {
    /// What to report if the API server answered but denied the request; none if it did not answer.
    fn denial(&self) -> Option<String> {
        let Self::Request(kube::Error::Api(status)) = self else {
            return None;
        };
        match status.code {
            401 => Some("the API server does not accept our credentials".to_owned()),
            403 => Some(format!(
                "the API server does not let this account list served kinds or check its own rights; bind the ClusterRoles \
                 system:discovery and system:basic-user to it, which all accounts have by default: {}",
                status.message
            )),
            _ => None,
        }
    }
}

/// Limits the time of a request.
async fn in_time<T>(work: impl Future<Output = Result<T, kube::Error>>) -> Result<T, CheckError> {
    match timeout(TIMEOUT, work).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(CheckError::Unanswered),
    }
}

/// Stores which optional rights are missing, and logs which are missing now and which no longer.
fn note_lacks(state: &DutyState, lacks: Vec<Lack>) {
    let before = state.lacks.send_replace(lacks);
    let now = state.lacks.borrow();
    let is_in = |all: &[Lack], one: &Lack| all.iter().any(|lack| lack.without == one.without);
    let duty = state.row.name;
    if now.iter().all(|lack| !lack.is_for_labels) {
        state.had_label_rights.store(true, Ordering::Relaxed);
    }
    for lack in now.iter().filter(|lack| !is_in(&before, lack)) {
        let (reason, without, remedy) = (&lack.reason, lack.without, APPLY_ROLES);
        tracing::warn!(
            duty,
            reason,
            without,
            remedy,
            "an optional right is missing"
        );
    }
    for Lack { without, .. } in before.iter().filter(|lack| !is_in(&now, lack)) {
        tracing::info!(duty, without, "an optional right is no longer missing");
    }
    state
        .lacking
        .set(i64::try_from(now.len()).unwrap_or(i64::MAX));
}

/// Stores the result of a check, and logs it if it changed.
fn note(state: &DutyState, access: Access) {
    if *state.access.borrow() == access {
        return;
    }
    let duty = state.row.name;
    match &access {
        Access::Lacking(reasons) => {
            for reason in reasons {
                tracing::error!(duty, reason, "not ready");
            }
        }
        // Webhooks are served all the same.
        Access::Unanswered(reason) if state.row.switch != Switch::Controllers => {
            tracing::warn!(duty, reason, "rights are not checked yet");
        }
        Access::Unanswered(reason) => tracing::error!(duty, reason, "not ready"),
        Access::Granted => {
            tracing::info!(duty, "all kinds are served and all required rights granted");
        }
        Access::Unknown => {}
    }
    state.access.send_replace(access);
}

#[cfg(test)]
mod tests;
