//! Lists and watches.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use podloom_control_loop::{
    BoxError, CallOutcome, HintStream, Measurement, source_fn, watched_source_fn,
};
use tokio::time::sleep;

use crate::support::{
    World, control_loop, eventually, handler, looking_at, ms, pauses, secs, settled, source, start,
    storage,
};

/// Timers are exact to the millisecond.
const EXACT: Duration = Duration::from_millis(2);

fn listed(world: &World, outcome: CallOutcome) -> usize {
    world.count(|one| matches!(one, Measurement::ListDuration(_, is) if *is == outcome))
}

/// Runs a loop over a source for this time, with this resync interval.
async fn run<So>(world: &Arc<World>, source: So, interval: Option<Duration>, time: Duration)
where
    So: podloom_control_loop::Source<u32>,
{
    let handler = handler(world, |_, _| async { settled() });
    let mut control_loop = control_loop(world, source, storage(world), handler);
    control_loop.options.resync_interval = interval;
    let running = start(control_loop);
    sleep(time).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failed_lists_back_off_and_the_workers_continue() {
    let world = World::new([1]);
    let [lists, watches] = [(); 2].map(|()| Arc::clone(&world));
    let broken = watched_source_fn(
        move |_| {
            lists.listed();
            async { Err::<Vec<u32>, BoxError>("no list".into()) }
        },
        move |_| std::future::ready(Ok(watches.watch())),
    );
    let handler = handler(&world, |_, _| async { settled() });
    let mut control_loop = control_loop(&world, broken, storage(&world), handler);
    control_loop.options.resync_interval = Some(secs(10));
    let running = start(control_loop);
    for _ in 0..10 {
        sleep(secs(10)).await;
        world.hint(1);
    }
    sleep(ms(1)).await;
    running.stop().await;
    assert_eq!(world.times(1).len(), 10);

    let lists = world.log().lists.clone();
    assert_eq!(listed(&world, CallOutcome::Failure), lists.len());
    assert_eq!(listed(&world, CallOutcome::Success), 0);
    for (failures, pause) in pauses(&lists).into_iter().enumerate() {
        let most = (ms(500) * 2_u32.pow(u32::try_from(failures).expect("few"))).min(secs(10));
        let fits = most.mul_f64(0.8) <= pause && pause <= most + EXACT;
        assert!(fits, "{pause:?} of {most:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_hangs_or_panics_is_tried_again() {
    for panics in [false, true] {
        let world = World::new([1]);
        let lists = Arc::clone(&world);
        let broken = source_fn(move |_| {
            let ids = lists.listed();
            let first = lists.log().lists.len() == 1;
            async move {
                match (first, panics) {
                    (true, true) => panic!("list"),
                    (true, false) => std::future::pending().await,
                    (false, _) => Ok(ids),
                }
            }
        });
        run(&world, broken, None, secs(100)).await;
        assert_eq!(world.times(1).len(), 1);
        assert_eq!(listed(&world, CallOutcome::Failure), 1);
        let panicked = world.count(|one| *one == Measurement::Panicked);
        assert_eq!(panicked, usize::from(panics));
    }
}

#[tokio::test(start_paused = true)]
async fn the_interval_starts_at_the_end_of_a_list_and_lists_never_overlap() {
    let world = World::new([1]);
    let lists = Arc::clone(&world);
    let slow = source_fn(move |_| {
        let ids = lists.listed();
        let inside = lists.enter(0);
        async move {
            sleep(secs(20)).await;
            drop(inside);
            Ok(ids)
        }
    });
    run(&world, slow, Some(secs(10)), secs(600)).await;
    let lists = world.log().lists.clone();
    assert!(lists.len() >= 18, "{lists:?}");
    let pauses = pauses(&lists);
    for pause in &pauses {
        assert!(
            secs(29) <= *pause && *pause <= secs(31) + EXACT,
            "{pause:?}"
        );
    }
    assert!(pauses.iter().any(|pause| *pause != pauses[0]), "no jitter");
}

#[tokio::test(start_paused = true)]
async fn without_an_interval_a_loop_lists_once_for_each_opened_watch() {
    let world = World::new([1]);
    run(&world, source(&world), None, secs(3600)).await;
    assert_eq!(world.log().lists.len(), 1);
    assert_eq!(world.log().opens.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_watch_is_open_before_the_first_list_starts() {
    let world = World::new([1]);
    let [lists, watches] = [(); 2].map(|()| Arc::clone(&world));
    let slow = watched_source_fn(
        move |_| std::future::ready(Ok(lists.listed())),
        move |_| {
            let watches = Arc::clone(&watches);
            async move {
                sleep(secs(3)).await;
                Ok(watches.watch())
            }
        },
    );
    run(&world, slow, Some(secs(1)), secs(4)).await;
    let log = world.log().clone();
    assert_eq!(log.opens, [secs(3)]);
    assert_eq!(log.lists[0], secs(3));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_never_opens_delays_the_first_list_only_briefly() {
    let world = World::new([1]);
    let lists = Arc::clone(&world);
    let hangs = watched_source_fn(
        move |_| std::future::ready(Ok(lists.listed())),
        |_| std::future::pending::<Result<HintStream<u32>, BoxError>>(),
    );
    run(&world, hangs, Some(secs(10)), secs(100)).await;
    // The minute that opening may take, and the grace period.
    let lists = world.log().lists.clone();
    assert_eq!(lists[0], secs(65));
    assert!(lists.len() >= 3, "{lists:?}");
    assert_eq!(world.times(1).len(), lists.len());
}

/// How an open watch fails.
#[derive(Clone, Copy)]
enum Watch {
    Ends,
    Breaks,
    Panics,
}

fn disappointing(world: &Arc<World>, watch: Watch) -> HintStream<u32> {
    world.opened();
    match watch {
        Watch::Ends => stream::empty().boxed(),
        Watch::Breaks => stream::iter([Err("broken".into()), Ok(7)]).boxed(),
        Watch::Panics => stream::poll_fn(|_| resume_unwind(Box::new("stream"))).boxed(),
    }
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_or_fail_are_opened_with_backoff_and_a_list_follows_each() {
    for watch in [Watch::Ends, Watch::Breaks, Watch::Panics] {
        let world = World::new([1]);
        let [lists, watches] = [(); 2].map(|()| Arc::clone(&world));
        let broken = watched_source_fn(
            move |_| std::future::ready(Ok(lists.listed())),
            move |_| std::future::ready(Ok(disappointing(&watches, watch))),
        );
        run(&world, broken, None, ms(121_500)).await;
        let log = world.log().clone();
        let opens: Vec<Duration> = [0, 1, 3, 7, 15, 31, 61, 91, 121].map(secs).into();
        let exact = log.opens.iter().zip(&opens).all(|(a, b)| *a - *b < ms(20));
        assert!(exact && log.opens.len() == opens.len(), "{:?}", log.opens);
        assert_eq!(log.lists.len(), log.opens.len());
        let restarts = world.count(|one| *one == Measurement::WatchRestarted);
        assert_eq!(restarts, log.opens.len() - 1);
        // Hints after the error are never read.
        assert!(world.times(7).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_does_not_open_is_tried_again_and_a_list_follows_when_it_does() {
    let world = World::new([1]);
    let [lists, watches] = [(); 2].map(|()| Arc::clone(&world));
    let late = watched_source_fn(
        move |_| std::future::ready(Ok(lists.listed())),
        move |_| {
            let opened = watches.watch();
            let late = watches.log().opens.len() > 3;
            async move {
                match late {
                    true => Ok(opened),
                    false => Err::<HintStream<u32>, BoxError>("not yet".into()),
                }
            }
        },
    );
    run(&world, late, None, secs(100)).await;
    let log = world.log().clone();
    assert_eq!(log.opens.len(), 4);
    // One at the start, even without a watch, and one when it was open.
    assert_eq!(log.lists.len(), 2);
    assert!(log.lists[1] >= log.opens[3], "{:?}", log.lists);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_lasted_a_minute_is_opened_again_soon() {
    let world = World::new([1]);
    let [lists, watches] = [(); 2].map(|()| Arc::clone(&world));
    let mortal = watched_source_fn(
        move |_| std::future::ready(Ok(lists.listed())),
        move |_| {
            watches.opened();
            let lives = match watches.log().opens.len() {
                1..=4 => secs(0),
                _ => secs(60),
            };
            let end = stream::once(sleep(lives)).filter_map(|()| async { None });
            std::future::ready(Ok(end.boxed()))
        },
    );
    run(&world, mortal, None, secs(200)).await;
    let opens = world.log().opens.clone();
    let rounded: Vec<u64> = opens.iter().map(Duration::as_secs).collect();
    assert_eq!(rounded, [0, 1, 3, 7, 15, 76, 137, 198]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_opened_during_a_list_is_followed_by_another() {
    let world = World::new([1]);
    let [lists, watches] = [(); 2].map(|()| Arc::clone(&world));
    let slow = watched_source_fn(
        move |_| {
            let ids = lists.listed();
            async move {
                sleep(secs(5)).await;
                Ok(ids)
            }
        },
        move |_| {
            let opened = watches.watch();
            let first = watches.log().opens.len() == 1;
            let ends = stream::empty().boxed();
            std::future::ready(Ok(if first { ends } else { opened }))
        },
    );
    run(&world, slow, None, secs(100)).await;
    let log = world.log().clone();
    assert_eq!(log.lists, [secs(0), secs(5)]);
    assert!(log.opens[1] < secs(2), "{:?}", log.opens);
}

#[tokio::test(start_paused = true)]
async fn an_endless_stream_of_hints_stops_nothing() {
    let world = World::new([1, 2]);
    let [lists, watches] = [(); 2].map(|()| Arc::clone(&world));
    let flood = watched_source_fn(
        move |_| std::future::ready(Ok(lists.listed())),
        move |_| {
            watches.opened();
            std::future::ready(Ok(stream::repeat(1_u32).map(Ok).take(100_000).boxed()))
        },
    );
    let handler = handler(&world, |_, _| async { settled() });
    let running = start(control_loop(&world, flood, storage(&world), handler));
    eventually("the stream was read", || world.log().opens.len() > 2).await;
    running.stop().await;
    assert!(!world.times(2).is_empty());
    assert!(!world.times(1).is_empty());
}

#[tokio::test(start_paused = true)]
async fn at_every_resync_all_ids_are_handled_again() {
    let world = World::new([1, 2]);
    let mut control_loop = looking_at(&world, |_, _| async { settled() });
    control_loop.options.resync_interval = Some(secs(30));
    let running = start(control_loop);
    sleep(secs(300)).await;
    running.stop().await;
    let lists = world.log().lists.len();
    assert!((9..=11).contains(&lists), "{lists}");
    assert_eq!(world.times(1).len(), lists);
    assert_eq!(world.times(2).len(), lists);
}
