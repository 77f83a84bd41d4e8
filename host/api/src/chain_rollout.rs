//! ChainRollout: how a new chain of plugins comes to serve, step by step.
#![expect(
    unreachable_pub,
    reason = "KubeSchema repeats the struct inside a function"
)]
#![expect(clippy::duplicated_attributes, reason = "columns are of equal types")]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::core::ApiResource;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{duration, schema};

/// A ChainRollout as the API server stores it.
pub type ChainRolloutObject = kube::core::Object<ChainRolloutSpec, ChainRolloutStatus>;

/// The digest of a chain, as `podloom chain check` prints it.
const DIGEST: &str = "^[0-9a-f]{64}$";

/// How the chain of `--candidate` comes to serve: which pods pass it when, and what takes it back.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "chain.podloom.dev",
    version = "v1alpha1",
    kind = "ChainRollout",
    plural = "chainrollouts",
    shortname = "cro",
    category = "podloom",
    namespaced,
    status = "ChainRolloutStatus",
    derive = "PartialEq",
    doc = "How a new chain of plugins comes to serve, step by step: which pods pass it when, and what takes it back. It counts in the namespace of the operator.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Step", type_ = "string", json_path = ".status.progress"),
    printcolumn(name = "Percent", type_ = "integer", json_path = ".status.percent"),
    printcolumn(
        name = "Pods",
        type_ = "integer",
        json_path = ".status.candidatePods.reviewed"
    ),
    printcolumn(name = "Verdict", type_ = "string", json_path = ".status.reason"),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.message",
        priority = 1
    ),
    printcolumn(
        name = "Candidate",
        type_ = "string",
        json_path = ".status.candidate",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ChainRolloutSpec {
    /// List 1 to 20 steps. After the last one, every pod passes the candidate. Defaults to four steps of 10 minutes and 20 pods each:
    /// 0, 5, 25 and 50 percent.
    #[serde(default = "default_steps")]
    #[schemars(length(min = 1, max = 20), transform = schema::atomic_list)]
    pub steps: Vec<RolloutStep>,

    /// Choose what takes the candidate back.
    #[serde(default)]
    pub limits: RolloutLimits,

    /// Begin no further step. Pods go on to be judged. Defaults to false.
    #[serde(default)]
    pub paused: bool,

    /// Choose what happens while nobody judges: Freeze leaves the pods where they are, TakeBack has all of them pass the serving chain
    /// until somebody judges again. Defaults to Freeze.
    #[serde(default)]
    pub unjudged: UnjudgedPolicy,

    /// Give the time without a judgement after which TakeBack does so, such as 2m. Defaults to 2m.
    #[serde(default = "default_unjudged_after")]
    #[schemars(length(max = duration::CHARACTERS), regex(pattern = duration::PATTERN))]
    pub unjudged_after: String,

    /// Decide about one candidate. podloom rollout promote and podloom rollout abort write this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<RolloutDecision>,

    /// Give a larger number to begin again with a candidate that was taken back or given up. podloom rollout resume does. Defaults to 0.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub attempt: i32,
}

/// One step.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStep {
    /// Give the share of owners whose pods pass the candidate, 0 to 100. With 0, all pods are only tried. What an earlier step gave
    /// stays.
    #[schemars(range(min = 0, max = 100))]
    pub percent: i32,

    /// Choose the namespaces that get this share, by their labels. Without it, all do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::core, transform = schema::bounded)]
    pub namespace_selector: Option<LabelSelector>,

    /// Give the least time of the step, such as 10m. Only time in which somebody judged counts. Defaults to 10m.
    #[serde(default = "default_duration")]
    #[schemars(length(max = duration::CHARACTERS), regex(pattern = duration::PATTERN))]
    pub duration: String,

    /// Give the least number of pods that pass the candidate in this step; with 0 percent, on which it is tried. Defaults to 20.
    #[serde(default = "default_pods")]
    #[schemars(range(min = 0))]
    pub pods: i32,

    /// Choose the limits of this step, in place of all of spec.limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<RolloutLimits>,
}

/// What takes a candidate back. Each limit looks at all pods since the rollout began.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutLimits {
    /// Limit the pods that the candidate denies. Those of one owner count once. If both chains were tried on a pod, and only the candidate
    /// denies it, it counts as two. Defaults to 3 pods and 1 percent.
    pub denied: ShareLimit,

    /// Limit the pods on which a plugin of the candidate fails or runs into its time limit, as with denials. Defaults to 3 pods and 1 percent.
    pub failed: ShareLimit,

    /// Limit the owners whose pods passed the candidate and do not become Ready in time, or fail. Defaults to 3 and 5 percent.
    pub unready: ShareLimit,

    /// Give the time in which a pod has to become Ready, such as 5m. Defaults to 5m.
    #[schemars(length(max = duration::CHARACTERS), regex(pattern = duration::PATTERN))]
    pub ready_within: String,

    /// Limit the owners whose pods passed the candidate and of which a container restarts. Defaults to 3 and 5 percent.
    pub restarted: ShareLimit,

    /// Limit how long a pod takes to pass the candidate. Defaults to 20 pods, 200 percent and 20 milliseconds.
    pub slow: SlowLimit,
}

/// How many, and what share of all of them more than with the other chain. Both have to be reached, so one unlucky pod decides nothing.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareLimit {
    /// Give the least number of such pods.
    #[schemars(range(min = 1))]
    pub pods: i32,

    /// Give the share of such pods in percent that the candidate may have more than the other chain.
    #[schemars(range(min = 0, max = 100))]
    pub percent: i32,
}

/// How much slower a candidate may be on average. All have to be reached.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(default)]
pub struct SlowLimit {
    /// Give the least number of pods that passed it.
    #[schemars(range(min = 1))]
    pub pods: i32,

    /// Give the time that it may take, in percent of what the other chain takes.
    #[schemars(range(min = 100))]
    pub percent: i32,

    /// Give the milliseconds that it may take longer in any case.
    #[schemars(range(min = 0))]
    pub milliseconds: i32,
}

/// What a person decided about one candidate.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct RolloutDecision {
    /// Give the digest of the candidate: the decision is about no other one.
    #[schemars(regex(pattern = DIGEST))]
    pub candidate: String,

    /// Choose Promote to have every pod pass it now, or Abort to give it up.
    pub verdict: RolloutVerdict,
}

/// What is decided about a candidate.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutVerdict {
    /// Every pod passes it now.
    Promote,
    /// No pod passes it any more.
    Abort,
}

/// What happens while nobody judges.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnjudgedPolicy {
    /// Each owner stays with its chain.
    #[default]
    Freeze,
    /// Every pod passes the serving chain.
    TakeBack,
}

/// How far a rollout is, published by the operator.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ChainRolloutStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The phase: Waiting, Progressing, Paused, Completed, RolledBack or Aborted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<RolloutPhase>,

    /// Why it is in this phase, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// The same in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// The digest of the chain that served when the rollout began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serving: Option<String>,

    /// The digest of the candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<String>,

    /// Which attempt with this candidate it is, as the spec counts them.
    #[serde(default)]
    pub attempt: i32,

    /// Which rollout of this object it is.
    #[serde(default)]
    pub rollout: i64,

    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,

    /// The present step, such as 2/4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,

    /// The number of the present step, from 0.
    #[serde(default)]
    pub step: i32,

    /// The largest share that any namespace has now.
    #[serde(default)]
    pub percent: i32,

    /// The shares so far. A namespace has the largest one that is for it. Replicas know nothing but these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::atomic_list)]
    pub shares: Vec<RolloutShare>,

    /// For how many seconds the present step has been judged.
    #[serde(default)]
    pub judged_seconds: i64,

    /// How many pods the candidate had got when the present step began.
    #[serde(default)]
    pub pods_before: i64,

    /// How often it was judged. If this does not change, nobody judges.
    #[serde(default)]
    pub judgements: i64,

    /// What became of the pods that passed the serving chain.
    #[serde(default)]
    pub serving_pods: RolloutPods,

    /// What became of the pods that passed the candidate.
    #[serde(default)]
    pub candidate_pods: RolloutPods,

    /// On how many pods both chains were tried; how many of them only the candidate denies, and on how many only it fails.
    #[serde(default)]
    pub tried: PassedPods,

    /// The candidates that were taken back or given up last. They begin again only if somebody says so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::atomic_list)]
    pub rejected: Vec<String>,

    /// What replicas counted that are gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone: Option<RolloutCounts>,

    /// What each replica of the operator says, by its name. Each writes its own entry.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub replicas: BTreeMap<String, RolloutReplica>,

    /// Ready, Reconciling and Stalled, by the rules of kstatus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::conditions)]
    pub conditions: Option<Vec<Condition>>,
}

/// A share of owners.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RolloutShare {
    /// The share in percent.
    pub percent: i32,
    /// The namespaces that it is for; all without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::core)]
    pub namespace_selector: Option<LabelSelector>,
}

/// What became of the pods that passed one chain.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutPods {
    /// How many passed it.
    pub reviewed: i64,
    /// How many it denied; those of one owner count once.
    pub denied: i64,
    /// On how many a plugin failed; those of one owner count once.
    pub failed: i64,
    /// How long one took on average, in microseconds.
    pub mean_microseconds: i64,
    /// How many became Ready in time.
    pub ready: i64,
    /// How many owners have pods that did not, or that failed.
    pub unready: i64,
    /// How many owners have pods of which a container restarted.
    pub restarted: i64,
}

/// What a replica of the operator says.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutReplica {
    /// The digest of its serving chain; none if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<String>,
    /// The digest of its candidate; none if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate: Option<String>,
    /// Which rollout the counts are of.
    pub rollout: i64,
    /// How often it has written. If this does not change, the replica is gone.
    pub beats: i64,
    /// What it counted.
    pub counts: RolloutCounts,
}

/// What was counted in one rollout.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(default)]
pub struct RolloutCounts {
    /// Pods that passed the serving chain.
    pub serving: PassedPods,
    /// Pods that passed the candidate.
    pub candidate: PassedPods,
    /// Pods that both chains were tried on, and of them those that only the candidate denies, and on which only it fails.
    pub tried: PassedPods,
}

/// Pods that passed a chain.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(default)]
pub struct PassedPods {
    /// All of them.
    pub pods: i64,
    /// Those that were denied.
    pub denied: i64,
    /// Those on which a plugin failed.
    pub failed: i64,
    /// How long all of them took together, in microseconds.
    pub microseconds: i64,
}

/// How far a rollout is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutPhase {
    /// There is no candidate that could be rolled out.
    Waiting,
    /// The steps are under way.
    Progressing,
    /// The present step is held.
    Paused,
    /// Every pod passes the candidate.
    Completed,
    /// A limit was reached: no pod passes the candidate.
    RolledBack,
    /// It was given up: no pod passes the candidate.
    Aborted,
}

written!(RolloutPhase: Waiting, Progressing, Paused, Completed, RolledBack, Aborted);
written!(RolloutVerdict: Promote, Abort);

impl RolloutPhase {
    /// Returns whether steps are taken, or held.
    pub const fn is_under_way(self) -> bool {
        matches!(self, Self::Progressing | Self::Paused)
    }

    /// Returns whether the candidate is decided about.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::RolledBack | Self::Aborted)
    }
}

impl PassedPods {
    /// Takes away what was counted before.
    pub fn subtract(&mut self, before: Self) {
        self.pods = self.pods.saturating_sub(before.pods);
        self.denied = self.denied.saturating_sub(before.denied);
        self.failed = self.failed.saturating_sub(before.failed);
        self.microseconds = self.microseconds.saturating_sub(before.microseconds);
    }

    /// Adds what another one counted.
    pub fn add(&mut self, other: Self) {
        self.pods = self.pods.saturating_add(other.pods);
        self.denied = self.denied.saturating_add(other.denied);
        self.failed = self.failed.saturating_add(other.failed);
        self.microseconds = self.microseconds.saturating_add(other.microseconds);
    }
}

impl RolloutCounts {
    /// Takes away what was counted before.
    pub fn subtract(&mut self, before: Self) {
        self.serving.subtract(before.serving);
        self.candidate.subtract(before.candidate);
        self.tried.subtract(before.tried);
    }

    /// Adds what another one counted.
    pub fn add(&mut self, other: Self) {
        self.serving.add(other.serving);
        self.candidate.add(other.candidate);
        self.tried.add(other.tried);
    }
}

impl Default for ChainRolloutSpec {
    fn default() -> Self {
        Self {
            steps: default_steps(),
            limits: RolloutLimits::default(),
            paused: false,
            unjudged: UnjudgedPolicy::default(),
            unjudged_after: default_unjudged_after(),
            decision: None,
            attempt: 0,
        }
    }
}

impl Default for RolloutLimits {
    fn default() -> Self {
        let of_review = ShareLimit {
            pods: 3,
            percent: 1,
        };
        let of_life = ShareLimit {
            percent: 5,
            ..of_review
        };
        Self {
            denied: of_review,
            failed: of_review,
            unready: of_life,
            ready_within: "5m".to_owned(),
            restarted: of_life,
            slow: SlowLimit::default(),
        }
    }
}

impl Default for SlowLimit {
    fn default() -> Self {
        Self {
            pods: 20,
            percent: 200,
            milliseconds: 20,
        }
    }
}

impl RolloutStep {
    /// Returns a step with this share of all namespaces, and the defaults.
    #[must_use]
    pub fn of(percent: i32) -> Self {
        Self {
            percent,
            namespace_selector: None,
            duration: default_duration(),
            pods: default_pods(),
            limits: None,
        }
    }
}

fn default_steps() -> Vec<RolloutStep> {
    [0, 5, 25, 50].map(RolloutStep::of).to_vec()
}

fn default_duration() -> String {
    "10m".to_owned()
}

fn default_pods() -> i32 {
    20
}

fn default_unjudged_after() -> String {
    "2m".to_owned()
}

impl ChainRollout {
    /// Returns what a dynamic client needs to know of the kind.
    ///
    /// ```
    /// use podloom_api::{ChainRollout, ChainRolloutSpec};
    ///
    /// assert_eq!(ChainRollout::resource().api_version, "chain.podloom.dev/v1alpha1");
    /// let spec: ChainRolloutSpec = serde_json::from_str(r#"{ "steps": [{ "percent": 10 }] }"#)?;
    /// assert_eq!(spec.steps[0].duration, "10m");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn resource() -> ApiResource {
        ApiResource::erase::<Self>(&())
    }
}
