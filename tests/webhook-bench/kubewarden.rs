//! Kubewarden's policy-server, which also runs policies as Wasm, for comparison in the same run.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hyper::body::Bytes;
use serde_json::json;
use tempfile::TempDir;
use tokio::time::sleep;

use crate::client::Target;
use crate::operator::{Process, certificate};

/// It compiles its policies first.
const PATIENCE: Duration = Duration::from_secs(120);

/// What to compare with.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Also measure Kubewarden: its policy-server, or a program that starts it with the arguments that it gets.
    #[arg(long = "kubewarden", value_name = "FILE", requires = "policy")]
    program: Option<PathBuf>,
    /// Its policy, as Wasm that needs no settings, for example one that sets two labels.
    #[arg(long = "kubewarden-policy", value_name = "FILE", requires = "program")]
    policy: Option<PathBuf>,
}

/// The running server; dropping it kills it.
pub(crate) struct Kubewarden {
    process: Process,
    pub(crate) target: Target,
    /// Its certificate and the list of its policies.
    _files: TempDir,
}

impl Kubewarden {
    /// Starts it, and waits until it answers this review; none if it is not asked for.
    pub(crate) async fn start(options: &Options, review: &Bytes) -> Result<Option<Self>> {
        let (Some(program), Some(policy)) = (&options.program, &options.policy) else {
            return Ok(None);
        };
        let begun = Instant::now();
        let server = Self::spawn(program, policy)?;
        loop {
            match server.target.connections(1, review).await {
                Ok(_) => return Ok(Some(server)),
                Err(error) if begun.elapsed() > PATIENCE => {
                    return Err(error.context("policy-server does not answer"));
                }
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    fn spawn(program: &Path, policy: &Path) -> Result<Self> {
        let files = tempfile::tempdir()?;
        let at = |name: &str| files.path().join(name);
        certificate(files.path())?;
        let module = format!("file://{}", policy.canonicalize()?.display());
        let policies = json!({ "policy": { "module": module, "allowedToMutate": true } });
        // JSON is valid YAML.
        std::fs::write(at("policies.yml"), policies.to_string())?;
        let (port, probe) = (free_port()?, free_port()?);
        let spawned = Command::new(program)
            .args(["--addr", "127.0.0.1", "--port", &port.to_string()])
            .args(["--readiness-probe-port", &probe.to_string()])
            .args(["--log-level", "warn"])
            .arg("--ignore-kubernetes-connection-failure")
            .arg("--cert-file")
            .arg(at("tls.crt"))
            .arg("--key-file")
            .arg(at("tls.key"))
            .arg("--policies")
            .arg(at("policies.yml"))
            .arg("--policies-download-dir")
            .arg(at("policies"))
            .stdout(Stdio::null())
            .spawn();
        let spawned = spawned.with_context(|| program.display().to_string())?;
        let url = format!("https://127.0.0.1:{port}/validate/policy");
        Ok(Self {
            process: Process(spawned),
            target: Target::of(&url.parse()?)?,
            _files: files,
        })
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.0.id()
    }
}

/// A port that nobody uses now: the server takes no listener, and 0 is no port for it.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
