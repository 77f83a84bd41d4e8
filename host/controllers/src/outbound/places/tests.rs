use std::time::Duration;

use tokio::time::{Instant, advance};

use super::super::error::{Failure, Scope};
use super::super::limits::Limits;
use super::super::url::{Origin, Url};
use super::Places;

fn places(at_once: u16, at_once_per_host: u16, wait: Duration) -> Places {
    Places::new(&Limits {
        wait,
        connect: Duration::ZERO,
        total: Duration::ZERO,
        request_bytes: 0,
        head_bytes: 0,
        answer_bytes: 0,
        at_once,
        at_once_per_host,
    })
}

fn host(name: &str) -> Origin {
    let url: Url = format!("https://{name}").parse().unwrap();
    url.origin().clone()
}

const WAIT: Duration = Duration::from_secs(3);

#[tokio::test(start_paused = true)]
async fn one_host_does_not_take_the_places_of_all() {
    let places = places(3, 2, WAIT);
    let (a, b) = (host("a"), host("b"));
    let _first = places.take(&a).await.unwrap();
    let _second = places.take(&a).await.unwrap();
    let begun = Instant::now();
    let third = places.take(&a).await.err();
    let expected = Failure::Busy {
        scope: Scope::Host,
        limit: 2,
        waited: WAIT,
    };
    assert_eq!(third, Some(expected));
    assert_eq!(begun.elapsed(), WAIT);
    let _other = places.take(&b).await.unwrap();
    let expected = Failure::Busy {
        scope: Scope::All,
        limit: 3,
        waited: WAIT,
    };
    assert_eq!(places.take(&b).await.err(), Some(expected));
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_slow_host_keeps_nobody_else_waiting() {
    let places = places(2, 1, WAIT);
    let (slow, quick) = (host("slow"), host("quick"));
    let _held = places.take(&slow).await.unwrap();
    let waiting = places.take(&slow);
    let others = async {
        // The other has begun to wait by now.
        advance(Duration::from_secs(1)).await;
        let begun = Instant::now();
        for _ in 0..10 {
            drop(places.take(&quick).await.unwrap());
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
    };
    let (waiting, ()) = tokio::join!(waiting, others);
    assert!(matches!(
        waiting.err(),
        Some(Failure::Busy {
            scope: Scope::Host,
            ..
        })
    ));
}

#[tokio::test(start_paused = true)]
async fn a_place_that_comes_free_is_taken_in_turn() {
    let places = places(1, 1, WAIT);
    let a = host("a");
    let held = places.take(&a).await.unwrap();
    let release = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        drop(held);
    };
    let (next, ()) = tokio::join!(places.take(&a), release);
    assert!(next.is_ok());
}

#[tokio::test]
async fn who_does_not_wait_has_a_place_or_none() {
    let places = places(1, 1, Duration::ZERO);
    let a = host("a");
    let held = places.take(&a).await.unwrap();
    assert!(places.take(&a).await.is_err());
    drop(held);
    assert!(places.take(&a).await.is_ok());
}

#[tokio::test]
async fn hosts_without_requests_are_forgotten() {
    let places = places(2, 2, Duration::ZERO);
    for number in 0..1000 {
        drop(places.take(&host(&format!("host-{number}"))).await.unwrap());
    }
    assert_eq!(places.hosts.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn ports_of_one_machine_are_hosts_of_their_own() {
    let places = places(9, 1, Duration::ZERO);
    let _first = places.take(&host("a:8001")).await.unwrap();
    assert!(places.take(&host("a:8002")).await.is_ok());
    assert!(places.take(&host("a:8001")).await.is_err());
}

#[tokio::test]
async fn no_spelling_of_a_host_has_places_of_its_own() {
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
        let places = places(9, 1, Duration::ZERO);
        let origin = |text: &str| text.parse::<Url>().unwrap().origin().clone();
        let _held = places.take(&origin(spellings[0])).await.unwrap();
        for other in spellings {
            assert!(places.take(&origin(other)).await.is_err(), "{other}");
        }
    }
}
