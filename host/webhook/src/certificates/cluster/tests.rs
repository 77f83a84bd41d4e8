//! Requests to a counterfeit API server, one that repeats keys where it can.

mod configuration;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use k8s_openapi::ByteString;
use kube::Client;
use kube::api::ObjectMeta;
use kube::client::Body;
use tower::service_fn;
use tracing_subscriber::fmt::MakeWriter;

use super::super::tests::api::status;
use super::super::tests::setup;
use super::*;

/// What must never be seen, and as it is in a Secret.
const KEY: &str = "MIGHAgEAMBMGByqGSM49";
const KEY_IN_SECRET: &str = "TUlHSEFnRUFNQk1HQnlxR1NNNDk=";

/// A cluster whose every answer is this one, and the requests that came.
fn cluster(status: u16, answer: &str) -> (OwnSetup, Arc<Mutex<Vec<String>>>) {
    let (answer, seen) = (answer.to_owned(), Arc::<Mutex<Vec<String>>>::default());
    let requests = Arc::clone(&seen);
    let service = service_fn(move |request: Request<Body>| {
        let (answer, requests) = (answer.clone(), Arc::clone(&requests));
        async move {
            let line = format!("{} {}", request.method(), request.uri());
            requests.lock().unwrap().push(line);
            let response = Response::builder().status(status);
            Ok::<_, tower::BoxError>(response.body(Body::from(answer.into_bytes()))?)
        }
    });
    let client = Client::new(service, "default");
    (setup(client, &["localhost"]), seen)
}

fn secret(version: Option<&str>) -> Secret {
    let key = ByteString(KEY.as_bytes().to_vec());
    Secret {
        metadata: ObjectMeta {
            resource_version: version.map(ToOwned::to_owned),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("ca.key".to_owned(), key)])),
        ..Secret::default()
    }
}

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

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn no_error_and_no_log_repeats_a_key() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(log.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let broken_base64 = format!(r#"{{"metadata":{{}},"data":{{"ca.key":"{KEY_IN_SECRET}!"}}}}"#);
    let wrong_type = format!(r#"{{"metadata":{{}},"data":"{KEY_IN_SECRET}"}}"#);
    let half = format!(r#"{{"metadata":{{}},"data":{{"ca.key":"{KEY_IN_SECRET}""#);
    for answer in [broken_base64, wrong_type, half] {
        let (cluster, _) = cluster(200, &answer);
        let Err(error) = cluster.read_secret().await else {
            panic!("{answer} was read");
        };
        let text = format!("{error:?}");
        assert!(
            text.contains("the answer is not as expected at line 1"),
            "{text}"
        );
        assert!(!text.contains(KEY_IN_SECRET), "{text}");
    }
    tracing::trace!("the end");
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("the end"), "nothing is captured");
    assert!(!log.contains(KEY_IN_SECRET), "{log}");
}

#[tokio::test]
async fn an_answer_that_is_not_the_api_servers_is_not_repeated() {
    let (cluster, _) = cluster(502, &format!("<html>cannot forward {KEY_IN_SECRET}"));
    let error = cluster.write_secret(&secret(None)).await.unwrap_err();
    assert_eq!(
        error.text,
        "could not create Secret system/tls: status 502, not from an API server"
    );
}

#[tokio::test]
async fn errors_name_the_object_and_the_reason() {
    let (cluster, seen) = cluster(403, &status(403, "Forbidden", "you may not").to_string());
    let refused = "you may not (status 403); `podloom rbac --controllers webhook --webhook-name podloom` prints the rights that the \
                   operator needs; without them, use --tls-dir";
    let Err(error) = cluster.read_secret().await else {
        panic!("it was read");
    };
    assert_eq!(
        error.text,
        format!("could not read Secret system/tls: {refused}")
    );
    let Err(error) = cluster.configurations().await else {
        panic!("they were read");
    };
    assert_eq!(
        error.text,
        format!("could not read MutatingWebhookConfiguration podloom: {refused}")
    );
    let seen = seen.lock().unwrap().clone();
    let expected = [
        "GET /api/v1/namespaces/system/secrets/tls",
        "GET /apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/podloom",
    ];
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_lost_race_is_a_change_by_somebody_else() {
    let patch = json!([]);
    for (code, reason) in [(409, "AlreadyExists"), (409, "Conflict")] {
        let (cluster, _) = cluster(code, &status(code, reason, "no").to_string());
        for lost in [
            cluster.write_secret(&secret(None)).await,
            cluster.write_secret(&secret(Some("7"))).await,
            cluster.publish(1, &patch).await,
        ] {
            assert!(
                matches!(lost, Err(Problem { is_race: true, .. })),
                "{lost:?}"
            );
        }
    }
    // A test of the JSON Patch failed.
    let (unprocessable, _) = cluster(422, &status(422, "Invalid", "no").to_string());
    let lost = unprocessable.publish(1, &patch).await;
    assert!(matches!(lost, Err(Problem { is_race: true, .. })));
    // It may have another reason.
    assert_eq!(
        lost.unwrap_err().text,
        "could not update ValidatingWebhookConfiguration podloom: no (status 422)"
    );
    let refused = unprocessable.write_secret(&secret(None)).await;
    assert!(matches!(refused, Err(Problem { is_race: false, .. })));
    // It was deleted meanwhile; but a namespace that is missing is no race.
    let (gone, seen) = cluster(404, &status(404, "NotFound", "no").to_string());
    assert!(matches!(
        gone.read_secret().await,
        Ok(OurSecret { stored: None, .. })
    ));
    assert!(matches!(
        gone.write_secret(&secret(Some("7"))).await,
        Err(Problem { is_race: true, .. })
    ));
    assert!(matches!(
        gone.write_secret(&secret(None)).await,
        Err(Problem { is_race: false, .. })
    ));
    let seen = seen.lock().unwrap().clone();
    assert_eq!(
        seen[2],
        "POST /api/v1/namespaces/system/secrets?fieldManager=podloom-webhook"
    );
}
