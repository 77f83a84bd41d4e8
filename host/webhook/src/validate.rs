//! `/validate/<plural>`: checks objects of our kinds before they are stored. `/mutate/browsers` also marks new Browsers.
//!
//! Only what can never serve is refused. Whatever is missing here, a cache, a chain or time, costs warnings and nothing else.

use std::collections::BTreeMap;
use std::convert;
use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt};
use kube::core::ObjectMeta;
use podloom_api::{BrowserConfigObject, BrowserObject, CleanerObject, SelenosisApi};
use podloom_browser::marks;
use podloom_browser::render::Pair;
use podloom_browser::validate::{self, Before, DryPod, DryPods, Version};
use podloom_cleaner::CleanerValidator;
use podloom_controllers::{AdmissionCaches, candidates, config_refs};
use podloom_engine::blocking::BlockingThreads;
use podloom_engine::finding::{Finding, Findings, Subject};
use podloom_infrastructure::validate as infrastructure;
use podloom_mutation::{
    NamespaceMetadata, PluginOutcome, PodMutator, PodRejection, PodRequest, RejectedPod,
};
use podloom_portal::validate as portal;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout_at;

use crate::PeerTurns;
use crate::metrics::Outcome;
use crate::mutate::Namespaces;
use crate::review::{Answer, Operation, ReviewRequest, Tenant};

/// Checks objects of our kinds.
pub struct ObjectWebhook {
    /// The chain, on which the pods of BrowserConfigs are tried.
    pub mutator: Arc<dyn PodMutator>,
    /// The namespaces, for plugins that ask.
    pub namespaces: Arc<dyn Namespaces>,
    /// The BrowserConfigs and TunnelClasses.
    pub caches: AdmissionCaches,
    /// Threads for large objects.
    pub blocking: BlockingThreads,
    /// The turns to use them.
    pub checks: PeerTurns,
    /// The turns to have an object's pods tried: the pods of few objects are in memory at once.
    pub tries: PeerTurns,
    /// The turns to pass the chain, which all that use the chain share.
    pub turns: PeerTurns,
    /// Compiles the conditions of Cleaners.
    pub cleaners: CleanerValidator,
}

/// How objects of one kind are checked, whatever their API group.
pub(crate) type Check =
    for<'a> fn(&'a ObjectWebhook, ReviewRequest, Instant) -> BoxFuture<'a, Answer>;

/// One row for each kind, by its path, which ends in the plural of the kind. The other Services and PortalExposes, and the provider of a Cluster, are not known here: the operator looks at them.
pub(crate) const ROWS: [(&str, Check); 11] = [
    ("mutate/browsers", |webhook, review, deadline| {
        webhook.browser(review, deadline).boxed()
    }),
    ("validate/browsers", |webhook, review, deadline| {
        let checked = webhook.browser(review, deadline);
        let unmarked = checked.map(|answer| Answer {
            patch: None,
            ..answer
        });
        unmarked.boxed()
    }),
    ("validate/browserconfigs", |webhook, review, deadline| {
        webhook.browser_config(review, deadline).boxed()
    }),
    ("validate/portalexposes", |webhook, review, deadline| {
        let classes = webhook.caches.classes();
        webhook.check(review, deadline, move |new, old| {
            let candidates = classes.as_deref().map(candidates);
            let around = portal::Around {
                classes: candidates.as_deref(),
                ..portal::Around::default()
            };
            portal::portal_expose(new, old, &around)
        })
    }),
    ("validate/tunnelclasses", |webhook, review, deadline| {
        let classes = webhook.caches.classes().unwrap_or_default();
        webhook.check(review, deadline, move |new, old| {
            portal::tunnel_class(new, old, &candidates(&classes))
        })
    }),
    ("validate/clusters", |webhook, review, deadline| {
        webhook.check(review, deadline, |new, old| {
            infrastructure::cluster(new, old, None)
        })
    }),
    ("validate/clouds", CLOUD),
    ("validate/globalclouds", CLOUD),
    ("validate/infrastructureproviders", PROVIDER),
    ("validate/globalinfrastructureproviders", PROVIDER),
    ("validate/cleaners", |webhook, review, deadline| {
        webhook.cleaner(review, deadline).boxed()
    }),
];

const CLOUD: Check =
    |webhook, review, deadline| webhook.check(review, deadline, infrastructure::cloud);
const PROVIDER: Check =
    |webhook, review, deadline| webhook.check(review, deadline, infrastructure::provider);

/// What is said if the deadline comes before the object is examined.
const TOO_LARGE: &str = "not checked: there was not enough time";

impl ObjectWebhook {
    /// Answers a review.
    pub(crate) async fn answer(
        &self,
        check: Check,
        review: ReviewRequest,
        deadline: Instant,
    ) -> (Answer, Outcome) {
        let is_written = matches!(review.operation, Operation::Create | Operation::Update);
        if !is_written || !review.sub_resource.is_empty() {
            return (Answer::admitted(), Outcome::Skipped);
        }
        let answer = check(self, review, deadline).await;
        let outcome = match (&answer.denial, &answer.patch) {
            (Some(_), _) => Outcome::Denied,
            (None, Some(_)) => Outcome::Mutated,
            (None, None) => Outcome::Admitted,
        };
        (answer, outcome)
    }

    /// Reads the object of a review and checks it against what is stored, on a thread for large objects.
    fn check<K: DeserializeOwned + Send + 'static>(
        &self,
        review: ReviewRequest,
        deadline: Instant,
        check: impl FnOnce(&K, Option<&K>) -> Findings + Send + 'static,
    ) -> BoxFuture<'_, Answer> {
        let checked = self.read(review, deadline, move |versions: Versions<K>| {
            versions.judge(check(&versions.new, versions.old.as_ref()))
        });
        checked.map_ok_or_else(convert::identity, answer).boxed()
    }

    /// Reads the object of a review and looks at it, on a thread for large objects, when it is the turn of its tenant. If it cannot, that
    /// is the answer.
    async fn read<K: DeserializeOwned, T: Send + 'static>(
        &self,
        review: ReviewRequest,
        deadline: Instant,
        look: impl FnOnce(Versions<K>) -> T + Send + 'static,
    ) -> Result<T, Answer> {
        let (peer, namespace) = review.tenant();
        let looked = async {
            let turn = self.checks.take(peer, namespace).await.ok()?;
            // The work goes on if nobody waits for it any more, and so does its turn.
            let work = move || {
                let looked = Versions::read(review).map(look);
                drop(turn);
                looked
            };
            Some(self.blocking.run(work).await)
        };
        match timeout_at(deadline.into(), looked).await {
            Ok(Some(looked)) => looked,
            Ok(None) | Err(_) => Err(overdue()),
        }
    }
}

/// An object of a review, and what is stored of it.
struct Versions<K> {
    new: K,
    old: Option<K>,
    /// Whether something is stored that our types cannot hold: then nothing is known of its problems.
    old_is_unreadable: bool,
}

impl<K: DeserializeOwned> Versions<K> {
    /// Reads both. An object that our types cannot hold is one for the API server's schema.
    fn read(review: ReviewRequest) -> Result<Self, Answer> {
        let mut object = review.object;
        prune(&mut object);
        let metadata = object.get("metadata").cloned();
        let new = serde_json::from_value(object).map_err(|_| Answer {
            warnings: vec![unreadable(metadata)],
            ..Answer::admitted()
        })?;
        let has_old = review.operation == Operation::Update && !review.old_object.is_null();
        let old = has_old.then(|| {
            let mut object = review.old_object;
            prune(&mut object);
            serde_json::from_value(object).ok()
        });
        let old = old.flatten();
        Ok(Self {
            new,
            old_is_unreadable: has_old && old.is_none(),
            old,
        })
    }

    /// Makes warnings of refusals if what is stored may have the same problems.
    fn judge(&self, findings: Findings) -> Findings {
        match self.old_is_unreadable {
            true => findings.tolerated(),
            false => findings,
        }
    }
}

/// Which part of an object cannot be read. What the parser says would quote values of the object, which may be secret.
fn unreadable(metadata: Option<Value>) -> String {
    let metadata = metadata.map(serde_json::from_value::<ObjectMeta>);
    let part = match metadata {
        Some(Err(_)) => "metadata",
        None | Some(Ok(_)) => "spec",
    };
    format!("not checked, since {part} cannot be read: a field is missing or has the wrong type")
}

/// Removes what no check looks at, and what may be large or of another version.
fn prune(object: &mut Value) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    if let Some(Value::Object(status)) = object.get_mut("status") {
        status.retain(|field, value| is_looked_at(field, value));
    }
}

/// Whether a check looks at a field of a status. One of another form than ours would make the whole object unreadable.
fn is_looked_at(field: &str, value: &Value) -> bool {
    match field {
        "podUID" => value.is_string(),
        "lastAppliedTosca" => value.is_object(),
        "retiredNodes" => {
            let names = value.as_array();
            names.is_some_and(|names| names.iter().all(Value::is_string))
        }
        _ => false,
    }
}

fn overdue() -> Answer {
    Answer {
        warnings: vec![TOO_LARGE.to_owned()],
        ..Answer::admitted()
    }
}

/// Refuses the object if there is a reason to.
fn answer(findings: Findings) -> Answer {
    let Findings { refusals, warnings } = findings;
    let warnings = warnings.iter().map(Finding::to_string).collect();
    let is_chain = |finding: &Finding| finding.subject == Subject::Chain;
    let texts: Vec<String> = refusals.iter().map(Finding::to_string).collect();
    let answer = match texts.join("; ") {
        message if message.is_empty() => Answer::admitted(),
        message if refusals.iter().all(is_chain) => Answer::forbidden(message),
        message => Answer::invalid(message),
    };
    Answer { warnings, ..answer }
}

/// Why pods are not tried if no turn can be had.
const TOO_MANY: &str = "too many pods wait for the chain";

impl ObjectWebhook {
    /// Checks a Browser, and marks it if it is new: then its controller has one request less to send.
    async fn browser(&self, review: ReviewRequest, deadline: Instant) -> Answer {
        let configs = self.caches.configs(&review.namespace);
        let is_new = review.operation == Operation::Create;
        let checked = self.read(
            review,
            deadline,
            move |versions: Versions<BrowserObject>| {
                let (new, old) = (&versions.new, versions.old.as_ref());
                let refs = configs.as_deref().map(config_refs);
                let found = validate::browser(new, old, refs.as_deref());
                (versions.judge(found), is_new.then(|| marks(new)).flatten())
            },
        );
        let (found, marks) = match checked.await {
            Ok(checked) => checked,
            Err(answer) => return answer,
        };
        let answer = answer(found);
        Answer {
            patch: marks.filter(|_| answer.denial.is_none()),
            ..answer
        }
    }

    /// Checks a BrowserConfig, then tries its pods.
    async fn browser_config(&self, review: ReviewRequest, deadline: Instant) -> Answer {
        let namespace = review.namespace.clone();
        let configs = self.caches.configs(&namespace).unwrap_or_default();
        let (api, tenant) = (api_of(&review), review.tenant());
        let checked = self.read(review, deadline, move |mut versions| {
            let new: &mut BrowserConfigObject = &mut versions.new;
            // What the API server calls it is what counts.
            new.metadata.namespace = Some(namespace);
            let old = versions.old.as_ref();
            let found = validate::browser_config(&versions.new, old, &config_refs(&configs));
            let found = versions.judge(found);
            let pods = DryPods::of(api, versions.new, versions.old);
            let pods = match versions.old_is_unreadable {
                true => pods.with_unknown_old(),
                false => pods,
            };
            (found, pods)
        });
        let (mut found, pods) = match checked.await {
            Ok(checked) => checked,
            Err(answer) => return answer,
        };
        let tried = self.try_pods(pods, &tenant, deadline).await;
        found.refusals.extend(tried.refusals);
        // Of many warnings the first are shown: one about the chain is not in any status.
        found.warnings.splice(0..0, tried.warnings);
        answer(found)
    }

    /// Checks a Cleaner, and compiles its conditions on threads of their own: they may take long.
    async fn cleaner(&self, review: ReviewRequest, deadline: Instant) -> Answer {
        let (peer, namespace) = review.tenant();
        let read = self.read(review, deadline, |versions: Versions<CleanerObject>| {
            versions
        });
        let versions = match read.await {
            Ok(versions) => versions,
            Err(answer) => return answer,
        };
        let new = &versions.new;
        let old = versions.old.as_ref().map(|old| &old.spec);
        // Our own writes change no spec.
        if new.metadata.deletion_timestamp.is_some() || old == Some(&new.spec) {
            return Answer::admitted();
        }
        let checked = self.cleaners.check(&new.spec, old, (peer, &namespace));
        match timeout_at(deadline.into(), checked).await {
            Ok(findings) => answer(versions.judge(findings)),
            Err(_) => overdue(),
        }
    }

    /// Passes pods through the chain, one after the other. They become nothing.
    async fn try_pods(&self, pods: DryPods, tenant: &Tenant, deadline: Instant) -> Findings {
        let mut verdicts = Verdicts {
            late: pods.left(),
            ..Verdicts::default()
        };
        if verdicts.late == 0 {
            return verdicts.findings();
        }
        let tries = self.try_each(pods, (tenant, deadline), &mut verdicts);
        let no_chain = timeout_at(deadline.into(), tries).await;
        let mut findings = verdicts.findings();
        if let Ok(Some(reason)) = no_chain {
            let text = format!("its pods were not tried on the chain: {reason}");
            findings.warnings.push(about_chain(&[], &text));
            return findings;
        }
        for (count, why) in [
            (verdicts.late, "there was not enough time"),
            (verdicts.excess, "they are too many or too large"),
        ] {
            if count > 0 {
                let text = format!("{count} versions were not tried on the chain: {why}");
                findings.warnings.insert(0, about_chain(&[], &text));
            }
        }
        findings
    }

    /// Returns why there is no chain, if that is so.
    async fn try_each(
        &self,
        mut pods: DryPods,
        (tenant, deadline): (&Tenant, Instant),
        verdicts: &mut Verdicts,
    ) -> Option<String> {
        let (peer, namespace) = tenant.clone();
        let Ok(_turn) = self.tries.take(peer, namespace).await else {
            return Some(TOO_MANY.to_owned());
        };
        let mut known: Option<Option<NamespaceMetadata>> = None;
        loop {
            let (pod, rest) = self.with(pods, Iterator::next).await;
            pods = rest;
            let Some(DryPod { of, pod, request }) = pod else {
                (verdicts.late, verdicts.excess) = (0, pods.untried());
                return None;
            };
            verdicts.late = pods.left() + 1;
            if known.is_none() {
                known = Some(self.namespaces.of(tenant, deadline).await);
            }
            let request = PodRequest {
                deadline: Some(deadline),
                ..request.of_namespace(known.clone().flatten())
            };
            let mut verdict = self.mutate(pod, request.clone(), tenant).await;
            if let Verdict::Denied(reason) = verdict {
                let version = of.clone();
                let before = self.with(pods, move |pods| pods.before(&version)).await;
                pods = before.1;
                verdict = self.judge(reason, before.0, request, tenant).await;
            }
            if let Verdict::NoChain(reason) = verdict {
                return Some(reason);
            }
            verdicts.note(of, verdict);
            verdicts.late -= 1;
        }
    }

    /// Makes a pod on a thread for large objects.
    async fn with<T: Send + 'static>(
        &self,
        mut pods: DryPods,
        make: impl FnOnce(&mut DryPods) -> T + Send + 'static,
    ) -> (T, DryPods) {
        let made = self.blocking.run(move || (make(&mut pods), pods));
        made.await
    }

    /// Tells a denial of what the update changes from one of what is stored.
    async fn judge(
        &self,
        reason: String,
        before: Before,
        request: PodRequest,
        tenant: &Tenant,
    ) -> Verdict {
        match before {
            Before::Absent => Verdict::Denied(reason),
            Before::Same => Verdict::DeniedBefore(reason),
            Before::Other(old) => match self.mutate(old, request, tenant).await {
                // Of many reasons a plugin may say only the first.
                Verdict::Denied(_) => Verdict::DeniedBefore(reason),
                _ => Verdict::Denied(reason),
            },
        }
    }

    async fn mutate(&self, pod: Value, request: PodRequest, tenant: &Tenant) -> Verdict {
        let (peer, namespace) = tenant.clone();
        let Ok(_turn) = self.turns.take(peer, namespace).await else {
            return Verdict::NoChain(TOO_MANY.to_owned());
        };
        match self.mutator.mutate(pod, request).await {
            Ok(_) => Verdict::Accepted,
            Err(rejected) => Verdict::of(&rejected),
        }
    }
}

/// What the chain says of a pod.
enum Verdict {
    Accepted,
    Denied(String),
    /// What is stored is denied too.
    DeniedBefore(String),
    Broken(String),
    /// No plugin was called, and none will be.
    NoChain(String),
}

impl Verdict {
    fn of(rejected: &RejectedPod) -> Self {
        let last = rejected.runs.last();
        let (plugin, message) = (last.map(|run| &run.plugin), rejected.rejection.message());
        match (&rejected.rejection, plugin, last.map(|run| &run.outcome)) {
            (PodRejection::Denied(_), Some(plugin), Some(PluginOutcome::Denied(reason))) => {
                Self::Denied(format!("plugin {plugin} denies its pod: {reason}"))
            }
            (PodRejection::Denied(_), ..) => Self::Denied(format!("its pod is denied: {message}")),
            (_, Some(plugin), Some(PluginOutcome::Failed(failure))) => {
                Self::Broken(format!("plugin {plugin} failed on its pod: {failure}"))
            }
            (_, None, _) => Self::NoChain(message.to_owned()),
            _ => Self::Broken(format!("its pod was not tried on the chain: {message}")),
        }
    }
}

/// The versions of each reason, since a plugin often says the same of many.
#[derive(Default)]
struct Verdicts {
    denied: BTreeMap<String, Vec<Version>>,
    tolerated: BTreeMap<String, Vec<Version>>,
    /// How many were not tried for lack of time.
    late: usize,
    /// How many were not, since they are too many or too large.
    excess: usize,
}

impl Verdicts {
    fn note(&mut self, version: Version, verdict: Verdict) {
        let (noted, reason) = match verdict {
            Verdict::Accepted | Verdict::NoChain(_) => return,
            Verdict::Denied(reason) => (&mut self.denied, reason),
            Verdict::DeniedBefore(reason) | Verdict::Broken(reason) => {
                (&mut self.tolerated, reason)
            }
        };
        noted.entry(reason).or_default().push(version);
    }

    fn findings(&self) -> Findings {
        let all = |noted: &BTreeMap<String, Vec<Version>>| {
            let reasons = noted.iter().map(|(reason, versions)| {
                let pairs: Vec<Pair<'_>> = versions.iter().map(Version::pair).collect();
                about_chain(&pairs, reason)
            });
            reasons.collect()
        };
        Findings {
            refusals: all(&self.denied),
            warnings: all(&self.tolerated),
        }
    }
}

fn about_chain(pairs: &[Pair<'_>], text: &str) -> Finding {
    validate::about(pairs, text, Subject::Chain)
}

/// Which set of API groups the object is in.
fn api_of(review: &ReviewRequest) -> SelenosisApi {
    let kind = &review.kind;
    let api_version = format!("{}/{}", kind.group, kind.version);
    SelenosisApi::recognize(&api_version, &kind.kind)
        .map(|(api, _)| api)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
