//! Runs a test: on which cluster, in which namespace, with which deadline.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::cluster::Cluster;
use crate::operator::{self, Operator};
use crate::scene::Scene;
use crate::wait::within;

/// How long a test may take. The longest take a minute.
const DEADLINE: Duration = Duration::from_secs(240);

/// The cluster that most tests share, with one operator for all namespaces.
fn shared() -> &'static (Arc<Cluster>, Operator) {
    // A static is never dropped, so both end with the process.
    static SHARED: OnceLock<(Arc<Cluster>, Operator)> = OnceLock::new();
    SHARED.get_or_init(|| {
        let cluster = Arc::new(Cluster::installed());
        let operator = Operator::for_all(&cluster);
        (cluster, operator)
    })
}

/// Runs a test on the shared cluster, where one operator works for all namespaces.
///
/// Without a binary the test is skipped, with a line on standard error; `cargo xtask test` builds the binary.
pub fn blackbox(name: &str, test: impl AsyncFnOnce(Scene)) {
    if !has_binary(name) {
        return;
    }
    let (cluster, operator) = shared();
    let _on_failure = LogOnFailure { operator, name };
    run(async {
        operator.ready().await;
        let scene = Scene::new(Arc::clone(cluster), name).await;
        within(name, DEADLINE, test(scene)).await;
    });
}

/// Runs a test on a cluster that has no operator unless the test starts one.
pub fn blackbox_on(cluster: fn() -> Arc<Cluster>, name: &str, test: impl AsyncFnOnce(Scene)) {
    blackbox_within(DEADLINE, cluster, name, test);
}

/// As [`blackbox_on`], with another deadline.
pub fn blackbox_within(
    deadline: Duration,
    cluster: fn() -> Arc<Cluster>,
    name: &str,
    test: impl AsyncFnOnce(Scene),
) {
    if !has_binary(name) {
        return;
    }
    let cluster = cluster();
    run(async {
        let scene = Scene::new(cluster, name).await;
        within(name, deadline, test(scene)).await;
    });
}

fn run(test: impl Future<Output = ()>) {
    let _writes_at_the_end = Time(Instant::now());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(test);
}

fn has_binary(name: &str) -> bool {
    let is_set = operator::binary().is_some();
    if !is_set {
        eprintln!(
            "{name} is skipped: PODLOOM_BLACKBOX_BINARY is not set; run it with `cargo xtask test`"
        );
    }
    is_set
}

/// When a test began. At its end it appends to the file of `PODLOOM_TEST_TIMES`, if that is set, how long it took.
struct Time(Instant);

impl Drop for Time {
    fn drop(&mut self) {
        let Some(file) = env::var_os("PODLOOM_TEST_TIMES") else {
            return;
        };
        let seconds = self.0.elapsed().as_secs_f64();
        let this = thread::current();
        let line = format!("{seconds:>8.1} s  {}\n", this.name().unwrap_or_default());
        let file = OpenOptions::new().create(true).append(true).open(file);
        // A test may fail, and not because nobody can say how long it took.
        let _unknown = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

/// Shows what the shared operator logged about a test's namespace, if the test fails.
struct LogOnFailure<'a> {
    operator: &'a Operator,
    name: &'a str,
}

impl Drop for LogOnFailure<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "the shared operator's log is {}",
                self.operator.tail(self.name)
            );
        }
    }
}
