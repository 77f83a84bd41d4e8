use podloom_api::CloudStatus;
use serde_json::json;

use super::{Said, Sayings};

/// A status about a generation that counts these Clusters; its condition changed at this second.
fn status(generation: i64, clusters: i32, since: u32) -> CloudStatus {
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": format!("2026-01-01T00:00:{since:02}Z"),
    });
    let status = json!({ "observedGeneration": generation, "clusters": clusters, "conditions": [condition] });
    serde_json::from_value(status).unwrap()
}

#[test]
fn who_is_alone_writes_whatever_is_different() {
    let said = Sayings::default().of("a");
    assert_eq!(said, Said::Alone);
    assert!(said.is_due(None, &status(1, 0, 0), false));
    assert!(said.is_due(Some(&status(1, 1, 0)), &status(1, 0, 0), false));
    assert!(!said.is_due(Some(&status(1, 0, 0)), &status(1, 0, 0), true));
}

/// Two installations that see different things write once each.
#[test]
fn installations_do_not_answer_each_other() {
    let (ours, theirs) = (Sayings::among_others(), Sayings::among_others());
    assert!(ours.of("a").is_due(None, &status(1, 1, 0), true));
    ours.put("a", &status(1, 1, 0));
    assert!(
        theirs
            .of("a")
            .is_due(Some(&status(1, 1, 0)), &status(1, 2, 0), true)
    );
    theirs.put("a", &status(1, 2, 0));
    // What they wrote changed the time of a condition, too.
    let seen = status(1, 2, 9);
    assert!(!ours.of("a").is_due(Some(&seen), &status(1, 1, 9), true));
    // A Cluster more, or another edition of the object.
    assert!(ours.of("a").is_due(Some(&seen), &status(1, 3, 9), true));
    assert!(ours.of("a").is_due(Some(&seen), &status(2, 1, 9), true));
    // Somebody removed the status.
    assert!(ours.of("a").is_due(None, &status(1, 1, 9), true));
}

#[test]
fn who_does_not_use_an_object_leaves_its_status_to_others() {
    let ours = Sayings::among_others();
    let is_due = |seen: Option<&CloudStatus>| ours.of("a").is_due(seen, &status(2, 0, 0), false);
    assert!(!is_due(Some(&status(2, 1, 0))));
    assert!(is_due(Some(&status(1, 1, 0))));
    assert!(is_due(None));
    ours.put("a", &status(2, 1, 0));
    assert!(is_due(Some(&status(2, 1, 0))), "its last Cluster is gone");
    ours.keep(|_| false);
    assert!(!is_due(Some(&status(2, 1, 0))));
}
