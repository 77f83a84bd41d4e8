use podloom_api::ClusterState;

use crate::cluster::conditions::{Facts, state};

/// Every row of the table, from the last to the first: each one hides those before it.
#[test]
fn the_first_row_that_fits_counts() {
    let mut facts = Facts::default();
    assert_eq!(state(facts), ClusterState::Pending);
    type Row = (fn(&mut Facts), ClusterState);
    let rows: [Row; 7] = [
        (|it| it.is_configured = true, ClusterState::Connecting),
        (|it| it.is_connected = true, ClusterState::Online),
        (|it| it.is_changed = true, ClusterState::Reconciling),
        (|it| it.is_created = true, ClusterState::Creating),
        (
            |it| it.is_failing = true,
            ClusterState::FailingReconciliation,
        ),
        (|it| it.is_stalled = true, ClusterState::Failed),
        (|it| it.is_deleted = true, ClusterState::Deleting),
    ];
    for (change, expected) in rows {
        change(&mut facts);
        assert_eq!(state(facts), expected);
    }
}

/// An API server that answers says nothing about machines that are not configured.
#[test]
fn connected_without_machines_is_pending() {
    let facts = Facts {
        is_connected: true,
        ..Facts::default()
    };
    assert_eq!(state(facts), ClusterState::Pending);
}
