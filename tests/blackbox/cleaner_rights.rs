//! The rights of the controller of Cleaners: its own, which it cannot do without, and those to targets, which users give it.

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Api;
use podloom_tests::cleaner::{Cleaners, map_targets};
use podloom_tests::{Cluster, blackbox_on, eventually, rbac};
use serde_json::{Value, json};

/// Lets the operator look at a kind, and delete it.
fn role(name: &str, resource: &str) -> String {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": name, "labels": { "rbac.podloom.dev/aggregate-to-cleaner": "true" } },
        "rules": [{ "apiGroups": [""], "resources": [resource], "verbs": ["get", "list", "watch", "delete"] }],
    });
    role.to_string()
}

#[test]
fn a_missing_right_to_a_target_is_only_a_status_until_a_user_gives_it() {
    blackbox_on(Cluster::without_operator, "cleaner-given", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let operator = cleaners.operator(&[]).await;
        let quotas: Api<ResourceQuota> = Api::namespaced(scene.client.clone(), &scene.namespace);
        let quota = json!({ "metadata": { "name": "quota", "labels": { "fate": "gone" } } });
        scene.create(quotas.clone(), quota).await;
        let target = json!({ "name": "quotas", "delete": true,
                "reference": { "version": "v1", "kind": "ResourceQuota", "matchLabels": { "fate": "gone" } } });
        let spec = json!({ "targets": [target], "retry": { "period": "1s" } });
        cleaners.create("quotas", spec).await;
        let expected = "TargetResolveError: target quotas: resourcequotas is forbidden";
        cleaners.until_ready("quotas", expected).await;
        // Preflight asks for no such right, and other Cleaners go on.
        for path in ["/readyz", "/readyz/cleaner"] {
            assert_eq!(operator.get(path).unwrap().0, 200, "{path}");
        }
        cleaners.map("map", json!({ "fate": "gone" }), "").await;
        let maps = map_targets("maps", &json!({ "fate": "gone" }));
        cleaners.create("maps", json!({ "targets": [maps] })).await;
        cleaners.until_gone("maps", &["map"]).await;
        assert!(quotas.get_opt("quota").await.unwrap().is_some());
        // As the guide says it; the operator is not restarted.
        scene
            .cluster
            .apply_text(&role("cleaner-given", "resourcequotas"));
        cleaners.until_gone("quotas", &[]).await;
        assert!(quotas.get_opt("quota").await.unwrap().is_none());
    });
}

/// Its own rights are different: without them it works on nothing.
#[test]
fn without_rights_to_cleaners_it_is_not_ready_and_says_why() {
    blackbox_on(Cluster::without_operator, "cleaner-own", async |scene| {
        let cleaners = Cleaners::new(&scene);
        // An account with the rights of another controller.
        let operator = cleaners.spawn(scene.cluster.portal_kubeconfig(), &[]);
        let expected = format!(
            "may not watch cleaners.cleaner.vtex.dev in namespace {}; the operator watches Cleaners",
            scene.namespace
        );
        eventually("/readyz/cleaner names the right", async || {
            let (status, body) = operator.get("/readyz/cleaner")?;
            (status == 503 && body.contains(&expected))
                .then_some(())
                .ok_or(body)
        })
        .await;
    });
}

/// What `podloom rbac --namespace` prints is enough in these namespaces, and grants nothing in others.
#[test]
fn in_single_namespaces_the_role_for_targets_is_bound_there() {
    blackbox_on(Cluster::without_operator, "cleaner-bound", async |scene| {
        let namespace = scene.namespace.as_str();
        let of = |flag| [flag, namespace];
        let flags = ["--namespace", "--operator-namespace", "--lease-namespace"];
        let arguments = [&["--controllers", "cleaner"], &flags.map(of).concat()[..]].concat();
        let printed = rbac(&arguments);
        let objects: Vec<Value> = serde_saphyr::from_multiple(&printed).unwrap();
        let bindings = objects
            .iter()
            .filter(|it| it["kind"] == "ClusterRoleBinding");
        assert_eq!(bindings.count(), 0, "{printed}");
        scene.cluster.apply_text(&printed);
        let cleaners = Cleaners::new(&scene);
        // The shared role has rules already.
        cleaners.kubeconfig();
        let plane = &scene.cluster.plane;
        let account = plane.kubeconfig_for_service_account(namespace, "podloom-cleaner");
        let lease = ["--lease-namespace", namespace, "--lease-name", "podloom"];
        let operator = cleaners.spawn(&account.unwrap(), &lease);
        operator.ready().await;
        cleaners.map("map", json!({ "fate": "gone" }), "").await;
        let maps = map_targets("maps", &json!({ "fate": "gone" }));
        cleaners.create("maps", json!({ "targets": [maps] })).await;
        cleaners.until_gone("maps", &["map"]).await;
        let user = format!("system:serviceaccount:{namespace}:podloom-cleaner");
        let can = [
            "auth",
            "can-i",
            "delete",
            "configmaps",
            "--as",
            &user,
            "--namespace",
        ];
        let asked = |place| {
            scene
                .cluster
                .ask_kubectl(&[&can[..], &[place]].concat())
                .out
        };
        assert_eq!(asked(namespace).trim(), "yes");
        assert_eq!(asked("default").trim(), "no");
    });
}

/// Applying the manifests again must not take the rights away, not even for a moment.
#[test]
fn an_upgrade_leaves_the_role_that_users_have_filled() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-upgrade",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            cleaners.kubeconfig();
            let rules = || {
                let role = [
                    "get",
                    "clusterrole",
                    "podloom-cleaner-targets",
                    "--output",
                    "json",
                ];
                let role: Value = serde_json::from_str(&scene.cluster.kubectl(&role)).unwrap();
                role["rules"].as_array().map_or(0, Vec::len)
            };
            let before = rules();
            assert!(before > 3, "{before}");
            let printed = rbac(&["--controllers", "cleaner"]);
            let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
            std::fs::write(file.path(), printed).unwrap();
            let path = file.path().to_str().unwrap();
            for how in [&["apply", "--server-side"][..], &["apply"]] {
                scene
                    .cluster
                    .kubectl(&[how, &["--filename", path]].concat());
                assert!(rules() >= before, "{how:?}");
            }
        },
    );
}
