mod allowance;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use kube::core::Selector;
use podloom_scripted::{client, scripted};
use serde_json::{Value, json};
use tower::service_fn;

use super::{Objects, Place, segment};
use crate::discovery::FailureKind;
use crate::fixtures::kind;

#[track_caller]
fn check_segment(name: &str, expected: &str) {
    assert_eq!(segment(name), expected);
}

#[test]
fn names_are_one_segment_of_a_path() {
    check_segment("web-1.example", "web-1.example");
    check_segment("system:basic-user", "system:basic-user");
    check_segment("a b?c#d", "a%20b%3Fc%23d");
    check_segment("ä", "%C3%A4");
}

async fn get(code: u16, answer: Value) -> Result<Option<Value>, FailureKind> {
    let (client, requests) = client(code, answer);
    let pods = kind("Pod", "pods");
    let place = Place {
        kind: &pods,
        namespace: Some("demo"),
        name: "a?b",
    };
    let read = Objects::new(client).get(place).await;
    assert_eq!(requests.made(), ["GET /api/v1/namespaces/demo/pods/a%3Fb"]);
    read.map_err(|error| error.kind)
}

fn failure(code: u16, reason: &str, name: &str) -> Value {
    json!({ "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "no", "details": { "name": name } })
}

#[tokio::test]
async fn only_an_answer_that_names_the_object_says_that_it_is_missing() {
    assert_eq!(get(404, failure(404, "NotFound", "a?b")).await, Ok(None));
    let not_served = Err(FailureKind::NotServed);
    assert_eq!(get(404, failure(404, "NotFound", "")).await, not_served);
    assert_eq!(get(404, json!("404 page not found")).await, not_served);
}

#[tokio::test]
async fn what_may_go_well_later_is_transient() {
    for code in [429, 500, 503] {
        let answer = failure(code, "Broken", "");
        assert_eq!(
            get(code, answer).await,
            Err(FailureKind::Transient),
            "{code}"
        );
    }
    assert_eq!(
        get(403, failure(403, "Forbidden", "a")).await,
        Err(FailureKind::Forbidden)
    );
    assert_eq!(
        get(422, failure(422, "Invalid", "a")).await,
        Err(FailureKind::Refused)
    );
}

#[tokio::test]
async fn kind_and_version_are_filled_in() {
    let read = get(200, json!({ "metadata": {} })).await.unwrap().unwrap();
    assert_eq!(
        read,
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": {} })
    );
    let own = json!({ "apiVersion": "v2", "kind": "Other" });
    assert_eq!(get(200, own.clone()).await.unwrap(), Some(own));
}

/// A list whose pages have this many objects each.
async fn list(pages: &'static [usize]) -> Result<Value, FailureKind> {
    let at = std::sync::Mutex::new(0);
    let (client, _) = scripted(move |_, _| {
        let mut at = at.lock().unwrap();
        let items: Vec<Value> = (0..pages[*at])
            .map(|number| json!({ "metadata": { "name": number.to_string() } }))
            .collect();
        *at += 1;
        let next = if *at < pages.len() { "more" } else { "" };
        (
            200,
            json!({ "metadata": { "resourceVersion": "7", "continue": next }, "items": items }),
        )
    });
    let pods = kind("Pod", "pods");
    let (objects, all) = (Objects::new(client), Selector::default());
    let mut share = objects.share("demo");
    let read = objects.list(&pods, Some("demo"), &all, &mut share).await;
    read.map_err(|error| error.kind)
}

#[tokio::test]
async fn a_list_has_all_pages() {
    let read = list(&[2, 1]).await.unwrap();
    assert_eq!(
        (&read["kind"], &read["apiVersion"]),
        (&json!("PodList"), &json!("v1"))
    );
    let items = read["items"].as_array().unwrap();
    assert_eq!(items.len(), 3);
    assert!(
        items
            .iter()
            .all(|it| it["kind"] == "Pod" && it["apiVersion"] == "v1")
    );
    assert_eq!(list(&[0]).await.unwrap()["items"], json!([]));
}

#[tokio::test]
async fn a_list_that_is_too_long_is_refused() {
    assert!(list(&[5_000, 5_000]).await.is_ok());
    assert_eq!(list(&[5_000, 5_000, 1, 1]).await, Err(FailureKind::TooLong));
}

async fn listed(answer: Value) -> Result<Value, FailureKind> {
    let (client, _) = client(200, answer);
    let pods = kind("Pod", "pods");
    let (objects, all) = (Objects::new(client), Selector::default());
    let mut share = objects.share("demo");
    let listed = objects.list(&pods, Some("demo"), &all, &mut share);
    listed.await.map_err(|error| error.kind)
}

/// Conditions would be true of all objects of an empty list.
#[tokio::test]
async fn an_answer_without_items_is_no_empty_list() {
    let empty = json!({ "metadata": {}, "items": null });
    assert_eq!(listed(empty).await.unwrap()["items"], json!([]));
    for answer in [
        json!({}),
        json!([]),
        json!("fine"),
        json!({ "items": "none" }),
        json!({ "kind": "Status", "status": "Success" }),
    ] {
        assert_eq!(listed(answer).await, Err(FailureKind::Transient));
    }
}

/// A list of so many such objects, and which limits its pages had.
async fn list_of(object: &Value, count: usize) -> (Result<usize, FailureKind>, Vec<String>) {
    let object = object.clone();
    let limits = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let asked = std::sync::Arc::clone(&limits);
    let service = service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap().to_owned();
        let parameter = |name: &str| {
            let pair = query.split('&').find_map(|pair| pair.strip_prefix(name));
            pair.and_then(|pair| pair.strip_prefix('='))
                .map(str::to_owned)
        };
        let limit = parameter("limit").unwrap();
        asked.lock().unwrap().push(limit.clone());
        let from: usize = parameter("continue").map_or(0, |at| at.parse().unwrap());
        let to = count.min(from + limit.parse::<usize>().unwrap());
        let items = vec![object.clone(); to - from];
        let next = if to < count {
            to.to_string()
        } else {
            String::new()
        };
        let list = json!({ "metadata": { "continue": next }, "items": items });
        let answer = Response::new(Body::from(serde_json::to_vec(&list).unwrap()));
        async move { Ok::<_, std::convert::Infallible>(answer) }
    });
    let client = Client::new(service, "default");
    let pods = kind("Pod", "pods");
    let (objects, all) = (Objects::new(client), Selector::default());
    let mut share = objects.share("demo");
    let read = objects.list(&pods, Some("demo"), &all, &mut share).await;
    let read = read.map(|list| list["items"].as_array().unwrap().len());
    let limits = limits.lock().unwrap().clone();
    (read.map_err(|error| error.kind), limits)
}

#[tokio::test]
async fn large_objects_come_in_smaller_pages() {
    let large = json!({ "data": "x".repeat(300 * 1024) });
    let (read, limits) = list_of(&large, 90).await;
    assert_eq!(read, Ok(90));
    assert_eq!(limits[..3], ["500", "62", "7"]);
}

/// A namespace full of objects with many small parts would take all memory of the operator.
#[tokio::test]
async fn a_list_that_takes_too_much_memory_is_refused() {
    let maps = vec![json!({ "a": 0 }); 10_000];
    let (read, limits) = list_of(&json!({ "spec": maps }), 40).await;
    assert_eq!(read, Err(FailureKind::TooLong));
    assert_eq!(limits[..3], ["500", "62", "7"]);
    assert!(limits.len() < 15, "{limits:?}");
}
