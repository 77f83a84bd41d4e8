//! The proxy in front of an API server.

use std::net::SocketAddr;
use std::time::Duration;

use podloom_tests::faults::{Fault, Proxy, Rule, UNANSWERED};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long to wait for anything.
const SOON: Duration = Duration::from_secs(10);
/// How long to watch for what must not happen.
const WHILE: Duration = Duration::from_millis(100);

const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
/// It has no length, so it lasts until the server closes the connection.
const WATCH: &str = "HTTP/1.1 200 OK\r\n\r\n{\"type\":\"BOOKMARK\"}\n{\"type\":\"ADDED\"}\n{\"type\":\"BOOKMARK\"}\n{\"type\":\"MODIFIED\"}\n";

/// The same, if the first of its changes are a list.
const LISTED: &str = "HTTP/1.1 200 OK\r\n\r\n{\"type\":\"ADDED\"}\n{\"type\":\"ADDED\"}\n{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n{\"type\":\"ADDED\"}\n{\"type\":\"MODIFIED\"}\n";
/// With it, the body of such an answer is complete.
const LAST_CHUNK: &str = "\r\n0\r\n\r\n";

/// A server that records the heads of its requests and always answers the same, and the proxy in front of it.
struct Stage {
    proxy: Proxy,
    asked: mpsc::UnboundedReceiver<String>,
    server: SocketAddr,
    _server: JoinSet<()>,
}

async fn stage(rules: Vec<Rule>) -> Stage {
    stage_with(ANSWER, rules).await
}

async fn stage_with(answer: &'static str, rules: Vec<Rule>) -> Stage {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{ name: c, cluster: {{ server: 'http://{address}' }} }}]\n\
         users: [{{ name: c, user: {{ token: ours }} }}]\n\
         contexts: [{{ name: c, context: {{ cluster: c, user: c }} }}]\n"
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), config).unwrap();
    let (heads, asked) = mpsc::unbounded_channel();
    let mut server = JoinSet::new();
    server.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(serve(stream, heads.clone(), answer));
        }
    });
    let proxy = Proxy::start(file.path());
    proxy.set_rules(&rules);
    Stage {
        proxy,
        asked,
        server: address,
        _server: server,
    }
}

async fn serve(mut stream: TcpStream, heads: mpsc::UnboundedSender<String>, answer: &'static str) {
    while let Some(head) = read_head(&mut stream).await {
        heads.send(head).unwrap();
        stream.write_all(answer.as_bytes()).await.unwrap();
        if [WATCH, LISTED].contains(&answer) {
            break;
        }
    }
}

/// Reads up to the empty line; `None` at the end.
async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        head.push(char::from(stream.read_u8().await.ok()?));
    }
    Some(head)
}

impl Stage {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.proxy.address).await.unwrap()
    }
}

async fn send(stream: &mut TcpStream, method: &str, path: &str) {
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: proxy\r\nAuthorization: Bearer theirs\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
}

/// The status line and the body; an empty text if the connection was closed.
async fn answer(stream: &mut TcpStream) -> String {
    let read = async {
        let head = read_head(stream).await?;
        let length = head.lines().find_map(|line| {
            line.to_lowercase()
                .strip_prefix("content-length: ")?
                .parse()
                .ok()
        });
        let mut body = vec![0; length?];
        stream.read_exact(&mut body).await.ok()?;
        let status = head.lines().next()?.to_owned();
        Some(format!("{status}: {}", String::from_utf8(body).unwrap()))
    };
    timeout(SOON, read).await.unwrap().unwrap_or_default()
}

async fn ask(stage: &Stage, method: &str, path: &str) -> String {
    let mut stream = stage.connect().await;
    send(&mut stream, method, path).await;
    answer(&mut stream).await
}

const PODS: &str = "/api/v1/namespaces/n/pods";
const OK: &str = "HTTP/1.1 200 OK: ok";

#[tokio::test]
async fn requests_are_counted_by_the_names_of_kubernetes_and_their_statuses() {
    let refuses = Rule::on("create pods", Fault::api_error(409, "Conflict", "no"));
    let stage = stage(vec![refuses, Rule::on("list namespaces", Fault::Drop)]).await;
    for (method, uri, expected, status) in [
        ("POST", PODS, "create pods", "409"),
        ("GET", PODS, "list pods", "200"),
        ("GET", "/api/v1/pods?watch=true", "watch pods", "200"),
        (
            "GET",
            "/api/v1/nodes?watch=true&sendInitialEvents=true",
            "list nodes",
            "200",
        ),
        (
            "DELETE",
            "/api/v1/namespaces/n/pods/p",
            "delete pods",
            "200",
        ),
        ("DELETE", PODS, "deletecollection pods", "200"),
        (
            "PATCH",
            "/apis/selenosis.io/v1/namespaces/n/browsers/b/status?x=y",
            "patch browsers/status",
            "200",
        ),
        ("GET", "/api/v1/namespaces/n", "get namespaces", "200"),
        ("GET", "/api/v1/namespaces", "list namespaces", UNANSWERED),
        (
            "GET",
            "/apis/selenosis.io/v1",
            "get /apis/selenosis.io/v1",
            "200",
        ),
        ("GET", "/readyz", "get /readyz", "200"),
    ] {
        ask(&stage, method, uri).await;
        let codes = stage.proxy.counts().remove(expected).unwrap_or_default();
        assert_eq!(codes, [(status.to_owned(), 1)].into(), "{uri}");
    }
}

#[tokio::test]
async fn requests_pass_with_the_token_of_the_caller_and_are_counted() {
    let mut stage = stage(Vec::new()).await;
    assert_eq!(ask(&stage, "POST", PODS).await, OK);
    assert_eq!(ask(&stage, "POST", PODS).await, OK);
    let asked = stage.asked.recv().await.unwrap().to_lowercase();
    assert!(
        asked.starts_with(&format!("post {PODS} http/1.1\r\n")),
        "{asked}"
    );
    assert!(
        asked.contains("authorization: bearer theirs\r\n"),
        "{asked}"
    );
    assert_eq!(stage.proxy.count("create pods"), 2);
}

#[tokio::test]
async fn a_rule_injects_its_fault_as_often_as_it_says() {
    let spoils = Rule {
        after: 1,
        times: Some(1),
        ..Rule::on("write pods", Fault::api_error(409, "Conflict", "no"))
    };
    let stage = stage(vec![spoils]).await;
    assert_eq!(ask(&stage, "GET", PODS).await, OK);
    assert_eq!(ask(&stage, "POST", PODS).await, OK);
    let refused = ask(&stage, "POST", PODS).await;
    assert!(refused.starts_with("HTTP/1.1 409 Conflict: {"), "{refused}");
    assert_eq!(ask(&stage, "POST", PODS).await, OK);
    assert_eq!(stage.proxy.hits(), [1]);
}

#[tokio::test]
async fn a_dropped_request_never_arrives_and_a_cut_one_does() {
    let rules = vec![
        Rule::on("create pods", Fault::Drop),
        Rule::on("delete pods", Fault::Cut),
    ];
    let mut stage = stage(rules).await;
    assert_eq!(ask(&stage, "POST", PODS).await, "");
    assert_eq!(ask(&stage, "DELETE", &format!("{PODS}/p")).await, "");
    let asked = stage.asked.recv().await.unwrap();
    assert!(asked.starts_with("DELETE"), "{asked}");
}

/// What a client gets of a watch whose second change gets this fault.
async fn watched(fault: Fault) -> String {
    watched_as(WATCH, "watch=true", fault).await
}

async fn watched_as(answer: &'static str, query: &str, fault: Fault) -> String {
    let faulty = Rule {
        after: 1,
        ..Rule::on("change pods", fault)
    };
    let stage = stage_with(answer, vec![faulty]).await;
    let mut stream = stage.connect().await;
    send(&mut stream, "GET", &format!("{PODS}?{query}")).await;
    let mut got = String::new();
    let reads = async {
        while !got.ends_with(LAST_CHUNK)
            && let Ok(byte) = stream.read_u8().await
        {
            got.push(char::from(byte));
        }
    };
    timeout(SOON, reads).await.unwrap();
    assert_eq!(stage.proxy.hits(), [1]);
    got
}

#[tokio::test]
async fn a_watch_ends_before_a_change_that_gets_a_fault() {
    let cut = watched(Fault::Drop).await;
    assert!(
        !cut.contains("MODIFIED") && !cut.ends_with(LAST_CHUNK),
        "{cut}"
    );
    let got = watched(Fault::expired()).await;
    let lines: Vec<_> = got.lines().filter(|line| line.starts_with('{')).collect();
    assert_eq!(
        lines[..3],
        WATCH.lines().skip(2).take(3).collect::<Vec<_>>()
    );
    assert!(lines.len() == 4 && lines[3].contains("Expired"), "{got}");
    assert!(got.ends_with(LAST_CHUNK), "{got}");
}

#[tokio::test]
async fn the_list_that_begins_a_watch_shows_no_change() {
    let query = "watch=true&sendInitialEvents=true";
    let got = watched_as(LISTED, query, Fault::expired()).await;
    assert_eq!(got.matches("ADDED").count(), 3, "{got}");
    assert!(
        got.contains("Expired") && !got.contains("MODIFIED"),
        "{got}"
    );
}

#[tokio::test]
async fn a_stalled_request_is_not_answered() {
    let stage = stage(vec![Rule::on("list pods", Fault::Stall)]).await;
    let mut stream = stage.connect().await;
    send(&mut stream, "GET", PODS).await;
    assert!(timeout(WHILE, answer(&mut stream)).await.is_err());
    assert_eq!(ask(&stage, "POST", PODS).await, OK);
}

#[tokio::test]
async fn a_held_request_is_forwarded_when_the_rules_are_replaced() {
    let mut stage = stage(vec![Rule::on("create pods", Fault::Hold)]).await;
    let mut stream = stage.connect().await;
    send(&mut stream, "POST", PODS).await;
    assert!(timeout(WHILE, answer(&mut stream)).await.is_err());
    assert!(stage.asked.try_recv().is_err(), "it did not arrive");
    stage.proxy.set_rules(&[]);
    assert_eq!(answer(&mut stream).await, OK);
}

#[tokio::test]
async fn another_server_is_called_by_the_host_of_the_proxy_and_its_requests_are_recorded() {
    let mut stage = stage(Vec::new()).await;
    let proxy = Proxy::to(stage.server);
    proxy.set_rules(&[Rule::on("write /things/{id}/start", Fault::Drop)]);
    let path = "/things/12345678-9abc-def0-1234-56789abcdef0";
    for (method, path, expected) in [
        ("GET", format!("{path}/start?a=b"), OK),
        ("PUT", format!("{path}/start"), ""),
        ("POST", "/things".to_owned(), OK),
    ] {
        let mut stream = TcpStream::connect(proxy.address).await.unwrap();
        send(&mut stream, method, &path).await;
        assert_eq!(answer(&mut stream).await, expected, "{method} {path}");
    }
    let head = stage.asked.recv().await.unwrap().to_lowercase();
    assert!(head.contains("host: proxy\r\n"), "{head}");
    assert!(head.contains(path), "{head}");
    let requests = proxy.requests().into_iter();
    let requests: Vec<_> = requests
        .map(|request| (request.method, request.path, request.status))
        .collect();
    let seen = |method: &str, path: &str, status| (method.to_owned(), path.to_owned(), status);
    assert_eq!(
        requests,
        [
            seen("GET", "/things/{id}/start?a=b", Some(200)),
            seen("PUT", "/things/{id}/start", None),
            seen("POST", "/things", Some(200)),
        ]
    );
    assert_eq!(proxy.count("GET /things/{id}/start"), 1);
}

#[tokio::test]
async fn a_delayed_request_is_answered_later() {
    let delay = Fault::Delay { seconds: 0.2 };
    let stage = stage(vec![Rule::on("list pods", delay)]).await;
    let mut stream = stage.connect().await;
    send(&mut stream, "GET", PODS).await;
    assert!(timeout(WHILE, answer(&mut stream)).await.is_err());
    assert_eq!(answer(&mut stream).await, OK);
}

#[tokio::test]
async fn silent_connections_stay_open_and_carry_again_later() {
    let mut stage = stage(Vec::new()).await;
    let mut old = stage.connect().await;
    send(&mut old, "GET", PODS).await;
    assert_eq!(answer(&mut old).await, OK);
    stage.asked.recv().await.unwrap();

    stage.proxy.silence();
    send(&mut old, "DELETE", PODS).await;
    assert!(timeout(WHILE, answer(&mut old)).await.is_err());
    assert!(stage.asked.try_recv().is_err(), "it did not arrive");
    assert_eq!(ask(&stage, "GET", PODS).await, OK);

    stage.proxy.silence_all();
    let mut new = stage.connect().await;
    send(&mut new, "GET", PODS).await;
    assert!(timeout(WHILE, answer(&mut new)).await.is_err());

    stage.proxy.resume();
    assert_eq!(answer(&mut old).await, OK);
    assert_eq!(answer(&mut new).await, OK);
}

#[tokio::test]
async fn dropped_connections_close_and_new_ones_work() {
    let stage = stage(Vec::new()).await;
    let mut old = stage.connect().await;
    send(&mut old, "GET", PODS).await;
    assert_eq!(answer(&mut old).await, OK);
    stage.proxy.drop_connections();
    assert_eq!(answer(&mut old).await, "");
    assert_eq!(ask(&stage, "GET", PODS).await, OK);
}
