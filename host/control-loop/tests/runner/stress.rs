//! Many threads at once: the newest state of each id is handled, whatever the interleaving.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc::{UnboundedReceiver, unbounded};
use podloom_control_loop::{
    BoxError, ControlLoop, HintStream, Next, handler_fn, storage_fn, watched_source_fn,
};
use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

const IDS: usize = 8;
const CHANGES: u64 = 2_000;

/// For each id its version, the last version that was handled, and how many handlers run.
#[derive(Default)]
struct Cells([(AtomicU64, AtomicU64, AtomicU64); IDS]);

async fn change(cells: Arc<Cells>, hints: futures::channel::mpsc::UnboundedSender<usize>) {
    for _ in 0..CHANGES {
        for (id, cell) in cells.0.iter().enumerate() {
            cell.0.fetch_add(1, Ordering::SeqCst);
            hints.unbounded_send(id).expect("the loop listens");
        }
        yield_now().await;
    }
}

fn looking_at(
    cells: &Arc<Cells>,
    heard: UnboundedReceiver<usize>,
    done: CancellationToken,
) -> impl Future<Output = podloom_control_loop::Report> + use<> {
    let heard = std::sync::Mutex::new(Some(heard));
    let source = watched_source_fn(
        |_| async { Ok(Vec::new()) },
        move |_| {
            let heard = heard.lock().expect("held briefly").take();
            let opened = heard.map(|heard| heard.map(Ok).boxed() as HintStream<usize>);
            std::future::ready(opened.ok_or_else(|| BoxError::from("opened twice")))
        },
    );
    let gets = Arc::clone(cells);
    let storage = storage_fn(move |_, id: usize| {
        let version = gets.0[id].0.load(Ordering::SeqCst);
        async move {
            yield_now().await;
            Ok(Some(version))
        }
    });
    let (cells, stop) = (Arc::clone(cells), done.clone());
    let handler = handler_fn(move |_, id: usize, version: Option<u64>| {
        let (cells, done) = (Arc::clone(&cells), done.clone());
        async move {
            let cell = &cells.0[id];
            assert_eq!(cell.2.fetch_add(1, Ordering::SeqCst), 0, "two handlers");
            yield_now().await;
            cell.1
                .store(version.expect("it is there"), Ordering::SeqCst);
            cell.2.fetch_sub(1, Ordering::SeqCst);
            let last = 4 * CHANGES;
            if cells
                .0
                .iter()
                .all(|cell| cell.1.load(Ordering::SeqCst) == last)
            {
                done.cancel();
            }
            Ok(Next::Settled)
        }
    });
    let mut control_loop = ControlLoop::new("stress", source, storage, handler);
    // Without a resync, which would hide a lost hint.
    control_loop.options.resync_interval = None;
    control_loop.run(stop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_newest_state_of_every_id_is_handled() {
    let cells = Arc::new(Cells::default());
    let (hints, heard) = unbounded();
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        tasks.spawn(change(Arc::clone(&cells), hints.clone()));
    }
    let running = looking_at(&cells, heard, CancellationToken::new());
    let report = timeout(Duration::from_secs(60), running).await;
    let seen: Vec<u64> = cells
        .0
        .iter()
        .map(|cell| cell.1.load(Ordering::SeqCst))
        .collect();
    let report = report.unwrap_or_else(|_| panic!("a hint was lost: {seen:?}"));
    assert!(report.abandoned.is_empty(), "{report:?}");
    tasks.join_all().await;
}
