//! The operator's rights, and what it reports if one is missing.

use podloom_api::{Phase, SelenosisApi, SelenosisKind, crd};
use podloom_tests::cleaner::{Cleaners, map_targets};
use podloom_tests::im::templates;
use podloom_tests::infrastructure::{Infrastructure, kubeconfig};
use podloom_tests::portal::Portal;
use podloom_tests::{
    Account, Bundle, Cluster, Operator, Scene, blackbox, blackbox_on, election, eventually,
    may_lead, rbac, unused,
};
use serde_json::{Value, json};

use crate::warm;

async fn one_session(scene: &Scene) {
    scene.behaviours().await;
    let seen = scene.watch_browsers().await;
    scene.browser("b", "running").await;
    seen.until_is("b", "runs", |browser| {
        browser.status.as_ref().and_then(|status| status.phase) == Some(Phase::Running)
    })
    .await;
    scene.delete_browser("b").await;
    seen.until_gone("b").await;
}

/// A session that takes a warm pod, behind NetworkPolicies.
async fn one_warm_session(scene: &Scene) {
    let policy = json!({ "ingress": [] });
    warm::change(scene, json!({ "networkPolicy": policy })).await;
    warm::keep_small(scene, 1, 1).await;
    warm::are_ready(scene, 1).await;
    let seen = scene.watch_browsers().await;
    scene.browser("w", "running").await;
    let runs = seen.until_runs("w").await;
    assert!(runs.status.unwrap().pod_name.is_some());
    scene.delete_browser("w").await;
    let none = json!({ "warm": null, "networkPolicy": null, "template": null });
    warm::change(scene, none).await;
    scene.nothing_is_left().await;
}

fn is_about(rule: &Value, resource: &str) -> bool {
    let resources = rule["resources"].as_array();
    resources.into_iter().flatten().any(|name| name == resource)
}

#[test]
fn what_deploy_grants_is_enough() {
    blackbox("rights-deploy", async |scene| {
        one_session(&scene).await;
        one_warm_session(&scene).await;
        scene.browser("failing", "oom-killed").await;
        scene.browser("unconfigured", "no-such-version").await;
        eventually("all Events have arrived", async || {
            let events = scene.events("unconfigured").await;
            let last = events.last().cloned().unwrap_or_default();
            last.starts_with("Normal Deleted")
                .then_some(())
                .ok_or(format!("{events:?}"))
        })
        .await;
        scene.nothing_is_left().await;
        let user = "system:serviceaccount:podloom-system:podloom";
        // The shared operator elects no leader.
        all_is_used(&scene, user, "browser", &["leases"]);
        let requests = scene.cluster.requests_of(user);
        let own = requests
            .iter()
            .filter(|request| request.namespace.is_empty() || request.namespace == scene.namespace);
        let own: Vec<_> = own.collect();
        assert!(
            own.iter().any(|request| request.resource == "events"),
            "{own:?}"
        );
        let refused: Vec<_> = own.iter().filter(|request| request.status == 403).collect();
        assert!(refused.is_empty(), "{refused:#?}");
    });
}

/// What a usual run does not do, and why it is granted.
const SELDOM: [(&str, &str); 6] = [
    (
        "create networkpolicies",
        "the API server asks for it when a server-side apply makes a new one",
    ),
    (
        "create deployments",
        "the API server asks for it when a server-side apply makes a new one",
    ),
    ("patch events", "only of an Event that repeats"),
    ("patch secrets", "only of one that somebody changed"),
    ("patch browserconfigs", "only of one with an old finalizer"),
    ("update leases", "only after some seconds, to renew one"),
];

/// Nothing is granted that nothing uses. What has one of these words is for something that the test does not do.
fn all_is_used(scene: &Scene, user: &str, duty: &str, elsewhere: &[&str]) {
    let unused = unused(&scene.cluster, user, &["--controllers", duty]);
    let is_seldom = |right: &&String| {
        SELDOM.iter().any(|(seldom, _)| *seldom == right.as_str())
            || elsewhere.iter().any(|word| right.contains(word))
    };
    let never: Vec<&String> = unused.iter().filter(|right| !is_seldom(right)).collect();
    assert!(never.is_empty(), "{duty}: {never:?}");
}

#[test]
fn the_portal_controller_uses_what_deploy_grants_and_needs_no_more() {
    blackbox_on(Cluster::without_operator, "rights-portal", async |scene| {
        let portal = Portal::new(&scene).await;
        may_lead(&scene, "podloom-system", "podloom-portal");
        let bundle = Bundle::empty();
        let plugins = ["--plugins", bundle.path().to_str().unwrap()];
        let arguments = [&election(&scene.namespace)[..], &plugins].concat();
        let _operator = portal.operator(&arguments).await;
        let _seen = portal.running().await;
        let before = portal.tunnel("shop").await;
        portal
            .class(json!({ "replicas": 2, "size": "small" }))
            .await;
        portal.rolled(&before).await;
        portal.delete("shop").await;
        eventually("the expose is gone", async || {
            let left = portal.exposes().get_opt("shop").await.unwrap();
            left.map_or(Ok(()), |left| Err(format!("{left:?}")))
        })
        .await;
        all_is_used(&scene, &portal.user, "portal", &[]);
        let requests = scene.cluster.requests_of(&portal.user);
        let own = requests
            .iter()
            .filter(|request| request.namespace.is_empty() || request.namespace == scene.namespace);
        let refused: Vec<_> = own.filter(|request| request.status == 403).collect();
        assert!(refused.is_empty(), "{refused:#?}");
    });
}

#[test]
fn the_infrastructure_controller_uses_what_deploy_grants() {
    blackbox_on(Cluster::without_operator, "rights-infra", async |scene| {
        let infrastructure = Infrastructure::new(&scene).await;
        may_lead(&scene, "podloom-system", "podloom-infrastructure");
        let _operator = infrastructure.operator(&election(&scene.namespace)).await;
        infrastructure
            .cluster(&templates::single_node(&kubeconfig()))
            .await;
        infrastructure.until_configured(1).await;
        infrastructure.until_gone().await;
        let user = "system:serviceaccount:podloom-system:podloom-infrastructure";
        // The kinds without a namespace would be there for all tests of this cluster.
        all_is_used(&scene, user, "infrastructure", &["global"]);
    });
}

#[test]
fn the_controller_of_cleaners_uses_what_deploy_grants() {
    blackbox_on(Cluster::without_operator, "rights-cleaner", async |scene| {
        let cleaners = Cleaners::new(&scene);
        may_lead(&scene, "podloom-system", "podloom-cleaner");
        let _operator = cleaners.operator(&election(&scene.namespace)).await;
        cleaners.map("map", json!({ "fate": "gone" }), "").await;
        let maps = map_targets("maps", &json!({ "fate": "gone" }));
        cleaners.create("maps", json!({ "targets": [maps] })).await;
        cleaners.until_gone("maps", &["map"]).await;
        let user = "system:serviceaccount:podloom-system:podloom-cleaner";
        // It may all be over before the Lease is renewed.
        all_is_used(&scene, user, "cleaner", &[]);
    });
}

#[test]
fn a_missing_right_is_reported_by_name() {
    blackbox_on(Cluster::without_operator, "rights-missing", async |scene| {
        let account = Account::new(&scene, "limited", |rule| {
            if is_about(rule, "pods") {
                rule["verbs"] = json!(["get", "list", "watch", "delete"]);
            }
            true
        });
        let operator = Operator::spawn(
            &scene.cluster,
            &account.kubeconfig,
            &["--namespace", &scene.namespace],
        );
        let expected = format!(
            "{} may not create pods in namespace {}; the operator ",
            account.user, scene.namespace
        );
        eventually("/readyz reports which right is missing", async || {
            let (status, body) = operator.get("/readyz")?;
            (status == 503 && body.contains(&expected))
                .then_some(())
                .ok_or(body)
        })
        .await;
        let lines = operator.logged(&["ERROR", &expected]);
        assert_eq!(lines.len(), 1, "{lines:#?}");
        let (status, body) = operator.get("/readyz/browser").unwrap();
        assert!(status == 503 && body.contains(&expected), "{body}");
        let (status, body) = operator.get("/readyz/portal").unwrap();
        assert!(status == 404 && body.contains("enabled: browser"), "{body}");
        // Once the right is granted, it starts without a restart.
        Account::new(&scene, "limited", |_| true);
        operator.ready().await;
        one_session(&scene).await;
        // If a right is removed while it runs, it reports that at the first denied request, and recovers when the right is back.
        Account::new(&scene, "limited", |rule| {
            if is_about(rule, "pods") {
                rule["verbs"] = json!(["get", "list", "watch", "delete"]);
            }
            true
        });
        scene.browser("later", "running").await;
        eventually("/readyz reports which right was removed", async || {
            let (status, body) = operator.get("/readyz")?;
            (status == 503 && body.contains(&expected))
                .then_some(())
                .ok_or(body)
        })
        .await;
        Account::new(&scene, "limited", |_| true);
        operator.ready().await;
    });
}

#[test]
fn namespaces_need_not_be_readable() {
    blackbox_on(
        Cluster::without_operator,
        "rights-namespaces",
        async |scene| {
            let account = Account::new(&scene, "limited", |rule| !is_about(rule, "namespaces"));
            let operator = Operator::spawn(
                &scene.cluster,
                &account.kubeconfig,
                &["--namespace", &scene.namespace],
            );
            operator.ready().await;
            one_session(&scene).await;
            let lines = operator.logged(&["WARN", "namespaces"]);
            assert_eq!(lines.len(), 1, "{lines:#?}");
        },
    );
}

#[test]
fn roles_in_the_watched_namespace_are_enough() {
    blackbox_on(Cluster::without_operator, "rights-roles", async |scene| {
        let namespace = scene.namespace.as_str();
        scene.cluster.apply_text(&rbac(&[
            "--namespace",
            namespace,
            "--operator-namespace",
            namespace,
        ]));
        let plane = &scene.cluster.plane;
        let kubeconfig = plane
            .kubeconfig_for_service_account(namespace, "podloom")
            .unwrap();
        let arguments = [
            "--namespace",
            namespace,
            "--lease-namespace",
            namespace,
            "--lease-name",
            "podloom",
        ];
        let operator = Operator::spawn(&scene.cluster, &kubeconfig, &arguments);
        eventually("it leads", async || {
            let (status, body) = operator.get("/readyz")?;
            (status == 200 && body.contains("this replica is the leader"))
                .then_some(())
                .ok_or(body)
        })
        .await;
        one_session(&scene).await;
        scene.nothing_is_left().await;
        // No other request was denied, except for namespaces, which it can do without.
        let requests = scene
            .cluster
            .requests_of(&format!("system:serviceaccount:{namespace}:podloom"));
        let refused: Vec<_> = requests
            .iter()
            .filter(|request| request.status == 403 && request.resource != "namespaces")
            .collect();
        assert!(refused.is_empty(), "{refused:#?}");
    });
}

#[test]
fn without_controllers_it_needs_neither_plugins_nor_rights() {
    blackbox_on(Cluster::without_operator, "rights-none", async |scene| {
        let account = Account::new(&scene, "nobody", |_| false);
        // As in the image, whose default command always has --plugins.
        let arguments = ["--controllers", "none", "--plugins", "/nowhere"];
        let with_plugins = Operator::spawn(&scene.cluster, &account.kubeconfig, &arguments);
        with_plugins.ready().await;
        let arguments = ["--controllers", "none"];
        let operator = Operator::spawn(&scene.cluster, &account.kubeconfig, &arguments);
        operator.ready().await;
        let (status, body) = operator.get("/readyz/browser").unwrap();
        assert_eq!(status, 404, "{body}");
        let (_, metrics) = operator.get("/metrics").unwrap();
        for absent in ["podloom_leader{", "podloom_chain_last_reload"] {
            assert!(!metrics.contains(absent), "{metrics}");
        }
        let asked = scene.cluster.requests_of(&account.user);
        assert!(asked.is_empty(), "{asked:#?}");
    });
}

#[test]
fn missing_kinds_are_reported_by_name() {
    blackbox_on(
        || std::sync::Arc::new(Cluster::bare()),
        "rights-kinds",
        async |scene| {
            let kubeconfig = scene.cluster.plane.kubeconfig();
            let operator = Operator::spawn(&scene.cluster, &kubeconfig, &[]);
            eventually("/readyz reports which kinds are missing", async || {
                let (status, body) = operator.get("/readyz")?;
                let named = [
                    "browsers.selenosis.io is not served",
                    "browserconfigs.selenosis.io is not served",
                ];
                let is_reported = status == 503 && named.iter().all(|name| body.contains(name));
                is_reported.then_some(()).ok_or(body)
            })
            .await;
            assert_eq!(
                operator
                    .logged(&["ERROR", "browsers.selenosis.io is not served"])
                    .len(),
                1
            );
            a_kind_of_the_wrong_scope_is_reported_by_name(&scene, &operator).await;
            scene.cluster.install();
            operator.ready().await;
            one_session(&scene).await;
            // Readiness shows the current state: a kind that is deleted is reported, and found again when it is back.
            let kind = "customresourcedefinition/browsers.selenosis.io";
            scene.cluster.kubectl(&["delete", kind]);
            eventually("/readyz reports which kind is gone", async || {
                let (status, body) = operator.get("/readyz")?;
                (status == 503 && body.contains("browsers.selenosis.io is not served"))
                    .then_some(())
                    .ok_or(body)
            })
            .await;
            scene.cluster.install();
            operator.ready().await;
        },
    );
}

/// The operator reads the scope from the API server's discovery, and reports what is needed.
async fn a_kind_of_the_wrong_scope_is_reported_by_name(scene: &Scene, operator: &Operator) {
    let mut definition = crd(SelenosisApi::Seed, SelenosisKind::Browser);
    definition.spec.scope = "Cluster".to_owned();
    let definition = serde_json::to_string(&definition).unwrap();
    scene.cluster.apply_text(&definition);
    eventually("/readyz reports which kind has the wrong scope", async || {
        let (status, body) = operator.get("/readyz/browser")?;
        let expected = [
            "browsers.selenosis.io is installed with scope Cluster, but the operator needs scope Namespaced",
            "browserconfigs.selenosis.io is not served",
        ];
        (status == 503 && expected.iter().all(|line| body.contains(line)))
            .then_some(())
            .ok_or(body)
    })
    .await;
    scene
        .cluster
        .kubectl(&["delete", "crd", "browsers.selenosis.io"]);
}
