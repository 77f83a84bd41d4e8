use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use podloom_api::{ChainRolloutStatus, RolloutShare};

use super::Route;

fn route(candidate: &str, shares: &[(i32, Option<(&str, &str)>)]) -> Route {
    let shares = shares.iter().map(|(percent, label)| RolloutShare {
        percent: *percent,
        namespace_selector: label.map(|(key, value)| LabelSelector {
            match_labels: Some(BTreeMap::from([(key.to_owned(), value.to_owned())])),
            ..LabelSelector::default()
        }),
    });
    let status = ChainRolloutStatus {
        serving: Some("old".to_owned()),
        candidate: Some(candidate.to_owned()),
        shares: shares.collect(),
        ..ChainRolloutStatus::default()
    };
    Route::of(&status).unwrap()
}

fn labels(stage: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("stage".to_owned(), stage.to_owned())])
}

fn owners() -> Vec<String> {
    (0..4000)
        .map(|it| format!("Deployment/shop/{it}"))
        .collect()
}

#[test]
fn who_passes_it_with_a_smaller_share_does_with_a_larger_one() {
    let (owners, none) = (owners(), BTreeMap::new());
    let mut before: Vec<&String> = Vec::new();
    for percent in [0, 1, 5, 25, 50, 99, 100] {
        let route = route("new", &[(percent, None)]);
        let taken: Vec<_> = owners
            .iter()
            .filter(|owner| route.takes(owner, Some(&none)))
            .collect();
        assert!(before.iter().all(|it| taken.contains(it)), "{percent}");
        let expected = owners.len() * usize::try_from(percent).unwrap() / 100;
        assert!(
            taken.len().abs_diff(expected) < 100,
            "{percent}: {}",
            taken.len()
        );
        assert_eq!(route.takes_all(), percent == 100);
        assert_eq!(route.takes_some(), percent > 0);
        before = taken;
    }
}

#[test]
fn another_candidate_begins_with_other_owners() {
    let (owners, none) = (owners(), BTreeMap::new());
    let of = |candidate| {
        let route = route(candidate, &[(5, None)]);
        let taken = owners.iter().filter(|it| route.takes(it, Some(&none)));
        taken.cloned().collect::<Vec<_>>()
    };
    let (one, other) = (of("new"), of("newer"));
    let both = one.iter().filter(|it| other.contains(it)).count();
    assert!(both < one.len() / 2, "{both} of {}", one.len());
}

/// The place of an owner must be the same in every version of the operator: two of them serve while it is upgraded.
#[test]
fn owners_keep_their_places() {
    let places = ["Deployment/shop/web", "Browser/tests/chrome:139"];
    let places = places.map(|owner| super::bucket("new", owner));
    // The first eight bytes of SHA-256 of the digest, a zero and the owner, as hashlib of Python gives them too.
    assert_eq!(places, [7006, 410]);
}

#[test]
fn a_namespace_has_the_largest_share_that_is_for_it() {
    let route = route("new", &[(5, None), (100, Some(("stage", "canary")))]);
    let taken = |labels: Option<&BTreeMap<String, String>>| {
        let owners = owners();
        owners.iter().filter(|it| route.takes(it, labels)).count()
    };
    assert_eq!(taken(Some(&labels("canary"))), 4000);
    let few = taken(Some(&labels("critical")));
    assert!((100..300).contains(&few), "{few}");
    // What is not known of a namespace selects nothing.
    assert_eq!(taken(None), few);
    assert!(!route.takes_all());
}

#[test]
fn without_two_chains_there_is_no_route() {
    assert_eq!(Route::of(&ChainRolloutStatus::default()), None);
}
