use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{LOOKUPS, LOOKUPS_PER_TENANT, Resolve, SystemResolver, lock};

#[tokio::test]
async fn the_system_knows_localhost() {
    let found = SystemResolver::default()
        .resolve("localhost", "")
        .await
        .unwrap();
    assert!(!found.is_empty());
    assert!(found.iter().all(IpAddr::is_loopback), "{found:?}");
}

#[tokio::test]
async fn names_under_localhost_are_this_machine() {
    for name in ["localhost.", "relay.localhost.", "a.b.LocalHost."] {
        let found = SystemResolver::default().resolve(name, "").await.unwrap();
        assert_eq!(
            found,
            ["127.0.0.1", "::1"].map(|text| text.parse::<IpAddr>().unwrap())
        );
    }
    for name in [
        "localhost",
        "notlocalhost.",
        "localhost.example.",
        "localhost..",
        ".",
    ] {
        assert!(!super::is_this_machine(name), "{name}");
    }
}

/// `.invalid` has no names (RFC 2606), and a name that is too long never leaves the machine.
#[tokio::test]
async fn an_impossible_name_is_an_error() {
    let name = format!("{}.invalid", "a".repeat(64));
    assert!(SystemResolver::default().resolve(&name, "").await.is_err());
}

/// Held by the one test that makes lookups hang at a time.
static HANG: Mutex<()> = Mutex::new(());

fn hang() -> MutexGuard<'static, ()> {
    HANG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A lookup that hangs until the test lets go of the lock, except for one name.
fn hangs(name: &str) -> Result<Vec<IpAddr>, String> {
    if name != "quick" {
        drop(hang());
    }
    Ok(vec![[192, 0, 2, 1].into()])
}

fn resolver() -> SystemResolver {
    SystemResolver {
        look_up: hangs,
        timeout: Duration::from_millis(100),
        ..SystemResolver::default()
    }
}

impl SystemResolver {
    /// Starts lookups of as many names for a tenant, and drops the requests for them.
    async fn abandon(&self, tenant: &str, names: usize) {
        for number in 0..names {
            let name = format!("slow-{number}.{tenant}");
            let request = tokio::spawn(self.resolve(&name, tenant));
            until(|| lock(&self.running).contains_key(&name)).await;
            request.abort();
        }
    }

    async fn is_quick(&self, tenant: &str) -> bool {
        let quick = self.resolve("quick", tenant);
        let found = tokio::time::timeout(Duration::from_millis(50), quick).await;
        found.is_ok_and(|found| found.is_ok())
    }
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
async fn a_name_whose_lookup_hangs_is_looked_up_by_one_thread() {
    let resolver = resolver();
    let held = hang();
    let many = (0..100).map(|_| tokio::spawn(resolver.resolve("slow", "team")));
    let many: Vec<_> = many.collect();
    until(|| lock(&resolver.running).contains_key("slow")).await;
    assert_eq!(resolver.resolve("quick", "team").await.unwrap().len(), 1);
    tokio::time::sleep(Duration::from_millis(150)).await;
    let error = resolver.resolve("slow", "other").await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    assert_eq!(resolver.lookups.available_permits(), LOOKUPS - 1);
    drop(held);
    for request in many {
        assert_eq!(request.await.unwrap().unwrap().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(
    clippy::await_holding_lock,
    reason = "only threads of lookups wait for it"
)]
async fn lookups_of_one_tenant_that_hang_do_not_stop_those_of_others() {
    let resolver = resolver();
    let held = hang();
    resolver.abandon("hostile", LOOKUPS_PER_TENANT.into()).await;
    // More requests of this tenant wait, and hold no permit of those for all.
    let waiting = (0..100).map(|number| {
        let name = format!("another-{number}");
        tokio::spawn(resolver.resolve(&name, "hostile"))
    });
    let waiting: Vec<_> = waiting.collect();
    assert!(!resolver.is_quick("hostile").await);
    let begun = resolver.begin("quick", "hostile");
    let begun = tokio::time::timeout(Duration::from_millis(50), begun).await;
    assert!(begun.is_err(), "it has not even begun");
    assert!(resolver.resolve("quick", "team").await.is_ok());
    assert_eq!(
        lock(&resolver.running).len(),
        usize::from(LOOKUPS_PER_TENANT)
    );
    drop(held);
    for request in waiting {
        request.await.unwrap().unwrap();
    }
    assert!(resolver.resolve("quick", "hostile").await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(
    clippy::await_holding_lock,
    reason = "only threads of lookups wait for it"
)]
async fn lookups_that_hang_never_block_more_threads_than_the_limit() {
    let resolver = resolver();
    let held = hang();
    let tenants = LOOKUPS / usize::from(LOOKUPS_PER_TENANT);
    for tenant in 0..tenants {
        let tenant = tenant.to_string();
        resolver.abandon(&tenant, LOOKUPS_PER_TENANT.into()).await;
    }
    assert!(!resolver.is_quick("team").await);
    assert_eq!(lock(&resolver.running).len(), LOOKUPS);
    drop(held);
    resolver.resolve("quick", "team").await.unwrap();
    until(|| resolver.lookups.available_permits() == LOOKUPS).await;
    assert!(lock(&resolver.running).is_empty());
}
