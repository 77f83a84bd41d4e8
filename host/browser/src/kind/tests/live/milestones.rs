//! What a session leaves in the log: one line for each milestone, and none from a pass that changes nothing.

use std::io;
use std::sync::{Arc, Mutex};

use podloom_scripted::client;
use serde_json::{Value, json};
use tracing::Level;
use tracing::subscriber::DefaultGuard;

use super::{BROWSER, POD, Server, ago, browser, not_found, pass, pod, pod_of, shared};

/// What was logged at info and above.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Returns what this thread logs until the guard is dropped.
    fn start() -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::INFO)
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .without_time()
            .with_target(false)
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// Returns the lines since the last look. Each ends with the age of the Browser, which is left out.
    #[track_caller]
    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap();
        let without_age = |line: &str| {
            let (line, seconds) = line.rsplit_once(" seconds=").expect("it has an age");
            let seconds: f64 = seconds.parse().expect("it is a number");
            assert!((59.0..120.0).contains(&seconds), "{seconds}");
            line.trim().to_owned()
        };
        text.lines().map(without_age).collect()
    }
}

/// Makes a pass over a Browser of a minute with this pod, and another over what it left, and checks the lines of both.
async fn check(pod: Value, expected: &str) {
    let (log, _logging) = Log::start();
    let there = pod.clone();
    let (server, client, _) = Server::new(browser(60), move |request| match request {
        _ if request == format!("GET {POD}") => (200, there.clone()),
        _ => not_found(),
    });
    let controller = shared(Some(pod));
    pass(&controller, &client, &browser(60)).await.unwrap();
    assert_eq!(log.lines(), [expected]);
    let written = server.browser.lock().unwrap().clone();
    pass(&controller, &client, &written).await.unwrap();
    assert!(log.lines().is_empty());
}

#[tokio::test]
async fn a_session_that_runs_is_logged_once() {
    let expected = r#"INFO session is running namespace="team" name="a" pod="a""#;
    check(pod("new", "Running"), expected).await;
}

#[tokio::test]
async fn a_session_that_completed_is_logged_once() {
    let expected = r#"INFO session completed namespace="team" name="a" pod="a" reason="Completed""#;
    check(pod("new", "Succeeded"), expected).await;
}

#[tokio::test]
async fn a_session_that_failed_is_logged_once_with_its_reason() {
    let mut evicted = pod("new", "Failed");
    evicted["status"]["reason"] = json!("Evicted");
    let expected = r#"INFO session failed namespace="team" name="a" pod="a" reason="Evicted""#;
    check(evicted, expected).await;
}

#[tokio::test]
async fn a_session_that_failed_without_a_pod_names_none() {
    let expected = r#"INFO session failed namespace="team" name="a" reason="PodNameConflict""#;
    let mut another = pod_of("another");
    another["metadata"]["ownerReferences"][0]["kind"] = json!("ReplicaSet");
    check(another, expected).await;
}

#[tokio::test]
async fn a_session_that_has_yet_to_start_is_not_logged() {
    let (log, _logging) = Log::start();
    let (_, client, _) = Server::new(browser(60), |_| not_found());
    let mut starting = pod("new", "Pending");
    starting["metadata"]["creationTimestamp"] = json!(ago(1));
    let controller = shared(Some(starting));
    pass(&controller, &client, &browser(60)).await.unwrap();
    assert!(log.lines().is_empty());
}

/// A Browser that failed and is being deleted.
fn deleted() -> Value {
    let mut deleted = browser(60);
    deleted["metadata"]["deletionTimestamp"] = json!(ago(1));
    deleted["status"] = json!({ "phase": "Failed", "reason": "Evicted", "podUID": "pod-new" });
    deleted
}

#[tokio::test]
async fn a_session_that_is_deleted_is_logged_once() {
    let (log, _logging) = Log::start();
    let (_, client, requests) = Server::new(deleted(), |_| not_found());
    pass(&shared(None), &client, &deleted()).await.unwrap();
    let expected = r#"INFO session deleted namespace="team" name="a" pod="a" reason="Evicted""#;
    assert_eq!(log.lines(), [expected]);
    let patch = format!("PATCH {BROWSER}");
    assert!(requests.made().contains(&patch), "{:?}", requests.made());
}

/// The cache may show a Browser for a moment after it was let go.
#[tokio::test]
async fn a_session_that_is_gone_already_is_not_logged_again() {
    let (log, _logging) = Log::start();
    let (code, gone) = not_found();
    let (client, _) = client(code, gone);
    pass(&shared(None), &client, &deleted()).await.unwrap();
    assert!(log.lines().is_empty());
}
