//! Shared parts.

use std::sync::Arc;

use podloom_control_loop::{ControlLoop, Measurement, MemoryLocker, recorder_fn};
use tokio::time::sleep;

use crate::support::{World, handler, secs, settled, source, start, storage};

#[tokio::test(start_paused = true)]
async fn an_arc_of_a_part_is_a_part() {
    let world = World::new([1, 2]);
    let source = Arc::new(source(&world));
    let storage = Arc::new(storage(&world));
    let handler = Arc::new(handler(&world, |_, _| async { settled() }));
    let measures = Arc::clone(&world);
    let recorder = Arc::new(recorder_fn(move |_, measured| {
        measures.log().measured.push(measured);
    }));
    let mut control_loop = ControlLoop::new(
        "test",
        Arc::clone(&source),
        Arc::clone(&storage),
        Arc::clone(&handler),
    );
    control_loop.locker = Arc::new(Arc::new(MemoryLocker::default()));
    control_loop.recorder = Arc::new(recorder);
    let running = start(control_loop);
    sleep(secs(1)).await;
    // It came through the watch, and the recorder counted it.
    world.hint(1);
    sleep(secs(1)).await;
    running.stop().await;
    assert_eq!(world.times(1), [secs(0), secs(1)]);
    assert_eq!(world.times(2), [secs(0)]);
    assert_eq!(world.count(|one| *one == Measurement::QueueDequeued), 3);
}
