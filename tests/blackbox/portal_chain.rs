//! The plugin chain changes under tunnels that run.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use podloom_api::PortalExpose;
use podloom_tests::portal::{Portal, condition, failed, message, ready};
use podloom_tests::{Cluster, MountedBundle, Operator, blackbox_on, eventually};
use serde_json::Value;

/// A chain that writes this team into a label of all pods.
fn team(name: &str) -> String {
    format!(
        "\n- {{ name: labels, file: labels.wasm.gz, allow: [/metadata/labels], config: {{ labels: [{{ key: team, value: {name} }}] }} }}"
    )
}

/// The same chain with another digest, and the same result: its second plugin never runs.
fn team_and_nothing(name: &str) -> String {
    let more = "\n- { name: never, file: labels.wasm.gz, allow: [/metadata/labels], match: { kinds: [Browser] }, config: { labels: [{ key: a, value: b }] } }";
    team(name) + more
}

/// A chain that denies every pod.
const DENIES: &str = "\n- { name: denies, file: denies.wasm }";

/// Replaces the chain, and returns the digest of the new one once it serves.
async fn serves(operator: &Operator, bundle: &MountedBundle, entries: &str) -> String {
    let chain = || -> Value { serde_json::from_str(&operator.get("/plugins").unwrap().1).unwrap() };
    let before = chain()["chain"].clone();
    bundle.update(entries);
    eventually("the new chain serves", async || {
        let now = chain()["chain"].clone();
        (now != before)
            .then(|| now.as_str().unwrap_or_default().to_owned())
            .ok_or_else(|| now.to_string())
    })
    .await
}

/// Whether the tunnel has this chain, and all of its pods are ready.
fn ready_with(expose: &PortalExpose, chain: &str) -> bool {
    let applied = expose
        .status
        .as_ref()
        .and_then(|status| status.applied.as_ref());
    let is_applied = applied.is_some_and(|applied| applied.chain_digest.as_deref() == Some(chain));
    is_applied && ready(expose) && condition(expose, "MutatorsApplied") == "True/ChainApplied"
}

/// The hash of the tunnel's template, and the digest of its chain.
async fn hashes(portal: &Portal<'_>, name: &str) -> [String; 2] {
    let annotations = portal
        .tunnel(name)
        .await
        .metadata
        .annotations
        .unwrap_or_default();
    ["portal.gosuda.org/template-hash", "podloom.dev/chain"].map(|key| annotations[key].clone())
}

async fn team_of(portal: &Portal<'_>, name: &str) -> Option<String> {
    let template = portal.tunnel(name).await.spec.unwrap().template;
    let labels: BTreeMap<String, String> = template.metadata.unwrap().labels.unwrap();
    labels.get("team").cloned()
}

async fn start(portal: &Portal<'_>, bundle: &MountedBundle, more: &[&str]) -> Operator {
    let plugins = ["--plugins", bundle.path().to_str().unwrap()];
    portal.operator(&[&plugins, more].concat()).await
}

#[test]
fn a_new_chain_rolls_what_it_changes_and_nothing_else() {
    blackbox_on(Cluster::without_operator, "portal-chain", async |scene| {
        let portal = Portal::new(&scene).await;
        let bundle = MountedBundle::of(&team("one"));
        let operator = start(&portal, &bundle, &[]).await;
        let seen = portal.watch().await;
        portal.expose("shop").await;
        seen.until_is("shop", "is ready", ready).await;
        assert_eq!(team_of(&portal, "shop").await.as_deref(), Some("one"));
        let tunnel = portal.tunnel("shop").await;
        let template = tunnel.spec.unwrap().template.metadata.unwrap();
        let stamped = template.annotations.unwrap_or_default();
        assert!(
            !stamped.keys().any(|key| key.starts_with("podloom.dev/")),
            "{stamped:?}"
        );

        // A chain that changes nothing: its digest is noted, and no pod is replaced.
        let [before, _] = hashes(&portal, "shop").await;
        let chain = serves(&operator, &bundle, &team_and_nothing("one")).await;
        let has_chain = |expose: &PortalExpose| ready_with(expose, &chain);
        seen.until_is("shop", "has the new chain", has_chain).await;
        assert_eq!(
            hashes(&portal, "shop").await,
            [before.clone(), chain.clone()]
        );
        assert_eq!(portal.replica_sets(), 1);

        let chain = serves(&operator, &bundle, &team("two")).await;
        let has_chain = |expose: &PortalExpose| ready_with(expose, &chain);
        seen.until_is("shop", "has the other chain", has_chain)
            .await;
        assert_eq!(team_of(&portal, "shop").await.as_deref(), Some("two"));
        assert_ne!(hashes(&portal, "shop").await[0], before);
        assert_eq!(portal.replica_sets(), 2);
        let events = [
            "Normal Created: ",
            "Normal Ready: ",
            "Normal Updated: ",
            "Normal Updated: ",
        ];
        eventually("the Events tell it", async || {
            let found = scene.events("shop").await;
            let is_told = events
                .iter()
                .all(|event| found.iter().any(|line| line.starts_with(event)));
            is_told.then_some(()).ok_or_else(|| format!("{found:#?}"))
        })
        .await;
    });
}

/// The Deployment itself does not say that it rolls: it uses the ReplicaSet from before again.
#[test]
fn a_chain_that_is_taken_back_rolls_without_a_failure() {
    blackbox_on(
        Cluster::without_operator,
        "portal-chain-back",
        async |scene| {
            let portal = Portal::new(&scene).await;
            let bundle = MountedBundle::of(&team("one"));
            let operator = start(&portal, &bundle, &[]).await;
            let seen = portal.running().await;
            for name in ["two", "one", "two"] {
                let chain = serves(&operator, &bundle, &team(name)).await;
                let has_chain = |expose: &PortalExpose| ready_with(expose, &chain);
                seen.until_is("shop", "has the other chain", has_chain)
                    .await;
            }
            assert_eq!(portal.replica_sets(), 2);
            let failed = seen
                .of("shop")
                .iter()
                .filter(|change| failed(change.object()))
                .count();
            assert_eq!(failed, 0, "{:?}", scene.events("shop").await);
        },
    );
}

#[test]
fn a_chain_that_denies_leaves_running_tunnels_alone() {
    blackbox_on(Cluster::without_operator, "portal-denied", async |scene| {
        let portal = Portal::new(&scene).await;
        let bundle = MountedBundle::of(&team("one"));
        let operator = start(&portal, &bundle, &[]).await;
        let seen = portal.watch().await;
        portal.expose("shop").await;
        seen.until_is("shop", "is ready", ready).await;
        let before = portal.tunnel("shop").await;
        serves(&operator, &bundle, DENIES).await;
        let expose = seen
            .until_is("shop", "says that a plugin denies it", |expose| {
                condition(expose, "MutatorsApplied") == "False/MutatorDenied"
            })
            .await;
        assert!(message(&expose, "MutatorsApplied").contains("denies: tunnels are not allowed"));
        let after = portal.tunnel("shop").await;
        assert_eq!(
            (before.uid(), before.metadata.generation),
            (after.uid(), after.metadata.generation)
        );
        assert_eq!(after.status.unwrap().ready_replicas, Some(1));
        let chain = serves(&operator, &bundle, &team("two")).await;
        let has_chain = |expose: &PortalExpose| ready_with(expose, &chain);
        seen.until_is("shop", "is ready with the repaired chain", has_chain)
            .await;
    });
}

#[test]
fn deferred_chains_come_with_the_next_change() {
    blackbox_on(Cluster::without_operator, "portal-defer", async |scene| {
        let portal = Portal::new(&scene).await;
        let bundle = MountedBundle::of(&team("one"));
        let operator = start(&portal, &bundle, &["--portal-chain-policy", "defer"]).await;
        let seen = portal.watch().await;
        portal.expose("shop").await;
        seen.until_is("shop", "is ready", ready).await;
        let before = hashes(&portal, "shop").await;
        serves(&operator, &bundle, &team("two")).await;
        seen.until_is("shop", "waits for its next change", |expose| {
            condition(expose, "MutatorsApplied") == "True/ChainOutdated"
        })
        .await;
        assert_eq!(hashes(&portal, "shop").await, before);
        portal
            .patch(
                "shop",
                serde_json::json!({ "spec": { "app": { "name": "store" } } }),
            )
            .await;
        seen.until_is("shop", "has the new chain", |expose| {
            ready(expose) && condition(expose, "MutatorsApplied") == "True/ChainApplied"
        })
        .await;
        assert_eq!(team_of(&portal, "shop").await.as_deref(), Some("two"));
    });
}

#[test]
fn only_a_few_tunnels_roll_at_the_same_time() {
    const COUNT: usize = 8;
    blackbox_on(Cluster::without_operator, "portal-rolls", async |scene| {
        let portal = Portal::new(&scene).await;
        let bundle = MountedBundle::of(&team("one"));
        let operator = start(&portal, &bundle, &["--portal-max-chain-rolls", "2"]).await;
        let seen = portal.watch().await;
        let names: Vec<String> = (0..COUNT).map(|number| format!("shop{number}")).collect();
        for name in &names {
            portal.expose(name).await;
        }
        for name in &names {
            seen.until_is(name, "is ready", ready).await;
        }
        let deployments = portal.watch_deployments().await;
        let chain = serves(&operator, &bundle, &team("two")).await;
        for name in &names {
            let has_chain = |expose: &PortalExpose| ready_with(expose, &chain);
            seen.until_is(name, "is ready with the new chain", has_chain)
                .await;
            assert_eq!(
                team_of(&portal, name).await.as_deref(),
                Some("two"),
                "{name}"
            );
        }
        // Replays what the API server reported: at no time did more than two roll.
        let mut rolling = BTreeSet::new();
        let mut most = 0;
        for change in deployments.changes() {
            let deployment = change.object();
            let status = deployment.status.clone().unwrap_or_default();
            let name = deployment.uid().unwrap();
            let is_settled = status.observed_generation == deployment.metadata.generation
                && status.updated_replicas == Some(1)
                && status.ready_replicas == Some(1)
                && status.replicas == Some(1);
            match is_settled {
                true => rolling.remove(&name),
                false => rolling.insert(name),
            };
            most = most.max(rolling.len());
        }
        assert!((1..=2).contains(&most), "{most} rolled at once");
    });
}
