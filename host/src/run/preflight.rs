//! Before a duty starts, and whenever the API server refuses something: are its kinds served, and may we do what it will do?

mod answer;

use std::collections::BTreeSet;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use podloom_api::SelenosisApi;
use podloom_controllers::duties::{Need, OwnKind, ResourceScope, Right, RightScope, Row};
use tokio::time::{Instant, sleep, sleep_until};

use self::answer::{LookError, in_time};
use super::requests::{Refusals, Requests};
use super::state::{Access, DutyState, Role};

/// When to look again for what is missing.
const LOOK_FOR_KINDS: Duration = Duration::from_secs(3);
const LOOK_FOR_RIGHTS: Duration = Duration::from_secs(30);
/// How soon to look again when all was there and the API server refuses something since. An exceeded quota is such a refusal too,
/// so as long as nothing is found the pause doubles.
const LOOK_AFTER_REFUSAL: Duration = Duration::from_secs(5);
const LOOK_AFTER_REFUSAL_AT_MOST: Duration = Duration::from_mins(2);
/// How often a follower looks again: it asks for nothing else, so nothing is refused to it.
const LOOK_AS_FOLLOWER: Duration = Duration::from_mins(2);
/// How often anybody else does: what it needs seldom is missed as seldom.
const LOOK_AT_WORK: Duration = Duration::from_mins(10);
/// No look that nobody asked for comes sooner than this for each of its questions: with many namespaces there are hundreds.
const FOR_EACH_QUESTION: Duration = Duration::from_millis(500);
/// How many reviews are asked for at once.
const AT_ONCE: usize = 16;

/// What to look at for one duty.
pub(super) struct Preflight {
    pub(super) row: &'static Row,
    pub(super) client: Client,
    pub(super) api: SelenosisApi,
    /// None means all.
    pub(super) namespaces: Vec<String>,
    /// None without an election.
    pub(super) lease: Option<LeaseName>,
    /// What all clients ask for.
    pub(super) requests: Requests,
}

/// Where the Lease is.
pub(super) struct LeaseName {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// A right that we do not have.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Missing {
    right: &'static Right,
    verb: &'static str,
    namespace: Option<String>,
    /// The one object that is meant, if it is known; a right may be held to it.
    name: Option<String>,
}

/// What a look found.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// Nothing is missing.
    All,
    /// Something is, as these sentences say; look again after this time.
    Missing(Vec<String>, Duration),
}

impl Preflight {
    /// Looks until a stop is asked for: all the time while something is missing, and then whenever the API server has refused
    /// something, and now and then.
    pub(super) async fn keep_looking(&self, state: &DutyState) {
        tokio::select! {
            () = state.stop.cancelled() => {}
            () = self.look_again_and_again(state) => {}
        }
    }

    async fn look_again_and_again(&self, state: &DutyState) {
        let mut logged_without = BTreeSet::new();
        let mut refusals = self.requests.refusals();
        let mut pause = LOOK_AFTER_REFUSAL;
        loop {
            let looked_at = Instant::now();
            match self.look(&mut logged_without).await {
                Ok(Found::All) => {
                    note(state, Access::Granted);
                    if self.is_refused_next(state, &mut refusals).await {
                        sleep_until(looked_at + pause).await;
                        pause = (pause * 2).min(LOOK_AFTER_REFUSAL_AT_MOST);
                    } else {
                        pause = LOOK_AFTER_REFUSAL;
                    }
                }
                Ok(Found::Missing(reasons, again)) => {
                    note(state, Access::Lacking(reasons));
                    pause = LOOK_AFTER_REFUSAL;
                    sleep(again).await;
                }
                Err(error) if error.refusal().is_some() => {
                    note(
                        state,
                        Access::Lacking(error.refusal().into_iter().collect()),
                    );
                    pause = LOOK_AFTER_REFUSAL;
                    sleep(LOOK_FOR_KINDS).await;
                }
                Err(error) => {
                    let reason = format!("{:#}", anyhow::Error::new(error));
                    // Silence changes no verdict: an API server that is away has taken nothing from us.
                    let has_verdict = state.access.borrow().is_verdict();
                    if !has_verdict {
                        note(state, Access::Unanswered(reason));
                    }
                    sleep(LOOK_FOR_KINDS).await;
                }
            }
        }
    }

    /// What is missing now.
    async fn look(&self, logged_without: &mut BTreeSet<&'static str>) -> Result<Found, LookError> {
        let kinds = self.unusable_kinds().await?;
        if !kinds.is_empty() {
            return Ok(Found::Missing(kinds, LOOK_FOR_KINDS));
        }
        let missing = self.missing_rights().await?;
        let subject = if missing.is_empty() {
            String::new()
        } else {
            subject(&self.client).await
        };
        let mut reasons = Vec::new();
        for missing in missing {
            match missing.right.need {
                Need::Required => reasons.push(missing.told(self.api, &subject)),
                Need::Optional(without) if logged_without.insert(without) => {
                    tracing::warn!(
                        duty = self.row.name,
                        reason = missing.told(self.api, &subject),
                        without,
                        "a right is missing that we can do without"
                    );
                }
                Need::Optional(_) => {}
            }
        }
        if reasons.is_empty() {
            return Ok(Found::All);
        }
        Ok(Found::Missing(reasons, LOOK_FOR_RIGHTS))
    }

    /// The kinds that the API server does not serve, or serves in another scope, each with what to do.
    async fn unusable_kinds(&self) -> Result<Vec<String>, LookError> {
        let mut unusable = Vec::new();
        for kind in self.row.kinds {
            match self.scope_of(kind).await? {
                Some(scope) if scope == kind.scope => {}
                Some(scope) => unusable.push(self.told_scope(kind, scope)),
                None => unusable.push(format!(
                    "{} is not served: install it with `{}`",
                    kind.full_name(self.api),
                    self.install()
                )),
            }
        }
        Ok(unusable)
    }

    /// In which scope the API server serves a kind, if it does.
    async fn scope_of(&self, kind: &OwnKind) -> Result<Option<ResourceScope>, LookError> {
        let version = format!("{}/{}", kind.group.name(self.api), kind.version);
        let listed = match in_time(self.client.list_api_group_resources(&version)).await {
            Ok(listed) => listed.resources,
            // Of a group that it does not know the API server answers in plain text, so there is no reason to look at.
            Err(LookError::Ask(kube::Error::Api(status))) if status.code == 404 => Vec::new(),
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

    fn told_scope(&self, kind: &OwnKind, found: ResourceScope) -> String {
        let name = kind.full_name(self.api);
        let install = self.install();
        format!(
            "{name} is installed with scope {}, and the operator needs scope {}, which cannot be changed: take its finalizers off all \
             objects of it, for nobody else does, and delete them with it by `kubectl delete crd {name}`; install it with \
             `{install}`; and apply the manifests again that you made those objects from",
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

    async fn missing_rights(&self) -> Result<Vec<Missing>, LookError> {
        let reviews: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let reviewed = stream::iter(self.wanted()).map(|wanted| {
            let reviews = &reviews;
            async move {
                let review = wanted.review(self.api);
                let answer = in_time(reviews.create(&PostParams::default(), &review)).await?;
                let is_allowed = answer.status.is_some_and(|status| status.allowed);
                Ok::<_, LookError>((!is_allowed).then_some(wanted))
            }
        });
        let missing: Vec<Option<Missing>> = reviewed.buffered(AT_ONCE).try_collect().await?;
        Ok(missing.into_iter().flatten().collect())
    }

    /// Every verb of every right, in every namespace where it is needed.
    fn wanted(&self) -> Vec<Missing> {
        let watched: Vec<Option<String>> = match self.namespaces.as_slice() {
            [] => vec![None],
            some => some.iter().cloned().map(Some).collect(),
        };
        let namespaces = |scope| match scope {
            RightScope::WatchedNamespaces => watched.clone(),
            RightScope::Cluster => vec![None],
            RightScope::LeaseNamespace => {
                let namespace = self.lease.iter().map(|lease| Some(lease.namespace.clone()));
                namespace.collect()
            }
        };
        let mut wanted = Vec::new();
        for right in self.row.all_rights() {
            for namespace in namespaces(right.scope) {
                wanted.extend(right.verbs.iter().map(|verb| Missing {
                    right,
                    verb,
                    namespace: namespace.clone(),
                    name: self.name_of(right, verb),
                }));
            }
        }
        wanted
    }

    /// Waits until something may be missing of what was all there: whether the API server has refused something, or it is time.
    async fn is_refused_next(&self, state: &DutyState, refusals: &mut Refusals) -> bool {
        let questions = u32::try_from(self.wanted().len()).unwrap_or(u32::MAX);
        let at_least = FOR_EACH_QUESTION.saturating_mul(questions);
        let looked_at = Instant::now();
        loop {
            tokio::select! {
                () = refusals.next() => return true,
                () = sleep(LOOK_AS_FOLLOWER) => {}
            }
            // The role may have changed meanwhile.
            let often = match *state.role.borrow() {
                Role::Follower(_) => LOOK_AS_FOLLOWER,
                Role::Undecided | Role::Leader | Role::Alone => LOOK_AT_WORK,
            };
            if looked_at.elapsed() >= often.max(at_least) {
                return false;
            }
        }
    }

    /// What does not exist yet has no name that a right could be held to.
    fn name_of(&self, right: &Right, verb: &str) -> Option<String> {
        let lease = self.lease.as_ref()?;
        (right.scope == RightScope::LeaseNamespace && verb != "create").then(|| lease.name.clone())
    }
}

/// Notes a verdict, and logs it if it is news.
fn note(state: &DutyState, access: Access) {
    if *state.access.borrow() == access {
        return;
    }
    match &access {
        Access::Lacking(reasons) => {
            for reason in reasons {
                tracing::error!(duty = state.row.name, reason, "not ready");
            }
        }
        Access::Unanswered(reason) => {
            tracing::error!(duty = state.row.name, reason, "not ready");
        }
        Access::Granted => {
            tracing::info!(
                duty = state.row.name,
                "our kinds are served, and we have the rights we need"
            );
        }
        Access::Unknown => {}
    }
    state.access.send_replace(access);
}

impl Missing {
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

    fn told(&self, api: SelenosisApi, subject: &str) -> String {
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
        let place = match (&self.namespace, self.right.scope) {
            (Some(namespace), _) => format!(" in namespace {namespace}"),
            (None, RightScope::Cluster) => String::new(),
            (None, RightScope::WatchedNamespaces | RightScope::LeaseNamespace) => {
                " in all namespaces".to_owned()
            }
        };
        format!(
            "{subject} may not {} {resource}{subresource}{name}{place}; the operator {}",
            self.verb, self.right.why
        )
    }
}

/// Who we are to the API server.
async fn subject(client: &Client) -> String {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let (parameters, review) = (PostParams::default(), SelfSubjectReview::default());
    let answer = in_time(reviews.create(&parameters, &review)).await.ok();
    answer
        .and_then(|review| review.status?.user_info?.username)
        .unwrap_or_else(|| "this account".to_owned())
}

#[cfg(test)]
mod tests;
