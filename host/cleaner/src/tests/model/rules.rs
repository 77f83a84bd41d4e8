//! The rules of a deletion that no history may break: what ARCHITECTURE.md says of Cleaners, and what CLEANER.md promises.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use podloom_api::names::cleaner::{annotation, reason};
use podloom_model::store::{Store, Stored};
use podloom_model::{RestRule, Rule, Write};
use serde_json::Value;

use super::around::{LABELLED, has_finalizer, is_labelled, is_protected};
use super::{CLEANERS, MAPS};

/// What was written down to be deleted, by whom, and since when. Later writes cannot change it.
#[derive(Clone, Default, Hash)]
pub(super) struct Plans(Vec<Plan>);

#[derive(Clone, Hash)]
struct Plan {
    cleaner: String,
    objects: Vec<String>,
    began: Option<Timestamp>,
}

impl Plans {
    /// Notes what a write changed.
    pub(super) fn note(&mut self, write: &Write<'_>) {
        if let Some((before, after)) = committed(write) {
            let began = after.value["status"]["deletion"]["phaseStartedAt"].as_str();
            self.0.push(Plan {
                cleaner: before.uid().to_owned(),
                objects: planned(after).into_iter().map(str::to_owned).collect(),
                began: began.and_then(|began| began.parse().ok()),
            });
        }
    }

    /// The last plan of a Cleaner. It has a second one if somebody has removed its finalizer.
    fn of(&self, cleaner: &Stored) -> Option<&Plan> {
        self.0.iter().rev().find(|it| it.cleaner == cleaner.uid())
    }
}

/// The rules about each write.
pub(super) const OF_WRITES: &[(&str, Rule<Plans>)] = &[
    ("a_plan_is_of_the_stored_spec", a_plan_is_of_the_stored_spec),
    ("the_finalizer_comes_first", the_finalizer_comes_first),
    ("a_plan_stays", a_plan_stays),
    ("what_became_of_it_is_final", what_became_of_it_is_final),
    (
        "what_is_said_of_objects_is_true",
        what_is_said_of_objects_is_true,
    ),
    ("a_cleaner_goes_for_its_plan", a_cleaner_goes_for_its_plan),
    (
        "only_what_is_planned_is_deleted",
        only_what_is_planned_is_deleted,
    ),
    ("the_cleaner_is_deleted_first", the_cleaner_is_deleted_first),
    ("what_is_protected_stays", what_is_protected_stays),
    ("the_finalizer_goes_last", the_finalizer_goes_last),
];

/// The rules about a state at rest.
pub(super) const AT_REST: &[(&str, RestRule)] = &[
    ("nothing_is_left", nothing_is_left),
    ("what_is_shown_is_true", what_is_shown_is_true),
];

fn objects(cleaner: &Stored) -> &[Value] {
    let objects = cleaner.value["status"]["deletion"]["objects"].as_array();
    objects.map_or(&[], Vec::as_slice)
}

/// The UIDs of what a status says is deleted.
fn planned(cleaner: &Stored) -> Vec<&str> {
    let uids = objects(cleaner).iter().map(|it| it["uid"].as_str());
    uids.map(Option::unwrap_or_default).collect()
}

/// What there is of a planned object.
fn left(store: &Store, planned: &Value) -> Option<Arc<Stored>> {
    let map = store.get(MAPS, planned["name"].as_str()?)?;
    (planned["uid"] == map.uid()).then(|| Arc::clone(map))
}

fn has_plan(cleaner: &Stored) -> bool {
    cleaner.value["status"]["deletion"].is_object()
}

/// The Cleaner before and after the write with which its deletion begins.
fn committed<'a>(write: &'a Write<'_>) -> Option<(&'a Stored, &'a Stored)> {
    let (before, after) = write.patched(CLEANERS)?;
    let after = after.filter(|after| !has_plan(before) && has_plan(after))?;
    Some((before, after))
}

fn a_plan_is_of_the_stored_spec(write: &Write<'_>, _: &Plans) -> Option<String> {
    let (before, after) = committed(write)?;
    let spec = &before.value["spec"];
    let ttl = spec["ttl"].as_str()?.trim_end_matches('s').parse().ok()?;
    let created: Timestamp = before.meta("creationTimestamp").parse().ok()?;
    let is_young = write.store.now < created + SignedDuration::from_secs(ttl);
    let targets = spec["targets"].as_array().map_or(0, Vec::len);
    let mut names = objects(after).iter().map(|it| &it["name"]);
    let is_more = names.any(|it| *it != before.meta("name") && (targets < 2 || *it != LABELLED));
    let why = match () {
        () if spec["dryRun"] == true => "is a dry run",
        () if is_young => "is too young",
        () if before.is_deleted() => "is being deleted by somebody",
        () if is_more => "does not select all of it",
        () => return None,
    };
    Some(format!("Cleaner {} {why}", before.uid()))
}

fn the_finalizer_comes_first(write: &Write<'_>, _: &Plans) -> Option<String> {
    let (before, _) = committed(write)?;
    (!has_finalizer(before)).then(|| "a deletion begins without it".to_owned())
}

fn a_plan_stays(write: &Write<'_>, _: &Plans) -> Option<String> {
    let (before, after) = write.patched(CLEANERS)?;
    let after = after.filter(|_| has_plan(before))?;
    // Somebody removed the finalizer or wrote the list, so the operator decides again.
    let is_dropped = !has_finalizer(before) && !before.is_deleted() && !has_plan(after);
    let is_changed = planned(before) != planned(after) || !has_plan(after);
    (is_changed && !is_dropped).then(|| {
        let (before, after) = (planned(before), planned(after));
        format!("{before:?} became {after:?}")
    })
}

fn what_became_of_it_is_final(write: &Write<'_>, _: &Plans) -> Option<String> {
    let (before, after) = write.patched(CLEANERS)?;
    let after = after.filter(|after| has_plan(after))?;
    let mut pairs = objects(before).iter().zip(objects(after));
    let (before, after) = pairs.find(|(before, after)| {
        let (before, after) = (&before["outcome"], &after["outcome"]);
        let is_gone = before == "Accepted" && after == "Gone";
        !before.is_null() && before != after && !is_gone
    })?;
    Some(format!("{before} became {after}"))
}

fn what_is_said_of_objects_is_true(write: &Write<'_>, _: &Plans) -> Option<String> {
    let (_, after) = write.patched(CLEANERS)?;
    objects(after?).iter().find_map(|object| {
        let left = left(write.store, object)?;
        let is_true = match object["outcome"].as_str() {
            Some("Accepted") => left.is_deleted(),
            Some("Gone" | "Replaced") => false,
            _ => true,
        };
        (!is_true).then(|| format!("{object}, and there is {}", left.value))
    })
}

fn a_cleaner_goes_for_its_plan(write: &Write<'_>, plans: &Plans) -> Option<String> {
    let cleaner = write.deleted(CLEANERS)?;
    let is_planned = plans.of(cleaner).is_some();
    (!is_planned).then(|| format!("Cleaner {} has no plan", cleaner.uid()))
}

fn only_what_is_planned_is_deleted(write: &Write<'_>, plans: &Plans) -> Option<String> {
    let map = write.deleted(MAPS)?;
    let mut all = plans.0.iter().flat_map(|it| &it.objects);
    let is_planned = all.any(|it| it == map.uid());
    (!is_planned).then(|| format!("nobody wanted to delete {}", map.uid()))
}

fn the_cleaner_is_deleted_first(write: &Write<'_>, _: &Plans) -> Option<String> {
    let map = write.deleted(MAPS)?;
    let cleaners = write.store.all(CLEANERS);
    let mut of_it = cleaners
        .values()
        .filter(|it| planned(it).contains(&map.uid()));
    // One that is gone had to be deleted before.
    let is_first = of_it.clone().next().is_none() || of_it.any(|it| it.is_deleted());
    (!is_first).then(|| format!("{} is deleted before", map.uid()))
}

fn what_is_protected_stays(write: &Write<'_>, _: &Plans) -> Option<String> {
    let map = write.deleted(MAPS).filter(|_| !write.is_late())?;
    // Somebody may have protected it after it was looked at, in the same step.
    let before = write.store.get(MAPS, map.meta("name"))?;
    let is_same = before.uid() == map.uid();
    (is_same && is_protected(before)).then(|| format!("{} is protected", map.uid()))
}

fn the_finalizer_goes_last(write: &Write<'_>, plans: &Plans) -> Option<String> {
    let (before, after) = write.patched(CLEANERS)?;
    let goes = has_finalizer(before) && !after.is_some_and(has_finalizer);
    let is_abandoned = before.value["metadata"]["annotations"][annotation::ABANDON] == "true";
    if !goes || is_abandoned || !has_plan(before) {
        return None;
    }
    if !before.is_deleted() {
        return Some("nothing of its plan is done".to_owned());
    }
    let began = plans.of(before)?.began?;
    let waits = before.value["spec"]["deletion"]["waitForGone"] == true;
    let may_stay = !waits || began + SignedDuration::from_mins(1) <= write.store.now;
    objects(before).iter().find_map(|object| {
        let is_right = match object["outcome"].as_str() {
            Some("Accepted") => may_stay || left(write.store, object).is_none(),
            Some("Skipped") => object["message"].is_string(),
            outcome => outcome.is_some(),
        };
        (!is_right).then(|| format!("{object} is not done"))
    })
}

fn nothing_is_left(store: &Store) -> Option<String> {
    let cleaners = store.all(CLEANERS);
    let mut all = cleaners.values();
    let left = all.find(|it| it.is_deleted() || has_finalizer(it) || has_plan(it))?;
    Some(format!(
        "Cleaner {} does not go: {}",
        left.uid(),
        left.value
    ))
}

/// All of them are old enough by now.
fn what_is_shown_is_true(store: &Store) -> Option<String> {
    let (cleaners, maps) = (store.all(CLEANERS), store.all(MAPS));
    cleaners.values().find_map(|cleaner| {
        let spec = &cleaner.value["spec"];
        let is_target = |map: &Stored| {
            let by_label = spec["targets"][1].is_object() && is_labelled(map);
            map.meta("name") == cleaner.meta("name") || by_label
        };
        let targets = maps.values().filter(|it| is_target(it));
        let ready = &cleaner.value["status"]["conditions"][0];
        let said = ready["message"].as_str().unwrap_or_default();
        let is_true = if targets.clone().any(|it| is_protected(it)) {
            ready["reason"] == reason::TARGET_PROTECTED
        } else {
            let all = match targets.count() {
                0 => "no object".to_owned(),
                1 => "1 object (ConfigMap: 1)".to_owned(),
                more => format!("{more} objects (ConfigMap: {more})"),
            };
            let would = format!("all conditions are true; {all} would be deleted");
            ready["reason"] == reason::DRY_RUN && spec["dryRun"] == true && said.starts_with(&would)
        };
        (!is_true).then(|| format!("Cleaner {} shows {ready}", cleaner.uid()))
    })
}
