use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::{Full, Limits, Turns};

const ONE: Limits = Limits {
    turns: 1,
    kept: 0,
    waiting: 2,
};

#[tokio::test(start_paused = true)]
async fn a_turn_goes_on_to_the_next() {
    let turns = Turns::new(ONE);
    let first = turns.take((), "a").await.expect("it is free");
    let next = turns.take((), "b");
    let (next, ()) = tokio::join!(next, async {
        yield_now().await;
        drop(first);
    });
    drop(next.expect("its turn"));
    turns.take((), "a").await.expect("it is free again");
}

#[tokio::test(start_paused = true)]
async fn one_that_waits_in_vain_leaves_no_trace() {
    let turns = Turns::new(ONE);
    let first = turns.take((), "a").await.expect("it is free");
    for _ in 0..10 {
        let waits = timeout(Duration::from_secs(1), turns.take((), "b"));
        assert!(waits.await.is_err());
    }
    // It gets its turn at the moment at which nobody waits any more.
    let mut late = Box::pin(turns.take((), "b"));
    assert!(timeout(Duration::from_secs(1), &mut late).await.is_err());
    drop(first);
    drop(late);
    let free = timeout(Duration::from_secs(1), turns.take((), "c"));
    free.await.expect("the turn came back").expect("it is free");
}

#[tokio::test(start_paused = true)]
async fn too_many_of_one_are_refused_and_another_still_waits() {
    let turns = Turns::new(ONE);
    let first = turns.take((), "a").await.expect("it is free");
    let waits = tokio::spawn({
        let turns = turns.clone();
        async move { turns.take((), "a").await.is_ok() }
    });
    yield_now().await;
    assert_eq!(turns.take((), "a").await.err(), Some(Full));
    let other = tokio::spawn({
        let turns = turns.clone();
        async move { turns.take((), "b").await.is_ok() }
    });
    yield_now().await;
    drop(first);
    assert!(waits.await.expect("no panic") && other.await.expect("no panic"));
}

#[tokio::test(start_paused = true)]
async fn long_turns_are_charged() {
    let turns = Turns::new(ONE);
    let first = turns.take((), "heavy").await.expect("it is free");
    let order = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut waits = Vec::new();
    for name in ["heavy", "light"] {
        let (turns, order) = (turns.clone(), std::sync::Arc::clone(&order));
        waits.push(tokio::spawn(async move {
            let _turn = turns.take((), name).await.expect("its turn");
            order.lock().expect("no panic").push(name);
        }));
        yield_now().await;
    }
    sleep(Duration::from_secs(1)).await;
    drop(first);
    for waits in waits {
        waits.await.expect("no panic");
    }
    assert_eq!(*order.lock().expect("no panic"), ["light", "heavy"]);
}
