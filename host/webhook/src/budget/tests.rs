use std::net::IpAddr;

use super::{BODY_BYTES, Budget, OF_ONE_REVIEW, Share, TOTAL, parsed};

fn peer(number: u8) -> IpAddr {
    [127, 1, 0, number].into()
}

/// The share of a request from a peer about a namespace, and whether so many bytes still fit.
fn send(budget: &Budget, number: u8, namespace: &str, bytes: usize) -> (Share, bool) {
    let mut share = budget.begin(peer(number)).expect("room for a beginning");
    let fits = share.parse(namespace.to_owned(), bytes);
    (share, fits)
}

#[test]
fn hundreds_of_pods_fit_and_nothing_is_left_over() {
    let pod = include_bytes!("../../../mutators/benches/pod.json");
    let budget = Budget::default();
    let take = |number: u8| {
        let mut share = budget.begin(peer(number / 128))?;
        let namespace = format!("team-{}", number % 4);
        (share.arrived(pod.len()) && share.parse(namespace, parsed(pod))).then_some(share)
    };
    let shares: Vec<_> = (0..=255).map_while(take).collect();
    assert_eq!(shares.len(), 256);
    drop(shares);
    let taken = budget.taken();
    assert_eq!(
        (taken.all, taken.by_peer.len(), taken.by_tenant.len()),
        (0, 0, 0)
    );
}

#[test]
fn a_peer_that_announces_much_and_sends_nothing_takes_little() {
    let budget = Budget::default();
    let silent: Vec<_> = (0..500).map_while(|_| budget.begin(peer(1))).collect();
    assert_eq!(silent.len(), 500);
    assert!(budget.begin(peer(2)).is_some());
}

/// With a fixed part for each, two of them were enough to keep all others out.
#[test]
fn greedy_peers_cannot_keep_others_out() {
    let budget = Budget::default();
    let greedy = |number| {
        let mut shares = Vec::new();
        while let Some(mut share) = budget.begin(peer(number)) {
            let fits = share.arrived(1 << 20);
            shares.push(share);
            if !fits {
                break;
            }
        }
        shares
    };
    let _all: Vec<_> = (1..5).map(greedy).collect();
    assert!(send(&budget, 9, "team", 1 << 20).1);
}

#[test]
fn greedy_tenants_cannot_keep_others_of_their_peer_out() {
    let budget = Budget::default();
    let mut kept = Vec::new();
    for namespace in ["team-a", "team-b"] {
        for _ in 0..100 {
            kept.push(send(&budget, 1, namespace, 1 << 20));
        }
    }
    let fit = kept.iter().filter(|(_, fits)| *fits).count();
    assert!((30..50).contains(&fit), "{fit}");
    assert!(send(&budget, 1, "team-c", 4 << 20).1, "another tenant");
    drop(kept);
    assert!(!send(&budget, 1, "team-a", OF_ONE_REVIEW).1);
    assert!(send(&budget, 1, "team-a", OF_ONE_REVIEW - (1 << 20)).1);
}

#[test]
fn a_body_that_arrives_counts_for_its_peer() {
    let budget = Budget::default();
    let mut all: Vec<_> = (0..4).filter_map(|_| budget.begin(peer(1))).collect();
    let fit = all
        .iter_mut()
        .filter_map(|share| share.arrived(BODY_BYTES).then_some(()));
    assert_eq!(fit.count() * BODY_BYTES * 2, TOTAL * 3 / 8);
}

#[test]
fn an_answer_counts_until_it_is_dropped_and_what_it_was_made_from_does_not() {
    let budget = Budget::default();
    let (mut share, fits) = send(&budget, 1, "team", 20 << 20);
    assert!(fits);
    share.answered(1000);
    assert!(budget.taken().all < 100_000);
    share.answered(TOTAL * 2);
    assert!(
        budget.begin(peer(2)).is_none(),
        "an answer may be larger than any room"
    );
    drop(share);
    assert_eq!(budget.taken().all, 0);
}

/// Bodies that are small as text and large as a tree.
#[test]
fn a_text_is_weighed_as_what_it_becomes() {
    for text in [r#"{"":0},"#, r#"{"name":"a"},"#] {
        let body = format!("[{}0]", text.repeat(1000));
        assert!(parsed(body.as_bytes()) > 1000 * 690, "{text}");
    }
    assert!(parsed("[[],[],[]]".as_bytes()) > 4 * 32);
}

/// With failurePolicy Ignore, what finds no room passes without plugins. Two heavy pods that come together are denied instead.
#[test]
fn what_a_tenant_has_no_room_for_because_of_itself_is_told_apart() {
    let budget = Budget::default();
    let (first, fits) = send(&budget, 1, "a", OF_ONE_REVIEW * 2 / 3);
    assert!(fits);
    let (second, fits) = send(&budget, 1, "a", OF_ONE_REVIEW * 2 / 3);
    assert!(!fits && second.is_tenants(OF_ONE_REVIEW * 2 / 3));
    drop((first, second));
    let (_other, _) = send(&budget, 1, "b", OF_ONE_REVIEW);
    let (third, _) = send(&budget, 1, "a", 0);
    assert!(!third.is_tenants(OF_ONE_REVIEW * 2 / 3));
}
