//! Connections that die silently: they stay open, but carry nothing more.

use std::time::{Duration, Instant};

use podloom_tests::faults::{Fault, RequestFilter, Rule};
use podloom_tests::{Account, Cluster, Operator, Scene, blackbox_on, eventually_within};

/// How soon a silent connection must be noticed and replaced.
const NOTICED: Duration = Duration::from_secs(60);

#[test]
fn silent_connections_are_noticed_within_a_minute() {
    blackbox_on(
        Cluster::without_operator,
        "silence-watches",
        async |scene| {
            let proxy = scene.proxy();
            let _operator = scene.operator_behind(&proxy, &[]).await;
            scene.behaviours().await;
            let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
            scene.browser("before", "running").await;
            seen.until_runs("before").await;
            proxy.silence();
            let begun = Instant::now();
            scene.browser("after", "running").await;
            seen.until_runs("after").await;
            assert!(begun.elapsed() < NOTICED, "{:?}", begun.elapsed());
            for name in ["before", "after"] {
                scene.delete_browser(name).await;
                seen.until_gone(name).await;
                assert_eq!(pods.uids(name).len(), 1, "{name}");
            }
            scene.nothing_is_left().await;
        },
    );
}

#[test]
fn lists_that_hang_are_requested_again() {
    blackbox_on(Cluster::without_operator, "silence-lists", async |scene| {
        let proxy = scene.proxy();
        let hang = |resource: &str| Rule {
            on: RequestFilter {
                resources: vec![resource.to_owned()],
                ..RequestFilter::default()
            },
            after: 0,
            times: Some(1),
            fault: Fault::Stall,
        };
        proxy.set_rules(&["browsers", "browserconfigs", "pods"].map(hang));
        let kubeconfig = proxy.kubeconfig(scene.cluster.operator_kubeconfig());
        let arguments = ["--namespace", &scene.namespace];
        let operator = Operator::spawn(&scene.cluster, &kubeconfig, &arguments);
        eventually_within("the operator is ready", NOTICED, async || {
            let (status, body) = operator.get("/readyz")?;
            (status == 200).then_some(()).ok_or(body)
        })
        .await;
        assert_eq!(proxy.hits(), [1, 1, 1]);
        scene.behaviours().await;
        let seen = scene.watch_browsers().await;
        scene.browser("b", "running").await;
        seen.until_runs("b").await;
    });
}

async fn replica(scene: &Scene, account: &Account, kubeconfig: &std::path::Path) -> Operator {
    let arguments = [
        "--namespace",
        &scene.namespace,
        "--lease-namespace",
        &scene.namespace,
        "--lease-name",
        "podloom",
        "--lease-duration",
        "10s",
    ];
    account.may_lead(scene);
    let operator = Operator::spawn(&scene.cluster, kubeconfig, &arguments);
    operator.ready().await;
    operator
}

fn leads(operator: &Operator) -> Result<(), String> {
    let (status, body) = operator.get("/readyz")?;
    (status == 200 && body.contains("this replica is the leader"))
        .then_some(())
        .ok_or(body)
}

#[test]
fn a_leader_that_cannot_renew_its_lease_gives_way() {
    blackbox_on(Cluster::without_operator, "silence-lease", async |scene| {
        let accounts = ["first", "second"].map(|name| Account::new(&scene, name, |_| true));
        let proxy = scene.proxy();
        let behind = proxy.kubeconfig(&accounts[0].kubeconfig);
        let first = replica(&scene, &accounts[0], &behind).await;
        eventually_within("the first leads", NOTICED, async || leads(&first)).await;
        let second = replica(&scene, &accounts[1], &accounts[1].kubeconfig).await;
        scene.behaviours().await;
        let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
        scene.browser("before", "running").await;
        seen.until_runs("before").await;

        proxy.silence_all();
        eventually_within("the second leads", NOTICED, async || leads(&second)).await;
        // By then the first has stepped down, by its own clock.
        assert!(leads(&first).is_err());
        scene.browser("after", "running").await;
        seen.until_runs("after").await;

        proxy.resume();
        eventually_within("the first stands by", NOTICED, async || {
            let (_, body) = first.get("/readyz")?;
            body.contains("standing by for ").then_some(()).ok_or(body)
        })
        .await;
        for name in ["before", "after"] {
            scene.delete_browser(name).await;
            seen.until_gone(name).await;
            assert_eq!(pods.uids(name).len(), 1, "{name}");
        }
        scene.nothing_is_left().await;
    });
}
