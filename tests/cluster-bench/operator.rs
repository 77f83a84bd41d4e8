//! Measures the operator, or another controller that serves the same API.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use podloom_api::{SelenosisApi, SelenosisKind};
use podloom_control_plane::ControlPlane;
use podloom_tests::get;
use podloom_tests::usage::{Usage, forget_peak, usage};

use crate::Arguments;
use crate::audit::{AuditLog, RequestCounts};
use crate::bare::NAME;
use crate::browsers::{Progress, Workplace};
use crate::plane::{self, PlaneCost};

/// The namespace of the Browsers.
const NAMESPACE: &str = "bench";
/// The namespace of the further Browsers, for measuring the growth of memory.
const GROWTH_NAMESPACE: &str = "bench-growth";
/// The namespace of its Lease.
const HOME: &str = "podloom-system";
/// How long it gets to come to rest: it sends Events, and returns free memory.
const SETTLE: Duration = Duration::from_secs(10);
/// How long a restart is measured: the Lease of the killed leader lasts 15 seconds, then all Browsers are looked at once.
const AFTER_RESTART: Duration = Duration::from_secs(40);
/// How often its memory is measured.
const SAMPLE: Duration = Duration::from_millis(100);
/// How long it may take to start.
const START: Duration = Duration::from_mins(2);

/// A running controller; if we started it, dropping this kills it.
pub(crate) struct MeasuredProcess {
    pub(crate) pid: u32,
    child: Option<Child>,
}

impl MeasuredProcess {
    fn end(&mut self) {
        if let Some(child) = &mut self.child {
            let _already_ended = child.kill();
            let _already_ended = child.wait();
        }
    }
}

impl Drop for MeasuredProcess {
    fn drop(&mut self) {
        self.end();
    }
}

/// What was measured.
pub(crate) struct Figures {
    pub(crate) progress: Progress,
    /// When it was ready and had no work yet.
    pub(crate) ready: Usage,
    /// When all Browsers ran.
    pub(crate) running: Usage,
    /// The most resident memory from then on, in bytes.
    pub(crate) resident_max: u64,
    pub(crate) start_requests: Option<RequestCounts>,
    /// What the programs of our own control plane needed until all Browsers ran.
    pub(crate) plane: Vec<PlaneCost>,
    pub(crate) rest: Rest,
    /// None if the controller is not ours to restart.
    pub(crate) restart: Option<Restart>,
    pub(crate) deletion: Duration,
    pub(crate) deletion_requests: Option<RequestCounts>,
    /// All requests from the creation of the first Browser until the last one was gone.
    pub(crate) all_requests: Option<RequestCounts>,
    pub(crate) growth: Option<Growth>,
}

/// How much to measure.
pub(crate) struct Extent {
    pub(crate) rest: Duration,
    /// The number of further Browsers for the growth of memory.
    pub(crate) growth: usize,
}

/// How its memory grew with more Browsers.
pub(crate) struct Growth {
    pub(crate) browsers: usize,
    /// Resident before and after, in bytes.
    pub(crate) before: u64,
    pub(crate) after: u64,
}

/// What it did at rest.
pub(crate) struct Rest {
    pub(crate) time: Duration,
    pub(crate) cpu: Duration,
    /// How often one of its threads was woken.
    pub(crate) wakeups: u64,
    pub(crate) requests: Option<RequestCounts>,
}

/// How it started again while all Browsers ran.
pub(crate) struct Restart {
    /// Until it was ready, the Lease included.
    pub(crate) time: Duration,
    pub(crate) cpu: Duration,
    /// Resident afterwards, in bytes.
    pub(crate) resident: u64,
    pub(crate) requests: Option<RequestCounts>,
    /// What it cost the API server: processor time, and how much more memory it had at most, in bytes.
    pub(crate) api_server: Option<(Duration, u64)>,
}

/// Installs CRDs and rights.
pub(crate) fn install(plane: &ControlPlane, api: SelenosisApi) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let crds = match api {
        SelenosisApi::Seed => root.join("crds"),
        SelenosisApi::Split => root.join("crds/split"),
    };
    let browser = root.join("deploy/controllers/browser");
    let rights = match api {
        SelenosisApi::Seed => browser.join("rbac.yaml"),
        SelenosisApi::Split => browser.join("split/rbac.yaml"),
    };
    apply(plane, "-k", &crds)?;
    for file in [root.join("deploy/base/namespace.yaml"), rights] {
        apply(plane, "-f", &file)?;
    }
    Ok(())
}

fn apply(plane: &ControlPlane, option: &str, path: &Path) -> Result<()> {
    let done = plane
        .kubectl()
        .arg("apply")
        .arg(option)
        .arg(path)
        .stdout(Stdio::null())
        .status()?;
    if !done.success() {
        bail!("kubectl apply {option} {} failed", path.display());
    }
    Ok(())
}

/// The pod that the operator would create for the first Browser, as JSON.
pub(crate) fn pod_template(podloom: &Path, plugins: &Path, api: SelenosisApi) -> Result<String> {
    let resource = api.resource(SelenosisKind::Browser);
    let browser = format!(
        "apiVersion: {}\nkind: {}\nmetadata: {{ name: {NAME} }}\nspec: {{ browserName: chrome, browserVersion: '139.0' }}\n",
        resource.api_version, resource.kind
    );
    let config = include_str!("browserconfig.yaml");
    let config = config.replace(
        "selenosis.io/v1",
        &api.resource(SelenosisKind::BrowserConfig).api_version,
    );
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("browser.yaml");
    std::fs::write(&file, format!("{browser}---\n{config}"))?;
    let output = Command::new(podloom)
        .arg("render")
        .arg("-f")
        .arg(&file)
        .arg("--plugins")
        .arg(plugins)
        .args(["--only-changed", "-o", "json"])
        .output()
        .with_context(|| podloom.display().to_string())?;
    if !output.status.success() {
        bail!(
            "podloom render: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Everything that the operator needs to start.
pub(crate) struct Launcher<'a> {
    pub(crate) arguments: &'a Arguments,
    /// The control plane, if it is our own: what it needs is measured too.
    pub(crate) plane: Option<&'a ControlPlane>,
    pub(crate) kubeconfig: &'a Path,
}

/// Starts the operator, or uses the controller that runs already.
pub(crate) async fn attend(launcher: &Launcher<'_>) -> Result<MeasuredProcess> {
    let Launcher {
        arguments,
        plane,
        kubeconfig,
    } = *launcher;
    if let Some(pid) = arguments.controller_pid {
        usage(pid)?;
        return Ok(MeasuredProcess { pid, child: None });
    }
    // With exactly the rights of an installation.
    let kubeconfig = match plane {
        Some(plane) => plane.kubeconfig_for_service_account(HOME, "podloom")?,
        None => kubeconfig.to_owned(),
    };
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let child = Command::new(&arguments.podloom)
        .arg("run")
        .arg("--plugins")
        .arg(&arguments.plugins)
        .args(["--selenosis-api", &arguments.selenosis_api])
        .args(["--lease-namespace", HOME])
        .args(["--http", &address.to_string()])
        // One namespace gets a quarter of the permits.
        .args(["--concurrency", &(arguments.concurrency * 4).to_string()])
        // A line for each Browser would hide the figures. It is written all the same, as in a cluster.
        .stderr(Stdio::null())
        .env("KUBECONFIG", &kubeconfig)
        .spawn()
        .with_context(|| arguments.podloom.display().to_string())?;
    let operator = MeasuredProcess {
        pid: child.id(),
        child: Some(child),
    };
    until_ready(address).await?;
    Ok(operator)
}

/// Waits until /readyz answers 200.
async fn until_ready(address: SocketAddr) -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < START {
        // This blocks the thread, but nothing else runs meanwhile. It fails until the operator listens.
        if get(address, "/readyz").is_ok_and(|answer| answer.status == 200) {
            return Ok(());
        }
        tokio::time::sleep(SAMPLE).await;
    }
    bail!("the operator did not become ready in {} s", START.as_secs())
}

/// Measures while it starts, keeps and deletes all Browsers.
pub(crate) async fn measure(
    workplace: &Workplace,
    launcher: &Launcher<'_>,
    log: &AuditLog,
    extent: &Extent,
) -> Result<Figures> {
    let mut operator = attend(launcher).await?;
    workplace.open(NAMESPACE).await?;
    // Let it settle: the first pass over every object, the Lease, the status of the BrowserConfig.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let ready = usage(operator.pid)?;
    let sampler = Sampler::start(operator.pid);

    eprintln!("operator: {} Browsers", workplace.browsers);
    let first = log.end()?;
    let plane = plane::usages(launcher.plane)?;
    let progress = workplace.start_all(NAMESPACE).await?;
    let running = usage(operator.pid)?;
    let plane = plane::since(&plane, plane::usages(launcher.plane)?);
    // Events come later, but belong to the start.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let start_requests = log.between(first, log.end()?)?;

    eprintln!("operator at rest: {} s", extent.rest.as_secs());
    let rest = at_rest(&operator, log, extent.rest).await?;
    // The further Browsers below do not count.
    let resident_max = sampler.stop();
    let restart = restart(&mut operator, launcher, log).await?;

    eprintln!("operator: deletion");
    let start = log.end()?;
    let deletion = workplace.delete_all(NAMESPACE).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let deletion_requests = log.between(start, log.end()?)?;
    let all_requests = log.between(first, log.end()?)?;
    let growth = match extent.growth {
        0 => None,
        browsers => Some(grow(workplace, &operator, browsers).await?),
    };
    Ok(Figures {
        progress,
        ready,
        running,
        resident_max,
        start_requests,
        plane,
        rest,
        restart,
        deletion,
        deletion_requests,
        all_requests,
        growth,
    })
}

/// Creates the same number of Browsers again, then the further ones, and measures the memory before and after those.
async fn grow(
    workplace: &Workplace,
    operator: &MeasuredProcess,
    browsers: usize,
) -> Result<Growth> {
    eprintln!("operator: {browsers} further Browsers");
    let more = Workplace {
        browsers,
        ..workplace.clone()
    };
    workplace.start_all(NAMESPACE).await?;
    tokio::time::sleep(SETTLE).await;
    let before = usage(operator.pid)?.resident;
    more.open(GROWTH_NAMESPACE).await?;
    more.start_all(GROWTH_NAMESPACE).await?;
    tokio::time::sleep(SETTLE).await;
    let after = usage(operator.pid)?.resident;
    Ok(Growth {
        browsers,
        before,
        after,
    })
}

async fn at_rest(operator: &MeasuredProcess, log: &AuditLog, time: Duration) -> Result<Rest> {
    tokio::time::sleep(SETTLE).await;
    let (start, before) = (log.end()?, usage(operator.pid)?);
    tokio::time::sleep(time).await;
    let after = usage(operator.pid)?;
    Ok(Rest {
        time,
        cpu: after.cpu.saturating_sub(before.cpu),
        wakeups: after.wakeups_since(&before),
        requests: log.between(start, log.end()?)?,
    })
}

/// Kills the operator, and starts it again while all Browsers run.
async fn restart(
    operator: &mut MeasuredProcess,
    launcher: &Launcher<'_>,
    log: &AuditLog,
) -> Result<Option<Restart>> {
    if operator.child.is_none() {
        return Ok(None);
    }
    eprintln!("operator: restart");
    operator.end();
    let start = log.end()?;
    let server = launcher.plane.and_then(plane::api_server);
    let before = server.map(usage).transpose()?;
    server.map(forget_peak).transpose()?;
    let begun = Instant::now();
    *operator = attend(launcher).await?;
    let time = begun.elapsed();
    tokio::time::sleep(AFTER_RESTART).await;
    let now = usage(operator.pid)?;
    let after = server.map(usage).transpose()?;
    let cost = |(before, after): (Usage, Usage)| {
        let more = after.peak.saturating_sub(before.resident);
        (after.cpu.saturating_sub(before.cpu), more)
    };
    Ok(Some(Restart {
        time,
        cpu: now.cpu,
        resident: now.resident,
        requests: log.between(start, log.end()?)?,
        api_server: before.zip(after).map(cost),
    }))
}

/// Measures a process's memory until it is stopped.
struct Sampler {
    most: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl Sampler {
    fn start(pid: u32) -> Self {
        let most = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&most);
        let task = tokio::spawn(async move {
            while let Ok(usage) = usage(pid) {
                seen.fetch_max(usage.resident, Ordering::Relaxed);
                tokio::time::sleep(SAMPLE).await;
            }
        });
        Self { most, task }
    }

    fn stop(self) -> u64 {
        self.task.abort();
        self.most.load(Ordering::Relaxed)
    }
}
