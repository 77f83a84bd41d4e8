use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{LOOKUPS, Resolve, SystemResolver};

#[tokio::test]
async fn the_system_knows_localhost() {
    let found = SystemResolver::default()
        .resolve("localhost")
        .await
        .unwrap();
    assert!(!found.is_empty());
    assert!(found.iter().all(IpAddr::is_loopback), "{found:?}");
}

/// `.invalid` has no names (RFC 2606), and a name that is too long never leaves the machine.
#[tokio::test]
async fn a_name_that_cannot_be_is_an_error() {
    let name = format!("{}.invalid", "a".repeat(64));
    assert!(SystemResolver::default().resolve(&name).await.is_err());
}

/// One at a time may make lookups hang.
static HANG: Mutex<()> = Mutex::new(());
static BEGUN: AtomicUsize = AtomicUsize::new(0);

/// Hangs as long as the test holds the lock, except for one name.
fn hangs(name: &str) -> Result<Vec<IpAddr>, String> {
    if name != "quick" {
        BEGUN.fetch_add(1, Ordering::SeqCst);
        drop(HANG.lock());
    }
    Ok(vec![[192, 0, 2, 1].into()])
}

async fn until(done: impl Fn() -> bool) {
    while !done() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(
    clippy::await_holding_lock,
    reason = "only threads of lookups wait for it"
)]
async fn a_lookup_that_hangs_keeps_its_place_and_its_name_to_itself() {
    let resolver = SystemResolver {
        look_up: hangs,
        patience: Duration::from_millis(100),
        ..SystemResolver::default()
    };
    let held = HANG.lock().unwrap();
    // Many ask for one name: one thread looks it up.
    let many = (0..100).map(|_| tokio::spawn(resolver.resolve("slow")));
    let many: Vec<_> = many.collect();
    until(|| BEGUN.load(Ordering::SeqCst) == 1).await;
    assert_eq!(resolver.resolve("quick").await.unwrap().len(), 1);
    tokio::time::sleep(Duration::from_millis(150)).await;
    let error = resolver.resolve("slow").await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    assert_eq!(BEGUN.load(Ordering::SeqCst), 1, "it was looked up again");
    // Who gives up leaves a thread behind, and that counts.
    for number in 1..LOOKUPS {
        let asked = tokio::spawn(resolver.resolve(&format!("slow-{number}")));
        until(|| BEGUN.load(Ordering::SeqCst) == number + 1).await;
        asked.abort();
    }
    let late = tokio::time::timeout(Duration::from_millis(50), resolver.resolve("quick")).await;
    assert!(late.is_err(), "a lookup beyond the limit began");
    drop(held);
    for asked in many {
        assert_eq!(asked.await.unwrap().unwrap().len(), 1);
    }
    resolver.resolve("quick").await.unwrap();
    until(|| resolver.lookups.available_permits() == LOOKUPS).await;
    assert!(super::lock(&resolver.under_way).is_empty());
}
