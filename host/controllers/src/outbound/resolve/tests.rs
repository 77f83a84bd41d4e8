use std::net::IpAddr;
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

#[tokio::test]
async fn lookups_that_are_under_way_are_counted() {
    let resolver = SystemResolver::default();
    let permits = resolver
        .0
        .clone()
        .acquire_many_owned(LOOKUPS.try_into().unwrap());
    let permits = permits.await.unwrap();
    let lookup = resolver.resolve("localhost");
    let waiting = tokio::time::timeout(Duration::from_millis(50), lookup).await;
    assert!(waiting.is_err(), "a lookup beyond the limit began");
    drop(permits);
    resolver.resolve("localhost").await.unwrap();
    assert_eq!(resolver.0.available_permits(), LOOKUPS);
}
