//! Checks Browsers and BrowserConfigs. The pods of a BrowserConfig are tried on the chain.

use std::collections::BTreeMap;
use std::time::Instant;

use podloom_api::{BrowserConfigObject, BrowserObject, SelenosisApi};
use podloom_controllers::render::Pair;
use podloom_controllers::validate::{self, Before, DryPod, DryPods, Version};
use podloom_controllers::{Finding, Findings, Subject};
use podloom_mutation::{NamespaceMetadata, PluginOutcome, PodRejection, PodRequest, RejectedPod};
use serde_json::Value;
use tokio::time::timeout_at;

use super::{ObjectWebhook, Versions, answer, overdue};
use crate::review::{Answer, ReviewRequest, Tenant};

/// Why pods are not tried if no turn can be had.
const TOO_MANY: &str = "too many pods wait for the chain";

impl ObjectWebhook {
    /// Checks a Browser.
    pub(super) async fn browser(&self, review: ReviewRequest, deadline: Instant) -> Answer {
        let configs = self.caches.configs(&review.namespace);
        self.check(
            review,
            deadline,
            move |versions: &Versions<BrowserObject>| {
                let refs = configs.as_ref().map(|configs| configs.refs());
                validate::browser(&versions.new, versions.old.as_ref(), refs.as_deref())
            },
        )
        .await
    }

    /// Checks a BrowserConfig, then tries its pods.
    pub(super) async fn browser_config(&self, review: ReviewRequest, deadline: Instant) -> Answer {
        let namespace = review.namespace.clone();
        let configs = self.caches.configs(&namespace).unwrap_or_default();
        let (api, tenant) = (api_of(&review), review.tenant());
        let checked = self.run(tenant.clone(), move || {
            let mut versions: Versions<BrowserConfigObject> = Versions::read(review)?;
            // What the API server calls it is what counts.
            versions.new.metadata.namespace = Some(namespace);
            let old = versions.old.as_ref();
            let found = validate::browser_config(&versions.new, old, &configs.refs());
            let found = versions.judge(found);
            let pods = DryPods::of(api, versions.new, versions.old);
            let pods = match versions.old_is_unreadable {
                true => pods.with_unknown_old(),
                false => pods,
            };
            Ok((found, pods))
        });
        let (mut found, pods) = match timeout_at(deadline.into(), checked).await {
            Ok(Some(Ok(checked))) => checked,
            Ok(Some(Err(unreadable))) => return unreadable,
            Ok(None) | Err(_) => return overdue(),
        };
        let tried = self.try_pods(pods, &tenant, deadline).await;
        found.refusals.extend(tried.refusals);
        // Of many warnings the first are shown: one about the chain is not in any status.
        found.warnings.splice(0..0, tried.warnings);
        answer(found)
    }

    /// Passes pods through the chain, one after the other. They become nothing.
    async fn try_pods(&self, pods: DryPods, tenant: &Tenant, deadline: Instant) -> Findings {
        let mut verdicts = Verdicts::default();
        let mut untried = Untried {
            late: pods.left(),
            excess: 0,
        };
        if untried.late == 0 {
            return verdicts.findings();
        }
        let tries = self.try_each(pods, (tenant, deadline), &mut verdicts, &mut untried);
        let no_chain = timeout_at(deadline.into(), tries).await;
        let mut findings = verdicts.findings();
        if let Ok(Some(reason)) = no_chain {
            let text = format!("its pods were not tried on the chain: {reason}");
            findings.warnings.push(about_chain(&[], &text));
            return findings;
        }
        for (count, why) in [
            (untried.late, "there was not enough time"),
            (untried.excess, "they are too many or too large"),
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
        untried: &mut Untried,
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
                *untried = Untried {
                    late: 0,
                    excess: pods.untried(),
                };
                return None;
            };
            untried.late = pods.left() + 1;
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
            untried.late -= 1;
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

/// How many versions were not tried.
struct Untried {
    /// For lack of time.
    late: usize,
    /// Since they are too many or too large.
    excess: usize,
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
