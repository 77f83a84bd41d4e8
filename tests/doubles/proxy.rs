//! `podloom-doubles proxy`: before the API server, where it counts requests and injects faults.
//!
//! It forwards every request as it came, with the caller's own token, watches too.

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

use crate::control::{self, Steered, Wrong};
use crate::listen;
use connection::Switchboard;
use forward::Upstream;
use rule::Rules;

/// So many verbs of resources are counted each for itself.
const COUNTED: usize = 4096;
/// All that are more.
const OTHERS: &str = "others";

/// A proxy before the API server that counts requests and injects faults.
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
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = listen::loopback)]
    listen: SocketAddr,
    /// Where it is steered: GET /counts, GET /hits, PUT /rules, POST /silence, POST /silence-all, POST /resume, POST /drop.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = listen::loopback)]
    control: SocketAddr,
    /// A rule, as JSON; several are looked at in their order, and the first that applies decides.
    #[arg(long = "rule", value_name = "JSON", value_parser = rule)]
    rules: Vec<Rule>,
}

const EXAMPLES: &str = r#"Examples:
  # An operator that loses the answer to its third write
  podloom-doubles proxy --kubeconfig admin.yaml --out faulty.yaml --control 127.0.0.1:9000 \
      --rule '{"on": {"verbs": ["write"]}, "after": 2, "times": 1, "fault": "cut"}'
  KUBECONFIG=faulty.yaml podloom run --plugins target/plugins

  # Faults are: "drop" (the API server never sees the request), "cut" (the client never sees the
  # answer), "stall", {"delay": {"seconds": 2}}, and
  # {"answer": {"status": 404, "body": "404 page not found"}}
  curl -X PUT localhost:9000/rules --data '[{"on": {"resources": ["leases"]}, "fault": "stall"}]'

  # How many requests came, by verb, resource and status
  curl localhost:9000/counts

  # Open connections carry nothing more; new ones work
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
    /// Counts a request that came, as one that has no answer yet.
    fn count(&self, request: &rule::Request) -> Counted<'_> {
        let mut request = format!("{} {}", request.verb, request.resource);
        let mut counts = lock(&self.counts);
        if counts.len() >= COUNTED && !counts.contains_key(&request) {
            OTHERS.clone_into(&mut request);
        }
        let codes = counts.entry(request.clone()).or_default();
        *codes.entry(UNANSWERED.to_owned()).or_default() += 1;
        Counted {
            counts: &self.counts,
            request,
        }
    }
}

/// A request that was counted.
struct Counted<'a> {
    counts: &'a Mutex<Counts>,
    request: String,
}

impl Counted<'_> {
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
    fn steer(&self, method: &Method, path: &str, body: &[u8]) -> Result<String, Wrong> {
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
            _ => return Err(Wrong::Unknown),
        }
        control::done()
    }
}
