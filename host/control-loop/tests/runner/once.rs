//! Each id is handled once, and by one worker at a time.

use std::num::NonZeroUsize;

use podloom_control_loop::{Measurement, Next};
use tokio::time::sleep;

use crate::support::{World, eventually, looking_at, ms, secs, settled, start};

async fn check_a_hundred(workers: usize) {
    let world = World::new(0..100);
    let mut control_loop = looking_at(&world, |_, _| async move {
        sleep(ms(10)).await;
        settled()
    });
    control_loop.options.workers = NonZeroUsize::new(workers).expect("some");
    let running = start(control_loop);
    eventually("all were handled", || world.calls().len() >= 100).await;
    sleep(secs(60)).await;
    assert_eq!(running.stop().await.queued, 0);

    let log = world.log().clone();
    assert_eq!(log.most_running, workers);
    let mut gets = log.gets.clone();
    gets.sort_unstable();
    assert!(gets.into_iter().eq(0..100), "fetched {:?}", log.gets);
    let mut handled: Vec<u32> = log.calls.iter().map(|call| call.id).collect();
    handled.sort_unstable();
    assert!(handled.into_iter().eq(0..100), "{:?}", log.calls);
    assert!(log.calls.iter().all(|call| call.present));
}

#[tokio::test(start_paused = true)]
async fn one_worker_fetches_and_handles_each_of_a_hundred_listed_ids_once() {
    check_a_hundred(1).await;
}

#[tokio::test(start_paused = true)]
async fn four_workers_fetch_and_handle_each_of_a_hundred_listed_ids_once() {
    check_a_hundred(4).await;
}

#[tokio::test(start_paused = true)]
async fn of_thirty_hints_the_twenty_in_storage_are_added_and_the_others_deleted() {
    let world = World::new([]);
    world.store(0..20);
    let running = start(looking_at(&world, |_, _| async move { settled() }));
    (0..30).for_each(|id| world.hint(id));
    eventually("all were handled", || world.calls().len() >= 30).await;
    sleep(secs(60)).await;
    running.stop().await;

    let mut calls = world.calls();
    calls.sort_unstable();
    let handled: Vec<(u32, bool)> = calls.iter().map(|call| (call.id, call.present)).collect();
    let expected: Vec<(u32, bool)> = (0..30).map(|id| (id, id < 20)).collect();
    assert_eq!(handled, expected);
}

#[tokio::test(start_paused = true)]
async fn five_hints_while_the_worker_is_busy_elsewhere_are_one_run() {
    let world = World::new([0, 1]);
    world.list([0]);
    let mut control_loop = looking_at(&world, |_, _| async move {
        sleep(secs(1)).await;
        settled()
    });
    control_loop.options.workers = NonZeroUsize::MIN;
    let running = start(control_loop);
    eventually("the worker is busy", || !world.calls().is_empty()).await;
    for _ in 0..5 {
        world.hint(1);
        sleep(ms(10)).await;
    }
    sleep(secs(60)).await;
    running.stop().await;
    assert_eq!(world.times(1), [secs(1)]);
    // The metric counts entries, not hints.
    let entries = |one: &Measurement| matches!(one, Measurement::QueueQueued(1));
    assert_eq!(world.count(entries), 2);
    let taken = |one: &Measurement| *one == Measurement::QueueDequeued;
    assert_eq!(world.count(taken), 2);
}

#[tokio::test(start_paused = true)]
async fn hints_during_a_run_are_followed_by_one_more_that_reads_the_newest_state() {
    let world = World::new([1]);
    let running = start(looking_at(&world, |_, _| async move {
        sleep(secs(1)).await;
        settled()
    }));
    eventually("it runs", || !world.calls().is_empty()).await;
    world.store([]);
    world.hint(1);
    world.hint(1);
    sleep(secs(60)).await;
    running.stop().await;
    let calls = world.calls();
    let seen: Vec<bool> = calls.iter().map(|call| call.present).collect();
    assert_eq!(seen, [true, false]);
}

#[tokio::test(start_paused = true)]
async fn after_two_seconds_an_id_runs_again_or_earlier_after_a_hint() {
    let world = World::new([1]);
    let running = start(looking_at(&world, |_, _| async move {
        Ok(Next::After(secs(2)))
    }));
    sleep(ms(4500)).await;
    assert_eq!(world.times(1), [secs(0), secs(2), secs(4)]);
    world.hint(1);
    sleep(ms(2600)).await;
    assert_eq!(running.stop().await.queued, 1);
    assert_eq!(world.times(1)[3..], [ms(4500), ms(6500)]);
}

#[tokio::test(start_paused = true)]
async fn an_id_that_becomes_due_while_the_workers_are_busy_counts_as_ready() {
    let world = World::new([1, 2]);
    let mut control_loop = looking_at(&world, |_, id| async move {
        if id == 1 {
            return Ok(Next::After(secs(1)));
        }
        sleep(secs(10)).await;
        settled()
    });
    control_loop.options.workers = NonZeroUsize::MIN;
    let running = start(control_loop);
    let depth = || {
        let log = world.log();
        let depth = log.measured.iter().rev().find_map(|one| match one {
            Measurement::QueueDepth(ids) => Some(*ids),
            _ => None,
        });
        depth.expect("the depth was recorded")
    };
    sleep(ms(500)).await;
    assert_eq!(depth(), 0);
    sleep(secs(1)).await;
    assert_eq!(depth(), 1);
    sleep(secs(10)).await;
    assert_eq!(depth(), 0);
    running.stop().await;
    let waited = |one: &Measurement| *one == Measurement::QueuedDuration(secs(9));
    assert_eq!(world.count(waited), 1);
}
