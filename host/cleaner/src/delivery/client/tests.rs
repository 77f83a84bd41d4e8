mod retry_after;

use podloom_engine::outbound::SystemResolver;

use super::*;
use crate::delivery::fixtures::{Does, TestSink, answers};
use crate::fixtures::sinks;

fn client(allows_loopback: bool) -> SinkClient {
    sinks(allows_loopback, SystemResolver::default())
}

fn event() -> CloudEvent {
    let mut headers = http::HeaderMap::new();
    headers.insert("ce-id", http::HeaderValue::from_static("own"));
    CloudEvent {
        headers,
        body: "{}".into(),
    }
}

async fn send_with(client: &SinkClient, sink: &str) -> AttemptState {
    let attempt = Attempt {
        number: 1,
        sink: sink.to_owned(),
        failures: 0,
        state: AttemptState::Running,
    };
    let now = || Timestamp::UNIX_EPOCH;
    let ended = client.send("demo", attempt, event(), now).await;
    let has_failed = matches!(ended.state, AttemptState::Failed(..));
    assert_eq!(ended.failures, u32::from(has_failed));
    ended.state
}

/// Sends an event to a sink that does this.
async fn sent(does: Does) -> (AttemptState, Vec<String>) {
    let sink = TestSink::start(does).await;
    let sent = send_with(&client(true), &sink.url()).await;
    (sent, sink.heard())
}

async fn check_failed(does: Does, message: &str, retry_after: Option<u64>) {
    let (sent, heard) = sent(does).await;
    check(&sent, message, retry_after);
    assert_eq!(heard.len(), 1, "one request, no other");
}

/// Checks that an attempt has failed, and that the pause after it is as long as the sink wants.
#[track_caller]
fn check(sent: &AttemptState, message: &str, retry_after: Option<u64>) {
    let AttemptState::Failed(said, pause) = sent else {
        panic!("{sent:?}");
    };
    assert_eq!(said, message);
    assert_eq!(pause.start, Timestamp::UNIX_EPOCH);
    let paused = Duration::try_from(pause.end.duration_since(pause.start)).unwrap();
    let wanted = Duration::from_secs(retry_after.unwrap_or(1));
    assert!(
        paused >= wanted && paused <= wanted.mul_f32(1.1),
        "{paused:?}"
    );
}

#[tokio::test]
async fn an_event_is_one_post_request() {
    let (sent, heard) = sent(answers(202, &[])).await;
    assert_eq!(sent, AttemptState::Accepted);
    let [request] = &heard[..] else {
        panic!("{heard:?}");
    };
    assert!(
        request.starts_with("POST /events?key=secret HTTP/1.1\r\n"),
        "{request}"
    );
    assert!(request.contains("ce-id: own\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\n{}"), "{request}");
}

#[tokio::test]
async fn each_2xx_accepts_whatever_follows() {
    for status in [200, 201, 202, 204, 299] {
        assert_eq!(
            sent(answers(status, &[])).await.0,
            AttemptState::Accepted,
            "{status}"
        );
    }
    let ends = [
        "content-length: 5\r\n\r\n",
        "content-length: 99999999\r\n\r\nx",
    ];
    for end in ends {
        let does = Does::HangsAfter(format!("HTTP/1.1 200 fine\r\n{end}"));
        assert_eq!(sent(does).await.0, AttemptState::Accepted);
    }
    let compressed = answers(200, &["content-encoding: gzip"]);
    assert_eq!(sent(compressed).await.0, AttemptState::Accepted);
}

#[tokio::test]
async fn each_other_status_is_a_refusal_in_our_words() {
    for status in [400, 401, 404, 410, 429, 500, 503, 999] {
        let message = format!("the sink answered with HTTP {status}");
        let words = "HTTP/1.1 500 PRIVATE\r\nx: PRIVATE\r\ncontent-length: 7\r\n\r\nPRIVATE";
        let words = words.replace("500", &status.to_string());
        check_failed(Does::Answers(words), &message, None).await;
    }
}

#[tokio::test]
async fn a_sink_says_when_it_wants_to_be_asked_again() {
    let message = "the sink answered with HTTP 503";
    check_failed(answers(503, &["retry-after: 7"]), message, Some(7)).await;
    let date = [
        "date: Sun, 06 Nov 1994 08:49:07 GMT",
        "retry-after: Sun, 06 Nov 1994 08:49:37 GMT",
    ];
    check_failed(answers(503, &date), message, Some(30)).await;
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let other = TestSink::start(answers(200, &[])).await;
    for status in [301, 302, 303, 307, 308] {
        let location = format!("location: {}", other.url());
        let message = format!("the sink answered with HTTP {status}; redirects are not followed");
        check_failed(answers(status, &[&location]), &message, None).await;
    }
    assert_eq!(other.heard(), Vec::<String>::new());
}

#[tokio::test]
async fn a_broken_answer_is_a_failure() {
    let closed =
        "the sink cannot be reached: the connection was closed before the response was complete";
    check_failed(Does::Closes, closed, None).await;
    let garbage = Does::Answers("PRIVATE\r\n\r\n".to_owned());
    check_failed(
        garbage,
        "the sink cannot be reached: the response is not HTTP",
        None,
    )
    .await;
    let half = Does::Answers("HTTP/1.1 200 O".to_owned());
    check_failed(half, closed, None).await;
}

#[tokio::test]
async fn a_sink_that_hangs_is_given_ten_seconds() {
    let sink = TestSink::start(Does::Hangs).await;
    let client = client(true);
    let began = tokio::time::Instant::now();
    let sent = send_with(&client, &sink.url()).await;
    let message = "the sink cannot be reached: no response came within 10000 ms";
    check(&sent, message, None);
    let took = began.elapsed();
    assert!(
        took >= Duration::from_secs(10) && took < Duration::from_secs(14),
        "{took:?}"
    );
}

#[tokio::test]
async fn nobody_listens() {
    let sink = TestSink::start(Does::Hangs).await;
    let url = sink.url();
    drop(sink);
    // The listener is closed once its task has ended.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let sent = send_with(&client(true), &url).await;
    let message = "the sink cannot be reached: no connection could be made";
    check(&sent, message, None);
}

#[tokio::test]
async fn addresses_of_this_machine_and_link_local_ones_are_refused() {
    let sink = TestSink::start(answers(200, &[])).await;
    let port = sink.address.port();
    let blocked = |sent: &AttemptState| matches!(sent, AttemptState::Failed(message, _) if message.contains("its address is blocked"));
    for host in [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
    ] {
        let sent = send_with(&client(false), &format!("http://{host}:{port}/")).await;
        assert!(blocked(&sent), "{host}: {sent:?}");
    }
    for host in [
        "169.254.169.254",
        "[fe80::1]",
        "[::ffff:169.254.1.1]",
        "[fd00:ec2::254]",
    ] {
        let sent = send_with(&client(true), &format!("http://{host}:{port}/")).await;
        assert!(blocked(&sent), "{host}: {sent:?}");
    }
    assert_eq!(sink.heard(), Vec::<String>::new());
}

/// The address that is connected to is checked, not the name: a name of anybody may lead to any address.
#[tokio::test]
async fn a_name_that_leads_to_this_machine_is_refused() {
    struct Here;
    impl Resolve for Here {
        fn resolve(
            &self,
            _: &str,
            _: &str,
        ) -> futures::future::BoxFuture<'static, std::io::Result<Vec<std::net::IpAddr>>> {
            Box::pin(async { Ok(vec![[127, 0, 0, 1].into()]) })
        }
    }
    let sink = TestSink::start(answers(200, &[])).await;
    let url = format!("http://sink.example.com:{}/", sink.address.port());
    for (allows_loopback, requests) in [(false, 0), (true, 1)] {
        let sent = send_with(&sinks(allows_loopback, Here), &url).await;
        assert_eq!(sent == AttemptState::Accepted, allows_loopback);
        assert_eq!(sink.heard().len(), requests);
    }
}

#[tokio::test]
async fn what_is_no_url_is_said_without_a_request() {
    let sent = send_with(&client(true), "ftp://sink/").await;
    let message =
        "spec.cloudEventSink cannot be used: the URL does not begin with http:// or https://";
    check(&sent, message, None);
    let sent = send_with(&client(true), "http://me:PRIVATE@sink/").await;
    let AttemptState::Failed(message, _) = sent else {
        panic!("{sent:?}");
    };
    assert!(!message.contains("PRIVATE"), "{message}");
}

/// A status that is longer is refused, for ever.
#[tokio::test]
async fn what_is_said_of_a_failure_fits_into_a_status() {
    let mut client = client(true);
    client.tls = Err("ä".repeat(300));
    let sent = send_with(&client, "http://sink.demo/").await;
    check(&sent, &"ä".repeat(128), None);
}
