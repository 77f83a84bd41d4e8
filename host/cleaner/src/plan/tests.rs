mod setting;
mod simulated;

use jiff::{SignedDuration, Timestamp};
use podloom_engine::plan::Then;

use self::setting::{Case, time, world};
use self::simulated::{Pass, pass};
use crate::memory::Recalled;
use crate::world::Action;

/// Calls a check with each case.
fn each_case(check: impl Fn(Case)) {
    insta::glob!("cases/*.yaml", |path| {
        check(Case::read(&std::fs::read_to_string(path).unwrap()));
    });
}

#[test]
fn a_pass_does_what_the_file_name_says() {
    insta::glob!("cases/*.yaml", |path| {
        let case = Case::read(&std::fs::read_to_string(path).unwrap());
        let (pass, _) = pass(case.world, case.now, &case.cluster);
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_yaml_snapshot!("pass", pass);
        });
    });
}

fn writes(pass: &Pass) -> Vec<&Action> {
    let is_write = |action: &&Action| {
        matches!(
            action,
            Action::WriteStatus(_) | Action::SetMetadata(_) | Action::Commit(_)
        )
    };
    pass.steps
        .iter()
        .map(|step| &step.action)
        .filter(is_write)
        .collect()
}

/// Whatever a pass wrote, its event starts no evaluation and no other write.
#[test]
fn the_pass_after_a_pass_writes_nothing() {
    each_case(|case| {
        let (first, mut world) = pass(case.world, case.now, &case.cluster);
        if first.then.is_none() {
            return;
        }
        world.learned = Default::default();
        let (second, _) = pass(world, case.now, &case.cluster);
        assert_eq!(writes(&second), Vec::<&Action>::new());
        assert!(second.steps.iter().all(|step| step.notices.is_empty()));
    });
}

/// A new process knows only what the API server has. It may look once more, and it finds what was published.
#[test]
fn the_first_pass_of_a_new_process_writes_nothing() {
    each_case(|case| {
        let (first, before) = pass(case.world, case.now, &case.cluster);
        if first.then.is_none() || before.cleaner.status.is_none() {
            return;
        }
        let recalled = Recalled::default();
        let world = world(before.cleaner, recalled, false, 0.05);
        let (second, _) = pass(world, case.now, &case.cluster);
        assert_eq!(writes(&second), Vec::<&Action>::new());
    });
}

fn then(text: &str) -> Then {
    let case = Case::read(text);
    pass(case.world, case.now, &case.cluster).0.then.unwrap()
}

#[track_caller]
fn check_then(text: &str, expected: &str) {
    assert_eq!(then(text), Then::At(time(expected)));
}

#[test]
fn a_longer_ttl_waits_longer() {
    check_then("cleaner: { spec: { ttl: 5h } }", "2026-01-01T05:00:00Z");
    check_then("cleaner: { spec: { ttl: 2h1m } }", "2026-01-01T02:01:00Z");
}

/// Whole days of events, one each 100 milliseconds: a look each second, and the planned look is not put off.
#[test]
fn busy_targets_are_looked_at_once_a_second() {
    let case = Case::read("outcomes: ['false']");
    let (_, mut world) = pass(case.world, case.now, &case.cluster);
    let start = case.now;
    let mut looks: Vec<Timestamp> = Vec::new();
    let mut statuses = 0;
    for tick in 1..600 {
        let now = start + SignedDuration::from_millis(tick * 100);
        world.recalled.events += 1;
        let (done, after) = pass(world, now, &case.cluster);
        world = after;
        statuses += writes(&done).len();
        let is_look = |step: &&simulated::Step| matches!(step.action, Action::Look(_));
        if done.steps.iter().any(|step| is_look(&step)) {
            looks.push(now);
        } else {
            // The one that comes after the last event.
            let last = looks.last().copied().unwrap_or(start);
            assert_eq!(
                done.then,
                Some(Then::At(last + SignedDuration::from_secs(1)))
            );
        }
    }
    assert_eq!(looks.len(), 59);
    assert_eq!(statuses, 0, "the planned look stays");
}

#[test]
fn a_clock_that_is_put_back_does_not_put_off_a_look() {
    for events in [0, 1] {
        let looked = "at: 2026-01-01T09:00:00Z, due: 2026-01-01T09:10:00Z";
        let text = format!("looked: {{ {looked}, events: {events} }}\noutcomes: ['false']");
        let case = Case::read(&text);
        let (done, _) = pass(case.world, case.now, &case.cluster);
        let is_look = |step: &simulated::Step| matches!(step.action, Action::Look(_));
        assert!(done.steps.iter().any(is_look));
    }
}

#[test]
fn conditions_are_compiled_once_for_each_generation() {
    let case = Case::read("outcomes: ['false']");
    let (first, world) = pass(case.world, case.now, &case.cluster);
    assert!(matches!(first.steps[0].action, Action::Compile(_)));
    assert_eq!(world.recalled.compiled, Some(Ok(())));
}

/// The API server gives each object a time. Without one, its age is not known.
#[test]
fn a_cleaner_without_a_time_is_never_old_enough() {
    let case = Case::read("cleaner: { metadata: { creationTimestamp: null } }");
    let (done, world) = pass(case.world, case.now, &case.cluster);
    let is_look = |step: &simulated::Step| matches!(step.action, Action::Look(_));
    assert!(!done.steps.iter().any(is_look), "{done:?}");
    let conditions = world.cleaner.status.unwrap().conditions.unwrap();
    assert_eq!(conditions[0].reason, "NotExpired");
}

/// Their list would not fit into the status, so the deletion could never begin: that must be said, and leave no finalizer.
#[test]
fn too_many_long_names_are_refused() {
    let pods: Vec<String> = (0..2000).map(|number| format!("{number:0>250}")).collect();
    let text = format!(
        "cleaner: {{ spec: {{ deletion: {{ maxObjects: 2000 }} }} }}\ntargets: [{{ name: web, pods: ['{}'] }}]",
        pods.join("', '")
    );
    let case = Case::read(&text);
    let (done, world) = pass(case.world, case.now, &case.cluster);
    assert!(matches!(writes(&done)[..], [Action::WriteStatus(_)]));
    let conditions = world.cleaner.status.unwrap().conditions.unwrap();
    assert_eq!(conditions[0].reason, "BlastRadiusExceeded");
    assert_eq!(
        conditions[0].message,
        "2000 objects would be deleted, and a list of them does not fit into the status. Select fewer"
    );
}
