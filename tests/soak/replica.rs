//! A replica of the operator, the proxy between it and the API server, and the results of its probes.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use podloom_tests::faults::Proxy;
use podloom_tests::{Account, Operator, Scene, Signal, lock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::ledger::Findings;

/// How often it is probed.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);
/// How long it may take to answer a probe.
const ANSWER: Duration = Duration::from_secs(2);
/// How many probes in a row must fail before a kubelet restarts a container, by default.
const PATIENCE: u32 = 3;
/// How long a replica may take until it listens.
const START: Duration = Duration::from_secs(30);

/// A replica.
pub(crate) struct Replica {
    pub(crate) name: &'static str,
    /// Its account, as the audit log names it.
    pub(crate) user: String,
    pub(crate) proxy: Proxy,
    operator: Mutex<Operator>,
    /// Its addresses; `None` while we have killed or paused it.
    addresses: Mutex<Option<Addresses>>,
    readiness: Mutex<Vec<(Timestamp, bool)>>,
    /// Its memory in KiB at the quiet points since its last start.
    memory: Mutex<Vec<u64>>,
}

/// The addresses of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    /// The HTTP server.
    pub(crate) http: SocketAddr,
    /// The server for probes alone.
    probes: SocketAddr,
}

impl Addresses {
    fn of(operator: &Operator) -> Option<Self> {
        Some(Self {
            http: operator.listens("http")?,
            probes: operator.listens("probes")?,
        })
    }
}

impl Replica {
    /// Starts it, and waits until it is ready.
    pub(crate) async fn start(scene: &Scene, name: &'static str, bundle: &Path) -> Self {
        let account = Account::new(scene, name, |_| true);
        account.may_lead(scene);
        let proxy = Proxy::start(&account.kubeconfig);
        let bundle = bundle.to_string_lossy();
        let arguments = [
            ["--namespace", &scene.namespace],
            ["--lease-namespace", &scene.namespace],
            ["--lease-name", "podloom"],
            ["--lease-duration", "10s"],
            ["--plugins", &bundle],
            // Long enough for a client whose watch was broken to see why a session failed.
            ["--failed-retention", "20s"],
            ["--probes", "127.0.0.1:0"],
        ];
        let kubeconfig = proxy.kubeconfig(&account.kubeconfig);
        let operator = Operator::spawn(&scene.cluster, &kubeconfig, arguments.as_flattened());
        operator.ready().await;
        Self {
            name,
            user: account.user,
            proxy,
            addresses: Mutex::new(Addresses::of(&operator)),
            operator: Mutex::new(operator),
            readiness: Mutex::default(),
            memory: Mutex::default(),
        }
    }

    /// Kills it with SIGKILL, as when its machine crashes.
    pub(crate) fn kill(&self) {
        *lock(&self.addresses) = None;
        lock(&self.operator).kill();
    }

    /// Restarts it, and returns when it listens.
    pub(crate) async fn restart(&self, findings: &Findings) {
        lock(&self.operator).restart();
        lock(&self.memory).clear();
        let begun = Instant::now();
        let mut ticks = interval(PROBE_INTERVAL);
        while begun.elapsed() < START {
            ticks.tick().await;
            let addresses = Addresses::of(&lock(&self.operator));
            if addresses.is_some() {
                *lock(&self.addresses) = addresses;
                return;
            }
        }
        findings.add(format!(
            "{}: does not listen {} s after its start",
            self.name,
            START.as_secs()
        ));
    }

    /// Pauses it for a while, as on a machine that swaps.
    pub(crate) async fn freeze(&self, time: Duration) {
        let addresses = lock(&self.addresses).take();
        lock(&self.operator).signal(Signal::Stop);
        tokio::time::sleep(time).await;
        lock(&self.operator).signal(Signal::Continue);
        *lock(&self.addresses) = addresses;
    }

    /// Its addresses now.
    pub(crate) fn addresses(&self) -> Option<Addresses> {
        *lock(&self.addresses)
    }

    /// Records its memory.
    pub(crate) fn measure_memory(&self) {
        let id = lock(&self.operator).id();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident =
            resident.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        lock(&self.memory).extend(resident);
    }

    /// Its memory at the quiet points since its last start, in KiB.
    pub(crate) fn memory(&self) -> Vec<u64> {
        lock(&self.memory).clone()
    }

    /// Whether a probe in this time found it ready; `None` without a probe.
    pub(crate) fn was_ready(&self, from: Timestamp, to: Timestamp) -> Option<bool> {
        let readiness = lock(&self.readiness);
        let first = readiness.partition_point(|(at, _)| *at < from);
        let end = readiness.partition_point(|(at, _)| *at <= to);
        let probes = readiness.get(first..end)?;
        (!probes.is_empty()).then(|| probes.iter().any(|(_, ready)| *ready))
    }
}

/// Probes it as a kubelet does, for ever.
pub(crate) async fn probe(replica: Arc<Replica>, findings: Findings) {
    let mut ticks = interval(PROBE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut lost, mut is_reported) = (0, false);
    loop {
        ticks.tick().await;
        let Some(addresses) = replica.addresses() else {
            lost = 0;
            continue;
        };
        let ready = get(addresses.probes, "/readyz").await;
        if let Ok(status) = ready {
            lock(&replica.readiness).push((Timestamp::now(), status == 200));
        }
        let healthy = get(addresses.probes, "/healthz").await;
        if replica.addresses() != Some(addresses) {
            // It was killed or paused meanwhile.
            continue;
        }
        match healthy {
            Ok(200) => (lost, is_reported) = (0, false),
            answer => {
                lost += 1;
                if lost >= PATIENCE && !is_reported {
                    is_reported = true;
                    findings.add(format!(
                        "{}: /healthz fails {lost} times in a row: {answer:?}",
                        replica.name
                    ));
                }
            }
        }
    }
}

/// The HTTP status of a GET.
async fn get(address: SocketAddr, path: &str) -> Result<u16, String> {
    let asked = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    let answer = timeout(ANSWER, asked).await;
    let answer = answer
        .map_err(|_| format!("no answer in {} s", ANSWER.as_secs()))?
        .map_err(|error| error.to_string())?;
    let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok());
    status.ok_or_else(|| "the answer is not HTTP".to_owned())
}
