//! The CloudEvent about a deletion. It is read by the SDK of CloudEvents, not by code of ours.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use cloudevents::binding::http::to_event;
use cloudevents::{AttributesReader, Data, Event};
use http::{HeaderMap, HeaderName, HeaderValue};
use podloom_api::Cleaner;
use podloom_tests::cleaner::{Cleaners, condition, map_target, map_targets};
use podloom_tests::doubles::{Double, ReceivedRequest, Reply, Sink};
use podloom_tests::{Cluster, Operator, Scene, blackbox_on, eventually, free_address};
use serde_json::{Value, json};

pub(crate) const LOOPBACK: &str = "--cleaner-allow-loopback-sinks";

const DELIVERED: &str = "podloom_cleaner_event_deliveries_total{outcome=\"delivered\"}";
const GIVEN_UP: &str = "podloom_cleaner_event_deliveries_total{outcome=\"given_up\"}";
const REQUESTS: &str = "podloom_external_request_duration_seconds_count{system=\"cleaner-sink\",operation=\"deliver\"}";

/// Checks that something was counted once.
fn is_one(operator: &Operator, metric: &str) {
    let value = operator.metric(metric);
    assert!((value - 1.0).abs() < 0.1, "{metric} {value}");
}

pub(crate) fn url(address: SocketAddr) -> String {
    format!("http://{address}/events?key=hidden")
}

/// A spec that deletes a ConfigMap, with these fields besides.
pub(crate) fn spec(sink: &str, more: Value) -> Value {
    let mut spec = json!({
        "targets": [map_target("web", "web")],
        "cloudEventSink": sink,
    });
    let (Some(fields), Value::Object(more)) = (spec.as_object_mut(), more) else {
        unreachable!("both are objects");
    };
    fields.extend(more);
    spec
}

/// What the SDK makes of a request.
pub(crate) fn event(request: &ReceivedRequest) -> Event {
    let mut headers = HeaderMap::new();
    for (name, value) in &request.headers {
        let name = HeaderName::try_from(name).unwrap();
        headers.insert(name, HeaderValue::try_from(value).unwrap());
    }
    assert_eq!(request.length, request.body.len(), "it is kept whole");
    to_event(&headers, request.body.clone().into_bytes()).unwrap()
}

fn says(event: &Event) -> Value {
    let Some(Data::Binary(bytes)) = event.data() else {
        unreachable!("a request has bytes: {event:?}");
    };
    serde_json::from_slice(bytes).unwrap()
}

/// Waits until a sink received so many requests.
pub(crate) async fn received(sink: &Sink, count: u64) -> Vec<ReceivedRequest> {
    eventually(&format!("{count} requests come"), async || {
        let received = sink.received();
        match received.count >= count {
            true => Ok(received.requests),
            false => Err(format!("{} came", received.count)),
        }
    })
    .await
}

/// Waits until the last error of a delivery begins so.
pub(crate) async fn until_error(cleaners: &Cleaners<'_>, expected: &str) -> Cleaner {
    eventually(&format!("the delivery fails: {expected}"), async || {
        let cleaner = cleaners.api().get("shop").await.unwrap();
        let deletion = cleaner.status.clone().and_then(|it| it.deletion);
        let error = deletion
            .and_then(|it| it.event)
            .and_then(|it| it.last_error);
        let error = error.unwrap_or_default();
        match error.starts_with(expected) {
            true => Ok(cleaner),
            false => Err(error),
        }
    })
    .await
}

fn attempts(cleaner: &Cleaner) -> i32 {
    let deletion = cleaner.status.as_ref().and_then(|it| it.deletion.as_ref());
    deletion
        .and_then(|it| it.event.as_ref())
        .map_or(0, |it| it.attempts)
}

/// Waits until so many attempts were made.
async fn tried(cleaners: &Cleaners<'_>, count: i32) -> Cleaner {
    eventually(&format!("it is tried {count} times"), async || {
        let cleaner = cleaners.api().get("shop").await.unwrap();
        let attempts = attempts(&cleaner);
        match attempts >= count {
            true => Ok(cleaner),
            false => Err(attempts.to_string()),
        }
    })
    .await
}

/// Waits until there is a warning that begins so, and checks that there is no other.
async fn has_one_warning(scene: &Scene, start: &str) {
    scene.has_event("shop", start).await;
    let events = scene.events("shop").await;
    let warnings = events.iter().filter(|it| it.starts_with("Warning"));
    assert_eq!(warnings.count(), 1, "{events:#?}");
}

/// Creates a Cleaner that deletes three ConfigMaps and sees another one, with this sink.
async fn with_three_targets(cleaners: &Cleaners<'_>, sink: &Sink) -> Cleaner {
    cleaners.map("web", json!({}), "idle").await;
    for name in ["a", "b"] {
        cleaners.map(name, json!({ "app": "x" }), "idle").await;
    }
    cleaners.map("seen", json!({}), "here").await;
    let mut seen_only = map_target("seen", "seen");
    seen_only["delete"] = json!(false);
    let others = map_targets("others", &json!({ "app": "x" }));
    let more = json!({
        "targets": [others, seen_only, map_target("web", "web")],
        "conditions": ["seen.data.state == 'here'"],
    });
    let spec = spec(&url(sink.address()), more);
    cleaners.create("shop", spec).await
}

#[test]
fn a_sink_receives_what_the_sdk_reads() {
    blackbox_on(Cluster::without_operator, "cleaner-event", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let operator = cleaners.operator(&[LOOPBACK]).await;
        let sink = Double::sink(&["--status", "202"]);
        let watched = cleaners.watch().await;
        let cleaner = with_three_targets(&cleaners, &sink).await;
        cleaners.until_gone("shop", &["web", "a", "b"]).await;

        let requests = received(&sink, 1).await;
        let [request] = &requests[..] else {
            unreachable!("there is one: {requests:?}");
        };
        assert_eq!(request.method, "POST");
        assert_eq!(request.path, "/events?key=hidden");
        let event = event(request);
        let uid = cleaner.metadata.uid.unwrap();
        assert_eq!(event.specversion().as_str(), "1.0");
        assert_eq!(event.id(), uid);
        assert_eq!(event.source(), "cleaner.vtex.dev/controller");
        assert_eq!(event.ty(), "dev.vtex.cleaner.deleted");
        let name = format!("{}/shop", scene.namespace);
        assert_eq!(event.subject(), Some(name.as_str()));
        assert_eq!(event.datacontenttype(), Some("application/json"));
        let evaluated = watched
            .until("its status says when its conditions were true", |changes| {
                let status = changes.last()?.object().status.clone()?;
                status.evaluation_time
            })
            .await;
        let time = event.time().unwrap().timestamp_micros();
        assert_eq!(time, evaluated.0.as_microsecond());

        let body = says(&event);
        assert_eq!(body["name"], "shop");
        assert_eq!(body["namespace"], scene.namespace.as_str());
        assert_eq!(body["uid"], uid);
        assert_eq!(body["helm"], Value::Null);
        check_targets(&body);
        let note = "Normal EventDelivered: the sink accepted the CloudEvent";
        scene.has_event("shop", note).await;
        is_one(&operator, DELIVERED);
        is_one(&operator, REQUESTS);
    });
}

/// Checks what an event says about targets, and what was deleted of them: both in the order of the spec.
fn check_targets(body: &Value) {
    let texts = |list: &Value, fields: &[&str]| -> Vec<String> {
        let items = list.as_array().unwrap().iter();
        let text = |item: &Value| {
            let fields = fields.iter().map(|field| item[field].to_string());
            fields.collect::<Vec<_>>().join(" ").replace('"', "")
        };
        items.map(text).collect()
    };
    let (targets, deleted) = (&body["targets"], &body["deleted"]);
    let expected = ["others true", "seen false", "web true"];
    assert_eq!(texts(targets, &["name", "delete"]), expected);
    assert_eq!(targets[0]["state"]["items"][1]["metadata"]["name"], "b");
    assert_eq!(targets[1]["state"]["data"]["state"], "here");
    let expected = [
        "others v1 ConfigMap a Accepted",
        "others v1 ConfigMap b Accepted",
        "web v1 ConfigMap web Accepted",
    ];
    let fields = ["target", "apiVersion", "kind", "name", "outcome"];
    assert_eq!(texts(deleted, &fields), expected);
    assert_eq!(deleted[2]["uid"], targets[2]["state"]["metadata"]["uid"]);
}

#[test]
fn a_dead_sink_blocks_until_it_is_repaired() {
    blackbox_on(Cluster::without_operator, "cleaner-block", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let operator = cleaners.operator(&[LOOPBACK]).await;
        let sink = Double::sink(&[]);
        cleaners.map("web", json!({}), "idle").await;
        let dead = spec(
            &url(free_address()),
            json!({ "delivery": { "deadline": "1s" } }),
        );
        let uid = cleaners.create("shop", dead).await.metadata.uid.unwrap();
        let cleaner = until_error(
            &cleaners,
            "the sink cannot be reached: no connection could be made",
        )
        .await;
        assert!(condition(&cleaner, "Deleting").starts_with("DeliveringEvent"));
        assert!(
            !cleaners.has_map("web").await,
            "the targets are deleted before"
        );
        // It is tried again, with one warning about the one error.
        let cleaner = tried(&cleaners, 3).await;
        let finalizers = cleaner.metadata.finalizers.unwrap();
        assert_eq!(finalizers, ["cleaner.vtex.dev/deletion"]);
        has_one_warning(
            &scene,
            "Warning EventDeliveryFailed: the CloudEvent could not be delivered, and is sent again",
        )
        .await;

        let repaired = Instant::now();
        cleaners
            .edit("shop", json!({ "cloudEventSink": url(sink.address()) }))
            .await;
        let requests = received(&sink, 1).await;
        assert!(
            repaired.elapsed() < Duration::from_secs(20),
            "at once: {:?}",
            repaired.elapsed()
        );
        assert_eq!(event(&requests[0]).id(), uid);
        cleaners.until_gone("shop", &[]).await;
        scene.has_event("shop", "Normal EventDelivered").await;
        assert_eq!(sink.received().count, 1);
        for text in [
            operator.printed(),
            format!("{:?}", scene.events("shop").await),
        ] {
            assert!(
                !text.contains("hidden"),
                "the URL's query is a secret: {text}"
            );
        }
    });
}

#[test]
fn ignore_leaves_after_its_deadline() {
    blackbox_on(Cluster::without_operator, "cleaner-ignore", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let operator = cleaners.operator(&[LOOPBACK]).await;
        let sink = Double::sink(&["--status", "503", "--body", "PRIVATE"]);
        cleaners.map("web", json!({}), "idle").await;
        let delivery = json!({ "delivery": { "policy": "Ignore", "deadline": "4s" } });
        let watched = cleaners.watch().await;
        cleaners
            .create("shop", spec(&url(sink.address()), delivery))
            .await;
        received(&sink, 1).await;
        let began = Instant::now();
        cleaners.until_gone("shop", &["web"]).await;
        assert!(
            began.elapsed() > Duration::from_secs(2),
            "{:?}",
            began.elapsed()
        );
        let count = sink.received().count;
        assert!((2..=4).contains(&count), "{count}");
        let note = "Warning DeadlineExceeded: the CloudEvent was not delivered, and is not sent any more: the sink answered with HTTP 503";
        scene.has_event("shop", note).await;
        is_one(&operator, GIVEN_UP);
        // What a sink says is nobody's business.
        let statuses = format!("{:?}", watched.of("shop"));
        let events = format!("{:?}", scene.events("shop").await);
        for text in [operator.printed(), statuses, events] {
            assert!(!text.contains("PRIVATE"), "{text}");
        }
    });
}

#[test]
fn the_same_event_is_sent_until_it_is_accepted() {
    blackbox_on(Cluster::without_operator, "cleaner-again", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let mut operator = cleaners.operator(&[LOOPBACK]).await;
        let sink = Double::sink(&[]);
        sink.reply(&Reply::lost());
        cleaners.map("web", json!({}), "idle").await;
        let uid = cleaners
            .create("shop", spec(&url(sink.address()), json!({})))
            .await
            .metadata
            .uid
            .unwrap();
        until_error(
            &cleaners,
            "the sink cannot be reached: the connection was closed",
        )
        .await;
        let elsewhere = Double::sink(&[]);
        sink.reply(&Reply::status(307).with_header("location", &url(elsewhere.address())));
        until_error(
            &cleaners,
            "the sink answered with HTTP 307; redirects are not followed",
        )
        .await;
        assert_eq!(elsewhere.received().count, 0);

        sink.reply(&Reply::status(429).with_header("retry-after", "15"));
        until_error(&cleaners, "the sink answered with HTTP 429").await;
        let before = sink.received().count;
        let began = Instant::now();
        sink.reply(&Reply::status(500));
        received(&sink, before + 1).await;
        let waited = began.elapsed();
        assert!(
            waited > Duration::from_secs(10),
            "it wants to be left alone: {waited:?}"
        );

        // A restarted operator knows nothing of all that.
        operator.kill();
        sink.reply(&Reply::status(204));
        operator.restart();
        operator.ready().await;
        cleaners.until_gone("shop", &["web"]).await;
        let requests = sink.received().requests;
        let body = &requests[0].body;
        for request in &requests {
            assert_eq!(event(request).id(), uid);
            assert_eq!(&request.body, body);
        }
    });
}

#[test]
fn sinks_on_the_machine_of_the_operator_are_refused() {
    blackbox_on(Cluster::without_operator, "cleaner-local", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let mut operator = cleaners.operator(&[]).await;
        let sink = Double::sink(&[]);
        cleaners.map("web", json!({}), "idle").await;
        cleaners
            .create("shop", spec(&url(sink.address()), json!({})))
            .await;
        let blocked = "the sink cannot be reached: its address is blocked";
        let cleaner = until_error(&cleaners, blocked).await;
        operator.kill();
        let before = attempts(&cleaner) + 1;
        let metadata = json!({ "cloudEventSink": "http://169.254.169.254/latest" });
        cleaners.edit("shop", metadata).await;

        let _operator = cleaners.operator(&[LOOPBACK]).await;
        tried(&cleaners, before + 1).await;
        until_error(&cleaners, blocked).await;
        // What is left to do can be dropped.
        cleaners
            .annotate("shop", "cleaner.vtex.dev/abandon", "true")
            .await;
        cleaners.until_gone("shop", &["web"]).await;
        assert_eq!(sink.received().count, 0);
    });
}
