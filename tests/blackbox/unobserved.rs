//! States that no watch shows: a watch breaks before one of its changes, and the list after it is answered only when the world has gone
//! on. The session ends all the same.

use podloom_tests::lives::{Blow, Place, strike};

use crate::browser_killed::{DELETED, POD_DELETED, Plot, REPLACED, SUCCEEDS, Session};

/// Leaves out each change of each watch, while the first deed of the plot is done.
fn each_change(name: &str, plot: &'static Plot, browsers: u64) {
    let watches = [
        ("change browsers", 5, 11),
        ("change pods", 4, 11),
        ("change browserconfigs", 2, 4),
    ];
    let series = watches.map(|(changes, least, most)| (changes.into(), least..browsers * most));
    let session = async |place: Place| Session::new(place, plot).await;
    strike(name, Blow::Unobserved, &series, session);
}

#[test]
fn a_pod_that_succeeds_unseen_ends_its_session() {
    each_change("unobserved-succeeds", &SUCCEEDS, 1);
}

#[test]
fn a_browser_that_is_deleted_unseen_goes() {
    each_change("unobserved-deleted", &DELETED, 1);
}

#[test]
fn a_browser_that_is_replaced_unseen_gets_its_own_pod() {
    each_change("unobserved-replaced", &REPLACED, 2);
}

#[test]
fn a_pod_that_is_deleted_unseen_is_not_made_again() {
    each_change("unobserved-pod-deleted", &POD_DELETED, 1);
}
