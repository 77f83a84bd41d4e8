//! `podloom-doubles proxy`: a proxy in front of the API server, or of another HTTP server, that counts requests and injects faults.
//!
//! It forwards every request unchanged, with the caller's own token, watches too.

mod changes;
mod connection;
mod forward;
mod name;
mod record;
mod rule;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, bail};
use clap::Args;
use http::Method;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use podloom_tests::faults::{Rule, through};
use podloom_tests::lock;

use crate::control::{self, ControlError, Steered};
use crate::listen;
use connection::Switchboard;
use forward::Upstream;
use record::Record;
use rule::Rules;
use tokio::sync::watch;

/// A proxy in front of the API server, or of another HTTP server, that counts requests and injects faults.
///
/// It forwards every request with the caller's own token, watches too.
/// It writes a kubeconfig that goes through the proxy: plain HTTP on loopback.
/// Rules select requests by verb, resource (`pods`, `browsers/status`) and text in the path, and have the fault to inject.
/// The verb `change` selects the changes that watches show: a fault ends the watch before the change, and an answer takes its place.
/// In front of another server (--to), the verb is the method, and the resource is the path, with {id} for each UUID in it.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The kubeconfig of the API server.
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// The file to write: a kubeconfig with the same user that goes through the proxy.
    #[arg(long, value_name = "FILE", required_unless_present = "to")]
    out: Option<PathBuf>,
    /// The address of another HTTP server on this machine, to be in front of instead of an API server.
    #[arg(long, value_name = "ADDR", conflicts_with = "out", value_parser = listen::loopback)]
    to: Option<SocketAddr>,
    /// The address to listen on.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = listen::loopback)]
    listen: SocketAddr,
    /// The address of the control endpoint: GET /counts, GET /requests, GET /hits, PUT /rules, POST /silence, POST /silence-all,
    /// POST /resume, POST /drop.
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
  # answer), "stall" (no answer, ever), "hold" (forwarded when the rules are replaced),
  # {"delay": {"seconds": 2}}, and {"answer": {"status": 404, "body": "404 page not found"}}
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
    let controls = Arc::new(Controls::default());
    *lock(&controls.rules) = Rules::new(arguments.rules.clone());
    let (listener, control) = (
        listen::bind(arguments.listen).await?,
        listen::bind(arguments.control).await?,
    );
    let upstream = match arguments.to {
        Some(server) => Upstream::http(server)?,
        None => api_server(arguments, listener.local_addr()?).await?,
    };
    listen::ready(&listener, Some(&control))?;
    let steered = Arc::clone(&controls);
    let serve = move |stream| connection::serve(stream, upstream.clone(), Arc::clone(&controls));
    tokio::try_join!(
        listen::accept(listener, serve),
        control::serve(control, steered),
    )?;
    Ok(())
}

/// The API server of the kubeconfig; writes the kubeconfig that goes through the proxy.
async fn api_server(arguments: &Arguments, proxy: SocketAddr) -> Result<Upstream> {
    let (Some(kubeconfig), Some(out)) = (&arguments.kubeconfig, &arguments.out) else {
        bail!("write --kubeconfig FILE, or --to ADDR");
    };
    let original = Kubeconfig::read_from(kubeconfig)?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(original.clone(), &options).await?;
    // Every JSON document is a YAML document.
    std::fs::write(out, serde_json::to_vec(&through(original, proxy))?)
        .with_context(|| out.display().to_string())?;
    Ok(Upstream::new(&config)?)
}

/// What can be changed while it runs.
#[derive(Default)]
struct Controls {
    rules: Mutex<Rules>,
    /// Notified when the rules are replaced.
    replaced: watch::Sender<()>,
    record: Record,
    switchboard: Switchboard,
}

impl Steered for Controls {
    fn steer(&self, method: &Method, path: &str, body: &[u8]) -> Result<String, ControlError> {
        match (method, path) {
            (&Method::GET, "/counts") => return control::json(&self.record.counts()),
            (&Method::GET, "/requests") => return control::json(&self.record.requests()),
            (&Method::GET, "/hits") => return control::json(&lock(&self.rules).hits()),
            (&Method::PUT, "/rules") => {
                let rules = control::read(body)?;
                *lock(&self.rules) = Rules::new(rules);
                self.replaced.send_replace(());
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
