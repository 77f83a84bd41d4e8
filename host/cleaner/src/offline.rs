//! What a Cleaner would do, for whoever asks: nothing is written, and nothing is deleted.
//!
//! The plan of the controller decides, as for a Cleaner that it sees for the first time. The targets come from files, or from a
//! cluster. Conditions are evaluated on the thread of the caller, who must not have to do anything else meanwhile.

mod files;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::core::{Object, ObjectMeta};
use podloom_api::names::cleaner::{FINALIZER, condition, event, reason};
use podloom_api::{Cleaner, CleanerSpec, CleanerStatus, ConditionResult, PlannedObject};
use podloom_cel::{Budget, Program, compile_all, evaluate_all, next_true};
use podloom_engine::events::Notice;
use podloom_engine::finding::{Finding, Findings};
use podloom_syntax::names::{dns_label, dns_subdomain};

use crate::checked::{Checked, CheckedTarget};
use crate::discovery::{Discovery, ServedKind};
use crate::memory::Recalled;
use crate::objects::{Objects, Place};
use crate::plan::plan;
use crate::read::{Problem, Reader, SeenTarget, Sight, metadata};
use crate::settings::CleanerSettings;
use crate::world::{Action, Learned, StoredSpec, World};
use crate::{frozen, snapshot, status, validate};

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
    if first.world.learned.sight.is_some() || !matches!(first.world.recalled.compiled, Some(Ok(())))
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
    Cluster(Box<Reader>),
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
        let checked = Checked::of(spec, namespace, settings)?;
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
            Stage::Cluster(client) => Target::Cluster(Box::new(Reader {
                discovery: Discovery::new(client.clone()),
                objects: Objects::new(client.clone()),
                settings: std::sync::Arc::new(settings.clone()),
            })),
        };
        Ok(Self {
            question,
            stage,
            world: World {
                cleaner,
                checked: Ok(checked),
                recalled: Recalled::default(),
                settings: std::sync::Arc::new(settings.clone()),
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
                Ok(())
            }
            Err(failures) => Err(failures.into()),
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
            match self.read(&target).await {
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
        match snapshot::variables(&sight.targets) {
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
            doomed.push(self.read(&target).await?);
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

    async fn read(&self, target: &CheckedTarget) -> Result<SeenTarget, Problem> {
        let namespace = self.question.namespace;
        match &self.stage {
            Target::Files(objects) => {
                let files = (*objects, self.question.settings);
                files::target(files, target, namespace)
            }
            Target::Cluster(reader) => {
                let kind = reader.kind(target).await?;
                reader.target(target, &kind, namespace).await
            }
        }
    }
}

/// What a Cleaner would do.
#[derive(Clone, Debug, PartialEq)]
pub struct Rehearsal {
    /// The reason of its condition Ready, or `ConditionsMet` if it would delete now.
    pub reason: String,
    /// Why.
    pub message: String,
    /// Whether it would delete now.
    pub is_due: bool,
    /// When it would be looked at again, unless a target changes before.
    pub next: Option<Next>,
    /// The targets that conditions see.
    pub targets: Vec<TargetLine>,
    /// What each condition came to; empty if they could not be evaluated.
    pub conditions: Vec<ConditionResult>,
    /// What would be deleted if all conditions were true now, in this order; or why that is not known.
    pub deleted: Result<Vec<PlannedObject>, String>,
}

/// A target that conditions see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetLine {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// The names of its objects.
    pub objects: Vec<String>,
}

/// When a Cleaner would be looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// The time.
    pub at: Timestamp,
    /// Why then.
    pub cause: Cause,
}

/// Why a Cleaner is looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It is old enough then.
    Expiry,
    /// Time alone makes all conditions true then.
    Time,
    /// The period of its retry, to which the operator adds up to a tenth.
    Period,
}

/// How a plan ended.
enum Stop {
    /// It would publish this, and wait.
    Waits(Box<CleanerStatus>),
    /// It would publish this, and delete.
    Deletes(Box<CleanerStatus>, Vec<Notice>),
}

impl Stop {
    fn status(&self) -> &CleanerStatus {
        match self {
            Self::Waits(status) | Self::Deletes(status, _) => status,
        }
    }

    /// When it would look again.
    fn next(&self) -> Option<Timestamp> {
        self.status()
            .next_scheduled_evaluation
            .as_ref()?
            .parse()
            .ok()
    }

    /// The reason and the message.
    fn why(&self) -> (String, String) {
        if let Self::Deletes(_, notices) = self {
            let met = notices.iter().find(|it| it.reason == event::CONDITIONS_MET);
            let message = met.map(|notice| notice.note.clone());
            return (
                event::CONDITIONS_MET.to_owned(),
                message.unwrap_or_default(),
            );
        }
        let conditions = self.status().conditions.iter().flatten();
        let mut ready = conditions.filter(|it| it.type_ == condition::READY);
        let ready = ready
            .next()
            .map(|it| (it.reason.clone(), it.message.clone()));
        ready.unwrap_or_default()
    }
}

impl Next {
    /// Returns the time at which a Cleaner that waits for its time is old enough.
    fn expiry(stop: &Stop) -> Option<Self> {
        let (reason, _) = stop.why();
        let at = stop.next().filter(|_| reason == reason::NOT_EXPIRED)?;
        Some(Self {
            at,
            cause: Cause::Expiry,
        })
    }
}

/// Returns what came of a world in which the plan has stopped.
fn rehearsal(world: &World, stop: &Stop, doomed: Result<Vec<PlannedObject>, Problem>) -> Rehearsal {
    let (reason, message) = stop.why();
    let learned = &world.learned;
    let seen = learned.sight.as_ref().map(|sight| sight.targets.iter());
    let conditions = crate::status::results(world);
    Rehearsal {
        reason,
        message,
        is_due: matches!(stop, Stop::Deletes(..)),
        next: stop.next().map(|at| Next {
            at,
            cause: match learned.search.flatten() == Some(at) {
                true => Cause::Time,
                false => Cause::Period,
            },
        }),
        targets: seen.into_iter().flatten().map(line).collect(),
        conditions: conditions.unwrap_or_default(),
        deleted: doomed.map_err(|problem| problem.to_string()),
    }
}

fn line(target: &SeenTarget) -> TargetLine {
    TargetLine {
        name: target.name.clone(),
        kind: target.kind.resource.kind.clone(),
        objects: target.names().into_iter().map(str::to_owned).collect(),
    }
}

/// What is known of a Cleaner itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Its UID.
    pub uid: Option<String>,
    /// Whether it is being deleted.
    pub is_deleted: bool,
}

/// Reads a Cleaner from a cluster; none if the cluster has none of this name.
///
/// # Errors
///
/// Why it cannot be read, for people.
pub async fn live(client: Client, namespace: &str, name: &str) -> Result<Option<Live>, String> {
    // Both come from a file, and become parts of a URL.
    if dns_label(namespace).is_err() || dns_subdomain(name).is_err() {
        return Err("it or its namespace has a name that no object has".to_owned());
    }
    let kind = ServedKind::namespaced(Cleaner::resource());
    let place = Place {
        kind: &kind,
        namespace: Some(namespace),
        name,
    };
    let found = Objects::new(client).get(place).await;
    let found = found.map_err(|error| error.to_string())?;
    Ok(found.map(|cleaner| Live {
        created: metadata(&cleaner, "creationTimestamp").parse().ok(),
        uid: Some(metadata(&cleaner, "uid").to_owned()),
        is_deleted: !metadata(&cleaner, "deletionTimestamp").is_empty(),
    }))
}

#[cfg(test)]
mod tests;
