//! The rules of a session that no history may break: what ARCHITECTURE.md says of Browsers, and what users rely on.

use podloom_api::names;
use podloom_scripted::search::Broken;
use podloom_scripted::store::{Effect, Store, Stored, written};

use super::rig::{self, Heard, WATCHED};

/// How a write came to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// Its sender waits for the answer, and had heard this of the Browser.
    InTime(Heard),
    /// It was on its way for so long that nobody waits.
    Late,
}

/// A write that the API server has carried out, and what was before.
pub(super) struct Carried<'a> {
    pub(super) effect: &'a Effect,
    /// What the API server had before.
    pub(super) store: &'a Store,
    pub(super) sent: Sent,
    /// Pods whose containers still run though the API server has no pod any more, by their UID and the Browser's.
    pub(super) running: &'a [(String, String)],
    /// Pods that were made, by their UID and the Browser's.
    pub(super) made: &'a [(String, String)],
    /// Those of which a pass that was under way could not know: they came from a request that was on its way for long.
    pub(super) unforeseen: &'a [String],
}

/// Returns why a rule is broken, if it is.
type Rule = fn(&Carried<'_>) -> Option<String>;

/// Returns why a rule of a state at rest is broken, if it is.
type RestRule = fn(&Store) -> Option<String>;

/// The rules about each write.
pub(super) const OF_WRITES: [(&str, Rule); 9] = [
    ("a_session_has_one_pod", a_session_has_one_pod),
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
pub(super) const AT_REST: [(&str, RestRule); 2] = [
    ("what_is_shown_is_true", what_is_shown_is_true),
    ("nothing_is_left", nothing_is_left),
];

/// The rules that the search itself checks.
pub(super) const OF_THE_SEARCH: [&str; 2] = ["it_settles", "at_rest_nothing_is_written"];

/// Checks a write.
pub(super) fn check(carried: &Carried<'_>) -> Result<(), Broken> {
    let mut rules = OF_WRITES.iter();
    let broken = rules.find_map(|(rule, broken)| {
        Some(Broken {
            rule,
            why: broken(carried)?,
        })
    });
    broken.map_or(Ok(()), Err)
}

/// Checks a state at rest.
pub(super) fn check_rest(store: &Store) -> Result<(), Broken> {
    let mut rules = AT_REST.iter();
    let broken = rules.find_map(|(rule, broken)| {
        Some(Broken {
            rule,
            why: broken(store)?,
        })
    });
    broken.map_or(Ok(()), Err)
}

impl Carried<'_> {
    fn is_late(&self) -> bool {
        self.sent == Sent::Late
    }

    fn is(&self, method: &str, resource: &str) -> bool {
        self.effect.asked.method == method && self.effect.asked.resource == resource
    }

    /// The pod that was created.
    fn created(&self) -> Option<&Stored> {
        let created = self
            .is("POST", "pods")
            .then_some(self.effect.after.as_deref())?;
        created.filter(|_| self.effect.before.is_none())
    }

    /// The pod whose deletion was accepted.
    fn deleted(&self) -> Option<&Stored> {
        self.is("DELETE", "pods")
            .then_some(self.effect.before.as_deref())?
    }

    /// The Browser of a pod, if it still exists.
    fn browser_of(&self, pod: &Stored) -> Option<&Stored> {
        browser_of(self.store, pod)
    }

    /// Whether a time is over by as long as a pod may take to go.
    fn is_overdue(&self, deleted: &Stored) -> bool {
        let asked = deleted.meta("deletionTimestamp");
        let grace = deleted.value["metadata"]["deletionGracePeriodSeconds"].as_i64();
        let waited =
            rig::timeouts().pod_deletion.as_secs().cast_signed() + grace.unwrap_or_default();
        let until = self.store.now - jiff::SignedDuration::from_secs(waited);
        deleted.is_deleted() && asked <= written(until).as_str()
    }
}

fn browser_of<'a>(store: &'a Store, pod: &Stored) -> Option<&'a Stored> {
    let browser = store.get(WATCHED[0], pod.meta("name"))?;
    (browser.uid() == pod.controller()).then_some(&**browser)
}

fn has_finalizer(browser: &Stored) -> bool {
    browser
        .finalizers()
        .any(|it| it == names::finalizer::BROWSER)
}

fn has_ended(browser: &Stored) -> bool {
    matches!(browser.phase(), "Failed" | "Succeeded")
}

fn a_session_has_one_pod(carried: &Carried<'_>) -> Option<String> {
    let pod = carried.created().filter(|_| !carried.is_late())?;
    let mut running = carried.running.iter();
    if let Some((other, _)) = running.find(|(_, owner)| owner == pod.controller()) {
        return Some(format!("containers of its pod {other} still run"));
    }
    let noted = &carried.browser_of(pod)?.value["status"]["podUID"];
    noted
        .is_string()
        .then(|| format!("its status has the pod {noted}"))
}

fn nothing_is_made_for_what_is_gone(carried: &Carried<'_>) -> Option<String> {
    let pod = carried.created()?;
    let is_known = carried.is_late() || carried.sent == Sent::InTime(Heard::Lives);
    (!is_known).then(|| {
        format!(
            "the API server did not say that Browser {} lives",
            pod.controller()
        )
    })
}

fn the_finalizer_comes_first(carried: &Carried<'_>) -> Option<String> {
    let browser = carried.browser_of(carried.created()?)?;
    (!has_finalizer(browser) && !carried.is_late()).then(|| "a pod was made without it".to_owned())
}

fn the_finalizer_goes_last(carried: &Carried<'_>) -> Option<String> {
    let before = carried
        .is("PATCH", WATCHED[0])
        .then_some(carried.effect.before.as_deref())??;
    if !has_finalizer(before) || carried.effect.after.as_deref().is_some_and(has_finalizer) {
        return None;
    }
    let pod = carried.store.get("pods", before.meta("name"))?;
    let is_left = pod.controller() == before.uid()
        && !carried.is_overdue(before)
        && !carried.unforeseen.iter().any(|it| it == pod.uid());
    is_left.then(|| format!("its pod {} is there", pod.uid()))
}

fn an_end_is_final(carried: &Carried<'_>) -> Option<String> {
    let (before, after) = (
        carried.effect.before.as_deref()?,
        carried.effect.after.as_deref()?,
    );
    let is_changed = carried.effect.asked.resource == WATCHED[0]
        && before.uid() == after.uid()
        && has_ended(before)
        && before.value["status"] != after.value["status"];
    is_changed.then(|| format!("{} became {}", before.phase(), after.phase()))
}

fn only_own_pods_are_taken(carried: &Carried<'_>) -> Option<String> {
    let after = carried
        .is("PATCH", WATCHED[0])
        .then_some(carried.effect.after.as_deref())??;
    let pod = after.value["status"]["podUID"].as_str()?;
    let is_own = carried
        .made
        .iter()
        .any(|(it, owner)| it == pod && owner == after.uid());
    (!is_own).then(|| format!("Browser {} has pod {pod}", after.uid()))
}

fn only_own_pods_are_deleted(carried: &Carried<'_>) -> Option<String> {
    let pod = carried.deleted()?;
    let is_own = carried.made.iter().any(|(it, _)| it == pod.uid());
    (!is_own).then(|| format!("pod {} is somebody else's", pod.uid()))
}

fn an_end_is_shown_before_the_pod_goes(carried: &Carried<'_>) -> Option<String> {
    let pod = carried.deleted()?;
    let browser = carried.browser_of(pod)?;
    let goes = browser.is_deleted() || browser.phase() == "Failed";
    (!goes).then(|| {
        format!(
            "Browser {} lives, and its phase is {}",
            browser.uid(),
            browser.phase()
        )
    })
}

fn what_runs_gets_its_grace(carried: &Carried<'_>) -> Option<String> {
    let pod = carried.deleted()?;
    let is_forced = carried.effect.asked.body["gracePeriodSeconds"] == 0;
    let runs = matches!(pod.phase(), "Running" | "Unknown");
    let browser = carried.browser_of(pod)?;
    let may = carried.is_overdue(pod) || carried.is_overdue(browser) || browser.phase() == "Failed";
    (is_forced && runs && !may).then(|| format!("pod {} runs", pod.uid()))
}

fn what_is_shown_is_true(store: &Store) -> Option<String> {
    let browsers = store.after(WATCHED[0], store.changes(WATCHED[0]));
    browsers.values().find_map(|browser| {
        let Some(pod) = store.get("pods", browser.meta("name")) else {
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
    let browsers = store.after(WATCHED[0], store.changes(WATCHED[0]));
    if let Some(deleted) = browsers.values().find(|it| it.is_deleted()) {
        return Some(format!(
            "Browser {} is deleted and does not go",
            deleted.uid()
        ));
    }
    let pods = store.after("pods", store.changes("pods"));
    let mut owned = pods.values().filter(|pod| !pod.controller().is_empty());
    let left = owned.find(|pod| browser_of(store, pod).is_none())?;
    Some(format!("pod {} has no Browser", left.uid()))
}
