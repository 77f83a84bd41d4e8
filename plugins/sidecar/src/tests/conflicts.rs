//! What is there already.

use podloom_plugin_sdk::serde_json::{Value, json};

use super::{
    check_denied, check_note, container, inject, is_injected, names, pod, proxy, record, run, with,
};

/// A pod that has an init container `proxy` of its own.
fn own(fields: Value) -> Value {
    let own = with(json!({"name": "proxy", "image": "own:1"}), "", fields);
    with(pod(), "", json!({"spec": {"initContainers": [own]}}))
}

fn config(on_conflict: &str, fields: Value) -> Value {
    json!({"containers": [{"container": with(container("proxy"), "", fields), "onConflict": on_conflict}]})
}

#[test]
fn by_default_the_pods_own_container_stays() {
    let run = run(&proxy(), &own(json!({})));
    assert!(run.writes.is_empty());
    check_note(
        &run,
        "the pod's own container proxy stays, and none is injected in its place",
    );
}

#[test]
fn skipped_container_brings_neither_volumes_nor_additions() {
    let config = with(
        proxy(),
        "",
        json!({"volumes": [{"name": "v", "emptyDir": {}}], "addToContainers": {"env": [{"name": "A", "value": "1"}]}}),
    );
    assert!(run(&config, &own(json!({}))).writes.is_empty());
}

#[test]
fn deny_names_the_container() {
    check_denied(
        &config("deny", json!({})),
        &own(json!({})),
        &["the pod's own container proxy has the name of an injected one: rename it"],
    );
}

#[test]
fn replace_puts_the_injected_container_in_its_place() {
    let before = with(
        pod(),
        "",
        json!({"spec": {"initContainers": [
            {"name": "a", "image": "x"}, {"name": "proxy", "image": "own:1"}, {"name": "b", "image": "x"},
        ]}}),
    );
    let run = run(&config("replace", json!({})), &before);
    assert_eq!(names(&run.pod, "initContainers"), ["a", "proxy", "b"]);
    assert_eq!(
        run.pod["spec"]["initContainers"][1]["image"],
        "registry.example/proxy:1"
    );
    check_note(&run, "is replaced");
}

#[test]
fn merge_gives_what_is_missing_and_the_users_fields_win() {
    let config = config(
        "merge",
        json!({
            "args": ["--ours"],
            "command": ["proxy"],
            "env": [{"name": "A", "value": "ours"}, {"name": "B", "value": "ours"}],
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
            "ports": [{"containerPort": 1}, {"containerPort": 2}],
            "livenessProbe": {"httpGet": {"port": 1}},
            "volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/data/inside"}],
        }),
    );
    let config = with(
        config,
        "",
        json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
    );
    let user = json!({
        "args": ["--own"],
        "env": [{"name": "A", "value": "own"}],
        "resources": {"requests": {"cpu": "2"}},
        "ports": [{"containerPort": 2, "name": "own"}],
        "livenessProbe": {"tcpSocket": {"port": 2}},
        "securityContext": {"runAsUser": 1234, "allowPrivilegeEscalation": true},
        "volumeMounts": [{"name": "own", "mountPath": "/data"}],
    });
    let run = run(&config, &own(user));
    assert_eq!(
        run.pod["spec"]["initContainers"][0],
        json!({
            "name": "proxy",
            "image": "own:1",
            "args": ["--own"],
            "command": ["proxy"],
            "env": [{"name": "A", "value": "own"}, {"name": "B", "value": "ours"}],
            "resources": {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
            "ports": [{"containerPort": 2, "name": "own"}, {"containerPort": 1}],
            "livenessProbe": {"tcpSocket": {"port": 2}},
            "restartPolicy": "Always",
            "securityContext": {
                "runAsUser": 1234,
                "runAsNonRoot": true,
                "allowPrivilegeEscalation": true,
                "capabilities": {"drop": ["ALL"]},
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "volumeMounts": [{"name": "own", "mountPath": "/data"}, {"name": "v", "mountPath": "/v"}],
        })
    );
    check_note(&run, "stays, and gets what it lacks");
    check_note(&run, "is not added: the container mounts /data");
}

#[test]
fn merged_fields_are_taken_out_again_and_the_users_stay() {
    let config = config(
        "merge",
        json!({"command": ["proxy"], "env": [{"name": "B", "value": "ours"}]}),
    );
    let before = own(json!({"env": [{"name": "A", "value": "own"}]}));
    let merged = inject(&config, &before);
    let out = json!({"metadata": {"labels": {"sidecar.podloom.dev/inject": "false"}}});
    let stripped = inject(&config, &with(merged, "", out));
    assert_eq!(
        stripped["spec"]["initContainers"],
        before["spec"]["initContainers"]
    );
}

#[test]
fn name_in_another_list_is_denied() {
    let reason = |list: &str| {
        format!(
            "the pod has a container proxy in {list}, where the injected one cannot be: rename it"
        )
    };
    for list in ["containers", "ephemeralContainers"] {
        let mut taken = pod();
        taken["spec"][list] = json!([{"name": "proxy", "image": "x"}]);
        check_denied(&proxy(), &taken, &[&reason(list)]);
    }
}

#[test]
fn ours_is_kept_while_the_configuration_is_the_same_whatever_others_made_of_it() {
    let mut after = inject(&proxy(), &pod());
    after["spec"]["initContainers"][0]["image"] = json!("mirror.example/proxy:1");
    after["spec"]["initContainers"][0]["securityContext"]["runAsUser"] = json!(1337);
    assert!(run(&proxy(), &after).writes.is_empty());
}

#[test]
fn ours_is_updated_when_the_configuration_has_changed() {
    let before = inject(
        &proxy(),
        &with(
            pod(),
            "",
            json!({"spec": {"initContainers": [{"name": "a", "image": "x"}]}}),
        ),
    );
    let mut config = config("deny", json!({"image": "registry.example/proxy:2"}));
    config["containers"][0]["position"] = json!("last");
    let after = inject(&config, &before);
    assert_eq!(names(&after, "initContainers"), ["a", "proxy"]);
    assert_eq!(
        after["spec"]["initContainers"][1]["image"],
        "registry.example/proxy:2"
    );
}

#[test]
fn ours_that_was_taken_out_comes_back() {
    let mut before = inject(&proxy(), &pod());
    before["spec"]["initContainers"] = json!([]);
    assert!(is_injected(&inject(&proxy(), &before)));
}

#[test]
fn what_is_configured_no_more_stays_until_it_is_retired() {
    let before = inject(
        &json!({"containers": [{"container": container("old")}], "volumes": [{"name": "o", "emptyDir": {}}]}),
        &pod(),
    );
    let kept = run(&proxy(), &before);
    assert_eq!(names(&kept.pod, "initContainers"), ["proxy", "old"]);
    check_note(
        &kept,
        "/spec/initContainers/[name=old]: was injected by an earlier configuration and stays",
    );

    let retired = with(
        proxy(),
        "",
        json!({"retired": ["/spec/initContainers/[name=old]", "/spec/volumes/*"]}),
    );
    for before in [&before, &kept.pod] {
        let after = inject(&retired, before);
        assert_eq!(names(&after, "initContainers"), ["proxy"]);
        assert_eq!(after["spec"]["volumes"], json!([]));
        assert_eq!(record(&after), ["/spec/initContainers/[name=proxy]"]);
    }
}

#[test]
fn retired_paths_are_never_taken_from_the_user() {
    let retired = with(proxy(), "", json!({"retired": ["/spec/initContainers/*"]}));
    let before = with(
        pod(),
        "",
        json!({"spec": {"initContainers": [{"name": "old", "image": "x"}]}}),
    );
    assert_eq!(
        names(&inject(&retired, &before), "initContainers"),
        ["proxy", "old"]
    );
}

#[test]
fn sidecar_moves_to_another_list_once_its_place_is_retired() {
    let before = inject(
        &json!({"containers": [{"container": container("proxy"), "placement": "classic"}]}),
        &pod(),
    );
    check_denied(
        &proxy(),
        &before,
        &[
            "the pod has a container proxy in containers, where the injected one cannot be: rename it",
        ],
    );
    let after = inject(
        &with(
            proxy(),
            "",
            json!({"retired": ["/spec/containers/[name=proxy]"]}),
        ),
        &before,
    );
    assert_eq!(
        (names(&after, "initContainers"), names(&after, "containers")),
        (vec!["proxy".to_owned()], vec!["app".to_owned()])
    );
}

#[test]
fn record_that_is_not_ours_counts_for_nothing() {
    let before = with(
        own(json!({})),
        "",
        json!({"metadata": {"annotations": {"sidecar.podloom.dev/injected": "yes"}}}),
    );
    check_note(&run(&proxy(), &before), "is not one of ours");
}

#[test]
fn ports_of_the_pod_are_not_taken() {
    let config = |policy: &str| {
        with(
            config(
                "skip",
                json!({"ports": [{"containerPort": 80, "name": "web", "hostPort": 8080}]}),
            ),
            "",
            json!({"onPortConflict": policy, "containers": [{"container": {"name": "proxy", "image": "p", "ports": [{"containerPort": 80, "name": "web", "hostPort": 8080}]}, "restricted": false}]}),
        )
    };
    for (port, clash, always) in [
        (json!({"containerPort": 80}), "port number", false),
        (
            json!({"containerPort": 80, "protocol": "TCP"}),
            "port number",
            false,
        ),
        (
            json!({"containerPort": 80, "protocol": ""}),
            "port number",
            false,
        ),
        (
            json!({"containerPort": 81, "name": "web"}),
            "port name",
            false,
        ),
        (
            json!({"containerPort": 81, "hostPort": 8080}),
            "host port",
            true,
        ),
    ] {
        let reason = format!(
            "containers proxy and app have the same {clash}: change the pod's, or opt out of the injection"
        );
        let mut taken = pod();
        taken["spec"]["containers"][0]["ports"] = json!([port]);
        check_denied(&config("deny"), &taken, &[&reason]);
        if always {
            check_denied(&config("note"), &taken, &[&reason]);
        } else {
            let run = run(&config("note"), &taken);
            assert!(is_injected(&run.pod));
            check_note(&run, &format!("have the same {clash}"));
        }
    }
    for port in [
        json!({"containerPort": 80, "protocol": "UDP"}),
        json!({"containerPort": 81, "hostPort": 8080, "protocol": "UDP"}),
        json!({"containerPort": 81, "name": "other"}),
    ] {
        let mut free = pod();
        free["spec"]["containers"][0]["ports"] = json!([port]);
        assert!(is_injected(&inject(&config("deny"), &free)));
    }
}

#[test]
fn ports_of_init_containers_that_end_do_not_matter() {
    let config = config("skip", json!({"ports": [{"containerPort": 80}]}));
    let init = |policy: Value| {
        with(
            pod(),
            "",
            json!({"spec": {"initContainers": [{"name": "i", "image": "x", "ports": [{"containerPort": 80}], "restartPolicy": policy}]}}),
        )
    };
    assert!(is_injected(&inject(&config, &init(json!(null)))));
    check_denied(
        &config,
        &init(json!("Always")),
        &[
            "containers proxy and i have the same port number: change the pod's, or opt out of the injection",
        ],
    );
}

#[test]
fn denial_gives_all_reasons_at_once() {
    let config = json!({
        "containers": [{"container": container("proxy"), "onConflict": "deny"}, {"container": with(container("log"), "", json!({"volumeMounts": [{"name": "data", "mountPath": "/data"}]}))}],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "onVolumeConflict": "deny",
    });
    let before = with(
        own(json!({})),
        "",
        json!({"spec": {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}}),
    );
    check_denied(
        &config,
        &before,
        &[
            "the pod's own container proxy has the name of an injected one: rename it",
            "the pod has a volume v with another source than the injected one: rename it",
            "an injected mount needs the volume data, which the pod does not have: add it, or opt out of the injection",
        ],
    );
}
