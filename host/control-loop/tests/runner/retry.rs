//! Failures are retried with backoff.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use podloom_control_loop::{
    Acquired, BoxError, CallOutcome, Ctx, Measurement, MemoryLocker, ObjectLocker, locker_fn,
    storage_fn,
};
use tokio::time::sleep;

use crate::support::{
    World, control_loop, eventually, failed, handler, looking_at, ms, pauses, secs, settled,
    source, start,
};

/// Timers are exact to the millisecond, and late rather than early.
const EXACT: Duration = Duration::from_millis(2);

async fn attempts(max_retries: u32) -> Vec<Duration> {
    let world = World::new([1]);
    let mut control_loop = looking_at(&world, |_, _| async move { failed() });
    control_loop.options.max_retries = Some(max_retries);
    let running = start(control_loop);
    sleep(secs(3600)).await;
    assert_eq!(running.stop().await.queued, 0);
    let retried = world.count(|one| *one == Measurement::Retried);
    assert_eq!(retried, max_retries as usize);
    assert_eq!(world.count(|one| *one == Measurement::Dropped), 1);
    let attempts: Vec<u32> = world.calls().iter().map(|call| call.attempt).collect();
    assert!(attempts.iter().copied().eq(1..=max_retries + 1));
    world.times(1)
}

#[tokio::test(start_paused = true)]
async fn no_retries_are_one_attempt_and_five_are_six_each_much_later_than_the_last() {
    assert_eq!(attempts(0).await.len(), 1);
    let times = attempts(5).await;
    assert_eq!(times.len(), 6);
    for pair in pauses(&times).windows(2) {
        assert!(pair[1] + EXACT >= pair[0].mul_f64(1.6), "{times:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn unlimited_retries_stay_on_the_curve_and_under_the_cap() {
    let world = World::new([1]);
    let running = start(looking_at(&world, |_, _| async move { failed() }));
    sleep(secs(2 * 3600)).await;
    running.stop().await;
    let times = world.times(1);
    assert!(times.len() > 20, "{times:?}");
    for (failures, pause) in pauses(&times).into_iter().enumerate() {
        let doubled = ms(500) * 2_u32.pow(u32::try_from(failures).expect("few").min(20));
        let most = doubled.min(secs(300));
        let fits = most.mul_f64(0.8) <= pause && pause <= most + EXACT;
        assert!(fits, "{pause:?} of {most:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_id_restarts_without_failures_at_its_next_hint() {
    let world = World::new([1]);
    let mut control_loop = looking_at(&world, |_, _| async move { failed() });
    control_loop.options.max_retries = Some(1);
    let running = start(control_loop);
    sleep(secs(60)).await;
    world.hint(1);
    sleep(secs(60)).await;
    running.stop().await;
    let attempts: Vec<u32> = world.calls().iter().map(|call| call.attempt).collect();
    assert_eq!(attempts, [1, 2, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn success_resets_the_failures_and_a_hint_does_not() {
    let world = World::new([1]);
    let running = start(looking_at(&world, |ctx: Ctx, _| async move {
        if ctx.attempt < 4 { failed() } else { settled() }
    }));
    sleep(secs(1)).await;
    world.hint(1);
    sleep(secs(60)).await;
    world.hint(1);
    sleep(secs(60)).await;
    running.stop().await;
    let attempts: Vec<u32> = world.calls().iter().map(|call| call.attempt).collect();
    assert_eq!(attempts, [1, 2, 3, 4, 1, 2, 3, 4]);
}

/// Checks when the handler is called first, with a storage that fails once in this way.
async fn check_storage<Got>(fails: fn() -> Got, around: Duration)
where
    Got: Future<Output = Result<Option<u32>, BoxError>> + Send + 'static,
{
    let world = World::new([1]);
    let gets = Arc::clone(&world);
    let storage = storage_fn(move |_, id: u32| {
        let object = gets.get(id);
        let first = gets.log().gets.len() == 1;
        async move { if first { fails().await } else { Ok(object) } }
    });
    let handler = handler(&world, |_, _| async move { settled() });
    let running = start(control_loop(&world, source(&world), storage, handler));
    eventually("it was handled", || !world.calls().is_empty()).await;
    running.stop().await;
    assert_eq!(world.calls()[0].attempt, 2);
    let at = world.times(1)[0];
    let fits = around + ms(400) <= at && at <= around + ms(500) + EXACT;
    assert!(fits, "{at:?} is not around {around:?}");
    let such = |outcome| {
        world.count(|one| matches!(one, Measurement::GetDuration(_, is) if *is == outcome))
    };
    assert_eq!(
        (such(CallOutcome::Success), such(CallOutcome::Failure)),
        (1, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn an_error_timeout_or_panic_of_the_storage_counts_like_one_of_the_handler() {
    check_storage(|| async { Err("no storage".into()) }, Duration::ZERO).await;
    // Its time limit, and the grace period.
    check_storage(std::future::pending, secs(35)).await;
    check_storage(|| async { panic!("storage") }, Duration::ZERO).await;
}

/// Checks when the handler is called first, with a locker whose first answer is this.
async fn check_locker(answer: fn() -> Result<Acquired, BoxError>, pause: Duration, attempt: u32) {
    let world = World::new([1]);
    let mut control_loop = looking_at(&world, |_, _| async move { settled() });
    let memory = MemoryLocker::default();
    let first = AtomicBool::new(true);
    control_loop.locker = Arc::new(locker_fn(move |ctx: Ctx, id: u32| {
        let memory = memory.clone();
        let first = first.swap(false, Ordering::Relaxed);
        async move {
            if first {
                return answer();
            }
            memory.acquire(&ctx, &id).await
        }
    }));
    let running = start(control_loop);
    sleep(secs(60)).await;
    running.stop().await;
    let calls = world.calls();
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert_eq!(calls[0].attempt, attempt);
    let fits = pause.mul_f64(0.8) <= calls[0].at && calls[0].at <= pause + EXACT;
    assert!(fits, "{calls:?} is not after {pause:?}");
    let contended = world.count(|one| *one == Measurement::LockContended);
    assert_eq!(contended == 1, attempt == 1);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_locker_is_a_failure_and_a_busy_lock_is_not() {
    check_locker(|| Err("no locker".into()), ms(500), 2).await;
    check_locker(|| panic!("locker"), ms(500), 2).await;
    check_locker(|| Ok(Acquired::Busy { retry_after: None }), secs(1), 1).await;
    check_locker(
        || {
            Ok(Acquired::Busy {
                retry_after: Some(secs(7)),
            })
        },
        secs(7),
        1,
    )
    .await;
}
