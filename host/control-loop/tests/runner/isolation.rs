//! Errors and panics of one id, or in the user's code, do not affect others.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::{self, BoxFuture};
use podloom_control_loop::{
    Acquired, BoxError, Guard, Measurement, NoRecorder, Recorder, locker_fn, recorder_fn,
};
use tokio::time::sleep;

use crate::support::{World, looking_at, secs, settled, start};

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_is_retried_and_other_ids_proceed() {
    let world = World::new(0..20);
    let running = start(looking_at(&world, |ctx, id| async move {
        assert!(id != 7 || ctx.attempt > 3, "seven is not well");
        settled()
    }));
    sleep(secs(60)).await;
    assert_eq!(running.stop().await.queued, 0);
    assert_eq!(world.times(7).len(), 4);
    assert!((0..20).all(|id| id == 7 || world.times(id).len() == 1));
    let panicked = world.count(|one| *one == Measurement::Panicked);
    assert_eq!(panicked, 3);
}

/// Panics when it is used.
struct Bad {
    when_dropped: bool,
}

impl Guard for Bad {
    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), BoxError>> {
        assert!(self.when_dropped, "released");
        future::ready(Err("not released".into())).boxed()
    }
}

impl Drop for Bad {
    fn drop(&mut self) {
        assert!(!self.when_dropped, "dropped");
    }
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_panics_does_not_stop_the_loop() {
    for when_dropped in [false, true] {
        let world = World::new([1, 2]);
        let mut control_loop = looking_at(&world, |_, _| async { settled() });
        control_loop.locker = Arc::new(locker_fn(move |_, _| {
            future::ready(Ok(Acquired::Held(Box::new(Bad { when_dropped }))))
        }));
        let running = start(control_loop);
        sleep(secs(60)).await;
        running.stop().await;
        // The handler succeeded, though its lock failed afterwards.
        assert_eq!(world.times(1).len(), 1);
        assert_eq!(world.times(2).len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_recorder_that_panics_does_not_stop_the_loop() {
    let world = World::new([1, 2]);
    let mut control_loop = looking_at(&world, |_, _| async { settled() });
    control_loop.recorder = Arc::new(recorder_fn(|_, _| panic!("recorder")));
    let running = start(control_loop);
    sleep(secs(60)).await;
    assert_eq!(running.stop().await.queued, 0);
    assert_eq!(world.calls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn zero_and_endless_durations_do_not_stop_the_loop() {
    use std::time::Duration;
    for duration in [Duration::ZERO, Duration::MAX] {
        let world = World::new([1]);
        let mut control_loop = looking_at(&world, move |ctx, _| async move {
            match ctx.attempt {
                1 => Err("once".into()),
                _ => Ok(podloom_control_loop::Next::After(duration)),
            }
        });
        let options = &mut control_loop.options;
        options.resync_interval = Some(duration);
        (options.backoff_base, options.backoff_cap) = (duration, duration);
        options.drain_timeout = duration;
        if duration > Duration::ZERO {
            (options.list_timeout, options.get_timeout) = (duration, duration);
            options.handle_timeout = duration;
        }
        let recorder: Arc<dyn Recorder> = Arc::new(NoRecorder);
        control_loop.recorder = recorder;
        let running = start(control_loop);
        sleep(secs(1)).await;
        running.stop().await;
        assert!(!world.calls().is_empty());
    }
}
