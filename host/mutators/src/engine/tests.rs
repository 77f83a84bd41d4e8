use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::permits::{Permits, Purpose};
use super::{Engine, EngineOptions, InstanceAllocation, ticks};

#[test]
fn an_engine_can_do_without_a_pool() {
    let options = EngineOptions {
        instances: InstanceAllocation::OnDemand,
        permits: NonZeroUsize::new(1),
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
                    let _permit = permits.acquire(Purpose::Pod);
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
fn no_pod_waits_for_a_plugin_that_is_tried() {
    let permits = Permits::new(1);
    let _tried = permits.acquire(Purpose::Trial);
    // It would never return.
    let _pod = permits.acquire(Purpose::Pod);
}

#[test]
fn the_ticker_ends_with_its_engine() {
    let engine = Engine::new(&EngineOptions {
        instances: InstanceAllocation::OnDemand,
        permits: None,
    })
    .expect("an engine");
    let weak = engine.wasm.weak();
    drop(engine);
    let give_up = Instant::now() + Duration::from_secs(10);
    while weak.upgrade().is_some() {
        assert!(Instant::now() < give_up, "the engine is still held");
        thread::yield_now();
    }
}
