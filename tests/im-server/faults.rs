//! The proxy between the operator and the server.

use std::time::Duration;

use podloom_tests::faults::{Fault, Proxy, Rule};
use podloom_tests::im::templates;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::{owner, with_im};

/// How long to watch for what must not happen.
const WHILE: Duration = Duration::from_millis(100);

const CREATE: &str = "POST /infrastructures";

fn first(request: &str, fault: Fault) -> Rule {
    Rule::once(request, 0, fault)
}

#[test]
fn a_lost_answer_leaves_an_infrastructure_and_a_dropped_request_leaves_none() {
    with_im("lost", async |im| {
        let proxy = Proxy::to(im.address);
        let (direct, through) = (owner(&im), owner(&im).at(proxy.address));
        let template = templates::single_node("none").to_string();
        proxy.set_rules(&[first(CREATE, Fault::Drop)]);
        assert!(through.try_ask(CREATE, "text/yaml", &template).is_err());
        assert!(direct.list().is_empty());
        proxy.set_rules(&[first(CREATE, Fault::Cut)]);
        assert!(through.try_ask(CREATE, "text/yaml", &template).is_err());
        let ids = direct.list();
        assert_eq!(ids.len(), 1, "{ids:?}");
        assert_eq!(through.list(), ids);
        assert_eq!(proxy.hits(), [1]);
        assert_eq!(proxy.count(CREATE), 2);
    });
}

#[test]
fn requests_are_recorded_without_ids() {
    with_im("record", async |im| {
        let proxy = Proxy::to(im.address);
        let owner = owner(&im).at(proxy.address);
        let id = owner.create(&templates::single_node("none"));
        owner.stop_machines(&id);
        proxy.set_rules(&[first("GET /infrastructures", Fault::Drop)]);
        assert!(
            owner
                .try_ask("GET /infrastructures?a=b", "text/plain", "")
                .is_err()
        );
        let requests = proxy.requests();
        let seen = requests.iter().map(|request| {
            (
                request.method.as_str(),
                request.path.as_str(),
                request.status,
                request.is_write(),
            )
        });
        let seen: Vec<_> = seen.collect();
        assert_eq!(
            seen,
            [
                ("POST", "/infrastructures?async=true", Some(200), true),
                ("PUT", "/infrastructures/{id}/stop", Some(200), true),
                ("GET", "/infrastructures?a=b", None, false),
            ]
        );
        assert!(requests.is_sorted_by(|one, next| one.seconds < next.seconds));
        assert_eq!(proxy.count("PUT /infrastructures/{id}/stop"), 1);
    });
}

#[test]
fn a_held_request_arrives_when_the_rules_are_replaced() {
    with_im("held", async |im| {
        let proxy = Proxy::to(im.address);
        let (direct, through) = (owner(&im), owner(&im).at(proxy.address));
        proxy.set_rules(&[first(CREATE, Fault::Hold)]);
        let mut creating = spawn_blocking(move || through.create(&templates::single_node("none")));
        assert!(timeout(WHILE, &mut creating).await.is_err());
        assert!(direct.list().is_empty());
        proxy.set_rules(&[]);
        let id = creating.await.unwrap();
        assert_eq!(direct.list(), [id]);
    });
}

#[test]
fn an_answer_can_be_garbage() {
    with_im("garbage", async |im| {
        let proxy = Proxy::to(im.address);
        let through = owner(&im).at(proxy.address);
        let id = through.create(&templates::single_node("none"));
        let garbage = Fault::Answer {
            status: 200,
            body: "{\"state\": 7".to_owned(),
        };
        proxy.set_rules(&[first("GET /infrastructures/{id}/state", garbage)]);
        let request = format!("GET /infrastructures/{id}/state");
        let answer = through.ask(&request, "text/plain", "");
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (200, "{\"state\": 7")
        );
        through.reaches(&id, "configured").await;
    });
}

#[test]
fn a_proxy_outlives_a_restart_of_its_server() {
    with_im("restarted", async |mut im| {
        let proxy = Proxy::to(im.address);
        let through = owner(&im).at(proxy.address);
        let id = through.create(&templates::single_node("none"));
        im.stop().await;
        assert!(through.try_ask("GET /version", "text/plain", "").is_err());
        im.restart_same().await;
        assert_eq!(through.list(), [id]);
    });
}
