mod compiler;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{CallPurpose, Engine, EngineOptions, InstanceAllocation, Permits, start_ticker, ticks};
use crate::request::Until;

#[test]
fn an_engine_can_do_without_a_pool() {
    let options = EngineOptions {
        instances: InstanceAllocation::OnDemand,
        permits: NonZeroUsize::new(1),
        ..EngineOptions::default()
    };
    assert_eq!(
        Engine::new(&options).expect("an engine").instances(),
        InstanceAllocation::OnDemand
    );
}

#[test]
fn a_time_limit_is_never_cut_short() {
    let check =
        |millis: u64, expected: u64| assert_eq!(ticks(Duration::from_millis(millis)), expected);
    check(1, 2);
    check(2, 2);
    check(1000, 501);
    assert_eq!(ticks(Duration::MAX), (u64::MAX >> 1) + 1);
}

#[test]
fn no_more_calls_run_than_there_are_permits() {
    let permits = Permits::new(2);
    let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let _permit = permits.acquire(CallPurpose::Pod, Until::DONE);
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::yield_now();
                    running.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert!(most.into_inner() <= 2);
}

#[test]
fn no_pod_waits_for_a_trial() {
    let permits = Permits::new(1);
    let _tried = permits.acquire(CallPurpose::Trial, Until::DONE);
    // Without a permit of its own this would never return.
    let _pod = permits.acquire(CallPurpose::Pod, Until::DONE);
}

#[test]
fn a_caller_gives_up_at_its_deadline_and_delays_no_other() {
    let permits = Permits::new(1);
    let running = permits.acquire(CallPurpose::Pod, Until::DONE);
    thread::scope(|scope| {
        let patient = scope.spawn(|| permits.acquire(CallPurpose::Pod, Until::DONE).is_some());
        for millis in 0..20 {
            let until = Until::after(Duration::from_millis(millis));
            assert!(permits.acquire(CallPurpose::Pod, until).is_none());
        }
        drop(running);
        assert!(patient.join().expect("it returns"));
    });
}

#[test]
fn it_is_busy_while_calls_for_pods_have_half_of_the_permits() {
    let permits = Permits::new(5);
    let one = permits.acquire(CallPurpose::Pod, Until::DONE);
    let _trial = permits.acquire(CallPurpose::Trial, Until::DONE);
    assert!(!permits.are_busy());
    let _other = permits.acquire(CallPurpose::Pod, Until::DONE);
    assert!(permits.are_busy());
    drop(one);
    assert!(!permits.are_busy());
    let permits = Permits::new(1);
    assert!(!permits.are_busy());
    let _one = permits.acquire(CallPurpose::Pod, Until::DONE);
    assert!(permits.are_busy());
}

#[track_caller]
fn wait_until(condition: impl Fn() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < give_up, "timed out");
        thread::yield_now();
    }
}

#[test]
fn the_clock_ticks_only_while_a_call_runs() {
    let (permits, ticks) = (Arc::new(Permits::new(2)), Arc::new(AtomicUsize::new(0)));
    let ticked = {
        let ticks = Arc::clone(&ticks);
        move || ticks.load(Ordering::SeqCst)
    };
    let tick = move || {
        ticks.fetch_add(1, Ordering::SeqCst);
    };
    start_ticker(Arc::clone(&permits), tick).expect("a thread");
    for purpose in [CallPurpose::Pod, CallPurpose::Trial, CallPurpose::Pod] {
        wait_until(|| permits.clock_rests());
        let before = ticked();
        let call = permits.acquire(purpose, Until::DONE);
        wait_until(|| ticked() > before + 2);
        assert!(!permits.clock_rests());
        let another = permits.acquire(CallPurpose::Pod, Until::DONE);
        drop(call);
        let before = ticked();
        wait_until(|| ticked() > before + 2);
        drop(another);
    }
    permits.close();
    wait_until(|| Arc::strong_count(&permits) == 1);
}

#[test]
fn the_clock_ends_with_its_engine() {
    let engine = Engine::new(&EngineOptions {
        instances: InstanceAllocation::OnDemand,
        ..EngineOptions::default()
    })
    .expect("an engine");
    let (wasm, permits) = (engine.wasm.weak(), Arc::downgrade(&engine.permits));
    drop(engine);
    wait_until(|| wasm.upgrade().is_none() && permits.upgrade().is_none());
}
