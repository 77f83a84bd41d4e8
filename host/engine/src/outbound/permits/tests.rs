use std::time::Duration;

use tokio::time::{Instant, advance};

use super::super::RequestLimits;
use super::super::error::{ConcurrencyLimit, RequestErrorKind};
use super::super::url::{Origin, Url};
use super::RequestPermits;

fn permits(
    concurrency: u16,
    concurrency_per_host: u16,
    permit_timeout: Duration,
) -> RequestPermits {
    RequestPermits::new(&RequestLimits {
        permit_timeout,
        connect_timeout: Duration::ZERO,
        total_timeout: Duration::ZERO,
        request_bytes: 0,
        head_bytes: 0,
        response_bytes: 0,
        concurrency,
        concurrency_per_host,
    })
}

fn host(name: &str) -> Origin {
    let url: Url = format!("https://{name}").parse().unwrap();
    url.origin().clone()
}

const WAIT: Duration = Duration::from_secs(3);

#[tokio::test(start_paused = true)]
async fn one_host_does_not_take_all_permits() {
    let permits = permits(3, 2, WAIT);
    let (a, b) = (host("a"), host("b"));
    let _first = permits.acquire(&a).await.unwrap();
    let _second = permits.acquire(&a).await.unwrap();
    let begun = Instant::now();
    let third = permits.acquire(&a).await.err();
    let expected = RequestErrorKind::Busy {
        limit: ConcurrencyLimit::Host,
        max: 2,
        waited: WAIT,
    };
    assert_eq!(third, Some(expected));
    assert_eq!(begun.elapsed(), WAIT);
    let _other = permits.acquire(&b).await.unwrap();
    let expected = RequestErrorKind::Busy {
        limit: ConcurrencyLimit::Client,
        max: 3,
        waited: WAIT,
    };
    assert_eq!(permits.acquire(&b).await.err(), Some(expected));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_for_a_slow_host_holds_no_permit() {
    let permits = permits(2, 1, WAIT);
    let (slow, quick) = (host("slow"), host("quick"));
    let _held = permits.acquire(&slow).await.unwrap();
    let waiting = permits.acquire(&slow);
    let others = async {
        // The other has begun to wait by now.
        advance(Duration::from_secs(1)).await;
        let begun = Instant::now();
        for _ in 0..10 {
            drop(permits.acquire(&quick).await.unwrap());
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
    };
    let (waiting, ()) = tokio::join!(waiting, others);
    assert!(matches!(
        waiting.err(),
        Some(RequestErrorKind::Busy {
            limit: ConcurrencyLimit::Host,
            ..
        })
    ));
}

#[tokio::test(start_paused = true)]
async fn a_returned_permit_goes_to_the_next_request() {
    let permits = permits(1, 1, WAIT);
    let a = host("a");
    let held = permits.acquire(&a).await.unwrap();
    let release = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        drop(held);
    };
    let (next, ()) = tokio::join!(permits.acquire(&a), release);
    assert!(next.is_ok());
}

#[tokio::test]
async fn without_a_timeout_a_missing_permit_fails_at_once() {
    let permits = permits(1, 1, Duration::ZERO);
    let a = host("a");
    let held = permits.acquire(&a).await.unwrap();
    assert!(permits.acquire(&a).await.is_err());
    drop(held);
    assert!(permits.acquire(&a).await.is_ok());
}

#[tokio::test]
async fn hosts_without_requests_are_forgotten() {
    let permits = permits(2, 2, Duration::ZERO);
    for number in 0..1000 {
        drop(
            permits
                .acquire(&host(&format!("host-{number}")))
                .await
                .unwrap(),
        );
    }
    assert_eq!(permits.hosts.len(), 1);
}

#[tokio::test]
async fn each_port_is_a_host_of_its_own() {
    let permits = permits(9, 1, Duration::ZERO);
    let _first = permits.acquire(&host("a:8001")).await.unwrap();
    assert!(permits.acquire(&host("a:8002")).await.is_ok());
    assert!(permits.acquire(&host("a:8001")).await.is_err());
}

#[tokio::test]
async fn all_spellings_of_a_host_share_its_permits() {
    let spellings: [&[&str]; 2] = [
        &[
            "https://a.example",
            "https://A.example.",
            "http://a.example:443",
        ],
        &[
            "https://192.0.2.1",
            "https://[::ffff:192.0.2.1]",
            "https://[::ffff:c000:201]:443",
        ],
    ];
    for spellings in spellings {
        let permits = permits(9, 1, Duration::ZERO);
        let origin = |text: &str| text.parse::<Url>().unwrap().origin().clone();
        let _held = permits.acquire(&origin(spellings[0])).await.unwrap();
        for other in spellings {
            assert!(permits.acquire(&origin(other)).await.is_err(), "{other}");
        }
    }
}
