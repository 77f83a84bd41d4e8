//! Locks that several loops share.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{self, BoxFuture};
use podloom_control_loop::{
    Acquired, BoxError, Ctx, Guard, Measurement, MemoryLocker, Next, ObjectLocker, locker_fn,
    storage_fn,
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::support::{
    World, control_loop, eventually, failed, handler, looking_at, ms, secs, settled, source, start,
};

#[tokio::test(start_paused = true)]
async fn two_loops_on_one_locker_never_handle_an_id_at_once() {
    // The world panics if two handlers run for one id.
    let world = World::new(0..4);
    let locker = Arc::new(MemoryLocker::default());
    let loops: Vec<_> = [0, 1]
        .map(|seed| {
            let mut control_loop = looking_at(&world, move |_, id| async move {
                sleep(ms(7 * u64::from(id) + 11)).await;
                Ok(Next::After(ms(13)))
            });
            control_loop.locker = Arc::clone(&locker) as Arc<dyn ObjectLocker<u32>>;
            control_loop.options.seed = Some(seed);
            start(control_loop)
        })
        .into();
    sleep(secs(60)).await;
    for running in loops {
        running.stop().await;
    }
    let log = world.log().clone();
    assert!(log.calls.len() > 1000, "{}", log.calls.len());
    assert!(log.most_running > 1);
    let count = |such: Measurement| log.measured.iter().filter(|one| **one == such).count();
    assert!(count(Measurement::LockContended) > 10);
    assert_eq!(count(Measurement::Panicked), 0, "two handlers on one id");
}

/// Whether a lock is free now.
async fn is_free(locker: &MemoryLocker<u32>, id: u32) -> bool {
    let acquired = locker.acquire(&Ctx::default(), &id).await;
    matches!(acquired, Ok(Acquired::Held(_)))
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_is_too_slow_is_cancelled_and_its_lock_is_released_after_it() {
    let world = World::new([1]);
    let locker = MemoryLocker::default();
    let cancelled = Arc::new(Mutex::new(None));
    let [cancels, noted] = [(); 2].map(|()| Arc::clone(&cancelled));
    let clock = Arc::clone(&world);
    let mut control_loop = looking_at(&world, move |ctx, _| {
        let (cancels, clock) = (Arc::clone(&cancels), Arc::clone(&clock));
        async move {
            ctx.cancel.cancelled().await;
            *cancels.lock().expect("held briefly") = Some(clock.now());
            future::pending().await
        }
    });
    control_loop.options.handle_timeout = secs(10);
    control_loop.options.max_retries = Some(0);
    control_loop.locker = Arc::new(locker.clone());
    let running = start(control_loop);
    let mut gone = None;
    for _ in 0..200 {
        sleep(ms(100)).await;
        let free = is_free(&locker, 1).await;
        let inside = world.log().running.contains(&1);
        assert!(!(free && inside), "free, and somebody is inside");
        if free && gone.is_none() {
            gone = Some(world.now());
        }
    }
    running.stop().await;
    assert_eq!(*noted.lock().expect("held briefly"), Some(secs(10)));
    let gone = gone.expect("it was dropped");
    assert!(secs(15) <= gone && gone <= ms(15_200), "{gone:?}");
    assert_eq!(world.count(|one| *one == Measurement::Dropped), 1);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_loop_releases_its_locks_after_its_handlers() {
    let world = World::new([1]);
    let locker = MemoryLocker::default();
    let mut control_loop = looking_at(&world, |_, _| future::pending());
    control_loop.locker = Arc::new(locker.clone());
    let running = start(control_loop);
    eventually("it runs", || !world.calls().is_empty()).await;
    assert!(!is_free(&locker, 1).await);
    running.drop().await;
    eventually("its tasks are gone", || world.log().running.is_empty()).await;
    assert!(is_free(&locker, 1).await);
}

#[derive(Clone, Default)]
struct Watched {
    lost: CancellationToken,
    /// Whether the guard was released or retired, and when.
    end: Arc<Mutex<Option<(&'static str, Duration)>>>,
}

struct Expiring(Watched, Arc<World>);

impl Expiring {
    fn end(&self, how: &'static str) -> BoxFuture<'static, Result<(), BoxError>> {
        assert!(self.1.log().running.is_empty(), "somebody is inside");
        *self.0.end.lock().expect("held briefly") = Some((how, self.1.now()));
        future::ready(Ok(())).boxed()
    }
}

impl Guard for Expiring {
    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), BoxError>> {
        self.end("released")
    }

    fn retire(self: Box<Self>) -> BoxFuture<'static, Result<(), BoxError>> {
        self.end("retired")
    }

    fn lost(&self) -> CancellationToken {
        self.0.lost.clone()
    }

    fn fence(&self) -> Option<u64> {
        Some(42)
    }
}

fn locker(world: &Arc<World>, watched: &Watched) -> Arc<dyn ObjectLocker<u32>> {
    let (world, watched) = (Arc::clone(world), watched.clone());
    Arc::new(locker_fn(move |_, _| {
        let guard = Expiring(watched.clone(), Arc::clone(&world));
        future::ready(Ok(Acquired::Held(Box::new(guard))))
    }))
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_cancels_the_handler_and_drops_it_before_the_lock_ends() {
    for obeys in [true, false] {
        let world = World::new([1]);
        let watched = Watched::default();
        let mut control_loop = looking_at(&world, move |ctx, _| async move {
            if obeys {
                ctx.cancel.cancelled().await;
                return settled();
            }
            future::pending().await
        });
        control_loop.options.max_retries = Some(0);
        control_loop.locker = locker(&world, &watched);
        let running = start(control_loop);
        sleep(secs(60)).await;
        watched.lost.cancel();
        sleep(secs(60)).await;
        running.stop().await;
        let ended = *watched.end.lock().expect("held briefly");
        let after = if obeys { secs(60) } else { secs(64) };
        assert_eq!(ended, Some(("released", after)));
        // Whatever it returns, it counts as a failure.
        assert_eq!(world.count(|one| *one == Measurement::Dropped), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_does_not_start_without_its_lock() {
    let world = World::new([1]);
    let watched = Watched::default();
    let lost = watched.lost.clone();
    let gets = Arc::clone(&world);
    // The lock is lost while the object is read.
    let storage = storage_fn(move |_, id| {
        lost.cancel();
        future::ready(Ok(gets.get(id)))
    });
    let handler = handler(&world, |_, _| future::ready(settled()));
    let mut control_loop = control_loop(&world, source(&world), storage, handler);
    control_loop.options.max_retries = Some(0);
    control_loop.locker = locker(&world, &watched);
    let running = start(control_loop);
    sleep(secs(60)).await;
    running.stop().await;
    assert_eq!(world.calls(), []);
    assert_eq!(world.count(|one| *one == Measurement::Dropped), 1);
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_lock_was_lost_counts_as_failed() {
    let world = World::new([1]);
    let watched = Watched::default();
    let lost = watched.lost.clone();
    let mut control_loop = looking_at(&world, move |_, _| {
        lost.cancel();
        future::ready(settled())
    });
    control_loop.options.max_retries = Some(0);
    control_loop.locker = locker(&world, &watched);
    let running = start(control_loop);
    sleep(secs(60)).await;
    running.stop().await;
    assert_eq!(world.count(|one| *one == Measurement::Dropped), 1);
}

#[tokio::test(start_paused = true)]
async fn a_guard_is_retired_only_after_a_successful_delete_and_its_fence_is_passed_on() {
    for (present, works, end) in [
        (true, true, "released"),
        (true, false, "released"),
        (false, true, "retired"),
        (false, false, "released"),
    ] {
        let world = World::new([1]);
        if !present {
            world.store([]);
        }
        let watched = Watched::default();
        let mut control_loop = looking_at(&world, move |ctx, _| async move {
            assert_eq!(ctx.fence, Some(42));
            if works { settled() } else { failed() }
        });
        control_loop.locker = locker(&world, &watched);
        control_loop.options.max_retries = Some(0);
        control_loop.options.workers = NonZeroUsize::MIN;
        let running = start(control_loop);
        sleep(secs(1)).await;
        running.stop().await;
        let ended = *watched.end.lock().expect("held briefly");
        assert_eq!(ended, Some((end, secs(0))));
        assert_eq!(world.count(|one| *one == Measurement::Panicked), 0);
    }
}
