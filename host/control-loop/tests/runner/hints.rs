//! Hints from outside the source.

use std::sync::Arc;

use podloom_control_loop::{Next, Report};
use tokio::time::sleep;

use crate::support::{World, looking_at, ms, secs, settled, start};

#[tokio::test(start_paused = true)]
async fn a_pushed_id_is_handled_at_once_listed_or_not() {
    let world = World::new([]);
    let control_loop = looking_at(&world, |_, _| async { settled() });
    let hints = control_loop.hints.clone();
    let running = start(control_loop);
    sleep(secs(1)).await;
    hints.push(3);
    sleep(ms(1)).await;
    world.store([3]);
    hints.clone().push(3);
    sleep(ms(1)).await;
    let calls = world.calls();
    let seen: Vec<_> = calls.iter().map(|call| (call.id, call.present)).collect();
    assert_eq!(seen, [(3, false), (3, true)]);
    assert!(world.now() < ms(1010));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn ids_pushed_before_the_start_are_handled_once_and_in_order() {
    let world = World::new([]);
    let mut control_loop = looking_at(&world, |_, _| async { settled() });
    control_loop.options.workers = std::num::NonZeroUsize::MIN;
    for id in [5, 3, 5, 4, 3] {
        control_loop.hints.push(id);
    }
    let running = start(control_loop);
    sleep(secs(1)).await;
    let ids: Vec<u32> = world.calls().iter().map(|call| call.id).collect();
    assert_eq!(ids, [5, 3, 4]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_id_pushed_during_its_run_runs_once_more() {
    let world = World::new([1]);
    let control_loop = looking_at(&world, |_, _| async {
        sleep(secs(1)).await;
        settled()
    });
    let hints = control_loop.hints.clone();
    let running = start(control_loop);
    for _ in 0..5 {
        sleep(ms(100)).await;
        hints.push(1);
    }
    sleep(secs(10)).await;
    assert_eq!(world.times(1), [secs(0), secs(1)]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pushing_a_delayed_id_makes_it_ready_earlier() {
    let world = World::new([1]);
    let control_loop = looking_at(&world, |_, _| async { Ok(Next::After(secs(3600))) });
    let hints = control_loop.hints.clone();
    let running = start(control_loop);
    sleep(secs(60)).await;
    hints.push(1);
    sleep(secs(1)).await;
    assert_eq!(world.times(1), [secs(0), secs(60)]);
    running.stop().await;
}

/// An id that reports when it is dropped.
#[tokio::test(start_paused = true)]
async fn a_loop_that_has_ended_drops_pushed_ids() {
    let id: Arc<str> = "a".into();
    let control_loop = podloom_control_loop::ControlLoop::new(
        "ends",
        podloom_control_loop::source_fn(|_| async { Ok(vec![]) }),
        podloom_control_loop::storage_fn(|_, _: Arc<str>| async { Ok(Some(())) }),
        podloom_control_loop::handler_fn(|_, _, _: Option<()>| async { settled() }),
    );
    let hints = control_loop.hints.clone();
    hints.push(Arc::clone(&id));
    let stop = tokio_util::sync::CancellationToken::new();
    stop.cancel();
    assert_eq!(control_loop.run(stop).await, Report::default());
    hints.push(Arc::clone(&id));
    assert_eq!(Arc::strong_count(&id), 1);
}
