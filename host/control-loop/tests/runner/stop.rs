//! Stopping a loop.

use std::num::NonZeroUsize;
use std::sync::Arc;

use futures::{StreamExt, future, stream};
use podloom_control_loop::{
    BoxError, Measurement, MemoryLocker, Next, ObjectLocker, Report, locker_fn, storage_fn,
    watched_source_fn,
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::support::{
    World, control_loop, eventually, failed, handler, looking_at, ms, secs, settled, source, start,
    storage,
};

#[tokio::test(start_paused = true)]
async fn a_handler_that_needs_two_seconds_gets_them() {
    let world = World::new([1]);
    let running = start(looking_at(&world, |ctx, _| async move {
        sleep(secs(2)).await;
        assert!(ctx.stopping.is_cancelled());
        assert!(!ctx.cancel.is_cancelled());
        settled()
    }));
    sleep(ms(100)).await;
    let report = running.stop().await;
    let expected = Report {
        finished: 1,
        ..Report::default()
    };
    assert_eq!(report, expected);
    assert_eq!(world.now(), secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_stuck_handler_is_cancelled_at_the_deadline_dropped_and_reported() {
    for obeys in [true, false] {
        let world = World::new([1, 2]);
        let mut control_loop = looking_at(&world, move |ctx, id| async move {
            if id == 2 {
                return Ok(Next::After(secs(3600)));
            }
            if obeys {
                ctx.cancel.cancelled().await;
                return settled();
            }
            future::pending().await
        });
        control_loop.options.max_retries = Some(0);
        let running = start(control_loop);
        sleep(secs(1)).await;
        let report = running.stop().await;
        let expected = Report {
            abandoned: vec!["1".into()],
            queued: 1,
            ..Report::default()
        };
        assert_eq!(report, expected);
        assert_eq!(world.now(), if obeys { secs(31) } else { secs(36) });
        assert!(world.log().running.is_empty());
        assert_eq!(world.count(|one| *one == Measurement::Dropped), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_before_its_handler_ends_at_once_and_counts_as_queued() {
    let world = World::new(0..10);
    let gets = Arc::clone(&world);
    let storage = storage_fn(move |_, id| {
        gets.get(id);
        future::pending::<Result<Option<u32>, BoxError>>()
    });
    let handler = handler(&world, |_, _| async { settled() });
    let running = start(control_loop(&world, source(&world), storage, handler));
    sleep(secs(1)).await;
    assert_eq!(world.log().gets.len(), 4);
    let report = running.stop().await;
    let expected = Report {
        queued: 10,
        ..Report::default()
    };
    assert_eq!(report, expected);
    assert_eq!(world.now(), secs(1));
    assert!(world.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_id_that_is_being_locked_when_the_loop_stops_is_not_read() {
    let world = World::new(0..4);
    let stop = CancellationToken::new();
    let stops = stop.clone();
    let memory = MemoryLocker::default();
    let mut control_loop = looking_at(&world, |_, _| async { settled() });
    control_loop.locker = Arc::new(locker_fn(move |ctx, id| {
        let (stops, memory) = (stops.clone(), memory.clone());
        async move {
            stops.cancel();
            memory.acquire(&ctx, &id).await
        }
    }));
    let report = control_loop.run(stop).await;
    let expected = Report {
        queued: 4,
        ..Report::default()
    };
    assert_eq!(report, expected);
    assert!(world.log().gets.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_id_that_is_being_read_when_the_loop_stops_is_not_handled() {
    let world = World::new([1]);
    let stop = CancellationToken::new();
    let stops = stop.clone();
    let storage = storage_fn(move |_, id: u32| {
        stops.cancel();
        future::ready(Ok(Some(id)))
    });
    let handler = handler(&world, |_, _| async { settled() });
    let report = control_loop(&world, source(&world), storage, handler)
        .run(stop)
        .await;
    let expected = Report {
        queued: 1,
        ..Report::default()
    };
    assert_eq!(report, expected);
    assert!(world.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn ids_that_are_delayed_failed_or_dirty_count_as_queued() {
    let world = World::new(0..6);
    let mut control_loop = looking_at(&world, |_, id| async move {
        match id {
            // Waits.
            0 => Ok(Next::After(secs(60))),
            // Fails while the loop is drained.
            1 => {
                sleep(secs(3)).await;
                failed()
            }
            // Is hinted during its run; the others never start.
            _ => {
                sleep(secs(4)).await;
                settled()
            }
        }
    });
    control_loop.options.workers = NonZeroUsize::new(2).expect("two");
    let running = start(control_loop);
    sleep(secs(1)).await;
    world.hint(2);
    sleep(ms(100)).await;
    let report = running.stop().await;
    let expected = Report {
        finished: 2,
        queued: 6,
        ..Report::default()
    };
    assert_eq!(report, expected);
}

#[tokio::test(start_paused = true)]
async fn the_source_is_dropped_at_once() {
    let world = World::new([1]);
    let [lists, watches] = [(); 2].map(|()| Arc::clone(&world));
    let hangs = watched_source_fn(
        move |_| {
            let inside = lists.enter(1);
            async move {
                let _inside = inside;
                future::pending::<Result<Vec<u32>, BoxError>>().await
            }
        },
        move |_| {
            let inside = watches.enter(2);
            let hints = stream::pending().map(move |hint| {
                let _ = &inside;
                hint
            });
            future::ready(Ok(hints.boxed()))
        },
    );
    let handler = handler(&world, |_, _| async { settled() });
    let running = start(control_loop(&world, hangs, storage(&world), handler));
    sleep(secs(1)).await;
    assert_eq!(world.log().running.len(), 2);
    assert_eq!(running.stop().await, Report::default());
    assert!(world.log().running.is_empty());
    assert_eq!(world.now(), secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_loop_leaves_nothing_behind() {
    let world = World::new(0..7);
    let running = start(looking_at(&world, |_, _| future::pending()));
    sleep(secs(1)).await;
    assert_eq!(world.log().running.len(), 4);
    assert_eq!(world.count(|one| *one == Measurement::QueueDepth(3)), 1);
    running.drop().await;
    eventually("its tasks are gone", || world.log().running.is_empty()).await;
    // References are held by this test, and by whatever is left of the loop.
    eventually("its parts are gone", || Arc::strong_count(&world) == 1).await;
    let last = |such: fn(&Measurement) -> bool| {
        let log = world.log();
        log.measured.iter().copied().rfind(such)
    };
    let in_flight = last(|one| matches!(one, Measurement::InFlight(_)));
    assert_eq!(in_flight, Some(Measurement::InFlight(0)));
    let depth = last(|one| matches!(one, Measurement::QueueDepth(_)));
    assert_eq!(depth, Some(Measurement::QueueDepth(0)));
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_is_stopped_before_it_starts_does_nothing() {
    let world = World::new([1]);
    let control_loop = looking_at(&world, |_, _| async { settled() });
    let stop = CancellationToken::new();
    stop.cancel();
    assert_eq!(control_loop.run(stop).await, Report::default());
    assert!(world.log().gets.is_empty());
}
