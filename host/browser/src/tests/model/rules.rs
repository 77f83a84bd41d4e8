//! The rules of a session that no history may break: what ARCHITECTURE.md says of Browsers, and what users rely on.

use podloom_api::names;
use podloom_model::process::Heard;
use podloom_model::store::{Store, Stored, written};
use podloom_model::{RestRule, Rule, Sent, Write};

use super::{BROWSERS, CONFIGS, FORGED, PODS, RELEASED};

/// What is known of the pods that the operator made.
#[derive(Clone, Default, Hash)]
pub(super) struct Pods {
    /// Pods that were made, by their UID and the Browser's.
    made: Vec<(String, String)>,
    /// Those that came from a request that was on its way for long, when a pass had looked for the pod already, or the Browser was deleted
    /// or had another pod: what the operator knew was true. Garbage collection deletes those that it does not see in time.
    unforeseen: Vec<String>,
    /// Those whose containers still run though the API server has no pod any more.
    running: Vec<(String, String)>,
}

impl Pods {
    /// Notes what a write changed.
    pub(super) fn note(&mut self, write: &Write<'_>) {
        let with_owner = |pod: &Stored| (pod.uid().to_owned(), pod.controller().to_owned());
        if let Some(pod) = write.created(PODS) {
            self.made.push(with_owner(pod));
            let is_settled = write
                .store
                .get(BROWSERS, pod.meta("name"))
                .is_none_or(|it| it.is_deleted() || it.value["status"]["podUID"].is_string());
            if write.is_late() && (is_settled || write.is_at_work) {
                self.unforeseen.push(pod.uid().to_owned());
            }
        }
        if let Some((before, after)) = taken(write) {
            self.made.push(with_owner(after));
            let is_settled = browser_of(write.store, after)
                .is_none_or(|it| it.is_deleted() || it.value["status"]["podUID"].is_string());
            if write.is_late()
                && (is_settled || write.is_at_work || has_other(write, before, after))
            {
                self.unforeseen.push(after.uid().to_owned());
            }
        }
        if let Some(pod) = write.deleted(PODS)
            && write.effect.after.is_none()
            && matches!(pod.phase(), "Running" | "Unknown")
        {
            self.running.push(with_owner(pod));
        }
    }
}

/// The rules about each write.
pub(super) const OF_WRITES: &[(&str, Rule<Pods>)] = &[
    ("a_session_has_one_pod", a_session_has_one_pod),
    ("a_session_takes_one_pod", a_session_takes_one_pod),
    ("a_pod_is_of_one_session", a_pod_is_of_one_session),
    (
        "nothing_is_made_for_what_is_gone",
        nothing_is_made_for_what_is_gone,
    ),
    ("the_finalizer_comes_first", the_finalizer_comes_first),
    ("the_finalizer_goes_last", the_finalizer_goes_last),
    ("an_end_is_final", an_end_is_final),
    ("only_own_pods_are_taken", only_own_pods_are_taken),
    ("only_own_pods_are_deleted", only_own_pods_are_deleted),
    (
        "an_end_is_shown_before_the_pod_goes",
        an_end_is_shown_before_the_pod_goes,
    ),
    ("what_runs_gets_its_grace", what_runs_gets_its_grace),
];

/// The rules about a state at rest.
pub(super) const AT_REST: &[(&str, RestRule)] = &[
    ("what_is_shown_is_true", what_is_shown_is_true),
    ("nothing_is_left", nothing_is_left),
];

/// Whether a time is over by as long as a pod may take to go.
fn is_overdue(store: &Store, deleted: &Stored) -> bool {
    let asked = deleted.meta("deletionTimestamp");
    let grace = deleted.value["metadata"]["deletionGracePeriodSeconds"].as_i64();
    let waited = super::timeouts().pod_deletion.as_secs().cast_signed() + grace.unwrap_or_default();
    let until = store.now - jiff::SignedDuration::from_secs(waited);
    deleted.is_deleted() && asked <= written(until).as_str()
}

/// Whether somebody else made this pod in the name of a Browser: it counts as the Browser's.
fn is_forged(store: &Store, pod: &str) -> bool {
    store.get(FORGED, pod).is_some()
}

/// The Browser whose pod this is. A warm pod that it has taken has another name.
fn browser_of<'a>(store: &'a Store, pod: &Stored) -> Option<&'a Stored> {
    let owner = pod.value["metadata"]["ownerReferences"][0]["name"].as_str();
    let browser = store.get(BROWSERS, owner.unwrap_or_default())?;
    (browser.uid() == pod.controller()).then_some(&**browser)
}

/// A warm pod before and after a Browser has taken it.
fn taken<'a>(write: &'a Write<'_>) -> Option<(&'a Stored, &'a Stored)> {
    let (before, after) = write.patched(PODS)?;
    let after = after?;
    (before.controller() != after.controller()).then_some((before, after))
}

/// Whether the Browser that takes a pod has another one already.
fn has_other(write: &Write<'_>, before: &Stored, after: &Stored) -> bool {
    let pods = write.store.all(PODS);
    pods.values().any(|other| {
        other.controller() == after.controller()
            && other.uid() != before.uid()
            && !is_forged(write.store, other.uid())
    })
}

fn has_finalizer(browser: &Stored) -> bool {
    browser
        .finalizers()
        .any(|it| it == names::finalizer::BROWSER)
}

fn has_ended(browser: &Stored) -> bool {
    matches!(browser.phase(), "Failed" | "Succeeded")
}

fn a_session_has_one_pod(write: &Write<'_>, pods: &Pods) -> Option<String> {
    let pod = write.created(PODS).filter(|_| !write.is_late())?;
    let mut running = pods.running.iter();
    if let Some((other, _)) = running.find(|(_, owner)| owner == pod.controller()) {
        return Some(format!("containers of its pod {other} still run"));
    }
    let noted = &browser_of(write.store, pod)?.value["status"]["podUID"];
    noted
        .is_string()
        .then(|| format!("its status has the pod {noted}"))
}

fn a_session_takes_one_pod(write: &Write<'_>, _: &Pods) -> Option<String> {
    let (before, after) = taken(write).filter(|_| !write.is_late())?;
    let noted = &browser_of(write.store, after)?.value["status"]["podUID"];
    if noted.is_string() && *noted != after.uid() {
        return Some(format!("its status has the pod {noted}"));
    }
    has_other(write, before, after).then(|| "it has another one".to_owned())
}

fn a_pod_is_of_one_session(write: &Write<'_>, _: &Pods) -> Option<String> {
    let (before, _) = taken(write)?;
    let waits = before.value["metadata"]["labels"][names::label::WARM].is_string();
    (!waits).then(|| format!("pod {} was {}'s", before.uid(), before.controller()))
}

fn nothing_is_made_for_what_is_gone(write: &Write<'_>, _: &Pods) -> Option<String> {
    let taken = || taken(write).map(|(_, after)| after);
    let pod = write.created(PODS).or_else(taken)?;
    let is_known = write.is_late() || write.sent == Sent::InTime(Heard::Lives);
    (!is_known).then(|| {
        format!(
            "the API server did not say that Browser {} lives",
            pod.controller()
        )
    })
}

fn the_finalizer_comes_first(write: &Write<'_>, _: &Pods) -> Option<String> {
    let taken = || taken(write).map(|(_, after)| after);
    let browser = browser_of(write.store, write.created(PODS).or_else(taken)?)?;
    let is_released = write.store.get(RELEASED, browser.uid()).is_some();
    (!has_finalizer(browser) && !is_released && !write.is_late())
        .then(|| "a pod was made without it".to_owned())
}

fn the_finalizer_goes_last(write: &Write<'_>, pods: &Pods) -> Option<String> {
    let (before, after) = write.patched(BROWSERS)?;
    if !has_finalizer(before) || after.is_some_and(has_finalizer) {
        return None;
    }
    let all = write.store.all(PODS);
    let left = all.values().find(|pod| {
        pod.controller() == before.uid()
            && !is_overdue(write.store, before)
            && !is_forged(write.store, pod.uid())
            && !pods.unforeseen.iter().any(|it| it == pod.uid())
    })?;
    Some(format!("its pod {} is there", left.uid()))
}

fn an_end_is_final(write: &Write<'_>, _: &Pods) -> Option<String> {
    let (before, after) = write.patched(BROWSERS)?;
    let after = after?;
    let is_changed = before.uid() == after.uid()
        && has_ended(before)
        && before.value["status"] != after.value["status"];
    is_changed.then(|| format!("{} became {}", before.phase(), after.phase()))
}

fn only_own_pods_are_taken(write: &Write<'_>, pods: &Pods) -> Option<String> {
    let after = write.patched(BROWSERS)?.1?;
    let pod = after.value["status"]["podUID"].as_str()?;
    let is_own = pods
        .made
        .iter()
        .any(|(it, owner)| it == pod && owner == after.uid());
    (!is_own && !is_forged(write.store, pod))
        .then(|| format!("Browser {} has pod {pod}", after.uid()))
}

fn only_own_pods_are_deleted(write: &Write<'_>, pods: &Pods) -> Option<String> {
    let pod = write.deleted(PODS)?;
    let is_own = pods.made.iter().any(|(it, _)| it == pod.uid());
    (!is_own && !is_forged(write.store, pod.uid()))
        .then(|| format!("pod {} is somebody else's", pod.uid()))
}

fn an_end_is_shown_before_the_pod_goes(write: &Write<'_>, _: &Pods) -> Option<String> {
    let pod = write.deleted(PODS)?;
    let browser = browser_of(write.store, pod)?;
    let goes = browser.is_deleted() || browser.phase() == "Failed";
    (!goes).then(|| {
        format!(
            "Browser {} lives, and its phase is {}",
            browser.uid(),
            browser.phase()
        )
    })
}

fn what_runs_gets_its_grace(write: &Write<'_>, _: &Pods) -> Option<String> {
    let pod = write.deleted(PODS)?;
    let is_forced = write.effect.asked.body["gracePeriodSeconds"] == 0;
    let runs = matches!(pod.phase(), "Running" | "Unknown");
    let browser = browser_of(write.store, pod)?;
    let may = is_overdue(write.store, pod)
        || is_overdue(write.store, browser)
        || browser.phase() == "Failed";
    (is_forced && runs && !may).then(|| format!("pod {} runs", pod.uid()))
}

fn what_is_shown_is_true(store: &Store) -> Option<String> {
    let browsers = store.all(BROWSERS);
    browsers.values().find_map(|browser| {
        let name = browser.value["status"]["podName"].as_str();
        let Some(pod) = store.get(PODS, name.unwrap_or(browser.meta("name"))) else {
            return Some(format!(
                "Browser {} is {}, and has no pod",
                browser.uid(),
                browser.phase()
            ));
        };
        let status = &browser.value["status"];
        let is_true = pod.controller() == browser.uid()
            && browser.phase() == pod.phase()
            && status["podUID"] == *pod.uid()
            && status["podIP"] == pod.value["status"]["podIP"];
        (!is_true).then(|| {
            format!(
                "pod {} is {}, Browser {} shows {status}",
                pod.uid(),
                pod.phase(),
                browser.uid()
            )
        })
    })
}

fn nothing_is_left(store: &Store) -> Option<String> {
    let browsers = store.all(BROWSERS);
    if let Some(deleted) = browsers.values().find(|it| it.is_deleted()) {
        return Some(format!(
            "Browser {} is deleted and does not go",
            deleted.uid()
        ));
    }
    let pods = store.all(PODS);
    let waits = |pod: &Stored| {
        store
            .get(CONFIGS, "config")
            .is_some_and(|it| it.uid() == pod.controller())
    };
    let mut owned = pods
        .values()
        .filter(|pod| !pod.controller().is_empty() && !waits(pod));
    let left = owned.find(|pod| browser_of(store, pod).is_none())?;
    Some(format!("pod {} has no Browser", left.uid()))
}
