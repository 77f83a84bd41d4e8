use std::time::Duration;

use podloom_engine::outbound::{Roots, Tls};
use tokio::time::advance;

use super::{Silent, unasked};
use crate::cluster::action::Reply;
use crate::im::{Answer, Hidden, Owner, Target};

fn target(tenant: &str, url: &str) -> Target {
    Target {
        url: url.to_owned(),
        tls: Tls::new(&Roots::Unchecked, None).unwrap(),
        tenant: tenant.to_owned(),
        owner: Owner::Token(Hidden::new("t")),
        cloud: None,
    }
}

/// A request without an answer, which took so long.
async fn unanswered(silent: &Silent, target: &Target, seconds: u64) {
    let turn = silent.turn(target).unwrap();
    advance(Duration::from_secs(seconds)).await;
    turn.end(&unasked());
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_asked_by_one_at_a_time_until_it_answers() {
    let (silent, im) = (Silent::default(), target("team", "https://im"));
    unanswered(&silent, &im, 30).await;
    let turn = silent.turn(&im).unwrap();
    assert!(silent.turn(&im).is_none());
    turn.end(&unasked());
    // A refusal comes at once, and holds nobody.
    let turns = [silent.turn(&im).unwrap(), silent.turn(&im).unwrap()];
    drop(turns);
    unanswered(&silent, &im, 5).await;
    let turn = silent.turn(&im).unwrap();
    turn.end(&Reply::Answer(Answer::Done));
    let turns = [silent.turn(&im).unwrap(), silent.turn(&im).unwrap()];
    drop(turns);
}

/// Whoever asks may be stopped.
#[tokio::test(start_paused = true)]
async fn a_turn_that_is_dropped_is_over() {
    let (silent, im) = (Silent::default(), target("team", "https://im"));
    unanswered(&silent, &im, 30).await;
    drop(silent.turn(&im).unwrap());
    assert!(silent.turn(&im).is_some());
}

/// What one tenant's server does says nothing about another's.
#[tokio::test(start_paused = true)]
async fn servers_and_tenants_are_apart() {
    let silent = Silent::default();
    unanswered(&silent, &target("team", "https://im"), 30).await;
    let _asking = silent.turn(&target("team", "https://im")).unwrap();
    for other in [target("other", "https://im"), target("team", "https://two")] {
        let turns = [silent.turn(&other).unwrap(), silent.turn(&other).unwrap()];
        drop(turns);
    }
}

/// Those who asked before it was known to be silent free nobody's place.
#[tokio::test(start_paused = true)]
async fn an_earlier_turn_takes_nothing_from_a_later_one() {
    let (silent, im) = (Silent::default(), target("team", "https://im"));
    let early = silent.turn(&im).unwrap();
    unanswered(&silent, &im, 30).await;
    let _alone = silent.turn(&im).unwrap();
    early.end(&unasked());
    assert!(silent.turn(&im).is_none());
}
