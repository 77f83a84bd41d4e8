//! States that no watch shows: a watch breaks before one of its changes, and the list after it is answered only when the world has gone
//! on. The session ends all the same.

use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use podloom_api::{Browser, Phase};
use podloom_tests::faults::Rule;
use podloom_tests::lives::{Lives, Session, chosen, is_whole};
use podloom_tests::{Cluster, blackbox_on};
use serde_json::json;

/// What is watched, how many changes of it a session has at least, and more than it ever has.
const WATCHES: [(&str, usize, u64); 3] = [
    ("browsers", 5, 11),
    ("pods", 4, 11),
    ("browserconfigs", 2, 4),
];

/// What happens while the operator does not see it; if no watch breaks before, when the session runs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meanwhile {
    /// The pod succeeds.
    Succeeds,
    /// The user deletes the Browser.
    Deleted,
    /// The user makes another Browser of the same name, and does not wait for the operator.
    Replaced,
    /// The pod is deleted by force.
    PodDeleted,
}

use Meanwhile::{Deleted, PodDeleted, Replaced, Succeeds};

impl Meanwhile {
    fn version(self) -> &'static str {
        match self {
            Succeeds => "succeeds-later",
            Deleted | Replaced | PodDeleted => "running",
        }
    }

    /// Returns whether it could happen: there may be no pod yet.
    async fn happens(self, session: &Session) -> bool {
        let (browsers, name) = (session.scene.browsers(), session.name());
        match self {
            Succeeds => {}
            Deleted => session.scene.delete_browser(name).await,
            PodDeleted => return delete_pod(session).await,
            Replaced => {
                session.scene.delete_browser(name).await;
                let released = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
                // It is gone if it had no finalizer yet.
                let _ = browsers
                    .patch(name, &PatchParams::default(), &released)
                    .await;
                session.scene.browser(name, self.version()).await;
            }
        }
        true
    }

    /// Whether nothing more happens to the pod by itself.
    fn is_over(self, session: &Session) -> bool {
        let end = match self {
            Succeeds => "Succeeded",
            _ => "Running",
        };
        session.pods.last(session.name()).is_none_or(|pod| {
            let phase = pod.status.and_then(|status| status.phase);
            pod.metadata.deletion_timestamp.is_none() && phase.as_deref() == Some(end)
        })
    }

    /// Does what could not happen before, or remains to be done, and checks the end.
    async fn ends(self, session: &Session, has_happened: bool) {
        let (name, scene) = (session.name(), &session.scene);
        if !has_happened {
            session.browsers.until_runs(name).await;
            assert!(self.happens(session).await, "{name} has a pod");
        }
        if self == Replaced {
            let new = scene.browsers().get(name).await.unwrap().uid();
            let runs = |it: &Browser| it.uid() == new && phase(it) == Some(Phase::Running);
            session.browsers.until_is(name, "runs again", runs).await;
            scene.delete_browser(name).await;
        }
        let story = session.ends().await;
        let pods = session.pods.uids(name).len();
        let failed = story.iter().find(|line| line.starts_with("Failed"));
        let is_right = match self {
            Succeeds => {
                let end = story.iter().rev().nth(1);
                pods == 1
                    && end.is_some_and(|end| end == "Succeeded Completed: all containers completed")
            }
            Deleted => pods <= 1 && failed.is_none(),
            Replaced => failed.is_none(),
            PodDeleted => pods == 1 && failed.is_none_or(|it| it.starts_with("Failed PodLost")),
        };
        assert!(is_right, "{name}: {pods} pods, {story:?}");
    }
}

fn phase(browser: &Browser) -> Option<Phase> {
    browser.status.as_ref()?.phase
}

/// As `kubectl delete pod --force`. Returns whether there was one.
async fn delete_pod(session: &Session) -> bool {
    let now = DeleteParams::default().grace_period(0);
    let deleted = session.scene.pods().delete(session.name(), &now).await;
    deleted.is_ok()
}

/// Leaves out each change of each watch, each in a session of its own, all at once.
fn each_change(name: &str, meanwhile: Meanwhile) {
    blackbox_on(Cluster::without_operator, name, async |scene| {
        let numbers = WATCHES.iter().flat_map(|(resource, _, changes)| {
            (0..*changes).map(move |number| Rule::unobserved(resource, number))
        });
        let rules = chosen(name, numbers.collect());
        let lives = Lives::new(&scene, rules.len()).await;
        lives.set_rules(rules.into_iter());
        for session in &lives.sessions {
            session.begin(meanwhile.version()).await;
        }
        let is_dark = |[_, lists]: [u64; 2]| lists > 0;
        lives
            .until_each("runs, or a watch is broken", |session, hits| {
                is_dark(hits) || session.runs() || session.is_gone()
            })
            .await;
        let mut happened = Vec::new();
        for session in &lives.sessions {
            happened.push(meanwhile.happens(session).await);
        }
        lives
            .until_each(
                "goes on without the watch, or to its end",
                |session, hits| {
                    let has_ended = match meanwhile {
                        Replaced => session.runs() && session.pods.uids(session.name()).len() > 1,
                        _ => session.is_gone(),
                    };
                    has_ended || is_dark(hits) && meanwhile.is_over(session)
                },
            )
            .await;
        let hits = lives.hits();
        lives.heal();
        for (session, happened) in lives.sessions.iter().zip(happened) {
            meanwhile.ends(session, happened).await;
        }
        let mut broken = hits.into_iter().map(|[breaks, _]| breaks > 0);
        for (resource, least, most) in WATCHES.into_iter().filter(|_| is_whole()) {
            let of_kind = broken.by_ref().take(usize::try_from(most).unwrap());
            let of_kind: Vec<bool> = of_kind.collect();
            let changes = of_kind.iter().filter(|it| **it).count();
            assert!(changes >= least, "{changes} of {resource}");
            // The Browser that comes second is another session.
            let is_all = meanwhile == Replaced || of_kind.last() == Some(&false);
            assert!(is_all, "more than {most} of {resource}");
        }
    });
}

#[test]
fn a_pod_that_succeeds_unseen_ends_its_session() {
    each_change("unobserved-succeeds", Succeeds);
}

#[test]
fn a_browser_that_is_deleted_unseen_goes() {
    each_change("unobserved-deleted", Deleted);
}

#[test]
fn a_browser_that_is_replaced_unseen_gets_its_own_pod() {
    each_change("unobserved-replaced", Replaced);
}

#[test]
fn a_pod_that_is_deleted_unseen_is_not_made_again() {
    each_change("unobserved-pod-deleted", PodDeleted);
}
