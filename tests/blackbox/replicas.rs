//! Two replicas: one works, the other stands by.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::DeleteParams;
use podloom_api::{Browser, Phase};
use podloom_tests::{
    Account, AuditedRequest, Bundle, Cluster, Operator, Scene, Signal, blackbox_on, eventually,
};
use serde_json::{Value, json};

fn runs(browser: &Browser) -> bool {
    browser.status.as_ref().and_then(|status| status.phase) == Some(Phase::Running)
}

/// The flags for one namespace only, with the Lease there too.
fn election(namespace: &str) -> [&str; 6] {
    [
        "--namespace",
        namespace,
        "--lease-namespace",
        namespace,
        "--lease-name",
        "podloom",
    ]
}

/// Two replicas that share a Lease in the scene's namespace. Each has its own account, so the audit log shows which one wrote.
async fn replicas(scene: &Scene) -> [(Operator, Account); 2] {
    let replica = |name: &str| {
        let account = Account::new(scene, name, |_| true);
        account.may_lead(scene);
        let duration = ["--lease-duration", "10s"];
        let arguments = [&election(&scene.namespace)[..], &duration].concat();
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
    (status == 200 && body.contains("this replica is the leader"))
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
            pods.until("the leader creates pods", |changes| {
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
            first.restart();
            first.ready().await;
            assert!(leads(&first).unwrap_err().contains("standing by for "));
        },
    );
}

/// As during an upgrade: another version holds the Lease, whose name has never changed.
#[test]
fn while_another_holds_the_lease_the_browser_duty_stands_by() {
    blackbox_on(Cluster::without_operator, "replicas-held", async |scene| {
        let leases: Api<Lease> = Api::namespaced(scene.client.clone(), &scene.namespace);
        let lease = json!({
            "metadata": { "name": "podloom" },
            "spec": { "holderIdentity": "somebody", "leaseDurationSeconds": 3600 },
        });
        scene.create(leases.clone(), lease).await;
        let account = Account::new(&scene, "held", |_| true);
        account.may_lead(&scene);
        let bundle = Bundle::empty();
        let plugins = ["--plugins", bundle.path().to_str().unwrap()];
        let arguments = [&election(&scene.namespace)[..], &plugins].concat();
        let operator = Operator::spawn(&scene.cluster, &account.kubeconfig, &arguments);
        operator.ready().await;
        for path in ["/readyz", "/readyz/browser"] {
            let (status, body) = operator.get(path).unwrap();
            assert_eq!(status, 200, "{body}");
            assert!(body.contains("standing by for somebody"), "{body}");
        }
        // It loads the chain all the same, to be ready when it leads.
        let (_, plugins) = operator.get("/plugins").unwrap();
        let plugins: Value = serde_json::from_str(&plugins).unwrap();
        assert!(plugins["chain"].is_string(), "{plugins}");
        assert!(operator.metric("podloom_leader{duty=\"browser\"}") < 0.5);
        scene.behaviours().await;
        let seen = scene.watch_browsers().await;
        scene.browser("b", "running").await;
        // Wait until it has read the Lease more than once since then.
        let lease_requests = || {
            let mut requests = scene.cluster.requests_of(&account.user);
            requests.retain(|request| request.resource == "leases");
            requests.len()
        };
        let before = lease_requests();
        eventually("it reads the Lease", async || {
            let count = lease_requests();
            (count > before + 2)
                .then_some(())
                .ok_or(format!("{count} requests"))
        })
        .await;
        assert!(writes(&scene, &account).is_empty(), "it stands by");
        let states = seen.of("b");
        assert!(states.iter().all(|change| change.object().status.is_none()));
        // When the Lease is free, this replica takes it.
        leases
            .delete("podloom", &DeleteParams::default())
            .await
            .unwrap();
        seen.until_runs("b").await;
        assert!(operator.metric("podloom_leader{duty=\"browser\"}") > 0.5);
        leads(&operator).unwrap();
    });
}

/// A replica's writes to Browsers, BrowserConfigs and pods; those to the Lease and Events do not count.
fn writes(scene: &Scene, account: &Account) -> Vec<AuditedRequest> {
    let mut requests = scene.cluster.requests_of(&account.user);
    requests.retain(|request| {
        request.is_write()
            && ["browsers", "browserconfigs", "pods"].contains(&request.resource.as_str())
    });
    requests
}

#[test]
fn a_leader_that_was_paused_writes_no_more() {
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
            // It wakes up while there is work, and still believes that it leads.
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
            // Compare times, not counts: the API server logs a request some time after it was answered.
            for write in &of_the_first {
                let received: Timestamp = write.received.parse().unwrap();
                assert!(received < woken, "{write:#?}");
            }
            assert!(!writes(&scene, &second_account).is_empty());
            let lost = first.logged(&["WARN", "lost the Lease"]);
            assert_eq!(
                lost.len(),
                1,
                "{:#?}",
                first.log().iter().map(Value::to_string).collect::<Vec<_>>()
            );
        },
    );
}
