//! What hot reload costs: from a change on disk to the chain that serves, and what calls feel of it meanwhile.
//!
//! The bundle is that of `cargo xtask plugins`, from `PODLOOM_BUNDLE`, in a volume that is swapped as the kubelet does it.
//! A thousand reloads (`PODLOOM_RELOADS`) happen while eight threads mutate pods without a pause. Prints one JSON object on
//! standard output, and its progress on standard error. The process allocates as the operator does.

#[path = "../../tests/runner/volume.rs"]
mod volume;

mod latency;
mod plugins;

use std::fs;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use podloom_control_loop::NoRecorder;
use podloom_mutation::PodRequest;
use podloom_mutators::{Engine, EngineOptions, Loader, Slot, WatchMode};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use latency::Latencies;
use plugins::Plugins;
use volume::{Files, Volume};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const THREADS: usize = 8;
/// How often a change without load is timed.
const CHANGES: usize = 21;
/// How long calls are timed without a reload.
const REST: Duration = Duration::from_secs(15);
/// What a reload may take before the benchmark gives up.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() {
    let reloads = std::env::var("PODLOOM_RELOADS").ok();
    let reloads = reloads.map_or(1000, |text| {
        text.parse().expect("PODLOOM_RELOADS is a number")
    });
    let mut plugins = Plugins::read();
    let stand = Stand::new(&plugins);
    let one = stand.time_changes("one changed plugin of three", || plugins.change_one());
    let all = stand.time_changes("all three plugins changed", || plugins.change_all());
    let (rest, ()) = stand.under_load(|| thread::sleep(REST));
    eprintln!("{} calls without a reload: {rest}", rest.count());
    let (busy, held) = stand.under_load(|| stand.reload(&mut plugins, reloads));
    eprintln!("{} calls during {reloads} reloads: {busy}", busy.count());
    let ratio = |quantile| busy.quantile(quantile) / rest.quantile(quantile);
    let result = json!({
        "reload_seconds": one,
        "reload_all_seconds": all,
        "reload_call_p50": ratio(0.5),
        "reload_call_p99": ratio(0.99),
        "reload_call_p99_added_ms": (busy.quantile(0.99) - rest.quantile(0.99)) * 1e3,
        "reload_failed_calls": busy.failed,
        "reload_memory_mib": held.growth_mib(),
        "reload_descriptors": held.more_descriptors(),
    });
    writeln!(std::io::stdout(), "{result}").expect("standard output takes a line");
}

/// A loader over a volume, in a runtime of its own as in the operator.
struct Stand {
    slot: Arc<Slot>,
    volume: Volume,
    stop: CancellationToken,
    _runtime: tokio::runtime::Runtime,
}

impl Stand {
    fn new(plugins: &Plugins) -> Self {
        let volume = Volume::new(&plugins.files());
        let (slot, stop) = (Arc::<Slot>::default(), CancellationToken::new());
        let loader = Loader {
            name: "plugins",
            directory: volume.path().to_owned(),
            engine: Engine::new(&EngineOptions::default()).expect("this machine runs WebAssembly"),
            slot: Arc::clone(&slot),
            signers: None,
            admit: Arc::new(|_| Box::pin(async { Ok(()) })),
            watch: WatchMode::Notified,
            scan_interval: Duration::from_secs(15),
            build_timeout: PATIENCE,
            report: Arc::new(|_| {}),
            recorder: Arc::new(NoRecorder),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.spawn(loader.run(stop.clone()));
        runtime.block_on(slot.attempted());
        Self {
            slot,
            volume,
            stop,
            _runtime: runtime,
        }
    }

    fn digest(&self) -> String {
        let serving = self.slot.serving();
        let chain = serving.chain.as_ref();
        chain.expect("the bundle is good").digest().to_owned()
    }

    /// Changes the volume and returns how long it took until the new chain served.
    fn change(&self, files: &Files) -> Duration {
        let before = self.digest();
        let begun = Instant::now();
        self.volume.update(files, |_| {});
        while self.digest() == before {
            assert!(
                begun.elapsed() < PATIENCE,
                "{:?}",
                self.slot.serving().failed
            );
            thread::sleep(Duration::from_micros(200));
        }
        begun.elapsed()
    }

    /// The median in seconds.
    fn time_changes(&self, what: &str, mut change: impl FnMut() -> Files) -> f64 {
        let mut times: Vec<f64> = (0..CHANGES)
            .map(|_| {
                let files = change();
                self.change(&files).as_secs_f64()
            })
            .collect();
        times.sort_by(f64::total_cmp);
        let median = times.get(CHANGES / 2).copied().unwrap_or_default();
        eprintln!("{what}: serves after {median:.3} s");
        median
    }

    /// Does something while the threads mutate; returns what their calls took.
    fn under_load<T>(&self, work: impl FnOnce() -> T) -> (Latencies, T) {
        let (ends, pods) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|_| scope.spawn(|| mutate(&self.slot, &ends, &pods)))
                .collect();
            while pods.load(Ordering::Relaxed) < 10_000 {
                thread::sleep(Duration::from_millis(1));
            }
            let done = work();
            ends.store(true, Ordering::Relaxed);
            let mut all = Latencies::new();
            for thread in threads {
                all.add(&thread.join().expect("no thread panics"));
            }
            (all, done)
        })
    }

    /// Reloads again and again; returns what the process held after a tenth of them, and at the end.
    fn reload(&self, plugins: &mut Plugins, reloads: usize) -> Held {
        let mut held = Held::default();
        for number in 1..=reloads {
            self.change(&plugins.change_one());
            if number == reloads.div_ceil(10) {
                held.early = holding();
            }
            if number % 100 == 0 {
                let (memory, descriptors) = holding();
                eprintln!("{number} reloads: {memory:.1} MiB, {descriptors} descriptors");
            }
        }
        held.late = holding();
        held
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Memory in MiB and file descriptors of this process, early and late.
#[derive(Default)]
struct Held {
    early: (f64, usize),
    late: (f64, usize),
}

impl Held {
    fn growth_mib(&self) -> f64 {
        self.late.0 - self.early.0
    }

    fn more_descriptors(&self) -> usize {
        self.late.1.saturating_sub(self.early.1)
    }
}

/// The fewest of some looks: while the loader reads the directory it has one more, or two.
fn descriptors() -> usize {
    let looks = (0..20).map(|_| {
        thread::sleep(Duration::from_millis(5));
        fs::read_dir("/proc/self/fd").expect("Linux").count()
    });
    looks.min().unwrap_or_default()
}

fn holding() -> (f64, usize) {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = resident.and_then(|text| {
        text.trim()
            .trim_end_matches("kB")
            .trim()
            .parse::<f64>()
            .ok()
    });
    (kibibytes.expect("VmRSS in kB") / 1024.0, descriptors())
}

/// Mutates pods without a pause; a call fails if it is refused, or if the pod did not go through one chain from start to end.
fn mutate(slot: &Slot, ends: &AtomicBool, pods: &AtomicU64) -> Latencies {
    let pod: Value = serde_json::from_str(include_str!("../pod.json")).expect("the file is JSON");
    let request = Arc::new(PodRequest {
        kind: "Browser",
        name: "chrome-143-7f3d1c2e".to_owned(),
        namespace: "team-web".to_owned(),
        ..PodRequest::default()
    });
    let mut latencies = Latencies::new();
    while !ends.load(Ordering::Relaxed) {
        let pod = pod.clone();
        let begun = Instant::now();
        let serving = slot.serving();
        let chain = serving.chain.as_ref().expect("a chain serves");
        let mutated = chain.mutate(pod, Arc::clone(&request));
        latencies.took(begun.elapsed());
        let is_whole = mutated.is_ok_and(|mutation| plugins::went_through(&mutation, chain));
        latencies.failed += u64::from(!is_whole);
        pods.fetch_add(1, Ordering::Relaxed);
    }
    latencies
}
