//! Measures how soon sessions run: with pods that wait, without, and while a pool fills from nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use podloom_api::{BrowserObject, Phase};
use podloom_tests::usage::usage;
use serde_json::json;
use tokio::time::{sleep, sleep_until, timeout};

use crate::audit::{AuditLog, RequestCounts};
use crate::browsers::{PATIENCE, Workplace};
use crate::operator::{Launcher, attend};

/// How many sessions begin in a second.
const RATES: [u32; 3] = [1, 10, 50];
/// For how long they begin.
const TIME: Duration = Duration::from_secs(20);
/// How long to wait before and after, so that nothing else is measured with it: the status of the BrowserConfig, Events.
const SETTLE: Duration = Duration::from_secs(3);
/// How long a pool is measured at rest.
const REST: Duration = Duration::from_secs(30);

/// What the BrowserConfig has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// No pods that wait.
    Cold,
    /// As many as two seconds need, from the beginning.
    Warm,
    /// None in the beginning, and as many as the demand asks for.
    EmptyPool,
}

impl Start {
    const ALL: [Self; 3] = [Self::Cold, Self::Warm, Self::EmptyPool];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
            Self::EmptyPool => "empty pool",
        }
    }

    /// How many pods wait at least and at most.
    fn pool(self, rate: u32) -> Option<(u32, u32)> {
        let most = (rate * 10).max(5);
        match self {
            Self::Cold => None,
            Self::Warm => Some(((rate * 2).max(5), most)),
            Self::EmptyPool => Some((0, most)),
        }
    }
}

/// What was measured of the sessions of one start, at one rate.
pub(crate) struct Sessions {
    pub(crate) start: Start,
    pub(crate) rate: u32,
    /// From when each was to be created until a watching client saw it run, sorted.
    pub(crate) times: Vec<Duration>,
    /// How many took a pod that waited.
    pub(crate) taken: usize,
    /// The operator's processor time, all that it did for the pool included.
    pub(crate) cpu: Duration,
    pub(crate) requests: Option<RequestCounts>,
}

impl Sessions {
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let last = self.times.len().saturating_sub(1);
        let at = (last * percent).div_ceil(100);
        self.times.get(at).copied().unwrap_or_default()
    }
}

/// A pool that nobody takes from.
pub(crate) struct Pool {
    pub(crate) pods: u32,
    /// How much more memory was resident with it, in bytes.
    pub(crate) memory: u64,
    pub(crate) requests: Option<RequestCounts>,
}

/// Measures all.
pub(crate) async fn measure(
    workplace: &Workplace,
    launcher: &Launcher<'_>,
    log: &AuditLog,
) -> Result<(Vec<Sessions>, Pool)> {
    let operator = attend(launcher).await?;
    // First, while nothing is in its memory that goes back to the system later.
    eprintln!("a pool at rest: {} s", REST.as_secs());
    let pool = at_rest(workplace, operator.pid, log).await?;
    let mut all = Vec::new();
    for rate in RATES {
        for start in Start::ALL {
            eprintln!("{}: {rate} a second", start.name());
            all.push(sessions(workplace, operator.pid, log, start, rate).await?);
        }
    }
    Ok((all, pool))
}

async fn sessions(
    workplace: &Workplace,
    operator: u32,
    log: &AuditLog,
    start: Start,
    rate: u32,
) -> Result<Sessions> {
    let namespace = format!("{}-{rate}", start.name().replace(' ', "-"));
    workplace.open(&namespace).await?;
    if let Some((min, max)) = start.pool(rate) {
        keep(workplace, &namespace, min, max).await?;
        until_ready(workplace, &namespace, min).await?;
    }
    sleep(SETTLE).await;
    let (from, before) = (log.end()?, usage(operator)?.cpu);
    let (times, taken) = paced(workplace, &namespace, rate).await?;
    sleep(SETTLE).await;
    let cpu = usage(operator)?.cpu.saturating_sub(before);
    let requests = log.between(from, log.end()?)?;
    keep(workplace, &namespace, 0, 0).await?;
    workplace.delete_all(&namespace).await?;
    Ok(Sessions {
        start,
        rate,
        times,
        taken,
        cpu,
        requests,
    })
}

/// Starts sessions at a fixed rate. Returns how long each took, from when it was to be created: a client that waits for an answer delays
/// no other one. And how many took a pod that waited.
async fn paced(
    workplace: &Workplace,
    namespace: &str,
    rate: u32,
) -> Result<(Vec<Duration>, usize)> {
    let count = rate * u32::try_from(TIME.as_secs())?;
    let begun: Arc<Mutex<HashMap<String, Instant>>> = Arc::default();
    let api = workplace.browsers(namespace);
    let mut events =
        std::pin::pin!(watcher(api.clone(), watcher::Config::default()).applied_objects());
    let all_run = async {
        let (mut times, mut taken) = (HashMap::new(), 0);
        while let Some(browser) = events.try_next().await? {
            let name = browser.name_any();
            let since = begun
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get(&name)
                .copied();
            let Some(since) = since.filter(|_| runs(&browser)) else {
                continue;
            };
            if times.insert(name, since.elapsed()).is_none() {
                let status = browser.status.as_ref();
                taken += usize::from(status.is_some_and(|it| it.pod_name.is_some()));
            }
            if times.len() == count as usize {
                let mut times: Vec<Duration> = times.into_values().collect();
                times.sort_unstable();
                return Ok((times, taken));
            }
        }
        bail!("the watch of Browsers ended")
    };
    let first = Instant::now() + Duration::from_millis(500);
    let create = (0..count).map(|number| {
        let (api, begun) = (api.clone(), Arc::clone(&begun));
        async move {
            let browser = workplace.browser(number as usize)?;
            let due = first + Duration::from_secs(1) * number / rate;
            sleep_until(due.into()).await;
            let name = browser.name_any();
            begun
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(name, due);
            api.create(&PostParams::default(), &browser).await?;
            anyhow::Ok(())
        }
    });
    let all = futures::future::try_join(try_join_all(create), all_run);
    let (_, measured) = timeout(PATIENCE, all)
        .await
        .context("not all Browsers were running in time")??;
    Ok(measured)
}

fn runs(browser: &BrowserObject) -> bool {
    let status = browser.status.as_ref();
    status.is_some_and(|it| it.phase == Some(Phase::Running) && it.pod_ip.is_some())
}

/// Has so many pods wait; none with 0.
async fn keep(workplace: &Workplace, namespace: &str, min: u32, max: u32) -> Result<()> {
    let pool = json!({ "chrome": { "139.0": { "min": min, "max": max, "maxAge": "1h", "maxStarting": 100 } } });
    let pool = (max > 0).then_some(pool);
    let patch = Patch::Merge(json!({ "spec": { "warm": pool } }));
    let configs = workplace.configs(namespace);
    configs
        .patch("browsers", &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

async fn until_ready(workplace: &Workplace, namespace: &str, count: u32) -> Result<()> {
    let configs = workplace.configs(namespace);
    let mut events = std::pin::pin!(watcher(configs, watcher::Config::default()).applied_objects());
    let ready = async {
        while let Some(config) = events.next().await {
            let warm = config?.status.and_then(|status| status.warm);
            if warm.is_some_and(|warm| u32::try_from(warm.ready).is_ok_and(|it| it >= count)) {
                return Ok(());
            }
        }
        bail!("the watch of BrowserConfigs ended")
    };
    let ready = timeout(PATIENCE, ready);
    ready.await.context("the pods were not ready in time")?
}

async fn at_rest(workplace: &Workplace, operator: u32, log: &AuditLog) -> Result<Pool> {
    const PODS: u32 = 500;
    let namespace = "at-rest";
    workplace.open(namespace).await?;
    // What it has freed goes back to the system first.
    sleep(Duration::from_secs(15)).await;
    let before = usage(operator)?.resident;
    keep(workplace, namespace, PODS, PODS).await?;
    until_ready(workplace, namespace, PODS).await?;
    sleep(Duration::from_secs(15)).await;
    let (from, after) = (log.end()?, usage(operator)?.resident);
    sleep(REST).await;
    let requests = log.between(from, log.end()?)?;
    keep(workplace, namespace, 0, 0).await?;
    workplace.until_empty(namespace).await?;
    Ok(Pool {
        pods: PODS,
        memory: after.saturating_sub(before),
        requests,
    })
}
