//! A short record of what a client sees of Browsers and pods; an hour of it fits into memory.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use podloom_api::{Browser, Phase};

use crate::stage::Stage;
use crate::tenants;

/// The maximum number of findings in the summary.
const FINDINGS: usize = 50;

/// What was found to be wrong.
#[derive(Clone, Default)]
pub(crate) struct Findings(Arc<Mutex<Vec<String>>>);

impl Findings {
    /// Records a finding, and prints it at once.
    pub(crate) fn add(&self, finding: String) {
        let mut findings = lock(&self.0);
        eprintln!("FINDING: {finding}");
        if findings.len() < FINDINGS {
            findings.push(finding);
        }
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.0))
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One Browser. Names are never reused, so the name identifies it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Session {
    pub(crate) version: String,
    pub(crate) phase: Option<Phase>,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
    /// Whether we have deleted it, or tried to.
    pub(crate) is_deleted: bool,
    pub(crate) is_gone: bool,
    /// The UIDs of all its pods so far.
    pub(crate) pods: BTreeSet<String>,
    /// Whether its pod was a warm one.
    pub(crate) is_warm: bool,
}

/// All Browsers of the run.
#[derive(Default)]
pub(crate) struct Ledger {
    sessions: Mutex<BTreeMap<String, Session>>,
    /// Whether all Browsers are being deleted, even those that were not seen yet.
    is_over: AtomicBool,
}

impl Ledger {
    /// The Browsers that we have not deleted.
    pub(crate) fn alive(&self) -> Vec<String> {
        let sessions = lock(&self.sessions);
        let alive = sessions
            .iter()
            .filter(|(_, session)| !session.is_gone && !session.is_deleted);
        alive.map(|(name, _)| name.clone()).collect()
    }

    /// The Browsers that we have deleted but that still exist: the request was lost, or they are terminating.
    pub(crate) fn going(&self) -> Vec<String> {
        let sessions = lock(&self.sessions);
        let going = sessions
            .iter()
            .filter(|(_, session)| !session.is_gone && session.is_deleted);
        going.map(|(name, _)| name.clone()).collect()
    }

    /// Records that we are about to delete a Browser.
    pub(crate) fn deleted(&self, name: &str) {
        lock(&self.sessions)
            .entry(name.to_owned())
            .or_default()
            .is_deleted = true;
    }

    /// Records that we are about to delete all Browsers, for good.
    pub(crate) fn all_deleted(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Records a Browser that we created, before the watch shows it.
    pub(crate) fn made(&self, name: &str, version: &str) {
        let mut sessions = lock(&self.sessions);
        let session = sessions.entry(name.to_owned()).or_default();
        version.clone_into(&mut session.version);
    }

    fn seen(&self, browser: &Browser, findings: &Findings) {
        let mut sessions = lock(&self.sessions);
        let session = sessions.entry(browser.name_any()).or_default();
        session.version.clone_from(&browser.spec.browser_version);
        session.is_gone = false;
        let Some(status) = &browser.status else {
            return;
        };
        session.phase = status.phase;
        session.message.clone_from(&status.message);
        let reason = status.reason.clone();
        let is_new = session.reason != reason;
        session.reason = reason;
        if let (true, Some(reason)) = (is_new, &session.reason)
            && !tenants::may_end(&session.version, reason)
        {
            let (name, version) = (browser.name_any(), &session.version);
            let message = session.message.as_deref().unwrap_or_default();
            findings.add(format!("{name} ({version}) ended as {reason}: {message}"));
        }
    }

    fn gone(&self, name: &str, findings: &Findings) {
        let mut sessions = lock(&self.sessions);
        let session = sessions.entry(name.to_owned()).or_default();
        session.is_gone = true;
        let is_deleted = session.is_deleted || self.is_over.load(Ordering::Relaxed);
        if !is_deleted && session.reason.is_none() {
            findings.add(format!("{name} disappeared without a reason: {session:?}"));
        }
    }

    /// Browsers that a new list does not have were deleted while the watch was broken.
    fn listed(&self, names: &BTreeSet<String>) {
        for (name, session) in lock(&self.sessions).iter_mut() {
            session.is_gone |= !names.contains(name);
        }
    }

    fn has_pod(&self, pod: &Pod, findings: &Findings) {
        let (Some(owner), Some(uid)) = (pod.owner_references().first(), pod.uid()) else {
            return;
        };
        if owner.kind != "Browser" {
            // Nobody has taken it yet.
            return;
        }
        let mut sessions = lock(&self.sessions);
        let session = sessions.entry(owner.name.clone()).or_default();
        let is_new = session.pods.insert(uid);
        session.is_warm |= pod.name_any() != owner.name;
        if is_new && session.pods.len() > 1 {
            findings.add(format!("{} got a second pod: {session:?}", owner.name));
        }
    }

    /// Prints how the sessions of each kind ended.
    pub(crate) fn report(&self) {
        let mut ends: BTreeMap<(String, String), usize> = BTreeMap::new();
        for session in lock(&self.sessions).values() {
            let end = match &session.reason {
                Some(reason) => reason.clone(),
                None if session.pods.is_empty() => "deleted, without a pod".to_owned(),
                None => "deleted".to_owned(),
            };
            *ends.entry((session.version.clone(), end)).or_default() += 1;
        }
        let taken = lock(&self.sessions);
        let taken = taken.values().filter(|session| session.is_warm).count();
        eprintln!(
            "soak: {} Browsers, {taken} of them in warm pods",
            ends.values().sum::<usize>()
        );
        for ((version, end), count) in ends {
            eprintln!("  {count:6} {version}: {end}");
        }
    }
}

/// Watches Browsers into the ledger.
pub(crate) async fn follow_browsers(stage: Arc<Stage>) {
    let (ledger, findings) = (&stage.ledger, &stage.findings);
    let events = watcher(stage.scene.browsers(), watcher::Config::default()).default_backoff();
    let mut events = pin!(events);
    let mut listed = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(browser)) => {
                listed.insert(browser.name_any());
                ledger.seen(&browser, findings);
            }
            Ok(Event::InitDone) => ledger.listed(&listed),
            Ok(Event::Apply(browser)) => ledger.seen(&browser, findings),
            Ok(Event::Delete(browser)) => {
                ledger.seen(&browser, findings);
                ledger.gone(&browser.name_any(), findings);
            }
            // The watcher restarts by itself.
            Err(_) => {}
        }
    }
}

/// Watches pods into the ledger.
pub(crate) async fn follow_pods(stage: Arc<Stage>) {
    let events = watcher(stage.scene.pods(), watcher::Config::default()).default_backoff();
    let mut events = pin!(events);
    while let Some(event) = events.next().await {
        if let Ok(Event::InitApply(pod) | Event::Apply(pod) | Event::Delete(pod)) = event {
            stage.ledger.has_pod(&pod, &stage.findings);
        }
    }
}

#[cfg(test)]
mod tests;
