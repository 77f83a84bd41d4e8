use futures::channel::mpsc;
use futures::{FutureExt, StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::Event;

use super::signal_lists;

/// How often lists are told while these events pass by, if somebody listens all the time.
#[track_caller]
fn check(events: Vec<Result<Event<Pod>, &'static str>>, told: usize) {
    let (listed, mut lists) = mpsc::channel(1);
    let mut passing = std::pin::pin!(signal_lists(stream::iter(events), listed));
    let mut heard = 0;
    while passing.next().now_or_never().flatten().is_some() {
        if lists.next().now_or_never().flatten().is_some() {
            heard += 1;
        }
    }
    assert_eq!(heard, told);
}

#[test]
fn a_list_is_told_at_its_end_and_each_time_anew() {
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
fn lists_that_nobody_listens_to_hold_nobody_back() {
    let (listed, mut lists) = mpsc::channel(1);
    let events = (0..100).map(|_| Ok::<_, ()>(Event::<Pod>::InitDone));
    let passing = signal_lists(stream::iter(events), listed);
    assert_eq!(passing.count().now_or_never(), Some(100));
    assert!(lists.next().now_or_never().flatten().is_some());
}
