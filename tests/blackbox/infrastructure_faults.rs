//! An Infrastructure Manager that is gone, hangs, refuses changes, answers garbage, or has lost its data.

use std::time::{Duration, Instant};

use podloom_api::{ClusterState, ClusterStatus};
use podloom_tests::faults::{Fault, Proxy, Rule};
use podloom_tests::im::{BootMode, ImData, ImOptions, ImServer, templates};
use podloom_tests::infrastructure::{
    CLUSTER, Infrastructure, condition, is_configured, kubeconfig,
};
use podloom_tests::{Change, Cluster, blackbox_on, eventually_within};
use serde_json::json;

fn state(status: &ClusterStatus) -> ClusterState {
    status.state.unwrap()
}

/// Without IM a new Cluster fails and is tried again. One that is ONLINE stays it, since its machines run.
#[test]
fn im_is_stopped_and_started() {
    blackbox_on(
        Cluster::without_operator,
        "infra-stopped-im",
        async |scene| {
            let mut im = ImServer::start(&ImOptions::default()).await;
            let proxy = Proxy::to(im.address);
            let infrastructure = Infrastructure::behind(&scene, &im, &proxy).await;
            let api_server = Proxy::start(infrastructure.kubeconfig());
            let text = infrastructure.kubeconfig_behind(&api_server);
            let _operator = infrastructure.operator(&["--probe-clusters", "true"]).await;
            im.stop().await;
            infrastructure.cluster(&templates::single_node(&text)).await;
            let status = infrastructure
                .until_state(ClusterState::FailingReconciliation)
                .await;
            assert_eq!(
                condition(&status, "InfrastructureReady"),
                "False/Unreachable"
            );
            im.restart_same().await;
            infrastructure.until_state(ClusterState::Online).await;
            assert_eq!(infrastructure.owner.list().len(), 1);

            let seen = infrastructure.watch().await;
            let before = proxy.writes();
            im.stop().await;
            infrastructure
                .until_condition("InfrastructureReady", "Unknown/Unreachable")
                .await;
            im.restart_same().await;
            infrastructure
                .until_condition("InfrastructureReady", "True/Configured")
                .await;
            let states = seen.of(CLUSTER).into_iter().map(|change| match change {
                Change::Is(cluster) => state(&cluster.status.unwrap()),
                Change::Gone(_) => panic!("it is gone"),
            });
            let states: Vec<ClusterState> = states.collect();
            assert!(!states.is_empty());
            assert!(
                states.iter().all(|it| *it == ClusterState::Online),
                "{states:?}"
            );
            assert_eq!(proxy.writes(), before, "{:#?}", proxy.requests());
        },
    );
}

/// Requests to an IM that hangs time out, and do not delay Clusters of another one.
#[test]
fn im_that_hangs_delays_only_its_own_clusters() {
    blackbox_on(Cluster::without_operator, "infra-frozen", async |scene| {
        let im = ImServer::start(&ImOptions::default()).await;
        let infrastructure = Infrastructure::at(&scene, &im, &im.url()).await;
        let _operator = infrastructure.operator(&["--probe-clusters", "true"]).await;
        infrastructure
            .cluster(&templates::single_node(&kubeconfig()))
            .await;
        infrastructure.until_configured(1).await;
        let shared = ImServer::shared().await;
        infrastructure
            .provider("other", infrastructure.basic(&shared.url()))
            .await;
        infrastructure.cloud("other", "other").await;
        im.freeze();
        let spec = json!({
            "tosca": templates::single_node(&kubeconfig()),
            "cloudRef": { "kind": "Cloud", "name": "other" },
        });
        infrastructure.cluster_with("two", spec).await;
        infrastructure
            .until_of("two", "is configured", |status| is_configured(status, 1))
            .await;
        let status = infrastructure
            .until_condition("InfrastructureReady", "Unknown/Unreachable")
            .await;
        assert_eq!(status.state, Some(ClusterState::Connecting));
        im.thaw();
        infrastructure.until_configured(1).await;
        assert_eq!(infrastructure.owner.list().len(), 1);
    });
}

/// A Cluster whose API server is not probed, and that has nothing to do, asks nobody by itself.
#[test]
fn an_idle_cluster_sees_that_im_is_gone() {
    blackbox_on(Cluster::without_operator, "infra-idle", async |scene| {
        let mut im = ImServer::start(&ImOptions::default()).await;
        let infrastructure = Infrastructure::at(&scene, &im, &im.url()).await;
        let _operator = infrastructure.operator(&[]).await;
        infrastructure
            .cluster(&templates::single_node(&kubeconfig()))
            .await;
        infrastructure.until_configured(1).await;
        im.stop().await;
        infrastructure
            .until_condition("InfrastructureReady", "Unknown/Unreachable")
            .await;
        im.restart_same().await;
        infrastructure.until_configured(1).await;
    });
}

/// More Clusters than there are workers have an IM that hangs, and the others still have workers.
#[test]
fn im_that_hangs_holds_one_worker() {
    blackbox_on(Cluster::without_operator, "infra-workers", async |scene| {
        let im = ImServer::start(&ImOptions::default()).await;
        let infrastructure = Infrastructure::at(&scene, &im, &im.url()).await;
        let arguments = ["--probe-clusters", "true", "--infrastructure-workers", "2"];
        let _operator = infrastructure.operator(&arguments).await;
        let template = templates::single_node(&kubeconfig());
        let names = ["a", "b", "c", "d"];
        for name in names {
            let spec = json!({ "tosca": template });
            infrastructure.cluster_with(name, spec).await;
        }
        let is_there = |status: &ClusterStatus| is_configured(status, 1);
        for name in names {
            infrastructure
                .until_of(name, "is configured", is_there)
                .await;
        }
        let shared = ImServer::shared().await;
        let other = infrastructure.basic(&shared.url());
        infrastructure.provider("other", other).await;
        infrastructure.cloud("other", "other").await;
        im.freeze();
        let is_silent = |status: &ClusterStatus| {
            condition(status, "InfrastructureReady") == "Unknown/Unreachable"
        };
        // Two ask at once and wait 30 s for nothing. The next one may be the one that asks alone for another 30 s.
        let clusters = infrastructure.clusters();
        let patience = Duration::from_secs(120);
        for name in names {
            eventually_within(&format!("{name} is silent"), patience, async || {
                let status = clusters.get(name).await.unwrap().status.unwrap_or_default();
                match is_silent(&status) {
                    true => Ok(()),
                    false => Err(condition(&status, "InfrastructureReady")),
                }
            })
            .await;
        }
        let begun = Instant::now();
        let spec = json!({ "tosca": template, "cloudRef": { "kind": "Cloud", "name": "other" } });
        infrastructure.cluster_with("other", spec).await;
        // Sooner than a request to the other one times out. How long IM then builds does not matter.
        let is_created = |status: &ClusterStatus| status.cluster_id.is_some();
        infrastructure
            .until_of("other", "is created", is_created)
            .await;
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(25), "{took:?}");
        infrastructure
            .until_of("other", "is configured", is_there)
            .await;
        im.thaw();
    });
}

#[test]
fn im_refuses_changes_for_a_while() {
    blackbox_on(
        Cluster::without_operator,
        "infra-read-only",
        async |scene| {
            let mut im = ImServer::start(&ImOptions::default()).await;
            let infrastructure = Infrastructure::at(&scene, &im, &im.url()).await;
            let _operator = infrastructure.operator(&[]).await;
            infrastructure.cluster(&templates::pool(1, &[])).await;
            let id = infrastructure.until_configured(2).await;
            let read_only = ImOptions {
                boot_mode: BootMode::ReadOnly,
                ..ImOptions::default()
            };
            im.restart(&read_only, ImData::Kept).await;
            infrastructure
                .replace_template(&templates::pool(2, &[]))
                .await;
            let status = infrastructure
                .until_condition("InfrastructureReady", "False/ReadOnly")
                .await;
            assert_eq!(state(&status), ClusterState::FailingReconciliation);
            im.restart(&ImOptions::default(), ImData::Kept).await;
            assert_eq!(infrastructure.until_configured(3).await, id);
        },
    );
}

/// Answers that are not IM's, whatever they are, cost nothing but time.
#[test]
fn im_answers_garbage() {
    blackbox_on(Cluster::without_operator, "infra-garbage", async |scene| {
        let im = ImServer::shared().await;
        let proxy = Proxy::to(im.address);
        let infrastructure = Infrastructure::behind(&scene, im, &proxy).await;
        let _operator = infrastructure.operator(&["--probe-clusters", "true"]).await;
        // The answer to the creation too: nobody can say whether it was done.
        proxy.set_rules(&[Rule {
            times: Some(1),
            ..answer("POST /infrastructures", 200, "<html>welcome</html>")
        }]);
        infrastructure
            .cluster(&templates::single_node(&kubeconfig()))
            .await;
        let id = infrastructure.until_configured(1).await;
        assert_eq!(proxy.hits(), [1]);
        let deep = "[".repeat(100_000);
        let garbage = [
            (200, "<html>welcome</html>"),
            (200, ""),
            (200, r#"{"state": {"state": "rebooting", "vm_states": {}}}"#),
            (200, r#"{"state": {"state": 7, "vm_states": []}}"#),
            (200, deep.as_str()),
            (302, "elsewhere"),
            (500, "Traceback (most recent call last)"),
            (404, "not IM's own words"),
        ];
        for (status, body) in garbage {
            let before = proxy.writes();
            proxy.set_rules(&[answer("GET /infrastructures/{id}/state", status, body)]);
            let seen = infrastructure
                .until_condition("InfrastructureReady", "Unknown/Unreachable")
                .await;
            let text = podloom_tests::infrastructure::message(&seen, "InfrastructureReady");
            assert!(text.len() <= 512, "{text}");
            assert_eq!(
                seen.state,
                Some(ClusterState::Connecting),
                "{status} {text}"
            );
            assert_eq!(proxy.writes(), before, "{status} {text}");
            proxy.set_rules(&[]);
            infrastructure
                .until_condition("InfrastructureReady", "True/Configured")
                .await;
        }
        assert_eq!(infrastructure.owner.list(), [id]);
    });
}

fn answer(request: &str, status: u16, body: &str) -> Rule {
    let body = body.to_owned();
    Rule::on(request, Fault::Answer { status, body })
}

/// An IM that was killed and has its data is asked for nothing; without its data everything is built again.
#[test]
fn im_crashes_with_and_without_its_data() {
    blackbox_on(Cluster::without_operator, "infra-data", async |scene| {
        let mut im = ImServer::start(&ImOptions::default()).await;
        let proxy = Proxy::to(im.address);
        let infrastructure = Infrastructure::behind(&scene, &im, &proxy).await;
        let _operator = infrastructure.operator(&["--probe-clusters", "true"]).await;
        infrastructure.cluster(&templates::pool(1, &[])).await;
        let id = infrastructure.until_configured(2).await;
        let before = proxy.writes();
        im.kill();
        infrastructure
            .until_condition("InfrastructureReady", "Unknown/Unreachable")
            .await;
        im.restart_same().await;
        assert_eq!(infrastructure.until_configured(2).await, id);
        assert_eq!(proxy.writes(), before, "{:#?}", proxy.requests());

        im.restart(&ImOptions::default(), ImData::Lost).await;
        infrastructure
            .until("has another infrastructure", |status| {
                status.cluster_id.as_ref().is_some_and(|other| *other != id)
            })
            .await;
        let other = infrastructure.until_configured(2).await;
        assert_eq!(infrastructure.owner.list(), [other]);
    });
}

/// IM says that it does not know an infrastructure, and has it all the same: as when it writes a record back that it has removed, while
/// it builds another infrastructure. The real one does that by chance, so the proxy says it.
#[test]
fn what_im_still_has_is_deleted_although_it_says_that_it_is_gone() {
    blackbox_on(Cluster::without_operator, "infra-left", async |scene| {
        let im = ImServer::shared().await;
        let proxy = Proxy::to(im.address);
        let infrastructure = Infrastructure::behind(&scene, im, &proxy).await;
        let _operator = infrastructure.operator(&[]).await;
        infrastructure
            .cluster(&templates::single_node(&kubeconfig()))
            .await;
        infrastructure.until_configured(1).await;
        let gone = json!({ "message": "Error deleting Inf: Invalid infrastructure ID or access not granted.", "code": 404 });
        proxy.set_rules(&[Rule {
            times: Some(1),
            ..answer("DELETE /infrastructures/{id}", 404, &gone.to_string())
        }]);
        infrastructure.until_gone().await;
        assert_eq!(proxy.hits(), [1]);
        assert!(infrastructure.owner.list().is_empty());
    });
}
