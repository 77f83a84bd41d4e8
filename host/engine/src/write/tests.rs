use podloom_scripted::{SILENCE, scripted, status};
use serde_json::{Value, json};

use super::{Attempt, Deletion, MetadataPatch, Target};
use crate::answer::{Deleted, Patched, Stored};
use crate::tests::{Lamp, lamp, lamps};

const ATTEMPT: Attempt = Attempt::new("Test", "test");

/// What an API server is asked for by one write, and what it is sent.
async fn asked<T, F>(namespace: Option<&str>, write: impl FnOnce(kube::Client) -> F) -> (T, Value)
where
    F: Future<Output = T>,
{
    let sent = std::sync::Arc::new(std::sync::Mutex::new(Value::Null));
    let noted = sent.clone();
    let (client, requests) = scripted(move |_, body| {
        *noted.lock().unwrap() = body;
        (200, serde_json::to_value(lamp("team", "a", 1)).unwrap())
    });
    let done = write(client).await;
    let made = requests.made();
    let place = namespace.map_or_else(String::new, |name| format!("namespaces/{name}/"));
    assert!(
        made[0].contains(&format!("/apis/example.com/v1/{place}lamps")),
        "{made:?}"
    );
    let sent = sent.lock().unwrap().clone();
    (done, sent)
}

fn target<'a>(
    client: &'a kube::Client,
    resource: &'a kube::core::ApiResource,
    namespace: Option<&'a str>,
) -> Target<'a> {
    Target {
        client,
        resource,
        namespace,
        name: "a",
        field_manager: "test",
    }
}

#[tokio::test]
async fn objects_are_written_in_a_namespace_and_in_the_cluster() {
    for namespace in [Some("team"), None] {
        let resource = lamps();
        let wanted = json!({ "metadata": { "name": "a" } });
        let (stored, sent) = asked(namespace, async |client| {
            let target = target(&client, &resource, namespace);
            target.create::<Lamp>(&wanted, ATTEMPT).await.unwrap()
        })
        .await;
        assert!(matches!(stored, Stored::Object(_)));
        assert_eq!(sent, wanted);
        let (stored, sent) = asked(namespace, async |client| {
            let target = target(&client, &resource, namespace);
            target.apply::<Lamp>(&wanted, ATTEMPT).await.unwrap()
        })
        .await;
        assert!(matches!(stored, Stored::Object(_)));
        assert_eq!(sent, wanted);
        let (deleted, sent) = asked(namespace, async |client| {
            let target = target(&client, &resource, namespace);
            target.delete("u", Deletion::Force, ATTEMPT).await.unwrap()
        })
        .await;
        assert_eq!(deleted, Deleted::Asked);
        assert_eq!(sent["preconditions"]["uid"], "u");
        assert_eq!(sent["gracePeriodSeconds"], 0);
    }
}

#[tokio::test]
async fn a_status_names_the_version_only_where_another_writer_could_lose() {
    let resource = lamps();
    let mut seen = lamp("team", "a", 1).metadata;
    seen.resource_version = Some("7".to_owned());
    let lit = json!({ "phase": "Lit" });
    for (before, wanted, written, needs_version) in [
        (None, lit.clone(), lit.clone(), false),
        (
            None,
            json!({ "conditions": [] }),
            json!({ "conditions": [] }),
            true,
        ),
        (
            None,
            json!({ "light": { "color": "red" } }),
            json!({ "light": { "color": "red" } }),
            true,
        ),
        (Some(lit), json!({}), json!({ "phase": null }), true),
    ] {
        let (_, sent) = asked(Some("team"), async |client| {
            let target = Target::of(&client, &resource, &seen, "test");
            let before = before.as_ref();
            target
                .write_status::<Value, _>(&seen, before, &wanted)
                .await
        })
        .await;
        let version = needs_version.then_some("7");
        assert_eq!(sent["metadata"]["resourceVersion"].as_str(), version);
        assert_eq!(sent["status"], written);
    }
}

/// What storing an object comes to where the API server answers so.
async fn stored(code: u16, reason: &str) -> Stored<Lamp> {
    let answer = status(code, reason, "no");
    let (client, _) = scripted(move |_, _| (code, answer.clone()));
    let resource = lamps();
    let target = target(&client, &resource, Some("team"));
    target.create::<Lamp>(&json!({}), ATTEMPT).await.unwrap()
}

#[tokio::test]
async fn what_the_api_server_says_to_a_new_object_is_no_error() {
    for (code, reason) in [(400, "BadRequest"), (413, ""), (422, "Invalid")] {
        let stored = stored(code, reason).await;
        assert!(matches!(stored, Stored::Invalid(said) if said == "no"));
    }
    for (code, reason) in [
        (403, "Forbidden"),
        (404, "NotFound"),
        (409, "Conflict"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
    ] {
        let stored = stored(code, reason).await;
        assert!(matches!(stored, Stored::Rejected { code: said, .. } if said == code));
    }
    assert!(matches!(stored(409, "AlreadyExists").await, Stored::Exists));
}

/// The API server calls it invalid, which would be final.
#[tokio::test]
async fn an_applied_object_whose_name_is_anothers_exists() {
    let mut answer = status(422, "Invalid", "metadata.uid: field is immutable");
    answer["details"] = json!({ "causes": [{ "field": "metadata.uid" }] });
    let (client, _) = scripted(move |_, _| (422, answer.clone()));
    let resource = lamps();
    let target = target(&client, &resource, None);
    let applied = target.apply::<Lamp>(&json!({}), ATTEMPT).await.unwrap();
    assert!(matches!(applied, Stored::Exists));
}

/// An applied object with a UID may be gone by now; that is no refusal but a reason to look again.
#[tokio::test]
async fn a_conflict_of_an_applied_object_is_looked_at_again() {
    let answer = status(409, "Conflict", "no");
    let (client, _) = scripted(move |_, _| (409, answer.clone()));
    let resource = lamps();
    let target = target(&client, &resource, None);
    let error = target.apply::<Lamp>(&json!({}), ATTEMPT).await.unwrap_err();
    assert!(error.is_conflict());
}

#[tokio::test(start_paused = true)]
async fn silence_refuses_metadata_of_an_object_that_stays_and_fails_one_that_goes() {
    let (client, _) = scripted(|_, _| (SILENCE, Value::Null));
    let resource = lamps();
    let mut seen = lamp("team", "a", 1).metadata;
    seen.finalizers = Some(vec!["example.com/lamp".to_owned()]);
    let patch = MetadataPatch::without(&seen, "example.com/lamp").unwrap();
    let target = target(&client, &resource, Some("team"));
    let kept = target.set_metadata::<Lamp>(&seen, &patch).await.unwrap();
    assert!(matches!(kept, Patched::Rejected(said) if said.contains("no answer")));
    seen.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    let error = target
        .set_metadata::<Lamp>(&seen, &patch)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "Unanswered");
}

/// What a finalizer comes to that is set, or removed, where the answer has these.
async fn finalized(is_set: bool, answered: &[&str]) -> Result<Patched<Lamp>, super::Error> {
    let mut answer = lamp("team", "a", 1);
    answer.metadata.finalizers = Some(answered.iter().map(|it| (*it).to_owned()).collect());
    let (client, _) = scripted(move |_, _| (200, serde_json::to_value(&answer).unwrap()));
    let resource = lamps();
    let patch = MetadataPatch {
        finalizers: Some(
            is_set
                .then(|| "example.com/lamp".to_owned())
                .into_iter()
                .collect(),
        ),
        ..MetadataPatch::default()
    };
    let seen = lamp("team", "a", 1).metadata;
    let target = target(&client, &resource, Some("team"));
    target
        .set_finalizer(&seen, &patch, "example.com/lamp")
        .await
}

#[tokio::test]
async fn a_finalizer_that_a_policy_takes_or_gives_back_is_noticed() {
    let others = "example.com/other";
    let kept = finalized(true, &[others, "example.com/lamp"]).await;
    assert!(matches!(kept, Ok(Patched::Object(_))));
    let taken = finalized(true, &[others]).await.unwrap();
    assert!(matches!(taken, Patched::Rejected(why) if why.contains("admission policy removes")));
    let gone = finalized(false, &[others]).await;
    assert!(matches!(gone, Ok(Patched::Object(_))));
    let back = finalized(false, &["example.com/lamp"]).await.unwrap_err();
    assert_eq!(back.reason(), "MetadataRefused");
    assert!(back.notice().is_some(), "no status says it");
}

/// What a patch comes to where the API server answers so.
async fn patched(code: u16, answer: Value) -> Result<Patched<Value>, super::Error> {
    let (client, _) = scripted(move |_, _| (code, answer.clone()));
    let resource = lamps();
    let target = target(&client, &resource, Some("team"));
    target.patch::<Value>(json!({}), ATTEMPT).await
}

#[tokio::test(start_paused = true)]
async fn a_patch_is_refused_by_everybody_but_a_faster_writer() {
    let answer = |code, reason| status(code, reason, "no");
    let done = patched(200, json!({ "a": 1 })).await.unwrap();
    assert!(matches!(done, Patched::Object(it) if *it == json!({ "a": 1 })));
    let done = patched(404, answer(404, "NotFound")).await.unwrap();
    assert!(matches!(done, Patched::Gone));
    for code in [403, 422, 500] {
        let done = patched(code, answer(code, "Refused")).await.unwrap();
        assert!(matches!(done, Patched::Rejected(said) if said == "no"));
    }
    let done = patched(SILENCE, Value::Null).await.unwrap();
    assert!(matches!(done, Patched::Rejected(said) if said.contains("no answer")));
    let error = patched(409, answer(409, "Conflict")).await.unwrap_err();
    assert!(error.is_conflict());
}

const SECRET: Attempt = Attempt::at_secret("Test", "test");

/// What a create and a patch of a secret object show of an answer.
async fn shown(code: u16, reason: &'static str, message: &'static str) -> [String; 2] {
    let (client, _) = scripted(move |_, _| (code, status(code, reason, message)));
    let resource = lamps();
    let target = target(&client, &resource, Some("team"));
    let created = target.create::<Lamp>(&json!({}), SECRET).await;
    let patched = target.patch::<Lamp>(json!({}), SECRET).await;
    [format!("{created:?}"), format!("{patched:?}")]
}

#[tokio::test]
async fn what_an_answer_says_about_a_secret_is_hidden() {
    for (code, reason) in [(422, "Invalid"), (403, "Forbidden"), (500, "InternalError")] {
        let message = "failed calling webhook \"a\": hunter2";
        for text in shown(code, reason, message).await {
            assert!(!text.contains("hunter2"), "{text}");
            let expected = format!("HTTP {code} {reason} (failed calling webhook);");
            assert!(text.contains(&expected), "{text}");
        }
    }
    let message = "cannot create hunter2 because it is being terminated";
    for text in shown(403, "Forbidden", message).await {
        assert!(text.contains("because it is being terminated") && !text.contains("hunter2"));
    }
}

#[tokio::test]
async fn a_secret_that_cannot_be_read_is_not_quoted() {
    let (client, _) = scripted(|_, _| (200, json!({ "metadata": "hunter2" })));
    let resource = lamps();
    let target = target(&client, &resource, Some("team"));
    let error = target.read::<Lamp>(SECRET).await.unwrap_err();
    let text = format!("{error:?}");
    assert!(
        text.contains("has not the form") && !text.contains("hunter2"),
        "{text}"
    );
}

/// Collects what is logged.
#[derive(Clone, Default)]
struct Log(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What kube logs of such an answer is the whole of it.
#[tokio::test]
async fn an_answer_that_cannot_be_read_is_not_logged() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    let (client, _) = scripted(|_, _| (200, json!({ "metadata": "hunter2" })));
    let resource = lamps();
    let target = target(&client, &resource, Some("team"));
    let error = target.read::<Lamp>(SECRET).await.unwrap_err();
    tracing::trace!("the end");
    let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(logged.contains("the end"), "{logged}");
    assert!(!logged.contains("hunter2"), "{logged}");
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
}
