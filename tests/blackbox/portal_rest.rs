//! How often the portal controller tries and writes: little after a rejection, and nothing at rest.

use std::time::{Duration, Instant};

use podloom_tests::portal::{Portal, condition, message, ready};
use podloom_tests::{Cluster, blackbox_on, eventually};
use serde_json::json;

#[test]
fn a_rejected_deployment_is_reported_and_not_tried_all_the_time() {
    blackbox_on(
        Cluster::without_operator,
        "portal-rejected",
        async |scene| {
            let portal = Portal::new(&scene).await;
            portal.class(json!({ "replicas": 1, "size": "small", "nodeSelector": { "pool": "not a label!" } })).await;
            let proxy = portal.proxy();
            let _operator = portal.operator_behind(&proxy, &[]).await;
            let seen = portal.watch().await;
            let begun = Instant::now();
            portal.expose("shop").await;
            let expose = seen
                .until_is("shop", "is rejected", |expose| {
                    condition(expose, "TunnelDeploymentReady") == "False/DeploymentRejected"
                })
                .await;
            let text = message(&expose, "TunnelDeploymentReady");
            assert!(text.contains("not a label!"), "{text}");
            // The pauses between attempts double from 5 ms, so ten attempts take at least two seconds.
            eventually("it was tried ten times", async || {
                let attempts = proxy.count("patch deployments");
                (attempts >= 10)
                    .then_some(())
                    .ok_or_else(|| format!("{attempts} times"))
            })
            .await;
            assert!(
                begun.elapsed() > Duration::from_secs(2),
                "{:?}",
                begun.elapsed()
            );
            let before = Instant::now();
            portal
                .class(json!({ "replicas": 1, "size": "small" }))
                .await;
            seen.until_is("shop", "is ready", ready).await;
            assert!(
                before.elapsed() < Duration::from_secs(40),
                "{:?}",
                before.elapsed()
            );
        },
    );
}

#[test]
fn passes_without_a_change_write_nothing() {
    blackbox_on(Cluster::without_operator, "portal-rest", async |scene| {
        let portal = Portal::new(&scene).await;
        let proxy = portal.proxy();
        let operator = portal.operator_behind(&proxy, &["--resync", "100ms"]).await;
        let seen = portal.running().await;
        scene
            .events_are("shop", &["Normal Created: ", "Normal Ready: "])
            .await;
        let writes = || -> u64 {
            let counts = proxy.counts();
            let writes = counts.iter().filter(|(request, _)| {
                let verb = request.split(' ').next().unwrap_or_default();
                // The classes of other tests are in the same cluster.
                let is_own = !request.ends_with("tunnelclasses/status");
                is_own
                    && !matches!(verb, "get" | "list" | "watch")
                    && !request.contains("subjectaccessreviews")
            });
            writes.flat_map(|(_, codes)| codes.values()).sum()
        };
        let (before, changes) = (writes(), seen.changes().len());
        let passes = operator.metric("podloom_reconcile_total{controller=\"portalexpose\"");
        eventually("there were a hundred more passes", async || {
            let now = operator.metric("podloom_reconcile_total{controller=\"portalexpose\"");
            (now > passes + 100.0)
                .then_some(())
                .ok_or_else(|| format!("{now} after {passes}"))
        })
        .await;
        assert_eq!(
            (writes(), seen.changes().len()),
            (before, changes),
            "{:?}",
            proxy.counts()
        );
    });
}
