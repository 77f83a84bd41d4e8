//! What a Cleaner would do, for whoever asks: nothing is written, and nothing is deleted.
//!
//! The plan of the controller decides, as for a Cleaner that it sees for the first time. The targets come from files, or from a
//! cluster. Conditions are evaluated on the thread of the caller, who must not have to do anything else meanwhile.

mod files;
mod live;
mod rehearsal;
mod scope;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::core::{Object, ObjectMeta};
use podloom_api::names::cleaner::FINALIZER;
use podloom_api::{CleanerSpec, CleanerStatus, PlannedObject};
use podloom_cel::{Budget, Program, compile_all, evaluate_all, next_true};

pub use self::live::{Live, live};
pub use self::rehearsal::{Cause, Next, Rehearsal, TargetLine};
use self::rehearsal::{Stop, rehearsal};
use super::action::Action;
use super::checked::{Checked, CheckedTarget, InvalidSpec};
use super::discovery::Discovery;
use super::memory::{Compiled, Recalled};
use super::objects::Objects;
use super::plan::plan;
use super::read::{IfMissing, Reader};
use super::settings::CleanerSettings;
use super::sight::{Problem, SeenTarget, Sight};
use super::stored::StoredSpec;
use super::world::{Learned, World};
use super::{frozen, status, validate, variables};
use podloom_engine::finding::{Finding, Findings};

/// How many steps a plan may take. One that deletes nothing takes seven.
const STEPS: usize = 24;

/// A Cleaner, and when and by which flags it is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// What it deletes, and when.
    pub spec: &'a CleanerSpec,
    /// Its namespace.
    pub namespace: &'a str,
    /// What the cluster has of it. Without a time of creation, its time is over.
    pub live: &'a Live,
    /// The time for the conditions.
    pub at: Timestamp,
    /// The operator's flags.
    pub settings: &'a CleanerSettings,
}

/// Where the targets are.
pub enum Stage<'a> {
    /// In files. Each object has a namespace, which means nothing if its kind is cluster-scoped.
    Files(&'a [serde_json::Value]),
    /// In a cluster, as its client may read it.
    Cluster(Client),
}

/// Checks the spec of a Cleaner in a namespace, and compiles its conditions.
pub fn check(spec: &CleanerSpec, namespace: &str, settings: &CleanerSettings) -> Findings {
    let mut findings = validate::spec(spec, namespace, settings);
    let names = validate::variable_names(spec);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let conditions: Vec<&str> = validate::compilable(spec)
        .map(|(_, condition)| condition.as_str())
        .collect();
    let failures = compile_all(&conditions, &names).err().unwrap_or_default();
    findings.refusals.extend(validate::conditions(&failures));
    findings
}

/// Returns what a Cleaner would do.
///
/// # Errors
///
/// What makes its spec unusable, as [`super::validate::spec`] finds it.
pub async fn rehearse(
    question: Question<'_>,
    stage: &Stage<'_>,
) -> Result<Rehearsal, Vec<Finding>> {
    let created = question.live.created.unwrap_or(Timestamp::MIN);
    let mut first = Rehearsing::new(question, stage, created)?;
    let stop = first.run().await;
    if first.world.learned.sight.is_some()
        || !matches!(first.world.recalled.compiled, Some(Compiled::Fine))
    {
        let doomed = first.doomed().await;
        return Ok(rehearsal(&first.world, &stop, doomed));
    }
    // Its time is not over, so nothing was looked at. What conditions say now is of interest all the same.
    let mut expired = Rehearsing::new(question, stage, Timestamp::MIN)?;
    expired.run().await;
    let doomed = expired.doomed().await;
    let mut looked = rehearsal(&expired.world, &stop, doomed);
    looked.next = Next::expiry(&stop);
    Ok(looked)
}

/// One run of the plan.
struct Rehearsing<'a> {
    question: Question<'a>,
    stage: Target<'a>,
    world: World,
    programs: Vec<Program>,
}

/// Where targets are read from.
enum Target<'a> {
    Files(&'a [serde_json::Value]),
    Cluster(Reader),
}

impl<'a> Rehearsing<'a> {
    fn new(
        question: Question<'a>,
        stage: &Stage<'a>,
        created: Timestamp,
    ) -> Result<Self, Vec<Finding>> {
        let Question {
            spec,
            namespace,
            settings,
            ..
        } = question;
        let checked = Checked::of(spec, namespace, settings);
        if let Err(InvalidSpec(findings)) = checked {
            return Err(findings);
        }
        let cleaner = Object {
            types: None,
            metadata: ObjectMeta {
                namespace: Some(namespace.to_owned()),
                uid: question.live.uid.clone(),
                creation_timestamp: Some(Time(created)),
                ..ObjectMeta::default()
            },
            spec: StoredSpec(Ok(Box::new(spec.clone()))),
            status: None,
        };
        let stage = match stage {
            Stage::Files(objects) => Target::Files(objects),
            Stage::Cluster(client) => Target::Cluster(Reader {
                discovery: Discovery::new(client.clone()),
                objects: Objects::new(client.clone()),
                settings: std::sync::Arc::new(settings.clone()),
            }),
        };
        Ok(Self {
            question,
            stage,
            world: World {
                cleaner,
                checked,
                recalled: Recalled::default(),
                settings: std::sync::Arc::new(settings.clone()),
                attempt: None,
                is_watching: false,
                jitter: 0.0,
                learned: Learned::default(),
            },
            programs: Vec::new(),
        })
    }

    /// Does what the plan asks for, until it would write.
    async fn run(&mut self) -> Stop {
        for _ in 0..STEPS {
            let plan = plan(&self.world, self.question.at);
            match plan.action {
                Some(Action::WriteStatus(status)) => return Stop::Waits(status),
                Some(Action::Commit(status)) => return Stop::Deletes(status, plan.notices),
                // The deletion begins with our finalizer.
                Some(Action::SetMetadata(_)) => {
                    self.world.cleaner.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
                }
                Some(action) => self.answer(&action).await,
                None => break,
            }
        }
        Stop::Waits(Box::<CleanerStatus>::default())
    }

    async fn answer(&mut self, action: &Action) {
        match action {
            Action::Compile(_) => self.compile(),
            Action::Look(at) => self.look(*at).await,
            Action::Evaluate(at) => self.evaluate(*at),
            Action::Search(at) => {
                let variables = self.world.learned.variables.as_deref();
                let found =
                    variables.and_then(|it| next_true(&self.programs, it, *at, Budget::SEARCH));
                self.world.learned.search = Some(found);
            }
            Action::Doom => match self.doom().await {
                Ok(doomed) => self.world.learned.doomed = Some(doomed),
                Err(problem) => self.world.learned.problem = Some(problem),
            },
            // What is done for a Cleaner that is being deleted, or between two looks.
            _ => {}
        }
    }

    fn compile(&mut self) {
        let names = self.checked().map(Checked::variable_names);
        let names = names.unwrap_or_default();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let conditions: Vec<&str> = self
            .question
            .spec
            .conditions
            .iter()
            .map(String::as_str)
            .collect();
        let compiled = match compile_all(&conditions, &names) {
            Ok(programs) => {
                self.programs = programs;
                Compiled::Fine
            }
            Err(failures) => Compiled::Failed(failures.into()),
        };
        self.world.recalled.compiled = Some(compiled);
    }

    /// Reads the targets that conditions see, and names the others.
    async fn look(&mut self, at: Timestamp) {
        let mut sight = Sight {
            at,
            events: 0,
            targets: Vec::new(),
            problem: None,
            unwatched: Vec::new(),
        };
        for target in self.targets(|target| target.is_evaluated) {
            match self.read(&target, IfMissing::Problem).await {
                Ok(target) => sight.targets.push(target),
                Err(problem) => sight.problem = sight.problem.or(Some(problem)),
            }
        }
        self.world.learned.sight = Some(sight.into());
    }

    fn evaluate(&mut self, at: Timestamp) {
        let Some(sight) = &self.world.learned.sight else {
            return;
        };
        match variables::of(&sight.targets) {
            Ok(variables) => {
                let evaluation = evaluate_all(&self.programs, &variables, at, Budget::EVALUATION);
                self.world.learned.evaluation = Some(evaluation);
                self.world.learned.variables = Some(variables.into());
            }
            Err(problem) => self.world.learned.problem = Some(problem),
        }
    }

    /// Reads the targets that are only deleted.
    async fn doom(&mut self) -> Result<Vec<SeenTarget>, Problem> {
        let mut doomed = Vec::new();
        for target in self.targets(|target| target.is_deleted && !target.is_evaluated) {
            doomed.push(self.read(&target, IfMissing::Skip).await?);
        }
        if let Target::Cluster(_) = &self.stage {
            return Ok(doomed);
        }
        // Conditions have seen the objects as they are.
        if let Some(sight) = &self.world.learned.sight {
            let mut sight = Sight::clone(sight);
            sight.targets = files::identified(sight.targets);
            self.world.learned.sight = Some(sight.into());
        }
        Ok(files::identified(doomed))
    }

    /// What would be deleted, whatever the conditions are.
    async fn doomed(&mut self) -> Result<Vec<PlannedObject>, Problem> {
        if self.world.learned.doomed.is_none() {
            self.world.learned.doomed = Some(self.doom().await?);
        }
        let learned = &self.world.learned;
        let seen = learned.sight.as_ref().map(|sight| sight.targets.as_slice());
        let doomed = learned.doomed.as_deref().unwrap_or_default();
        let targets = status::in_order(&self.world, seen.unwrap_or_default(), doomed);
        let planned = frozen::plan(targets, self.world.uid())?;
        Ok(planned.into_iter().map(|it| it.planned).collect())
    }

    fn checked(&self) -> Option<&Checked> {
        self.world.checked.as_ref().ok()
    }

    fn targets(&self, is_wanted: impl Fn(&CheckedTarget) -> bool) -> Vec<CheckedTarget> {
        let targets = self.checked().map(|checked| checked.targets.iter());
        let targets = targets.into_iter().flatten();
        targets.filter(|it| is_wanted(it)).cloned().collect()
    }

    async fn read(
        &self,
        target: &CheckedTarget,
        if_missing: IfMissing,
    ) -> Result<SeenTarget, Problem> {
        let namespace = self.question.namespace;
        match &self.stage {
            Target::Files(objects) => {
                let files = files::Files {
                    objects,
                    settings: self.question.settings,
                };
                files.target(target, namespace, if_missing)
            }
            Target::Cluster(reader) => {
                let kind = reader.kind(target).await?;
                reader.target(target, &kind, namespace, if_missing).await
            }
        }
    }
}

#[cfg(test)]
mod tests;
