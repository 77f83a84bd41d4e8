//! `podloom-doubles faults`: the proxy before the API server, steered over HTTP.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use podloom_tests::faults::{Proxy, Rule};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// The most that a list of rules may take.
const RULES_LIMIT: usize = 1024 * 1024;

/// A proxy before the API server that injects faults.
///
/// It forwards every request with the caller's own token, watches too, and writes a kubeconfig that leads through it: plain HTTP on
/// loopback.
/// Rules pick requests by verb, resource (`pods`, `browsers/status`) and text in the path, and say what goes wrong with them.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The kubeconfig of the API server; the copy has the same user.
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    kubeconfig: PathBuf,
    /// Where to write the kubeconfig that leads through the proxy.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Where the proxy listens.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Where it is steered: GET /counts, GET /hits, PUT /rules, POST /silence, POST /silence-all, POST /resume, POST /drop.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    control: SocketAddr,
    /// A rule, as JSON; several are looked at in their order, and the first that applies decides.
    #[arg(long = "rule", value_name = "JSON", value_parser = rule)]
    rules: Vec<Rule>,
}

const EXAMPLES: &str = r#"Examples:
  # An operator that loses the answer to its third write
  podloom-doubles faults --kubeconfig admin.yaml --out faulty.yaml --control 127.0.0.1:9000 \
      --rule '{"on": {"verbs": ["write"]}, "after": 2, "times": 1, "fault": "cut"}'
  KUBECONFIG=faulty.yaml podloom run --plugins target/plugins

  # Faults are: "drop" (before the API server sees the request), "cut" (before its answer is passed on), "stall",
  # {"delay": {"seconds": 2}} and {"answer": {"status": 404, "body": "404 page not found"}}
  curl -X PUT localhost:9000/rules --data '[{"on": {"resources": ["leases"]}, "fault": "stall"}]'

  # Open connections carry nothing more; new ones work
  curl -X POST localhost:9000/silence"#;

fn rule(text: &str) -> Result<Rule, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Runs until it is killed.
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let proxy = Proxy::start_at(arguments.listen, &arguments.kubeconfig).await?;
    proxy.set_rules(arguments.rules.clone());
    write_kubeconfig(&proxy, arguments)?;
    let control = TcpListener::bind(arguments.control)
        .await
        .with_context(|| arguments.control.to_string())?;
    eprintln!(
        "proxy on http://{}, steered on http://{}",
        proxy.address,
        control.local_addr()?
    );
    let proxy = Arc::new(proxy);
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = control.accept().await?;
        let proxy = Arc::clone(&proxy);
        connections.spawn(async move {
            let steered = service_fn(|request| steer(&proxy, request));
            // A client that goes is no fault of ours.
            let _gone = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), steered)
                .await;
        });
        while connections.try_join_next().is_some() {}
    }
}

fn write_kubeconfig(proxy: &Proxy, arguments: &Arguments) -> Result<()> {
    let copy = |to: &Path| std::fs::copy(proxy.kubeconfig(&arguments.kubeconfig), to);
    copy(&arguments.out).with_context(|| arguments.out.display().to_string())?;
    Ok(())
}

type Answer = Response<Full<Bytes>>;

async fn steer(proxy: &Proxy, request: Request<Incoming>) -> Result<Answer, Infallible> {
    let (head, body) = request.into_parts();
    let (status, text) = match (&head.method, head.uri.path()) {
        (&Method::GET, "/counts") => (StatusCode::OK, json(&proxy.counts())),
        (&Method::GET, "/hits") => (StatusCode::OK, json(&proxy.hits())),
        (&Method::PUT, "/rules") => match rules(body).await {
            Ok(rules) => {
                proxy.set_rules(rules);
                done()
            }
            Err(why) => (StatusCode::BAD_REQUEST, why),
        },
        (&Method::POST, path) => match act(proxy, path) {
            Some(()) => done(),
            None => unknown(),
        },
        _ => unknown(),
    };
    let mut answer = Response::new(Full::from(text));
    *answer.status_mut() = status;
    Ok(answer)
}

fn act(proxy: &Proxy, path: &str) -> Option<()> {
    match path {
        "/silence" => proxy.silence(),
        "/silence-all" => proxy.silence_all(),
        "/resume" => proxy.resume(),
        "/drop" => proxy.drop_connections(),
        _ => return None,
    }
    Some(())
}

async fn rules(body: Incoming) -> Result<Vec<Rule>, String> {
    let body = Limited::new(body, RULES_LIMIT).collect().await;
    let body = body.map_err(|error| error.to_string())?.to_bytes();
    serde_json::from_slice(&body).map_err(|error| format!("{error}\n"))
}

fn json(value: &impl serde::Serialize) -> String {
    // Numbers and texts alone.
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    format!("{text}\n")
}

fn done() -> (StatusCode, String) {
    (StatusCode::OK, "done\n".to_owned())
}

fn unknown() -> (StatusCode, String) {
    let text = "there is no such thing; see podloom-doubles faults --help\n";
    (StatusCode::NOT_FOUND, text.to_owned())
}
