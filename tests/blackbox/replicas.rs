//! Two replicas: one works, the other stands by.

use k8s_openapi::jiff::Timestamp;
use podloom_api::{Browser, Phase};
use podloom_tests::{Account, Cluster, Operator, Request, Scene, Signal, blackbox_on, eventually};
use serde_json::Value;

fn runs(browser: &Browser) -> bool {
    browser.status.as_ref().and_then(|status| status.phase) == Some(Phase::Running)
}

/// Two replicas that share a Lease in the scene's namespace, each with an account of its own, so that the audit tells them apart.
async fn replicas(scene: &Scene) -> [(Operator, Account); 2] {
    let replica = |name: &str| {
        let account = Account::new(scene, name, |_| true);
        account.may_lead(scene);
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
        let operator = Operator::spawn(&scene.cluster, &account.kubeconfig, &arguments);
        (operator, account)
    };
    let first = replica("first");
    first.0.ready().await;
    eventually("the first leads", async || leads(&first.0)).await;
    let second = replica("second");
    second.0.ready().await;
    [first, second]
}

fn leads(operator: &Operator) -> Result<(), String> {
    let (status, body) = operator.get("/readyz")?;
    (status == 200 && body.contains("we lead"))
        .then_some(())
        .ok_or(body)
}

#[test]
fn the_other_takes_over_when_the_leader_is_killed() {
    blackbox_on(
        Cluster::without_operator,
        "replicas-killed",
        async |scene| {
            let [(mut first, _), (second, _)] = replicas(&scene).await;
            assert!(leads(&second).unwrap_err().contains("standing by for "));
            scene.behaviours().await;
            let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
            let names: Vec<String> = (0..60).map(|number| format!("b{number}")).collect();
            for name in &names {
                scene.browser(name, "running").await;
            }
            pods.until("the work has begun", |changes| {
                (changes.len() > 5).then_some(())
            })
            .await;
            first.kill();
            for name in &names {
                seen.until_is(name, "runs", runs).await;
                assert_eq!(pods.uids(name).len(), 1, "{name}");
            }
            eventually("the second leads", async || leads(&second)).await;
            // The first comes back, and stands by.
            first.start_again();
            first.ready().await;
            assert!(leads(&first).unwrap_err().contains("standing by for "));
        },
    );
}

/// What a replica wrote to our objects; the Lease is how they agree, and Events are told beside the work.
fn writes(scene: &Scene, account: &Account) -> Vec<Request> {
    let mut requests = scene.cluster.requests_of(&account.user);
    requests.retain(|request| {
        request.is_write()
            && ["browsers", "browserconfigs", "pods"].contains(&request.resource.as_str())
    });
    requests
}

#[test]
fn a_leader_that_only_paused_writes_no_more() {
    blackbox_on(
        Cluster::without_operator,
        "replicas-paused",
        async |scene| {
            let [(first, first_account), (second, second_account)] = replicas(&scene).await;
            scene.behaviours().await;
            let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
            scene.browser("before", "running").await;
            seen.until_is("before", "runs", runs).await;
            first.signal(Signal::Stop);
            scene.browser("meanwhile", "running").await;
            eventually("the second leads", async || leads(&second)).await;
            seen.until_is("meanwhile", "runs", runs).await;
            // It wakes up among work that it believes to be its own.
            let names: Vec<String> = (0..40).map(|number| format!("b{number}")).collect();
            for name in &names[..10] {
                scene.browser(name, "running").await;
            }
            let woken = Timestamp::now();
            first.signal(Signal::Continue);
            for name in &names[10..] {
                scene.browser(name, "running").await;
            }
            for name in &names {
                seen.until_is(name, "runs", runs).await;
                assert_eq!(pods.uids(name).len(), 1, "{name}");
            }
            eventually("the first stands by", async || {
                let (_, body) = first.get("/readyz")?;
                body.contains("standing by for ").then_some(()).ok_or(body)
            })
            .await;
            let of_the_first = writes(&scene, &first_account);
            assert!(!of_the_first.is_empty(), "the first works");
            // By time, and not by number: the API server tells of a request some time after it was answered.
            for write in &of_the_first {
                let begun: Timestamp = write.begun.parse().unwrap();
                assert!(begun < woken, "{write:#?}");
            }
            assert!(!writes(&scene, &second_account).is_empty());
            let lost = first.told(&["WARN", "the Lease is lost"]);
            assert_eq!(
                lost.len(),
                1,
                "{:#?}",
                first.log().iter().map(Value::to_string).collect::<Vec<_>>()
            );
        },
    );
}
