mod watch_age;

use std::time::Duration;

use futures::channel::mpsc;
use futures::{FutureExt, StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::watcher::Event;
use podloom_scripted::{Broken, broken};
use tokio::time::{advance, timeout};

use super::{paced, signal_lists, watch_config, watch_events};
use crate::broken::{SAID, Seldom};

/// Checks how often lists are signalled by these events, if each signal is read at once.
#[track_caller]
fn check(events: Vec<Result<Event<Pod>, &'static str>>, expected: usize) {
    let (listed, mut lists) = mpsc::channel(1);
    let mut passing = std::pin::pin!(signal_lists(stream::iter(events), listed));
    let mut signals = 0;
    while passing.next().now_or_never().flatten().is_some() {
        if lists.next().now_or_never().flatten().is_some() {
            signals += 1;
        }
    }
    assert_eq!(signals, expected);
}

#[test]
fn the_end_of_each_list_is_signalled() {
    let pod = Pod::default();
    let in_the_middle = vec![Ok(Event::Init), Ok(Event::InitApply(pod.clone()))];
    check(in_the_middle, 0);
    let without = vec![
        Ok(Event::Apply(pod.clone())),
        Ok(Event::Delete(pod)),
        Err("broken"),
    ];
    check(without, 0);
    let twice = vec![
        Ok(Event::Init),
        Ok(Event::InitDone),
        Err("broken"),
        Ok(Event::Init),
        Ok(Event::InitDone),
    ];
    check(twice, 2);
}

#[test]
fn unread_signals_block_nothing() {
    let (listed, mut lists) = mpsc::channel(1);
    let events = (0..100).map(|_| Ok::<_, ()>(Event::<Pod>::InitDone));
    let passing = signal_lists(stream::iter(events), listed);
    assert_eq!(passing.count().now_or_never(), Some(100));
    assert!(lists.next().now_or_never().flatten().is_some());
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_fails_is_asked_every_few_seconds() {
    for how in Broken::ALL {
        let (client, requests) = broken(how);
        let api: Api<Pod> = Api::all(paced(&client));
        let watching = watch_events(api, watch_config(), |_| {}, |_| {}).for_each(|_| async {});
        let _never_ends = timeout(Duration::from_mins(10), watching).await;
        let asked = requests.made().len();
        // Four to eight seconds apart, but for the first.
        assert!((75..=160).contains(&asked), "{how:?}: {asked} requests");
    }
}

#[tokio::test(start_paused = true)]
async fn of_many_equal_lines_one_is_logged_now_and_then_with_a_count() {
    let seldom = Seldom::default();
    assert_eq!(seldom.is_due(), Some(0));
    assert_eq!(seldom.is_due(), None);
    advance(SAID - Duration::from_secs(1)).await;
    assert_eq!(seldom.is_due(), None);
    advance(Duration::from_secs(1)).await;
    assert_eq!(seldom.is_due(), Some(2));
    assert_eq!(seldom.is_due(), None);
}
