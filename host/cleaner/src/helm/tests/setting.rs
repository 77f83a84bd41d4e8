//! Reads a case: what the status says, and what its pass finds in the cluster.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use podloom_api::HelmProgress;
use podloom_helm::Record;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Done;
use crate::helm::{
    Chart, HelmAction, HelmOutcome, HelmRules, HelmWorld, SeenHook, StoredRecord, Sweep,
};

/// A case.
pub(super) struct Case {
    pub(super) progress: HelmProgress,
    pub(super) rules: Option<HelmRules>,
    pub(super) now: Timestamp,
    pub(super) cluster: Cluster,
}

/// What a pass finds.
pub(super) struct Cluster {
    records: Vec<StoredRecord>,
    payload: Value,
    looks: VecDeque<Look>,
    created: Look,
    sweeps: VecDeque<Swept>,
    tidied: Option<String>,
    troubles: BTreeMap<String, String>,
    /// Hooks' objects: what says which run it is, and whether it has succeeded.
    live: BTreeMap<String, (String, bool)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Setting {
    /// Two o'clock by default.
    now: Option<Timestamp>,
    /// What is different from the progress at the start: a merge-patch (RFC 7396).
    #[serde(default = "nothing")]
    progress: Value,
    /// The spec does not say that the release is uninstalled.
    #[serde(default)]
    is_unnamed: bool,
    #[serde(default)]
    disables_hooks: bool,
    /// Three records by default.
    records: Option<Vec<i64>>,
    /// What is different from a release with a Service and a Deployment: a merge-patch.
    #[serde(default = "nothing")]
    release: Value,
    /// What the looks at hooks find, one after another.
    #[serde(default)]
    looks: VecDeque<Look>,
    /// What a hook is once it is created.
    created: Option<Look>,
    /// What becomes of the objects; all are deleted by default.
    #[serde(default)]
    sweeps: VecDeque<Swept>,
    /// What is left of hooks that have succeeded.
    tidied: Option<String>,
    /// Actions that do not do what they are for.
    #[serde(default)]
    troubles: BTreeMap<String, String>,
}

#[derive(Deserialize, Clone)]
#[serde(rename_all = "camelCase")]
enum Look {
    Missing,
    Other,
    Terminating,
    Running,
    Succeeded,
    Failed(String),
    Impossible(String),
}

#[derive(Deserialize, Clone)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Swept {
    done: i32,
    #[serde(default)]
    failed: i32,
    first_failure: Option<String>,
    #[serde(default)]
    skipped: Vec<String>,
}

fn nothing() -> Value {
    json!({})
}

fn release() -> Value {
    json!({
        "name": "shop",
        "namespace": "demo",
        "info": { "status": "deployed" },
        "manifest": "apiVersion: apps/v1\nkind: Deployment\nmetadata: { name: web }\n---\n\
                     apiVersion: v1\nkind: Service\nmetadata: { name: web }\n",
        "hooks": [],
    })
}

impl Case {
    pub(super) fn read(text: &str) -> Self {
        let setting: Setting = serde_saphyr::from_str(text).unwrap();
        let mut progress = json!({ "release": "shop", "step": "PreDeleteHooks" });
        json_patch::merge(&mut progress, &setting.progress);
        let mut payload = release();
        if progress["step"] != "PreDeleteHooks" {
            // The record says so before the status does.
            payload["info"]["status"] = json!("uninstalling");
        }
        json_patch::merge(&mut payload, &setting.release);
        let revisions = setting.records.unwrap_or_else(|| vec![1, 2, 3]);
        let record = |revision: &i64| StoredRecord {
            revision: *revision,
            name: format!("sh.helm.release.v1.shop.v{revision}"),
            uid: format!("record-{revision}"),
        };
        Self {
            progress: serde_json::from_value(progress).unwrap(),
            rules: (!setting.is_unnamed).then_some(HelmRules {
                disables_hooks: setting.disables_hooks,
                hook_timeout: Duration::from_mins(5),
            }),
            now: setting
                .now
                .unwrap_or("2026-01-01T02:00:00Z".parse().unwrap()),
            cluster: Cluster {
                records: revisions.iter().map(record).collect(),
                payload,
                looks: setting.looks,
                created: setting.created.unwrap_or(Look::Running),
                sweeps: setting.sweeps,
                tidied: setting.tidied,
                troubles: setting.troubles,
                live: BTreeMap::new(),
            },
        }
    }
}

impl Cluster {
    /// The outcome of an action as the case says it.
    pub(super) fn outcome(&mut self, world: &HelmWorld<'_>, action: &HelmAction) -> HelmOutcome {
        let name = format!("{action:?}");
        let name = name.split(['(', ' ']).next().unwrap();
        if let Some(trouble) = self.troubles.get(name) {
            return HelmOutcome::Trouble(trouble.clone());
        }
        match action {
            HelmAction::List => HelmOutcome::Listed(self.records.clone()),
            HelmAction::Read => self.read(),
            HelmAction::LookAtHook => {
                let look = self
                    .looks
                    .pop_front()
                    .expect("a look that the case does not say");
                HelmOutcome::Seen(seen(look))
            }
            HelmAction::CreateHook => HelmOutcome::Seen(seen(self.created.clone())),
            HelmAction::DeleteHook(_) => HelmOutcome::HookDeleted,
            HelmAction::TidyHooks => HelmOutcome::Tidied(self.tidied.clone()),
            HelmAction::Mark => HelmOutcome::Marked,
            HelmAction::DeleteObjects(from) => {
                let chart = world.learned.chart.as_ref().unwrap();
                let total = chart.objects.deleted.len();
                let rest = total - from;
                let swept = self.sweeps.pop_front();
                HelmOutcome::Swept(swept.map_or_else(
                    || Sweep {
                        total,
                        done: i32::try_from(rest).unwrap(),
                        ..Sweep::default()
                    },
                    |it| Sweep {
                        total,
                        done: it.done,
                        failed: it.failed,
                        first_failure: it.first_failure,
                        skipped: it.skipped,
                    },
                ))
            }
            HelmAction::Purge => HelmOutcome::Purged,
            HelmAction::GiveUp(progress) => HelmOutcome::GaveUp(progress.clone()),
        }
    }

    /// Puts the cluster into the state after these steps.
    pub(super) fn go_on(&mut self, steps: &[Done]) {
        for step in steps {
            match step {
                Done::Act(HelmAction::LookAtHook) => drop(self.looks.pop_front()),
                // The next process looks at what this one has created.
                Done::Act(HelmAction::CreateHook) => self.looks.push_front(self.created.clone()),
                Done::Act(HelmAction::DeleteObjects(_)) => drop(self.sweeps.pop_front()),
                Done::Act(HelmAction::Mark) => {
                    self.payload["info"]["status"] = json!("uninstalling")
                }
                _ => {}
            }
        }
        self.looks.extend([Look::Running, Look::Running]);
    }

    /// The outcome of an action in a cluster that remembers; what changes it is added to a list.
    pub(super) fn live(
        &mut self,
        world: &HelmWorld<'_>,
        action: &HelmAction,
        done: &mut Vec<String>,
    ) -> HelmOutcome {
        let run = world.progress.hook.as_ref();
        let name = run.map(|run| run.name.clone()).unwrap_or_default();
        let id = run
            .map(|run| run.started_at.0.to_string())
            .unwrap_or_default();
        match action {
            HelmAction::LookAtHook => HelmOutcome::Seen(match self.live.get(&name) {
                None => SeenHook::Missing,
                Some((other, _)) if *other != id => seen(Look::Other),
                Some((_, false)) => seen(Look::Running),
                Some((_, true)) => seen(Look::Succeeded),
            }),
            HelmAction::CreateHook => {
                done.push(format!("create {name}"));
                assert!(self.live.insert(name, (id, false)).is_none());
                HelmOutcome::Seen(seen(Look::Running))
            }
            HelmAction::DeleteHook(_) => {
                done.push(format!("delete {name}"));
                self.live.remove(&name);
                HelmOutcome::HookDeleted
            }
            HelmAction::TidyHooks => {
                done.push("tidy".to_owned());
                HelmOutcome::Tidied(None)
            }
            HelmAction::Mark => {
                done.push("mark".to_owned());
                self.payload["info"]["status"] = json!("uninstalling");
                HelmOutcome::Marked
            }
            HelmAction::DeleteObjects(from) => {
                done.push(format!("delete objects {from}"));
                HelmOutcome::Swept(Sweep {
                    done: 1,
                    ..Sweep::default()
                })
            }
            HelmAction::Purge => {
                done.push("purge".to_owned());
                self.records.clear();
                HelmOutcome::Purged
            }
            _ => self.outcome(world, action),
        }
    }

    /// All hooks that run succeed.
    pub(super) fn pass_time(&mut self) {
        for (_, has_succeeded) in self.live.values_mut() {
            *has_succeeded = true;
        }
    }

    fn read(&self) -> HelmOutcome {
        let revision = self.records.last().unwrap().revision;
        let mut payload = self.payload.clone();
        payload["version"] = revision.into();
        let record = Record {
            release: "shop",
            namespace: "demo",
            revision,
        };
        let packed = STANDARD.encode(payload.to_string());
        match Chart::read(packed.as_bytes(), record, "7".to_owned()) {
            Ok(chart) => HelmOutcome::Read(Arc::new(chart)),
            Err(error) => HelmOutcome::Trouble(error),
        }
    }
}

fn seen(look: Look) -> SeenHook {
    let uid = || "hook-uid".to_owned();
    let other = |is_terminating| SeenHook::Other {
        uid: "other-uid".to_owned(),
        is_terminating,
    };
    match look {
        Look::Missing => SeenHook::Missing,
        Look::Other => other(false),
        Look::Terminating => other(true),
        Look::Running => SeenHook::Running { uid: uid() },
        Look::Succeeded => SeenHook::Succeeded { uid: uid() },
        Look::Failed(message) => SeenHook::Failed {
            uid: Some(uid()),
            message,
        },
        Look::Impossible(message) => SeenHook::Failed { uid: None, message },
    }
}
