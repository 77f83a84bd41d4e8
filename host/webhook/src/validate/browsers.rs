//! Checks Browsers and BrowserConfigs. The pods of a BrowserConfig are tried on the chain.

use std::collections::BTreeMap;
use std::time::Instant;

use podloom_api::{BrowserConfigObject, BrowserObject, SelenosisApi};
use podloom_controllers::render::Pair;
use podloom_controllers::validate::{self, Before, DryPod, DryPods, Finding, Findings, Subject};
use podloom_controllers::{PluginOutcome, PodRejection, PodRequest, RejectedPod};
use serde_json::Value;
use tokio::time::timeout_at;

use super::{ObjectWebhook, Versions, answer};
use crate::mutate::NamespaceMetadata;
use crate::review::{Answer, ReviewRequest};

/// What is said if the deadline comes before the object is examined.
const TOO_LARGE: &str = "not checked: there was not enough time";

impl ObjectWebhook {
    /// Checks a Browser.
    pub(super) async fn browser(&self, review: ReviewRequest, deadline: Instant) -> Answer {
        let configs = self.caches.configs(&review.namespace);
        let checked = self.blocking.run(move || {
            let versions: Versions<BrowserObject> = Versions::read(review)?;
            let refs = configs.as_ref().map(|configs| configs.refs());
            let old = versions.old.as_ref();
            let findings = validate::browser(&versions.new, old, refs.as_deref());
            Ok(versions.judge(findings))
        });
        match timeout_at(deadline.into(), checked).await {
            Ok(Ok(findings)) => answer(findings),
            Ok(Err(unreadable)) => unreadable,
            Err(_) => overdue(),
        }
    }

    /// Checks a BrowserConfig, then tries its pods.
    pub(super) async fn browser_config(&self, review: ReviewRequest, deadline: Instant) -> Answer {
        let namespace = review.namespace.clone();
        let configs = self.caches.configs(&namespace).unwrap_or_default();
        let api = api_of(&review);
        let checked = self.blocking.run(move || {
            let mut versions: Versions<BrowserConfigObject> = Versions::read(review)?;
            // What the API server calls it is what counts.
            let metadata = &mut versions.new.metadata;
            metadata.namespace.get_or_insert(namespace);
            let old = versions.old.as_ref();
            let found = validate::browser_config(&versions.new, old, &configs.refs());
            let found = versions.judge(found);
            let mut pods = validate::dry_pods(api, &versions.new, old);
            if versions.old_is_unreadable {
                for pod in &mut pods.pods {
                    pod.before = Before::Same;
                }
            }
            Ok((found, pods))
        });
        let (mut found, pods) = match timeout_at(deadline.into(), checked).await {
            Ok(Ok(checked)) => checked,
            Ok(Err(unreadable)) => return unreadable,
            Err(_) => return overdue(),
        };
        let tried = self.try_pods(pods, deadline).await;
        found.refusals.extend(tried.refusals);
        // Of many warnings the first are shown: one about the chain is not in any status.
        found.warnings.splice(0..0, tried.warnings);
        answer(found)
    }

    /// Passes pods through the chain. They become nothing.
    async fn try_pods(&self, dry: DryPods, deadline: Instant) -> Findings {
        let mut verdicts = Verdicts::default();
        let (mut left, mut untried) = (dry.pods.len(), dry.untried);
        let Some(first) = dry.pods.first() else {
            return verdicts.findings();
        };
        let namespace = first.request.namespace.clone();
        let tries = async {
            // It is never closed.
            let _turn = self.turns.acquire().await;
            let about = match self.namespaces.of(&namespace, deadline).await {
                Ok(about) => about,
                Err(unread) => return Some(unread.to_string()),
            };
            for pod in dry.pods {
                let verdict = self.try_pod(&pod, &about, deadline).await;
                left -= 1;
                if let Verdict::NoChain(reason) = verdict {
                    return Some(reason);
                }
                verdicts.note(pod, verdict);
            }
            None
        };
        let no_chain = timeout_at(deadline.into(), tries).await;
        let mut findings = match no_chain {
            Ok(Some(reason)) => {
                let text = format!("its pods were not tried on the chain: {reason}");
                untried = 0;
                left = 0;
                let mut findings = verdicts.findings();
                findings.warnings.push(about_chain(&[], &text));
                findings
            }
            Ok(None) | Err(_) => verdicts.findings(),
        };
        for (count, why) in [
            (left, "there was not enough time"),
            (untried, "the BrowserConfig has too many"),
        ] {
            if count > 0 {
                let text = format!("{count} versions were not tried on the chain: {why}");
                findings.warnings.insert(0, about_chain(&[], &text));
            }
        }
        findings
    }

    async fn try_pod(&self, pod: &DryPod, about: &NamespaceMetadata, deadline: Instant) -> Verdict {
        let request = PodRequest {
            namespace_labels: about.labels.clone(),
            namespace_annotations: about.annotations.clone(),
            deadline: Some(deadline),
            ..pod.request.clone()
        };
        let verdict = self.mutate(pod.pod.clone(), request.clone()).await;
        match (verdict, &pod.before) {
            (Verdict::Denied(reason), Before::Same) => Verdict::DeniedBefore(reason),
            (Verdict::Denied(reason), Before::Other(old)) => {
                match self.mutate(old.clone(), request).await {
                    // Of many reasons a plugin may say only the first.
                    Verdict::Denied(_) => Verdict::DeniedBefore(reason),
                    _ => Verdict::Denied(reason),
                }
            }
            (verdict, _) => verdict,
        }
    }

    async fn mutate(&self, pod: Value, request: PodRequest) -> Verdict {
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
    denied: BTreeMap<String, Vec<DryPod>>,
    tolerated: BTreeMap<String, Vec<DryPod>>,
}

impl Verdicts {
    fn note(&mut self, pod: DryPod, verdict: Verdict) {
        let (noted, reason) = match verdict {
            Verdict::Accepted | Verdict::NoChain(_) => return,
            Verdict::Denied(reason) => (&mut self.denied, reason),
            Verdict::DeniedBefore(reason) | Verdict::Broken(reason) => {
                (&mut self.tolerated, reason)
            }
        };
        noted.entry(reason).or_default().push(pod);
    }

    fn findings(&self) -> Findings {
        let all = |noted: &BTreeMap<String, Vec<DryPod>>| {
            let reasons = noted.iter().map(|(reason, pods)| {
                let pairs: Vec<Pair<'_>> = pods.iter().map(DryPod::pair).collect();
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
    Finding::about(pairs, text, Subject::Chain)
}

fn overdue() -> Answer {
    Answer {
        warnings: vec![TOO_LARGE.to_owned()],
        ..Answer::admitted()
    }
}

/// Which set of API groups the object is in.
fn api_of(review: &ReviewRequest) -> SelenosisApi {
    let kind = &review.kind;
    let api_version = format!("{}/{}", kind.group, kind.version);
    SelenosisApi::recognize(&api_version, &kind.kind)
        .map(|(api, _)| api)
        .unwrap_or_default()
}
