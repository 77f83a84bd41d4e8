use std::time::Duration;

use podloom_mutators::Serving;
use serde_json::json;

use crate::compare::{Difference, Verdict};
use crate::run::candidate::results::{Pair, Results};

/// Everybody in the cluster may ask, so neither values nor what plugins say is in it.
#[test]
fn the_answer_has_counts_and_groups_and_no_reasons() {
    let mut results = Results::default();
    let pair = Pair {
        serving: Some("sha256:1".to_owned()),
        candidate: "sha256:2".to_owned(),
        since: Some(std::time::UNIX_EPOCH),
    };
    results.of(Some(pair), 10);
    results.add("shop", "Pod shop/web", None, Duration::from_millis(1));
    let denied = Difference::of(
        Verdict::DeniedNow,
        vec!["strict".to_owned()],
        Some("the password is hunter2".to_owned()),
    );
    results.add(
        "shop",
        "Pod shop/db",
        Some(denied),
        Duration::from_millis(2),
    );
    let answer = results.answer(&Serving::default(), 12);
    assert_eq!(
        answer,
        json!({
            "candidate": { "chain": null, "plugins": [], "lastReload": null, "lastError": null },
            "serving": "sha256:1",
            "since": "1970-01-01T00:00:00Z",
            "pods": { "same": 1, "different": 0, "denied": 1, "failed": 0, "dropped": 2 },
            "meanMilliseconds": 1.5,
            "groups": [{
                "verdict": "DeniedNow", "pods": 1, "namespaces": 1, "names": ["Pod shop/db"],
                "plugins": ["strict"], "changes": [], "moreChanges": 0,
            }],
            "notListed": { "pods": 0, "namespaces": 0 },
        })
    );
}
