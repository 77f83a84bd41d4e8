//! How a test begins and ends.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::cluster::Cluster;
use crate::operator::{self, Operator};
use crate::scene::Scene;
use crate::wait::within;

/// How long a test may take before it counts as stuck. The longest take a minute.
const DEADLINE: Duration = Duration::from_secs(240);

/// The cluster that most tests share, with one operator for all namespaces.
fn shared() -> &'static (Arc<Cluster>, Operator) {
    // It ends with the process, since a static is never dropped.
    static SHARED: OnceLock<(Arc<Cluster>, Operator)> = OnceLock::new();
    SHARED.get_or_init(|| {
        let cluster = Arc::new(Cluster::installed());
        let operator = Operator::for_all(&cluster);
        (cluster, operator)
    })
}

/// Runs a test on the shared cluster, where one operator works for all namespaces.
///
/// Without a binary to test nothing is run, and that is said: building one is up to `cargo xtask test`.
pub fn blackbox(name: &str, test: impl AsyncFnOnce(Scene)) {
    if !is_asked_for(name) {
        return;
    }
    let (cluster, operator) = shared();
    let _told = Told { operator, name };
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
    if !is_asked_for(name) {
        return;
    }
    let cluster = cluster();
    run(async {
        let scene = Scene::new(cluster, name).await;
        within(name, deadline, test(scene)).await;
    });
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(test);
}

fn is_asked_for(name: &str) -> bool {
    let asked = operator::binary().is_some();
    if !asked {
        eprintln!(
            "{name} is skipped: PODLOOM_BLACKBOX_BINARY names no binary, as `cargo xtask test` does"
        );
    }
    asked
}

/// Shows what the shared operator logged about a test's namespace, if the test fails.
struct Told<'a> {
    operator: &'a Operator,
    name: &'a str,
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "the shared operator's log is {}",
                self.operator.tail(self.name)
            );
        }
    }
}
