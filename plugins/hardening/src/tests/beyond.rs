//! Defaults and reports beyond the standards.

use podloom_plugin_sdk::serde_json::{Value, json};

use super::{check_denied, check_noted, check_written, pod_of, pod_with, run, written};

/// A configuration that asks for nothing but what the test is about.
fn only(config: Value) -> Value {
    let mut only = json!({"profile": "baseline"});
    super::merge(&mut only, config);
    only
}

#[test]
fn defaults_are_filled_in_the_pod() {
    let config = only(
        json!({"runAsUser": 1, "runAsGroup": 2, "fsGroup": 3, "seccompProfile": {"type": "RuntimeDefault"}}),
    );
    let run = run(&config, &pod_with(json!({})));
    assert_eq!(
        run.pod["spec"]["securityContext"],
        json!({"runAsUser": 1, "runAsGroup": 2, "fsGroup": 3, "seccompProfile": {"type": "RuntimeDefault"}})
    );
}

#[test]
fn what_the_user_set_wins_over_defaults() {
    let pod = pod_with(json!({
        "securityContext": {"runAsUser": 7, "runAsGroup": 8, "fsGroup": 9},
        "automountServiceAccountToken": true,
    }));
    let config = json!({
        "runAsUser": 1, "runAsGroup": 2, "fsGroup": 3, "automountServiceAccountToken": false,
    });
    check_written(only(config), pod, &[]);
}

/// In a review every pod has the API server's default, `true`.
#[test]
fn service_links_are_kept_out_where_the_api_server_has_set_its_default() {
    let config = only(json!({"enableServiceLinks": false}));
    let path = "/spec/enableServiceLinks";
    let reviewed = json!({"enableServiceLinks": true, "schedulerName": "default-scheduler"});
    let in_review = run(&config, &pod_with(reviewed));
    assert_eq!(written(&in_review), [path]);
    check_noted(&in_review, &[]);

    let offline = run(&config, &pod_with(json!({"enableServiceLinks": true})));
    assert_eq!(written(&offline), [path], "the same as in a review");
    check_noted(
        &offline,
        &[
            "/spec/enableServiceLinks: true is overwritten, since in a cluster it cannot be told from the API server's default: exempt the pod to keep it",
        ],
    );
    let off = pod_with(json!({"enableServiceLinks": false}));
    check_written(config, off, &[]);
}

/// In the host's network, the API server gives each port a port of the host.
#[test]
fn host_ports_of_the_host_network_may_be_the_api_servers() {
    let ports = json!([{"containerPort": 80, "hostPort": 80}]);
    let pod = pod_with(json!({
        "hostNetwork": true, "containers": [{"name": "app", "image": "app:1", "ports": ports}],
    }));
    let config = json!({"profile": "baseline"});
    check_denied(
        config,
        pod,
        &[
            "/spec/hostNetwork: must not be true: remove it",
            "/spec/containers/[name=app]/ports/0/hostPort: must not be set: remove it, and use a Service, unless hostNetwork is why it is there",
        ],
    );
}

#[test]
fn a_localhost_profile_can_be_the_default() {
    let config =
        json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "profiles/web.json"}});
    let run = run(&config, &pod_with(json!({})));
    assert_eq!(
        run.pod["spec"]["securityContext"]["seccompProfile"],
        json!({"type": "Localhost", "localhostProfile": "profiles/web.json"})
    );
}

#[test]
fn token_and_service_links_are_kept_out() {
    check_written(
        only(json!({"automountServiceAccountToken": false, "enableServiceLinks": false})),
        pod_with(json!({})),
        &[
            "/spec/enableServiceLinks",
            "/spec/automountServiceAccountToken",
        ],
    );
}

#[test]
fn a_pod_that_mounts_a_token_itself_is_left_alone() {
    let token = "/var/run/secrets/kubernetes.io/serviceaccount";
    let cases = [
        json!({"volumes": [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]}),
        json!({"containers": [{"name": "app", "volumeMounts": [{"name": "v", "mountPath": token}]}]}),
    ];
    for spec in cases {
        let run = run(
            &only(json!({"automountServiceAccountToken": false})),
            &pod_with(spec),
        );
        assert_eq!(written(&run), [""; 0]);
        check_noted(
            &run,
            &[
                "/spec/automountServiceAccountToken: left as it is, since the pod mounts a token itself",
            ],
        );
    }
}

#[test]
fn a_pod_that_names_an_account_keeps_its_token() {
    for spec in [
        json!({"serviceAccountName": "controller"}),
        json!({"serviceAccountName": "", "serviceAccount": "controller"}),
    ] {
        for config in [json!({}), json!({"namedAccounts": "keep"})] {
            let mut config = only(config);
            config["automountServiceAccountToken"] = json!(false);
            let run = run(&config, &pod_with(spec.clone()));
            assert_eq!(written(&run), [""; 0]);
            check_noted(
                &run,
                &[
                    "/spec/automountServiceAccountToken: left as it is, since the pod names the service account controller: set it to false if the pod does not use the Kubernetes API",
                ],
            );
        }
    }
}

#[test]
fn the_default_account_is_no_account_of_its_own() {
    for spec in [
        json!({"serviceAccountName": "default"}),
        json!({"serviceAccountName": "", "serviceAccount": ""}),
    ] {
        let config = only(json!({"automountServiceAccountToken": false}));
        let run = run(&config, &pod_with(spec));
        assert_eq!(written(&run), ["/spec/automountServiceAccountToken"]);
        check_noted(&run, &[]);
    }
}

#[test]
fn named_accounts_can_be_denied_the_token_too() {
    let config = only(json!({"automountServiceAccountToken": false, "namedAccounts": "deny"}));
    let account = json!({"serviceAccountName": "controller"});
    check_written(
        config.clone(),
        pod_with(account.clone()),
        &["/spec/automountServiceAccountToken"],
    );
    let mut asks = pod_with(account);
    asks["spec"]["automountServiceAccountToken"] = json!(true);
    check_written(config, asks, &[]);
}

/// As the API server shows pods to its webhooks: it has set the account and mounted the token before, in every pod.
#[test]
fn a_token_that_the_api_server_mounted_is_noted_where_it_should_not_be() {
    let token = "/var/run/secrets/kubernetes.io/serviceaccount";
    for (account, named, is_noted) in [
        ("default", "keep", true),
        ("controller", "keep", false),
        ("controller", "deny", true),
    ] {
        let pod = pod_with(json!({
            "serviceAccountName": account,
            "volumes": [{"name": "kube-api-access-x7k2p", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
            "containers": [{"name": "app", "volumeMounts": [{"name": "kube-api-access-x7k2p", "mountPath": token}]}],
        }));
        let config = json!({"automountServiceAccountToken": false, "namedAccounts": named});
        let run = run(&only(config), &pod);
        assert_eq!(written(&run), [""; 0]);
        let note = format!(
            "/spec/automountServiceAccountToken: the API server has mounted the token already: set it to false at the service account {account}, or in the pod"
        );
        let expected = if is_noted {
            vec![note.as_str()]
        } else {
            vec![]
        };
        check_noted(&run, &expected);
    }
}

#[test]
fn added_directories_keep_no_node_where_that_is_granted() {
    let annotation = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes";
    let directories = json!([{"mountPath": "/tmp"}]);
    let of = |safe: Value| {
        let read_only = json!({"emptyDirs": directories, "safeToEvict": safe});
        only(json!({"readOnlyRootFilesystem": read_only}))
    };
    let mut pod = pod_with(json!({}));
    pod["metadata"]["annotations"] = json!({annotation: "scratch"});
    let marked = run(&of(json!(true)), &pod);
    assert_eq!(
        marked.pod["metadata"]["annotations"][annotation],
        "scratch,writable-app-tmp"
    );
    // By default the plugin does not ask for the grant, and tests grant what it asks for.
    for (safe, is_noted) in [(Value::Null, true), (json!(false), false)] {
        let run = run(&of(safe), &pod);
        assert_eq!(run.pod["metadata"]["annotations"][annotation], "scratch");
        assert_eq!(run.pod["spec"]["volumes"][0]["name"], "writable-app-tmp");
        let is_told = run
            .notes
            .iter()
            .any(|note| note.contains(annotation.split_once('/').unwrap_or_default().1));
        assert_eq!(is_told, is_noted, "{:?}", run.notes);
    }
}

#[test]
fn a_read_only_root_comes_with_writable_directories_of_limited_size() {
    let run = run(
        &only(json!({"readOnlyRootFilesystem": {}})),
        &pod_with(json!({})),
    );
    assert_eq!(
        run.pod["spec"]["containers"][0],
        json!({
            "name": "app", "image": "app:1",
            "securityContext": {"readOnlyRootFilesystem": true},
            "volumeMounts": [
                {"name": "writable-app-tmp", "mountPath": "/tmp"},
                {"name": "writable-app-var-run", "mountPath": "/var/run"},
                {"name": "writable-app-var-cache", "mountPath": "/var/cache"},
            ],
        })
    );
    assert_eq!(
        run.pod["spec"]["volumes"],
        json!([
            {"name": "writable-app-tmp", "emptyDir": {"sizeLimit": "64Mi"}},
            {"name": "writable-app-var-run", "emptyDir": {"sizeLimit": "64Mi"}},
            {"name": "writable-app-var-cache", "emptyDir": {"sizeLimit": "64Mi"}},
        ])
    );
}

#[test]
fn no_existing_mount_is_shadowed() {
    let pod = pod_with(json!({
        "volumes": [{"name": "mine", "emptyDir": {}}],
        "containers": [{"name": "app", "volumeMounts": [
            {"name": "mine", "mountPath": "/tmp/"},
            {"name": "mine", "mountPath": "/var", "readOnly": true},
            {"name": "mine", "mountPath": "/srv/cache/inner"},
        ]}],
    }));
    let paths = ["/tmp", "/tmp/x", "/var/run", "/variable", "/srv/cache"];
    let empty_dirs: Vec<Value> = paths
        .iter()
        .map(|path| json!({"mountPath": path}))
        .collect();
    let run = run(
        &only(json!({"readOnlyRootFilesystem": {"emptyDirs": empty_dirs}})),
        &pod,
    );
    let mounts = run.pod["spec"]["containers"][0]["volumeMounts"]
        .as_array()
        .unwrap();
    let added: Vec<&str> = mounts
        .iter()
        .skip(3)
        .filter_map(|mount| mount["mountPath"].as_str())
        .collect();
    assert_eq!(added, ["/variable", "/srv/cache"]);
}

#[test]
fn a_mount_at_the_root_or_nowhere_covers_every_directory() {
    for path in ["/", ""] {
        let mounts = json!([{"name": "mine", "mountPath": path}]);
        let pod = pod_with(json!({"containers": [{"name": "app", "volumeMounts": mounts}]}));
        let run = run(&only(json!({"readOnlyRootFilesystem": {}})), &pod);
        assert!(run.pod["spec"].get("volumes").is_none(), "{path:?}");
    }
}

#[test]
fn directories_follow_the_image() {
    let config = only(json!({"readOnlyRootFilesystem": {"emptyDirs": [
        {"mountPath": "/home/user", "sizeLimit": "1Gi", "images": ["*/chrome:*", "*/firefox:*"]},
        {"mountPath": "/tmp"},
    ]}}));
    let pod = pod_with(json!({"containers": [
        {"name": "browser", "image": "registry.example.org/chrome:1"},
        {"name": "app", "image": "app:1"},
    ]}));
    let run = run(&config, &pod);
    let volumes = run.pod["spec"]["volumes"].as_array().unwrap();
    let names: Vec<&str> = volumes
        .iter()
        .filter_map(|volume| volume["name"].as_str())
        .collect();
    assert_eq!(
        names,
        [
            "writable-browser-home-user",
            "writable-browser-tmp",
            "writable-app-tmp"
        ]
    );
    assert_eq!(volumes[0]["emptyDir"]["sizeLimit"], "1Gi");
}

#[test]
fn volume_names_are_valid_and_unused() {
    let name = "a-container-whose-name-is-as-long-as-a-name-of-a-container-can-b";
    let pod = pod_with(json!({
        "volumes": [{"name": "writable-app-tmp", "emptyDir": {}}],
        "containers": [{"name": "app"}, {"name": &name[..63]}],
    }));
    let directories = json!([{"mountPath": "/tmp"}, {"mountPath": "/VAR/Lib_x.y"}]);
    let run = run(
        &only(json!({"readOnlyRootFilesystem": {"emptyDirs": directories}})),
        &pod,
    );
    let volumes = run.pod["spec"]["volumes"].as_array().unwrap();
    let names: Vec<&str> = volumes
        .iter()
        .filter_map(|volume| volume["name"].as_str())
        .collect();
    assert_eq!(
        names,
        [
            "writable-app-tmp",
            "writable-app-tmp-2",
            "writable-app-var-lib-x-y",
            "writable-a-container-whose-name-is-as-long-as-a-name-of-a-c",
            "writable-a-container-whose-name-is-as-long-as-a-name-of-a-c-2",
        ]
    );
}

#[test]
fn a_volume_is_named_validly_after_a_container_that_is_not() {
    let pod = pod_with(json!({"containers": [{"name": "Größe_1"}]}));
    let run = run(&only(json!({"readOnlyRootFilesystem": {}})), &pod);
    assert_eq!(
        run.pod["spec"]["volumes"][0]["name"],
        "writable-gr--e-1-tmp"
    );
}

#[test]
fn an_explicit_root_file_system_is_left_as_it_is() {
    let config = only(json!({"readOnlyRootFilesystem": {}, "force": true}));
    check_written(
        config.clone(),
        pod_of(json!({"readOnlyRootFilesystem": true})),
        &[],
    );
    let run = run(&config, &pod_of(json!({"readOnlyRootFilesystem": false})));
    assert_eq!(written(&run), [""; 0]);
    check_noted(
        &run,
        &[
            "/spec/containers/[name=app]/securityContext/readOnlyRootFilesystem: explicitly false, left as it is",
        ],
    );
}

#[test]
fn reports_are_notes_and_change_nothing() {
    let resources = json!({"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}});
    let pod = pod_with(json!({"containers": [
        {"name": "latest", "image": "localhost:5000/app"},
        {"name": "pinned", "image": "app@sha256:0123", "resources": resources},
        {"name": "tagged", "image": "localhost:5000/app:1", "imagePullPolicy": "Always", "resources": {"requests": {}}},
        {"name": "old", "image": "app:1", "resources": resources},
    ]}));
    let run = run(
        &only(json!({"report": ["resources", "latestTag", "digest", "pullPolicy", "hostUsers"]})),
        &pod,
    );
    assert_eq!(written(&run), [""; 0]);
    check_noted(
        &run,
        &[
            "/spec/containers/[name=latest]/resources: neither requests nor limits",
            "/spec/containers/[name=tagged]/resources: no limits",
            "/spec/containers/[name=latest]/image: the tag latest, or none, names another image over time",
            "/spec/containers/[name=latest]/image, /spec/containers/[name=tagged]/image, /spec/containers/[name=old]/image: not pinned by a digest",
            "/spec/containers/[name=old]/imagePullPolicy: not Always, though no digest pins the image: a node may run an old copy",
            "/spec/hostUsers: not false, so root in a container is root on the node",
        ],
    );
}

#[test]
fn a_user_without_a_group_is_reported() {
    let note = |container: &str, user: i64| {
        format!(
            "/spec/containers/[name={container}]/securityContext/runAsGroup: not set, so user {user} is in group 0 (root) unless the image's /etc/passwd names its group: set runAsGroup"
        )
    };
    let containers = json!([
        {"name": "inherits"},
        {"name": "own", "securityContext": {"runAsUser": 8}},
        {"name": "grouped", "securityContext": {"runAsGroup": 9}},
        {"name": "root", "securityContext": {"runAsUser": 0}},
    ]);
    let pod =
        |context: Value| pod_with(json!({"securityContext": context, "containers": containers}));
    let report = |config: Value, pod: &Value| {
        let mut config = only(config);
        config["report"] = json!(["rootGroup"]);
        run(&config, pod).notes
    };
    let user = pod(json!({"runAsUser": 7}));
    assert_eq!(
        report(json!({}), &user),
        [note("inherits", 7), note("own", 8)]
    );
    assert_eq!(report(json!({"runAsGroup": 7}), &user), [""; 0]);
    assert_eq!(
        report(json!({}), &pod(json!({"runAsUser": 7, "runAsGroup": 7}))),
        [""; 0]
    );
    // Also the user that this plugin writes.
    let nobody = pod(json!({}));
    assert_eq!(report(json!({}), &nobody), [note("own", 8)]);
    assert_eq!(
        report(json!({"runAsUser": 6}), &nobody),
        [note("inherits", 6), note("own", 8)]
    );
    let mut windows = user;
    windows["spec"]["os"] = json!({"name": "windows"});
    assert_eq!(report(json!({}), &windows), [""; 0]);
}

#[test]
fn nothing_is_reported_unasked() {
    check_noted(&run(&only(json!({})), &pod_with(json!({}))), &[]);
    let satisfied = pod_with(json!({"hostUsers": false, "resources": {"limits": {"cpu": "1"}}}));
    check_noted(
        &run(
            &only(json!({"report": ["resources", "hostUsers"]})),
            &satisfied,
        ),
        &[],
    );
}
