//! A world for the loops under test, which records all calls.

use std::collections::BTreeSet;
use std::future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::{StreamExt, stream};
use podloom_control_loop::{
    BoxError, ControlLoop, Ctx, Handler, HintStream, Measurement, Next, Options, Report, Source,
    Storage, handler_fn, recorder_fn, storage_fn, watched_source_fn,
};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A call of the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call {
    pub(crate) id: u32,
    pub(crate) present: bool,
    pub(crate) at: Duration,
    pub(crate) attempt: u32,
}

pub(crate) struct World {
    start: Instant,
    listed: Mutex<BTreeSet<u32>>,
    present: Mutex<BTreeSet<u32>>,
    log: Mutex<Log>,
    hints: UnboundedSender<u32>,
    heard: Mutex<Option<UnboundedReceiver<u32>>>,
}

/// What happened, in order.
#[derive(Clone, Default)]
pub(crate) struct Log {
    pub(crate) opens: Vec<Duration>,
    pub(crate) lists: Vec<Duration>,
    pub(crate) gets: Vec<u32>,
    pub(crate) calls: Vec<Call>,
    pub(crate) running: BTreeSet<u32>,
    pub(crate) most_running: usize,
    pub(crate) measured: Vec<Measurement>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    /// A world in which these ids are listed and present.
    pub(crate) fn new(ids: impl IntoIterator<Item = u32>) -> Arc<Self> {
        let (hints, heard) = unbounded();
        let ids: BTreeSet<u32> = ids.into_iter().collect();
        Arc::new(Self {
            start: Instant::now(),
            listed: Mutex::new(ids.clone()),
            present: Mutex::new(ids),
            log: Mutex::default(),
            hints,
            heard: Mutex::new(Some(heard)),
        })
    }

    pub(crate) fn list(&self, ids: impl IntoIterator<Item = u32>) {
        *lock(&self.listed) = ids.into_iter().collect();
    }

    pub(crate) fn store(&self, ids: impl IntoIterator<Item = u32>) {
        *lock(&self.present) = ids.into_iter().collect();
    }

    pub(crate) fn hint(&self, id: u32) {
        self.hints.unbounded_send(id).expect("the world listens");
    }

    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    pub(crate) fn log(&self) -> MutexGuard<'_, Log> {
        lock(&self.log)
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.log().calls.clone()
    }

    /// When the handler was called for an id.
    pub(crate) fn times(&self, id: u32) -> Vec<Duration> {
        let calls = self.calls();
        let of_id = calls.iter().filter(|call| call.id == id);
        of_id.map(|call| call.at).collect()
    }

    /// How many measurements match.
    pub(crate) fn count(&self, such: impl Fn(&Measurement) -> bool) -> usize {
        self.log().measured.iter().filter(|one| such(one)).count()
    }

    pub(crate) fn opened(&self) {
        let now = self.now();
        self.log().opens.push(now);
    }

    pub(crate) fn listed(&self) -> Vec<u32> {
        let now = self.now();
        self.log().lists.push(now);
        lock(&self.listed).iter().copied().collect()
    }

    pub(crate) fn get(&self, id: u32) -> Option<u32> {
        self.log().gets.push(id);
        lock(&self.present).get(&id).copied()
    }

    /// The hints that the test sends. A watch that is opened again gets none.
    pub(crate) fn watch(&self) -> HintStream<u32> {
        self.opened();
        let heard = lock(&self.heard).take();
        stream::iter(heard)
            .flatten()
            .map(Ok)
            .chain(stream::pending())
            .boxed()
    }

    /// Notes that a handler runs, until the returned guard is dropped.
    pub(crate) fn enter(self: &Arc<Self>, id: u32) -> Inside {
        let mut log = self.log();
        assert!(log.running.insert(id), "two handlers on {id}");
        log.most_running = log.most_running.max(log.running.len());
        Inside(Arc::clone(self), id)
    }
}

pub(crate) struct Inside(Arc<World>, u32);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.log().running.remove(&self.1);
    }
}

/// The parts of a loop over a world.
pub(crate) fn source(world: &Arc<World>) -> impl Source<u32> + use<> {
    let [lists, watches] = [(); 2].map(|()| Arc::clone(world));
    watched_source_fn(
        move |_| future::ready(Ok(lists.listed())),
        move |_| future::ready(Ok(watches.watch())),
    )
}

pub(crate) fn storage(world: &Arc<World>) -> impl Storage<u32, Object = u32> + use<> {
    let world = Arc::clone(world);
    storage_fn(move |_, id| future::ready(Ok(world.get(id))))
}

/// A handler that notes its calls before it does what the test wants.
pub(crate) fn handler<H, Handled>(
    world: &Arc<World>,
    handle: H,
) -> impl Handler<u32, u32> + use<H, Handled>
where
    H: Fn(Ctx, u32) -> Handled + Send + Sync + 'static,
    Handled: Future<Output = Result<Next, BoxError>> + Send,
{
    let world = Arc::clone(world);
    handler_fn(move |ctx: Ctx, id, object: Option<u32>| {
        let call = Call {
            id,
            present: object.is_some(),
            at: world.now(),
            attempt: ctx.attempt,
        };
        world.log().calls.push(call);
        let inside = world.enter(id);
        let handling = handle(ctx, id);
        async move {
            let _inside = inside;
            handling.await
        }
    })
}

/// A loop of these parts that lists once and records its measurements in the world's log.
pub(crate) fn control_loop<So, St, Ha>(
    world: &Arc<World>,
    source: So,
    storage: St,
    handler: Ha,
) -> ControlLoop<u32, So, St, Ha>
where
    So: Source<u32>,
    St: Storage<u32>,
    Ha: Handler<u32, St::Object>,
{
    let world = Arc::clone(world);
    let mut control_loop = ControlLoop::new("test", source, storage, handler);
    control_loop.options = Options {
        resync_interval: None,
        seed: Some(5),
        ..Options::default()
    };
    control_loop.recorder = Arc::new(recorder_fn(move |name, measured| {
        assert_eq!(name, "test");
        world.log().measured.push(measured);
    }));
    control_loop
}

/// A loop over the world.
pub(crate) fn looking_at<H, Handled>(
    world: &Arc<World>,
    handle: H,
) -> ControlLoop<
    u32,
    impl Source<u32> + use<H, Handled>,
    impl Storage<u32, Object = u32> + use<H, Handled>,
    impl Handler<u32, u32> + use<H, Handled>,
>
where
    H: Fn(Ctx, u32) -> Handled + Send + Sync + 'static,
    Handled: Future<Output = Result<Next, BoxError>> + Send,
{
    let handler = handler(world, handle);
    control_loop(world, source(world), storage(world), handler)
}

/// A loop that runs in a task.
pub(crate) struct Running {
    stop: CancellationToken,
    task: JoinHandle<Report>,
}

pub(crate) fn start<So, St, Ha>(control_loop: ControlLoop<u32, So, St, Ha>) -> Running
where
    So: Source<u32>,
    St: Storage<u32>,
    Ha: Handler<u32, St::Object>,
{
    let stop = CancellationToken::new();
    let task = tokio::spawn(control_loop.run(stop.clone()));
    Running { stop, task }
}

impl Running {
    /// Stops the loop, and waits for its report.
    pub(crate) async fn stop(self) -> Report {
        self.stop.cancel();
        let stopped = timeout(secs(3600), self.task).await;
        stopped.expect("it stops").expect("it does not panic")
    }

    /// Drops the loop's future.
    pub(crate) async fn drop(self) {
        self.task.abort();
        let error = self.task.await.expect_err("it was running");
        assert!(error.is_cancelled());
    }
}

/// Waits until a condition holds, for at most an hour of the paused clock.
#[track_caller]
pub(crate) fn eventually(
    what: &'static str,
    mut holds: impl FnMut() -> bool,
) -> impl Future<Output = ()> {
    let place = std::panic::Location::caller();
    async move {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < secs(3600), "never so, at {place}: {what}");
            sleep(ms(10)).await;
        }
    }
}

pub(crate) fn settled() -> Result<Next, BoxError> {
    Ok(Next::Settled)
}

pub(crate) fn failed() -> Result<Next, BoxError> {
    Err("it does not work".into())
}

/// The time from each to the next.
pub(crate) fn pauses(times: &[Duration]) -> Vec<Duration> {
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}
