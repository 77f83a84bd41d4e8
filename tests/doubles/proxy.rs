//! `podloom-doubles proxy`: a proxy in front of the API server that counts requests and injects faults.
//!
//! It forwards every request unchanged, with the caller's own token, watches too.

mod connection;
mod forward;
mod rule;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use clap::Args;
use http::{Method, StatusCode};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use podloom_tests::faults::{Counts, Rule, UNANSWERED, through};
use podloom_tests::lock;

use crate::control::{self, ControlError, Steered};
use crate::listen;
use connection::Switchboard;
use forward::Upstream;
use rule::{NamedRequest, Rules};

/// How many pairs of verb and resource are counted separately.
const COUNTED: usize = 4096;
/// Counts all further pairs.
const OTHERS: &str = "others";

/// A proxy in front of the API server that counts requests and injects faults.
///
/// It forwards every request with the caller's own token, watches too.
/// It writes a kubeconfig that goes through the proxy: plain HTTP on loopback.
/// Rules select requests by verb, resource (`pods`, `browsers/status`) and text in the path, and have the fault to inject.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The kubeconfig of the API server.
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    kubeconfig: PathBuf,
    /// The file to write: a kubeconfig with the same user that goes through the proxy.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The address to listen on.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = listen::loopback)]
    listen: SocketAddr,
    /// The address of the control endpoint: GET /counts, GET /hits, PUT /rules, POST /silence, POST /silence-all, POST /resume,
    /// POST /drop.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = listen::loopback)]
    control: SocketAddr,
    /// A rule, as JSON; may be repeated. The first rule that applies decides.
    #[arg(long = "rule", value_name = "JSON", value_parser = rule)]
    rules: Vec<Rule>,
}

const EXAMPLES: &str = r#"Examples:
  # An operator that loses the answer to its third write
  podloom-doubles proxy --kubeconfig admin.yaml --out faulty.yaml --control 127.0.0.1:9000 \
      --rule '{"on": {"verbs": ["write"]}, "after": 2, "times": 1, "fault": "cut"}'
  KUBECONFIG=faulty.yaml podloom run --plugins target/plugins

  # Faults: "drop" (the API server never gets the request), "cut" (the client never gets the
  # answer), "stall" (no answer, ever), {"delay": {"seconds": 2}}, and
  # {"answer": {"status": 404, "body": "404 page not found"}}
  curl -X PUT localhost:9000/rules --data '[{"on": {"resources": ["leases"]}, "fault": "stall"}]'

  # The number of requests, by verb, resource and status
  curl localhost:9000/counts

  # Open connections stay open but carry nothing more; new ones work
  curl -X POST localhost:9000/silence"#;

fn rule(text: &str) -> Result<Rule, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Runs until it is killed.
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let original = Kubeconfig::read_from(&arguments.kubeconfig)?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(original.clone(), &options).await?;
    let upstream = Upstream::new(&config)?;
    let controls = Arc::new(Controls::default());
    *lock(&controls.rules) = Rules::new(arguments.rules.clone());
    let (listener, control) = (
        listen::bind(arguments.listen).await?,
        listen::bind(arguments.control).await?,
    );
    let through = through(original, listener.local_addr()?);
    // Every JSON document is a YAML document.
    std::fs::write(&arguments.out, serde_json::to_vec(&through)?)
        .with_context(|| arguments.out.display().to_string())?;
    listen::ready(&listener, Some(&control))?;
    let steered = Arc::clone(&controls);
    let serve = move |stream| connection::serve(stream, upstream.clone(), Arc::clone(&controls));
    tokio::try_join!(
        listen::accept(listener, serve),
        control::serve(control, steered),
    )?;
    Ok(())
}

/// What can be changed while it runs.
#[derive(Default)]
struct Controls {
    rules: Mutex<Rules>,
    counts: Mutex<Counts>,
    switchboard: Switchboard,
}

impl Controls {
    /// Counts a request as unanswered.
    fn count(&self, request: &NamedRequest) -> UnansweredRequest<'_> {
        let mut request = format!("{} {}", request.verb, request.resource);
        let mut counts = lock(&self.counts);
        if counts.len() >= COUNTED && !counts.contains_key(&request) {
            OTHERS.clone_into(&mut request);
        }
        let codes = counts.entry(request.clone()).or_default();
        *codes.entry(UNANSWERED.to_owned()).or_default() += 1;
        UnansweredRequest {
            counts: &self.counts,
            request,
        }
    }
}

/// A request that is counted as unanswered.
struct UnansweredRequest<'a> {
    counts: &'a Mutex<Counts>,
    request: String,
}

impl UnansweredRequest<'_> {
    /// Counts it by its status instead.
    fn answered(self, status: StatusCode) {
        let mut counts = lock(self.counts);
        let codes = counts.entry(self.request).or_default();
        if let Some(unanswered) = codes.get_mut(UNANSWERED) {
            *unanswered -= 1;
        }
        codes.retain(|_, count| *count > 0);
        *codes.entry(status.as_u16().to_string()).or_default() += 1;
    }
}

impl Steered for Controls {
    fn steer(&self, method: &Method, path: &str, body: &[u8]) -> Result<String, ControlError> {
        match (method, path) {
            (&Method::GET, "/counts") => return control::json(&*lock(&self.counts)),
            (&Method::GET, "/hits") => return control::json(&lock(&self.rules).hits()),
            (&Method::PUT, "/rules") => {
                let rules = control::read(body)?;
                *lock(&self.rules) = Rules::new(rules);
            }
            (&Method::POST, "/silence") => self.switchboard.silence(),
            (&Method::POST, "/silence-all") => self.switchboard.silence_all(),
            (&Method::POST, "/resume") => self.switchboard.resume(),
            (&Method::POST, "/drop") => self.switchboard.drop_connections(),
            _ => return Err(ControlError::Unknown),
        }
        control::done()
    }
}
