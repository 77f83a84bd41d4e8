//! Fifty reloads while eight threads mutate pods all the time. A process of its own, since it counts resources of the process.

#[path = "../runner/support.rs"]
#[expect(dead_code, reason = "the other tests use more of it")]
mod support;
#[path = "../runner/volume.rs"]
mod volume;

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use podloom_control_loop::NoRecorder;
use podloom_mutators::{Chain, Loader, Reload, Slot, WatchMode};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use support::{assemble, engine, fixture_text, pod, request};
use volume::{Files, Volume};

const RELOADS: usize = 50;
const THREADS: usize = 8;
/// How many chains may be alive at once: the one that serves, and an older one under each thread.
const ALIVE: usize = 1 + THREADS;
const PATIENCE: Duration = Duration::from_secs(60);

/// A chain of two plugins that both write this number, so that a pod between two chains would show two numbers.
fn bundle(number: usize) -> Files {
    let text = fixture_text("good").replace("22good", &format!("22{number:04}"));
    let again = text.replace("/metadata/labels/fixture", "/metadata/labels/another");
    assert_ne!(text, again);
    let manifest = "apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins:\n\
        - { name: first, file: first.wasm, allow: [/metadata/labels] }\n\
        - { name: second, file: second.wasm, allow: [/metadata/labels] }\n";
    Files::from([
        ("chain.yaml".to_owned(), manifest.as_bytes().to_owned()),
        ("first.wasm".to_owned(), assemble(&text)),
        ("second.wasm".to_owned(), assemble(&again)),
    ])
}

/// Resources of the process.
struct Held {
    descriptors: usize,
    mappings: usize,
}

impl Held {
    fn now() -> Self {
        let maps = fs::read_to_string("/proc/self/maps").expect("Linux");
        Self {
            descriptors: fs::read_dir("/proc/self/fd").expect("Linux").count(),
            mappings: maps.lines().count(),
        }
    }
}

/// Mutates pods until `ends` is set; each pod must have passed one chain.
fn mutate(slot: &Slot, ends: &AtomicBool, pods: &AtomicU64) {
    while !ends.load(Ordering::Relaxed) {
        let serving = slot.serving();
        let chain = serving.chain.as_ref().expect("a chain serves");
        let pod = chain.mutate(pod(), request()).expect("no call fails").pod;
        let (labels, annotations) = (&pod["metadata"]["labels"], &pod["metadata"]["annotations"]);
        assert_eq!(labels["fixture"], labels["another"], "{pod}");
        assert_eq!(annotations["podloom.dev/chain"], chain.digest());
        pods.fetch_add(1, Ordering::Relaxed);
    }
}

#[track_caller]
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited for: {what}");
        thread::yield_now();
    }
}

/// A loader, and every chain that it ever let serve.
struct Loading {
    slot: Arc<Slot>,
    chains: Arc<Mutex<Vec<Weak<Chain>>>>,
    stop: CancellationToken,
    loader: JoinHandle<()>,
}

impl Loading {
    fn of(volume: &Volume, runtime: &Runtime) -> Self {
        let (slot, stop) = (Arc::<Slot>::default(), CancellationToken::new());
        let chains: Arc<Mutex<Vec<Weak<Chain>>>> = Arc::default();
        let swapped = Arc::clone(&chains);
        let loader = Loader {
            name: "plugins",
            directory: volume.path().to_owned(),
            engine: Arc::clone(engine()),
            slot: Arc::clone(&slot),
            signers: None,
            admit: Arc::new(|_| Box::pin(async { Ok(()) })),
            watch: WatchMode::Notified,
            scan_interval: PATIENCE,
            build_timeout: PATIENCE,
            report: Arc::new(move |reload| {
                let chain = match reload {
                    Reload::Swapped { chain, .. } => Arc::downgrade(chain),
                    // It is counted, and found dead at the end.
                    Reload::Restored { .. } | Reload::Refused { .. } => Weak::new(),
                };
                swapped.lock().expect("nobody panics with it").push(chain);
            }),
            recorder: Arc::new(NoRecorder),
        };
        let loader = runtime.spawn(loader.run(stop.clone()));
        runtime.block_on(slot.attempted());
        Self {
            slot,
            chains,
            stop,
            loader,
        }
    }

    /// How many chains have served, and how many of them are still in memory.
    fn count(&self) -> (usize, usize) {
        let chains = self.chains.lock().expect("nobody panics with it");
        let alive = chains.iter().filter(|chain| chain.strong_count() > 0);
        (chains.len(), alive.count())
    }
}

#[test]
fn fifty_reloads_under_load_fail_no_call_and_leave_nothing_behind() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let volume = Volume::new(&bundle(0));
    let loading = Loading::of(&volume, &runtime);
    let (ends, pods) = (AtomicBool::new(false), AtomicU64::new(0));
    let made = || pods.load(Ordering::Relaxed);
    thread::scope(|scope| {
        let mutators: Vec<_> = (0..THREADS)
            .map(|_| scope.spawn(|| mutate(&loading.slot, &ends, &pods)))
            .collect();
        let mut early = None;
        for number in 1..=RELOADS {
            let before = made();
            volume.update(&bundle(number), |_| {});
            wait_until("the next chain serves", || loading.count().0 == number + 1);
            wait_until("pods are made meanwhile", || made() > before);
            let (_, alive) = loading.count();
            assert!(alive <= ALIVE, "{alive} chains are kept");
            assert!(mutators.iter().all(|thread| !thread.is_finished()));
            if number == RELOADS / 5 {
                early = Some(Held::now());
            }
        }
        let early = early.expect("it was taken");
        // The loader may have a file open for a moment, and a chain that is kept would be dozens of mappings.
        wait_until("nothing more is held than forty reloads before", || {
            let now = Held::now();
            now.descriptors <= early.descriptors && now.mappings < early.mappings + 64
        });
        ends.store(true, Ordering::Relaxed);
    });
    assert_eq!(
        loading.count(),
        (RELOADS + 1, 1),
        "only what serves is kept"
    );
    loading.stop.cancel();
    runtime
        .block_on(loading.loader)
        .expect("the loader ends gracefully");
}
