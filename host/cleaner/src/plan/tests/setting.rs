//! Reads a case: what is different from the Cleaner of `base.yaml`, and what its pass finds in the cluster.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use podloom_cel::{Evaluation, Failure, Outcome, Reason};
use podloom_engine::plan::later;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::fixtures::{kind, pod};
use crate::memory::{Attempt, AttemptState, Compiled, Looked, Recalled, edition};
use crate::read::{Found, Problem, SeenTarget};
use crate::settings::CleanerSettings;
use crate::world::{Fate, Learned, StoredCleaner, World, checked};

/// A case.
pub(super) struct Case {
    pub(super) world: World,
    pub(super) now: Timestamp,
    pub(super) cluster: Cluster,
}

/// What a pass finds.
#[derive(Clone)]
pub(super) struct Cluster {
    pub(super) compiled: Compiled,
    pub(super) targets: Vec<SeenTarget>,
    pub(super) problem: Option<Problem>,
    pub(super) unwatched: Vec<String>,
    pub(super) evaluation: Evaluation,
    pub(super) search: Option<Timestamp>,
    pub(super) doomed: Result<Vec<SeenTarget>, Problem>,
    pub(super) fates: Vec<Fate>,
    pub(super) gone: Vec<usize>,
    pub(super) is_delivery_full: bool,
    pub(super) helm_trouble: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Setting {
    /// Two o'clock by default.
    now: Option<Timestamp>,
    /// A merge-patch (RFC 7396).
    #[serde(default = "nothing")]
    cleaner: Value,
    /// The process has looked at the targets before.
    looked: Option<Before>,
    #[serde(default)]
    is_watching: bool,
    attempted: Option<Timestamp>,
    /// The last attempt to deliver the CloudEvent.
    delivery: Option<Tried>,
    /// Whether there is no room for another attempt.
    #[serde(default)]
    is_delivery_full: bool,
    #[serde(default)]
    jitter: f64,
    /// Messages of conditions that do not compile.
    #[serde(default)]
    uncompiled: Vec<String>,
    /// What is seen of targets instead of one pod.
    targets: Option<Vec<Target>>,
    problem: Option<Trouble>,
    #[serde(default)]
    unwatched: Vec<String>,
    /// What the conditions come to; all are true by default.
    #[serde(default = "all_true")]
    outcomes: Vec<Result_>,
    /// What is said of conditions that are true of an empty list.
    #[serde(default)]
    remarks: Vec<String>,
    search: Option<Timestamp>,
    #[serde(default)]
    doomed: Vec<Target>,
    doomed_problem: Option<Trouble>,
    /// What becomes of the objects; all deletions are accepted by default.
    #[serde(default)]
    fates: Vec<Become>,
    #[serde(default)]
    gone: Vec<usize>,
    /// Why the records of the release cannot be listed; by default there are none.
    helm_trouble: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Before {
    at: Timestamp,
    due: Timestamp,
    /// The Cleaner was another one.
    #[serde(default)]
    is_changed: bool,
    /// Events of targets that have come since.
    #[serde(default)]
    events: u64,
}

/// An attempt to deliver the CloudEvent.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Tried {
    number: i32,
    /// It runs unless it was accepted or failed.
    #[serde(default)]
    accepted: bool,
    failed: Option<String>,
    /// When it failed, and how long nothing is sent after it.
    at: Option<Timestamp>,
    #[serde(default)]
    wait: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Target {
    name: String,
    /// Pods, by name; a list unless there is a `one`.
    #[serde(default)]
    pods: Vec<String>,
    one: Option<String>,
    missing: Option<String>,
    named: Option<String>,
    #[serde(default = "yes")]
    is_evaluated: bool,
    #[serde(default = "yes")]
    is_deleted: bool,
    /// The annotation that protects them.
    #[serde(default)]
    protected: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Trouble {
    target: String,
    message: String,
    #[serde(default)]
    transient: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Result_ {
    True,
    False,
    Error(String),
    NotBoolean(String),
    Spent(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Become {
    Accepted,
    Gone,
    Replaced,
    Skipped(String),
    Failed(String),
}

const fn yes() -> bool {
    true
}

fn nothing() -> Value {
    json!({})
}

fn all_true() -> Vec<Result_> {
    vec![Result_::True]
}

impl Case {
    pub(super) fn read(text: &str) -> Self {
        let setting: Setting = serde_saphyr::from_str(text).unwrap();
        let mut cleaner: Value = serde_saphyr::from_str(include_str!("../base.yaml")).unwrap();
        json_patch::merge(&mut cleaner, &setting.cleaner);
        let cleaner: StoredCleaner = serde_json::from_value(cleaner).unwrap();
        let recalled = recalled(&setting, &cleaner);
        Self {
            world: world(cleaner, recalled, setting.is_watching, setting.jitter),
            now: setting.now.unwrap_or(time("2026-01-01T02:00:00Z")),
            cluster: cluster(setting),
        }
    }
}

pub(super) fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn recalled(setting: &Setting, cleaner: &StoredCleaner) -> Recalled {
    let looked = setting.looked.as_ref().map(|before| Looked {
        at: before.at,
        edition: match before.is_changed {
            true => 0,
            false => edition(&cleaner.metadata),
        },
        events: 0,
        due: before.due,
    });
    Recalled {
        generation: cleaner.metadata.generation,
        compiled: looked.as_ref().map(|_| Ok(())),
        programs: None,
        looked,
        events: setting.looked.as_ref().map_or(0, |before| before.events),
        attempted: setting.attempted,
        attempt: setting.delivery.as_ref().map(attempt),
    }
}

/// The world of a Cleaner at the start of a pass.
pub(super) fn world(
    cleaner: StoredCleaner,
    recalled: Recalled,
    is_watching: bool,
    jitter: f64,
) -> World {
    let settings = CleanerSettings {
        excluded_namespaces: ["kube-system".to_owned()].into(),
        ..CleanerSettings::default()
    };
    World {
        checked: checked(&cleaner, &settings),
        cleaner,
        recalled,
        settings: std::sync::Arc::new(settings),
        is_watching,
        jitter,
        learned: Learned::default(),
    }
}

fn cluster(setting: Setting) -> Cluster {
    let one = Target {
        name: "web".to_owned(),
        pods: Vec::new(),
        one: Some("web".to_owned()),
        missing: None,
        named: None,
        is_evaluated: true,
        is_deleted: true,
        protected: false,
    };
    let targets = setting.targets.unwrap_or_else(|| vec![one]);
    let failures = setting.uncompiled.into_iter().enumerate();
    let failures: Vec<Failure> = failures
        .map(|(index, message)| failure(index, Reason::CompileError, &message))
        .collect();
    Cluster {
        compiled: match failures.is_empty() {
            true => Ok(()),
            false => Err(failures.into()),
        },
        targets: targets.into_iter().map(target).collect(),
        problem: setting.problem.map(problem),
        unwatched: setting.unwatched,
        evaluation: Evaluation {
            outcomes: setting
                .outcomes
                .into_iter()
                .enumerate()
                .map(outcome)
                .collect(),
            steps: 10,
            remarks: setting.remarks.into_iter().map(|it| (0, it)).collect(),
        },
        search: setting.search,
        doomed: match setting.doomed_problem {
            Some(trouble) => Err(problem(trouble)),
            None => Ok(setting.doomed.into_iter().map(target).collect()),
        },
        fates: setting.fates.into_iter().map(fate).collect(),
        gone: setting.gone,
        helm_trouble: setting.helm_trouble,
        is_delivery_full: setting.is_delivery_full,
    }
}

fn attempt(it: &Tried) -> Attempt {
    let at = it.at.unwrap_or_default();
    let pause = at..later(at, Duration::from_secs(it.wait));
    Attempt {
        number: it.number,
        sink: "http://sink.demo/".to_owned(),
        failures: it.number.unsigned_abs(),
        state: match (&it.failed, it.accepted) {
            (Some(message), _) => AttemptState::Failed(message.clone(), pause),
            (None, true) => AttemptState::Accepted,
            (None, false) => AttemptState::Running,
        },
    }
}

fn target(it: Target) -> SeenTarget {
    let protect = |name: &str| {
        let mut pod = pod(name, &format!("uid-{name}"));
        pod["metadata"]["resourceVersion"] = json!("3");
        if it.protected {
            pod["metadata"]["annotations"] = json!({ "cleaner.vtex.dev/protect": "true" });
        }
        pod
    };
    let pods = kind("Pod", "pods");
    let found = match (&it.one, &it.missing, &it.named) {
        (Some(name), ..) => Found::One(protect(name)),
        (_, Some(name), _) => Found::Missing(name.clone()),
        (.., Some(name)) => Found::Named(name.clone()),
        _ => {
            let items = it.pods.iter().map(|name| protect(name)).collect();
            Found::List(pods.list(json!({ "resourceVersion": "9" }), items))
        }
    };
    SeenTarget {
        name: it.name,
        is_evaluated: it.is_evaluated,
        is_deleted: it.is_deleted,
        kind: Arc::clone(&pods),
        found,
        share: None,
    }
}

fn problem(trouble: Trouble) -> Problem {
    Problem {
        target: trouble.target,
        message: trouble.message,
        is_transient: trouble.transient,
    }
}

fn outcome((index, it): (usize, Result_)) -> Outcome {
    let error = |reason, message: String| Outcome::Error(failure(index, reason, &message));
    match it {
        Result_::True => Outcome::True,
        Result_::False => Outcome::False,
        Result_::Error(message) => error(Reason::EvaluationError, message),
        Result_::NotBoolean(message) => error(Reason::ResultNotBoolean, message),
        Result_::Spent(message) => error(Reason::BudgetExceeded, message),
    }
}

fn failure(index: usize, reason: Reason, message: &str) -> Failure {
    Failure {
        index,
        reason,
        message: format!("conditions[{index}]: {message}"),
    }
}

fn fate(it: Become) -> Fate {
    match it {
        Become::Accepted => Fate::Accepted,
        Become::Gone => Fate::Gone,
        Become::Replaced => Fate::Replaced,
        Become::Skipped(message) => Fate::Skipped(message),
        Become::Failed(message) => Fate::Failed(message),
    }
}
