//! The operator is killed in any write of a session's life or right after it, or it loses that write or its answer: still the session
//! has one pod, ends as without it, and leaves nothing.

use std::cell::Cell;

use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use podloom_api::Browser;
use podloom_tests::faults::{Proxy, RequestFilter};
use podloom_tests::lives::{Blow, Life, Place, strike};
use podloom_tests::{Operator, Scene, Watched};

/// The name of the Browser, and of its pod.
const NAME: &str = "b";
/// How a status begins whose pod is gone.
const LOST: &str = "Failed PodLost";

/// What happens in a session.
pub(crate) struct Plot {
    /// How its pod behaves.
    version: &'static str,
    /// What the user does: each of it when the Browser runs, or the first of it earlier, while no operator sees it.
    deeds: &'static [Deed],
    /// What clients see at last, if that is no deed.
    end: Option<&'static str>,
}

#[derive(PartialEq)]
enum Deed {
    /// Deletes the Browser.
    Delete,
    /// Makes another Browser of the same name, and does not wait for the operator.
    Replace,
    /// As `kubectl delete pod --force`.
    DeletePod,
}

static FAILS: Plot = Plot {
    version: "browser-exits",
    deeds: &[],
    end: Some("Failed Error: container browser terminated: Error (exit code 1)"),
};
pub(crate) static SUCCEEDS: Plot = Plot {
    version: "succeeds-later",
    deeds: &[],
    end: Some("Succeeded Completed: all containers completed"),
};
pub(crate) static DELETED: Plot = runs(&[Deed::Delete]);
pub(crate) static REPLACED: Plot = runs(&[Deed::Replace, Deed::Delete]);
pub(crate) static POD_DELETED: Plot = runs(&[Deed::DeletePod]);

const fn runs(deeds: &'static [Deed]) -> Plot {
    Plot {
        version: "running",
        deeds,
        end: None,
    }
}

/// A session, and all that its clients have seen.
pub(crate) struct Session {
    plot: &'static Plot,
    /// How many of its deeds are done.
    done: Cell<usize>,
    scene: &'static Scene,
    browsers: Watched<Browser>,
    pods: Watched<Pod>,
}

impl Session {
    pub(crate) async fn new(place: Place, plot: &'static Plot) -> Self {
        Self {
            plot,
            done: Cell::default(),
            scene: place.scene,
            browsers: place.scene.watch_browsers().await,
            pods: place.scene.watch_pods().await,
        }
    }

    /// Does the deed of this number, unless that is done or cannot be done yet.
    async fn act(&self, number: usize) {
        let deed = self.plot.deeds.get(number);
        let Some(deed) = deed.filter(|_| self.done.get() == number) else {
            return;
        };
        match deed {
            Deed::Delete => self.scene.delete_browser(NAME).await,
            Deed::Replace => {
                self.scene.force_away(&self.scene.browsers(), NAME).await;
                self.scene.browser(NAME, self.plot.version).await;
            }
            Deed::DeletePod => {
                let now = DeleteParams::default().grace_period(0);
                if self.scene.pods().delete(NAME, &now).await.is_err() {
                    return;
                }
            }
        }
        self.done.set(number + 1);
    }
}

impl Session {
    /// Whether the Browser that replaced another one lost its pod. KWOK deletes pods by name, and late on a busy machine: it may take
    /// the next pod of that name.
    fn lost_its_pod(&self, story: &[String]) -> bool {
        self.plot.deeds.contains(&Deed::Replace)
            && story.iter().any(|line| line.starts_with(LOST))
            && self.pods.last(NAME).is_none()
    }
}

impl Life for Session {
    async fn operator(&self, flags: &[&str]) -> (Proxy, Operator) {
        let proxy = self.scene.proxy();
        let operator = self.scene.operator_behind(&proxy, flags).await;
        (proxy, operator)
    }

    async fn begins(&self) {
        self.scene.behaviours().await;
        self.scene.browser(NAME, self.plot.version).await;
    }

    async fn goes_on(&self) -> Result<(), String> {
        let story = self.browsers.story(NAME);
        let last = story.last().map_or("", String::as_str);
        if last == "Running" {
            // What was replaced may still be seen to run.
            self.act(story.iter().filter(|line| *line == "gone").count())
                .await;
        }
        let is_done = self.done.get() == self.plot.deeds.len();
        let is_over = last == "gone" && (is_done || self.lost_its_pod(&story));
        is_over.then_some(()).ok_or_else(|| format!("{story:?}"))
    }

    async fn meanwhile(&self, _: Blow) {
        self.act(0).await;
    }

    fn rests(&self) -> bool {
        let end = self.plot.end.map_or("Running", |_| "Succeeded");
        self.pods.last(NAME).is_none_or(|pod| {
            let phase = pod.status.and_then(|status| status.phase);
            pod.metadata.deletion_timestamp.is_none() && phase.as_deref() == Some(end)
        })
    }

    /// No Browser ever had two pods, and none came back from its end.
    async fn ends(&self) {
        self.scene.nothing_is_left().await;
        self.pods.are_single();
        let story = self.browsers.story(NAME);
        let is_end = |line: &String| line.starts_with("Failed") || line.starts_with("Succe");
        let mut lives = story.split(|line| line == "gone");
        let is_once = lives.all(|life| life.iter().skip_while(|line| !is_end(line)).count() <= 1);
        let is_lost = self.plot.deeds.contains(&Deed::DeletePod) || self.lost_its_pod(&story);
        let is_right = match self.plot.end {
            Some(end) => story.ends_with(&[end.to_owned(), "gone".to_owned()]),
            None => !story
                .iter()
                .any(|line| line.starts_with("Failed") && !(is_lost && line.starts_with(LOST))),
        };
        let name = &self.scene.namespace;
        assert!(is_once && is_right, "{name}: {story:?}");
    }
}

fn each_write(name: &str, blow: Blow) {
    let plots = [&FAILS, &SUCCEEDS, &DELETED];
    let writes = RequestFilter::from("write browsers browsers/status pods");
    // The finalizer, the pod, two statuses or three, the deletions of pod and Browser, and the finalizer again.
    let series = plots.map(|_| (writes.clone(), 6..12));
    let session = async |place: Place| Session::new(place, plots[place.series]).await;
    strike(name, blow, &series, session);
}

#[test]
fn killed_in_any_write_it_goes_on() {
    each_write("browser-killed-in", Blow::KilledIn);
}

#[test]
fn killed_after_any_write_it_goes_on() {
    each_write("browser-killed-after", Blow::KilledAfter);
}

#[test]
fn whichever_write_is_lost_it_goes_on() {
    each_write("browser-lost-writes", Blow::Lost);
}

#[test]
fn whichever_answer_is_lost_it_goes_on() {
    each_write("browser-lost-answers", Blow::Unanswered);
}
