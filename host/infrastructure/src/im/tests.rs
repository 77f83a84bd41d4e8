use std::collections::BTreeMap;
use std::sync::Arc;

use podloom_engine::outbound::{OutboundMetrics, Resolve, Roots, SystemResolver, Tls};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tracing_subscriber::fmt::MakeWriter;

use self::server::{Heard, Server};
use super::{
    Answer, Call, CloudLogin, Failure, FailureKind, Hidden, ImClient, ImMetrics, ImRules, ImState,
    InfrastructureId, InfrastructureManager, Owner, Reading, Sent, Target,
};

mod failures;
mod secrets;
mod server;

const ID: &str = "0f3dbf6c-6f5d-11f0-8de9-0242ac120002";
const PASSWORD: &str = "p'ä\\s\n\"w&d";
const TOKEN: &str = "cloud-t0ken";

fn id() -> InfrastructureId {
    InfrastructureId::parse(ID).unwrap()
}

fn client() -> (ImClient, Registry) {
    let mut registry = Registry::default();
    let outbound = OutboundMetrics::register(&mut registry);
    let metrics = ImMetrics::register(&mut registry, outbound);
    let rules = ImRules {
        allow: vec!["127.0.0.0/8".parse().unwrap()],
        ..ImRules::default()
    };
    let resolver: Arc<dyn Resolve> = Arc::new(SystemResolver::default());
    (ImClient::new(&rules, &resolver, metrics), registry)
}

fn target(url: &str) -> Target {
    Target {
        url: url.to_owned(),
        tls: Tls::new(&Roots::Unchecked, None).unwrap(),
        tenant: "team".to_owned(),
        owner: Owner::Basic {
            username: "me".to_owned(),
            password: Hidden::new(PASSWORD),
        },
        cloud: Some(CloudLogin {
            name: "demo".to_owned(),
            kind: "Dummy".to_owned(),
            host: Some("https://cloud.example.com:5000".to_owned()),
            parameters: BTreeMap::from([("region".to_owned(), "a b".to_owned())]),
            secrets: BTreeMap::from([("secret".to_owned(), Hidden::new(TOKEN))]),
        }),
    }
}

/// Sends a call to a server that answers so, and returns what it heard too.
async fn exchange(call: &Call, answer: &str) -> (Result<Answer, Failure>, Heard) {
    let server = Server::start(answer).await;
    // A path of the provider's own, with a slash too much.
    let target = target(&format!("{}/im/", server.url()));
    let (client, _) = client();
    let answered = client.call(&target, call).await;
    (answered, server.heard())
}

fn ok(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Sends a call, and checks the answer and the request.
async fn check(call: &Call, answer: &str, expected: &Answer, request: (&str, &str)) {
    let (answered, heard) = exchange(call, &ok(answer)).await;
    assert_eq!(&answered.unwrap(), expected, "{call:?}");
    assert_eq!((heard.line.as_str(), heard.body.as_str()), request);
    assert_eq!(heard.header("accept"), Some("application/json"));
    assert_eq!(heard.header("connection"), Some("close"));
    let is_version = *call == Call::Version;
    let login = heard.header("authorization");
    assert_eq!(login.is_none(), is_version, "{call:?}");
    let kind = match call {
        Call::Create { .. } | Call::Update { .. } => Some("text/yaml"),
        Call::AddOwner { .. } => Some("application/json"),
        _ => None,
    };
    assert_eq!(heard.header("content-type"), kind, "{call:?}");
}

#[tokio::test]
async fn each_question_is_the_request_that_im_knows() {
    let list = format!(r#"{{"uri-list":[{{"uri":"http://im/infrastructures/{ID}"}}]}}"#);
    let state = r#"{"state":{"state":"running","vm_states":{"0":"configured","1":"running"}}}"#;
    let reading = Reading {
        state: ImState::Running,
        vms: BTreeMap::from([
            ("0".to_owned(), ImState::Configured),
            ("1".to_owned(), ImState::Running),
        ]),
    };
    let outputs = serde_json::from_value(json!({ "kubeconfig": "x" })).unwrap();
    let (version, cloud) = (Answer::Version("2.0.0".to_owned()), "cloud-demo".to_owned());
    let (template, log) = (
        Answer::Template("a: 1".to_owned()),
        Answer::Log("one two".to_owned()),
    );
    let get = |path: &str| (format!("GET /im{path}"), "");
    let of = |what: &str| get(&format!("/infrastructures/{ID}{what}"));
    for (call, answer, expected, (line, body)) in [
        (Call::Version, "2.0.0\n", version, get("/version")),
        (
            Call::List,
            &*list,
            Answer::List(vec![id()]),
            get("/infrastructures"),
        ),
        (
            Call::State { id: id() },
            state,
            Answer::State(reading),
            of("/state"),
        ),
        (
            Call::Outputs { id: id() },
            r#"{"outputs":{"kubeconfig":"x"}}"#,
            Answer::Outputs(outputs),
            of("/outputs"),
        ),
        (
            Call::Template { id: id() },
            r#"{"tosca":"a: 1"}"#,
            template,
            of("/tosca"),
        ),
        (
            Call::Log { id: id() },
            r#"{"contmsg":"one\ntwo"}"#,
            log,
            of("/contmsg"),
        ),
        (
            Call::Quotas { cloud },
            "{}",
            Answer::Quotas,
            get("/clouds/cloud-demo/quotas"),
        ),
    ] {
        check(&call, answer, &expected, (&line, body)).await;
    }
}

#[tokio::test]
async fn each_change_is_the_request_that_im_knows() {
    let template = json!({ "a": "ü" }).to_string();
    let create = Call::Create {
        template: template.clone(),
    };
    let uri = format!(r#"{{"uri":"http://im/infrastructures/{ID}"}}"#);
    let line = "POST /im/infrastructures?async=true";
    check(&create, &uri, &Answer::Created(id()), (line, &template)).await;

    let update = Call::Update {
        id: id(),
        template: template.clone(),
    };
    let delete = |force| Call::Delete { id: id(), force };
    let owner = Call::AddOwner {
        id: id(),
        username: "me".to_owned(),
        password: Hidden::new("new"),
    };
    let account = json!({ "username": "me", "password": "new" }).to_string();
    for (call, method, what, body) in [
        (update, "POST", "", &*template),
        (Call::Reconfigure { id: id() }, "PUT", "/reconfigure", ""),
        (Call::Start { id: id() }, "PUT", "/start", ""),
        (delete(false), "DELETE", "?async=true", ""),
        (delete(true), "DELETE", "?async=true&force=true", ""),
        (owner, "POST", "/authorization", &*account),
    ] {
        let line = format!("{method} /im/infrastructures/{ID}{what}");
        check(&call, "", &Answer::Done, (&line, body)).await;
    }
}

/// IM reads the header byte by byte, and takes `\n` in it for the end of a line.
#[tokio::test]
async fn the_logins_are_plain_ascii_and_mean_what_was_given() {
    let (_, heard) = exchange(&Call::List, &ok(r#"{"uri-list":[]}"#)).await;
    let header = heard.header("authorization").unwrap();
    assert!(header.is_ascii());
    assert!(!header.contains("\\n") && !header.contains("\\\""));
    assert_eq!(
        serde_json::from_str::<Value>(header).unwrap(),
        json!([
            { "id": "im", "type": "InfrastructureManager", "username": "me", "password": PASSWORD },
            { "id": "cloud-demo", "type": "Dummy", "host": "https://cloud.example.com:5000", "region": "a b", "secret": TOKEN },
        ])
    );
    let mut target = target("http://127.0.0.1:1");
    target.owner = Owner::Token(Hidden::new("𝄞 {\"}"));
    target.cloud = None;
    let header = super::target::authorization(&target);
    assert_eq!(
        header,
        r#"[{"id":"im","type":"InfrastructureManager","token":"\ud834\udd1e \u007b\u0022\u007d"}]"#
    );
}

#[test]
fn ids_are_uuids_in_lower_case() {
    assert_eq!(id().as_str(), ID);
    for bad in [
        "",
        "x",
        &ID.to_uppercase(),
        &ID[1..],
        "../0f3dbf6c-6f5d-11f0-8de9-0242ac12",
        &format!("{ID}/"),
    ] {
        assert_eq!(InfrastructureId::parse(bad), None, "{bad}");
    }
}

#[tokio::test]
async fn the_id_of_a_new_infrastructure_may_be_in_the_header_alone() {
    let call = Call::Create {
        template: "{}".to_owned(),
    };
    let answer = format!("HTTP/1.1 200 OK\r\nInfID: {ID}\r\ncontent-length: 2\r\n\r\nok");
    let (answered, _) = exchange(&call, &answer).await;
    assert_eq!(answered.unwrap(), Answer::Created(id()));
}

#[tokio::test]
async fn calls_are_counted_by_operation_and_outcome() {
    let server = Server::start(&ok("2.0.0")).await;
    let (client, registry) = client();
    client
        .call(&target(&server.url()), &Call::Version)
        .await
        .unwrap();
    client
        .call(&target("http://127.0.0.1:1"), &Call::List)
        .await
        .unwrap_err();
    // Nobody waits for the third.
    let target = target(&server.url());
    drop(futures::poll!(client.call(
        &target,
        &Call::Quotas {
            cloud: "c".to_owned()
        }
    )));
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    for line in [
        r#"im_requests_total{operation="version",outcome="success"} 1"#,
        r#"im_requests_total{operation="quotas",outcome="cancelled"} 1"#,
        r#"im_requests_total{operation="list",outcome="unreachable"} 1"#,
        r#"im_request_duration_seconds_count{operation="version"} 1"#,
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}
