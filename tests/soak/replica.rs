//! One replica of the operator, the proxy before it, and what its probes say.

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

/// How often it is asked, and how long it may take to answer.
const ASKING: Duration = Duration::from_millis(500);
const ANSWER: Duration = Duration::from_secs(2);
/// So many probes in a row are lost before a kubelet restarts a container, by default.
const PATIENCE: u32 = 3;
/// How long a replica may take until it listens.
const START: Duration = Duration::from_secs(30);

/// One replica.
pub(crate) struct Replica {
    pub(crate) name: &'static str,
    /// Its account, as the audit log names it.
    pub(crate) user: String,
    pub(crate) proxy: Proxy,
    operator: Mutex<Operator>,
    /// Where it listens; nowhere while it is down or stands still because we want it so.
    listens: Mutex<Option<Listens>>,
    readiness: Mutex<Vec<(Timestamp, bool)>>,
    /// Its memory in KiB at the quiet points since it was last started.
    weights: Mutex<Vec<u64>>,
}

/// Where a replica listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listens {
    /// For everybody.
    pub(crate) http: SocketAddr,
    /// For probes alone.
    probes: SocketAddr,
}

impl Listens {
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
            // A client that lost its watch sees then why a session failed, too.
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
            listens: Mutex::new(Listens::of(&operator)),
            operator: Mutex::new(operator),
            readiness: Mutex::default(),
            weights: Mutex::default(),
        }
    }

    /// Kills it as the end of its machine would.
    pub(crate) fn kill(&self) {
        *lock(&self.listens) = None;
        lock(&self.operator).kill();
    }

    /// Starts it again, and returns when it listens.
    pub(crate) async fn restart(&self, findings: &Findings) {
        lock(&self.operator).restart();
        lock(&self.weights).clear();
        let begun = Instant::now();
        let mut ticks = interval(ASKING);
        while begun.elapsed() < START {
            ticks.tick().await;
            let listens = Listens::of(&lock(&self.operator));
            if listens.is_some() {
                *lock(&self.listens) = listens;
                return;
            }
        }
        findings.add(format!(
            "{}: does not listen {} s after its start",
            self.name,
            START.as_secs()
        ));
    }

    /// Lets it stand still for a while, as a machine that swaps would.
    pub(crate) async fn freeze(&self, time: Duration) {
        let listens = lock(&self.listens).take();
        lock(&self.operator).signal(Signal::Stop);
        tokio::time::sleep(time).await;
        lock(&self.operator).signal(Signal::Continue);
        *lock(&self.listens) = listens;
    }

    /// Where it listens now.
    pub(crate) fn listens(&self) -> Option<Listens> {
        *lock(&self.listens)
    }

    /// Notes how much memory it holds.
    pub(crate) fn weigh(&self) {
        let id = lock(&self.operator).id();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident =
            resident.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        lock(&self.weights).extend(resident);
    }

    /// What it held at the quiet points, in KiB.
    pub(crate) fn weights(&self) -> Vec<u64> {
        lock(&self.weights).clone()
    }

    /// Whether it said that it is ready in this time; none if it said nothing.
    pub(crate) fn was_ready(&self, from: Timestamp, to: Timestamp) -> Option<bool> {
        let readiness = lock(&self.readiness);
        let first = readiness.partition_point(|(at, _)| *at < from);
        let end = readiness.partition_point(|(at, _)| *at <= to);
        let said = readiness.get(first..end)?;
        (!said.is_empty()).then(|| said.iter().any(|(_, ready)| *ready))
    }
}

/// Asks as a kubelet does, for ever.
pub(crate) async fn probe(replica: Arc<Replica>, findings: Findings) {
    let mut ticks = interval(ASKING);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut lost, mut is_told) = (0, false);
    loop {
        ticks.tick().await;
        let Some(listens) = replica.listens() else {
            lost = 0;
            continue;
        };
        let ready = get(listens.probes, "/readyz").await;
        if let Ok(status) = ready {
            lock(&replica.readiness).push((Timestamp::now(), status == 200));
        }
        let healthy = get(listens.probes, "/healthz").await;
        if replica.listens() != Some(listens) {
            // It was killed or stopped meanwhile.
            continue;
        }
        match healthy {
            Ok(200) => (lost, is_told) = (0, false),
            answer => {
                lost += 1;
                if lost >= PATIENCE && !is_told {
                    is_told = true;
                    findings.add(format!(
                        "{}: /healthz fails {lost} times in a row: {answer:?}",
                        replica.name
                    ));
                }
            }
        }
    }
}

/// The status of an answer.
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
    status.ok_or_else(|| "no HTTP".to_owned())
}
