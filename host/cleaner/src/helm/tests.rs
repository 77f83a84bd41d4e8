mod setting;

use jiff::Timestamp;
use podloom_api::{HelmProgress, HelmStep};
use podloom_helm::Status;
use podloom_scripted::difference;
use serde::Serialize;
use serde_json::{Value, json};

use self::setting::{Case, Cluster};
use super::{HelmAction, HelmLearned, HelmRules, HelmWorld, Step, learn, step};

/// More than one pass ever takes.
const STEPS_MAX: usize = 60;

/// What a pass did.
#[derive(Debug, PartialEq, Serialize)]
struct Pass {
    steps: Vec<Done>,
    then: Step,
    progress: HelmProgress,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Done {
    Act(HelmAction),
    Write(Box<HelmProgress>),
}

/// Makes a pass as the plan of a deletion does: what has changed is written first.
fn pass(
    cluster: &mut Cluster,
    rules: Option<HelmRules>,
    mut progress: HelmProgress,
    now: Timestamp,
) -> Pass {
    let mut written = progress.clone();
    let mut learned = HelmLearned::default();
    let mut steps = Vec::new();
    for _ in 0..STEPS_MAX {
        if progress != written {
            written = progress.clone();
            steps.push(Done::Write(Box::new(progress.clone())));
            continue;
        }
        let world = HelmWorld {
            namespace: "demo",
            cleaner: "cleaner-uid",
            rules,
            progress: &progress,
            learned: &learned,
        };
        match step(&world, now) {
            Step::Act(action) => {
                check(&world, &action);
                let outcome = cluster.outcome(&world, &action);
                steps.push(Done::Act(action));
                learn(&mut progress, &mut learned, outcome);
            }
            Step::Record(next) => {
                assert_ne!(*next, progress, "it writes what is written");
                progress = *next;
            }
            then => {
                return Pass {
                    steps,
                    then,
                    progress,
                };
            }
        }
    }
    unreachable!("the pass has no end: {steps:#?}")
}

/// A pass as a snapshot shows it: of each progress, what differs from the one before it.
fn shown(before: &HelmProgress, pass: &Pass) -> Value {
    let value = |progress: &HelmProgress| serde_json::to_value(progress).unwrap();
    let mut written = value(before);
    let mut steps = Vec::new();
    for done in &pass.steps {
        steps.push(match done {
            Done::Write(after) => {
                let before = std::mem::replace(&mut written, value(after));
                json!({ "write": difference(&before, &written) })
            }
            Done::Act(HelmAction::GiveUp(after)) => {
                json!({ "act": { "GiveUp": difference(&written, &value(after)) } })
            }
            done => serde_json::to_value(done).unwrap(),
        });
    }
    let end = value(&pass.progress);
    assert_eq!(end, written, "nothing is left to be written");
    json!({ "steps": steps, "then": pass.then })
}

/// What holds whatever happens.
fn check(world: &HelmWorld<'_>, action: &HelmAction) {
    let HelmWorld {
        progress, learned, ..
    } = world;
    assert!(!learned.has_failed, "nothing is done after a failure");
    assert!(world.rules.is_some());
    let is_marked = learned
        .chart
        .as_ref()
        .is_some_and(|chart| chart.status() == Status::Uninstalling);
    match action {
        HelmAction::CreateHook => {
            let run = progress.hook.as_ref().expect("the run is written first");
            assert_eq!(run.uid, None, "it was created before");
        }
        HelmAction::Mark => {
            assert_eq!(progress.step, HelmStep::PreDeleteHooks);
            let runs_hooks = world.rules.is_some_and(|rules| !rules.disables_hooks);
            assert!(progress.hook.is_none() || !runs_hooks);
        }
        HelmAction::DeleteObjects(_) => {
            assert_eq!(progress.step, HelmStep::Manifest);
            assert!(is_marked || learned.is_marked, "the record says it first");
        }
        HelmAction::Purge => assert_eq!(progress.step, HelmStep::Records),
        _ => {}
    }
}

#[test]
fn a_pass_does_what_the_file_name_says() {
    insta::glob!("cases/*.yaml", |path| {
        let mut case = Case::read(&std::fs::read_to_string(path).unwrap());
        let before = case.progress.clone();
        let pass = pass(&mut case.cluster, case.rules, case.progress, case.now);
        let pass = shown(&before, &pass);
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_yaml_snapshot!("pass", pass);
        });
    });
}

/// A new process reads what was written, however far the pass came, and no hook whose object is known runs again.
#[test]
fn a_new_process_goes_on_where_the_old_one_ended() {
    insta::glob!("cases/*.yaml", |path| {
        let text = std::fs::read_to_string(path).unwrap();
        let mut case = Case::read(&text);
        let first = pass(&mut case.cluster, case.rules, case.progress, case.now);
        for (place, done) in first.steps.iter().enumerate() {
            let Done::Write(written) = done else { continue };
            let mut again = Case::read(&text);
            again.cluster.go_on(&first.steps[..place]);
            let second = pass(
                &mut again.cluster,
                again.rules,
                (**written).clone(),
                again.now,
            );
            assert!(second.progress.step >= written.step || second.then == Step::Retry);
            let begins_again = second
                .steps
                .iter()
                .any(|done| matches!(done, Done::Write(progress) if progress.step < written.step));
            assert!(!begins_again, "{second:#?}");
        }
    });
}

/// Cuts a pass off after each of its actions, and lets another one go on: it ends as if nothing had happened.
#[test]
fn a_crash_after_any_action_changes_nothing_of_the_end() {
    let text = include_str!("tests/whole.yaml");
    let mut case = Case::read(text);
    let whole = run(&mut case, usize::MAX);
    assert!(whole.contains(&"purge".to_owned()), "{whole:?}");
    for crash in 1..whole.len() {
        let mut case = Case::read(text);
        let done = run(&mut case, crash);
        assert_eq!(
            effects(&done),
            effects(&whole),
            "a crash after {crash} actions"
        );
    }
}

/// What was done, without what may be done twice.
fn effects(done: &[String]) -> Vec<String> {
    let mut effects: Vec<String> = done.to_vec();
    effects.retain(|it| it != "mark" && !it.starts_with("delete objects") && it != "tidy");
    effects
}

/// Runs passes to the end, the first of which is cut off after so many actions, before anything of the last one is written.
fn run(case: &mut Case, crash: usize) -> Vec<String> {
    let mut progress = case.progress.clone();
    let mut done = Vec::new();
    let mut now = case.now;
    let mut has_crashed = false;
    for _ in 0..200 {
        let mut learned = HelmLearned::default();
        let mut unwritten = progress.clone();
        loop {
            if unwritten != progress {
                progress = unwritten.clone();
                continue;
            }
            let world = HelmWorld {
                namespace: "demo",
                cleaner: "cleaner-uid",
                rules: case.rules,
                progress: &progress,
                learned: &learned,
            };
            match step(&world, now) {
                Step::Act(action) => {
                    check(&world, &action);
                    let outcome = case.cluster.live(&world, &action, &mut done);
                    if done.len() == crash && !has_crashed {
                        has_crashed = true;
                        break;
                    }
                    learn(&mut unwritten, &mut learned, outcome);
                }
                Step::Record(next) => unwritten = *next,
                Step::Wait(until) => {
                    now = now.max(until);
                    case.cluster.pass_time();
                    break;
                }
                Step::Retry => break,
                Step::Done(_) => return done,
            }
        }
    }
    unreachable!("it has no end: {done:#?}")
}
