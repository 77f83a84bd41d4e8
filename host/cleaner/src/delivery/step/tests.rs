use std::sync::Mutex;
use std::time::Duration;

use podloom_api::CleanerSpec;
use podloom_scripted::difference;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::*;

/// A delivery, as a file writes it. The phase began at midnight.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    /// Seconds since then.
    now: i64,
    /// The fields of the spec that matter; none if our types cannot hold it.
    #[serde(default)]
    spec: Option<Map<String, Value>>,
    #[serde(default)]
    progress: DeliveryProgress,
    #[serde(default)]
    attempt: Option<Tried>,
}

/// The last attempt.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Tried {
    number: i32,
    #[serde(default = "sink")]
    sink: String,
    #[serde(default)]
    failures: u32,
    came: Came,
    /// When the pause after it began.
    #[serde(default)]
    at: i64,
    /// How long it is.
    #[serde(default)]
    wait: u64,
}

#[derive(Deserialize)]
enum Came {
    Running,
    Accepted,
    Failed,
    Postponed,
}

fn sink() -> String {
    "http://sink.demo/".to_owned()
}

fn second(second: i64) -> Timestamp {
    let midnight: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    midnight + jiff::SignedDuration::from_secs(second)
}

impl Tried {
    fn attempt(self) -> Attempt {
        let at = second(self.at);
        let pause = at..later(at, Duration::from_secs(self.wait));
        Attempt {
            number: self.number,
            sink: self.sink,
            failures: self.failures,
            state: match self.came {
                Came::Running => AttemptState::Running,
                Came::Accepted => AttemptState::Accepted,
                Came::Failed => AttemptState::Failed("no connection".to_owned(), pause),
                Came::Postponed => AttemptState::Postponed(pause),
            },
        }
    }
}

fn spec(mut fields: Map<String, Value>) -> CleanerSpec {
    let sink = sink();
    fields.entry("ttl").or_insert("1h".into());
    fields.entry("cloudEventSink").or_insert(sink.into());
    serde_json::from_value(fields.into()).unwrap()
}

/// What comes of a case: the step, and what differs in the progress.
fn next(case: Case) -> Value {
    let spec = case.spec.map(spec);
    let attempt = case.attempt.map(Tried::attempt);
    let progress = progress(&case.progress, attempt.as_ref());
    let (began, now) = (second(0), second(case.now));
    let step = step(spec.as_ref(), began, &progress, attempt.as_ref(), now);
    let value = |progress: &DeliveryProgress| serde_json::to_value(progress).unwrap();
    let progress = difference(&value(&case.progress), &value(&progress));
    json!({ "progress": progress, "step": step })
}

#[test]
fn the_next_step_is_what_the_file_name_says() {
    let cases = Mutex::new(Map::new());
    insta::glob!("cases/*.yaml", |path| {
        let case = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap();
        cases.lock().unwrap().insert(name.to_owned(), next(case));
    });
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_yaml_snapshot!("steps", cases.into_inner().unwrap());
    });
}
