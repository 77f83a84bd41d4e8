//! An API server that does not serve our kinds for a while, for example one of several whose discovery lags behind.

use podloom_tests::faults::{Fault, RequestFilter, Rule};
use podloom_tests::{Cluster, blackbox_on, eventually};

fn not_served(verbs: &[&str], answer: Fault) -> Rule {
    Rule {
        on: RequestFilter {
            verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
            resources: Vec::new(),
            path: "/apis/selenosis.io/".to_owned(),
        },
        after: 0,
        times: None,
        fault: answer,
    }
}

/// For unknown groups the API server answers in plain text, without a Status.
fn unknown_group() -> Fault {
    Fault::Answer {
        status: 404,
        body: "404 page not found\n".to_owned(),
    }
}

#[test]
fn a_write_to_a_kind_that_is_not_served_is_retried() {
    blackbox_on(Cluster::without_operator, "unserved-write", async |scene| {
        let proxy = scene.proxy();
        let _operator = scene.operator_behind(&proxy, &["--resync", "2s"]).await;
        scene.behaviours().await;
        let seen = scene.watch_browsers().await;
        // For a kind that is being removed, the API server answers as for a missing object.
        let answer = Fault::api_error(
            404,
            "NotFound",
            "the server could not find the requested resource",
        );
        proxy.set_rules(&[not_served(&["write"], answer)]);
        scene.browser("b", "running").await;
        eventually("a write is rejected", async || {
            let hits = proxy.hits();
            (hits[0] > 0).then_some(()).ok_or(format!("{hits:?}"))
        })
        .await;
        proxy.set_rules(&[]);
        seen.until_runs("b").await;
    });
}

#[test]
fn kinds_that_disappear_and_come_back_are_watched_again() {
    blackbox_on(Cluster::without_operator, "unserved-watch", async |scene| {
        let proxy = scene.proxy();
        let operator = scene.operator_behind(&proxy, &[]).await;
        scene.behaviours().await;
        let seen = scene.watch_browsers().await;
        scene.browser("before", "running").await;
        seen.until_runs("before").await;
        proxy.set_rules(&[not_served(&[], unknown_group())]);
        proxy.drop_connections();
        scene.delete_browser("before").await;
        scene.browser("meanwhile", "running").await;
        eventually("the watches fail", async || {
            let hits = proxy.hits();
            (hits[0] > 5).then_some(()).ok_or(format!("{hits:?}"))
        })
        .await;
        proxy.set_rules(&[]);
        seen.until_gone("before").await;
        seen.until_runs("meanwhile").await;
        operator.ready().await;
    });
}
