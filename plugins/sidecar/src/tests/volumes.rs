//! Volumes, tokens and pull secrets.

use podloom_plugin_sdk::serde_json::{Value, json};

use super::{check_denied, check_note, container, inject, names, pod, proxy, run, with};

fn mounting(mounts: Value, volumes: Value) -> Value {
    json!({"containers": [{"container": with(container("proxy"), "", json!({"volumeMounts": mounts}))}], "volumes": volumes})
}

fn having(volumes: Value) -> Value {
    with(pod(), "", json!({"spec": {"volumes": volumes}}))
}

#[test]
fn equal_volume_is_shared() {
    for (ours, theirs) in [
        (
            json!({"name": "v", "emptyDir": {}}),
            json!({"emptyDir": {}, "name": "v"}),
        ),
        (json!({"name": "v", "emptyDir": {}}), json!({"name": "v"})),
        (json!({"name": "v"}), json!({"name": "v", "emptyDir": {}})),
        // As the API server shows it to webhooks.
        (
            json!({"name": "v", "configMap": {"name": "c"}}),
            json!({"name": "v", "configMap": {"name": "c", "defaultMode": 420}}),
        ),
        (
            json!({"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}),
            json!({"name": "v", "projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}]}}),
        ),
        (
            json!({"name": "v", "hostPath": {"path": "/x"}}),
            json!({"name": "v", "hostPath": {"path": "/x", "type": ""}}),
        ),
        (
            json!({"name": "v", "secret": {"secretName": "s", "items": [{"key": "k", "path": "p"}]}}),
            json!({"name": "v", "secret": {"items": [{"path": "p", "key": "k"}], "secretName": "s"}}),
        ),
    ] {
        let run = run(
            &mounting(json!([{"name": "v", "mountPath": "/v"}]), json!([ours])),
            &having(json!([theirs])),
        );
        assert_eq!(run.pod["spec"]["volumes"], json!([theirs]));
        assert_eq!(
            run.pod["spec"]["initContainers"][0]["volumeMounts"][0]["name"],
            "v"
        );
    }
}

#[test]
fn volume_with_another_source_is_renamed_with_its_mounts() {
    let config = with(
        mounting(
            json!([{"name": "v", "mountPath": "/v", "subPath": "x"}]),
            json!([{"name": "v", "emptyDir": {"medium": "Memory"}}]),
        ),
        "",
        json!({"addToContainers": {"volumeMounts": [{"name": "v", "mountPath": "/w"}]}}),
    );
    let run = run(&config, &having(json!([{"name": "v", "emptyDir": {}}])));
    assert_eq!(names(&run.pod, "volumes"), ["v", "v-podloom"]);
    assert_eq!(
        run.pod["spec"]["initContainers"][0]["volumeMounts"],
        json!([{"name": "v-podloom", "mountPath": "/v", "subPath": "x"}])
    );
    assert_eq!(
        run.pod["spec"]["containers"][0]["volumeMounts"],
        json!([{"name": "v-podloom", "mountPath": "/w"}])
    );
    check_note(
        &run,
        "the pod has a volume v with another source than the injected one, which is named v-podloom",
    );
}

#[test]
fn volume_with_another_source_may_be_denied() {
    let config = with(
        mounting(json!([]), json!([{"name": "v", "emptyDir": {}}])),
        "",
        json!({"onVolumeConflict": "deny"}),
    );
    check_denied(
        &config,
        &having(json!([{"name": "v", "secret": {"secretName": "s"}}])),
        &["the pod has a volume v with another source than the injected one: rename it"],
    );
}

#[test]
fn both_names_taken_is_denied() {
    check_denied(
        &mounting(json!([]), json!([{"name": "v", "emptyDir": {}}])),
        &having(
            json!([{"name": "v", "hostPath": {"path": "/"}}, {"name": "v-podloom", "hostPath": {"path": "/"}}]),
        ),
        &[
            "the pod has a volume v with another source than the injected one, and so has v-podloom: rename one of them",
        ],
    );
}

#[test]
fn long_names_are_cut_where_a_suffix_follows() {
    let name = "v".repeat(63);
    let config = mounting(json!([]), json!([{"name": name, "emptyDir": {}}]));
    let after = inject(
        &config,
        &having(json!([{"name": name, "hostPath": {"path": "/"}}])),
    );
    let renamed = &names(&after, "volumes")[1];
    assert_eq!((renamed.len(), renamed.ends_with("-podloom")), (63, true));
}

#[test]
fn mount_of_a_missing_volume_is_denied() {
    let config = mounting(json!([{"name": "data", "mountPath": "/data"}]), json!([]));
    check_denied(
        &config,
        &pod(),
        &[
            "an injected mount needs the volume data, which the pod does not have: add it, or opt out of the injection",
        ],
    );
    inject(&config, &having(json!([{"name": "data", "emptyDir": {}}])));
}

#[test]
fn mounts_are_read_only_where_nothing_could_be_written() {
    for (source, read_only) in [
        (json!({"configMap": {"name": "c"}}), true),
        (json!({"secret": {"secretName": "s"}}), true),
        (json!({"projected": {"sources": []}}), true),
        (json!({"downwardAPI": {"items": []}}), true),
        (json!({"emptyDir": {}}), false),
    ] {
        let volume = with(json!({"name": "v"}), "", source);
        let after = inject(
            &mounting(json!([{"name": "v", "mountPath": "/v"}]), json!([volume])),
            &pod(),
        );
        let mount = &after["spec"]["initContainers"][0]["volumeMounts"][0];
        assert_eq!(mount.get("readOnly").is_some(), read_only);
    }
    let explicit = mounting(
        json!([{"name": "v", "mountPath": "/v", "readOnly": false}]),
        json!([{"name": "v", "secret": {"secretName": "s"}}]),
    );
    assert_eq!(
        inject(&explicit, &pod())["spec"]["initContainers"][0]["volumeMounts"][0]["readOnly"],
        false
    );
}

#[test]
fn token_is_projected_with_audience_and_expiry_and_mounted_read_only() {
    let mut config = proxy();
    config["containers"][0]["token"] =
        json!({"mountPath": "/var/run/token", "audience": "mesh.example"});
    let after = inject(&config, &pod());
    assert_eq!(
        after["spec"]["volumes"],
        json!([{"name": "proxy-token", "projected": {"sources": [
            {"serviceAccountToken": {"audience": "mesh.example", "expirationSeconds": 3600, "path": "token"}},
        ]}}])
    );
    assert_eq!(
        after["spec"]["initContainers"][0]["volumeMounts"],
        json!([{"name": "proxy-token", "mountPath": "/var/run/token", "readOnly": true}])
    );
    assert!(after["spec"].get("automountServiceAccountToken").is_none());
}

#[test]
fn block_devices_follow_their_volume() {
    let config = json!({
        "containers": [{"container": with(container("proxy"), "", json!({"volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]}))}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    });
    let after = inject(&config, &having(json!([{"name": "v", "emptyDir": {}}])));
    assert_eq!(
        after["spec"]["initContainers"][0]["volumeDevices"][0]["name"],
        "v-podloom"
    );
}

#[test]
fn pull_secrets_join_a_list_and_never_make_one() {
    let config = with(
        proxy(),
        "",
        json!({"imagePullSecrets": [{"name": "mirror"}, {"name": "own"}]}),
    );
    for none in [
        pod(),
        with(pod(), "", json!({"spec": {"imagePullSecrets": []}})),
    ] {
        let run = run(&config, &none);
        assert_eq!(
            run.pod["spec"].get("imagePullSecrets"),
            none["spec"].get("imagePullSecrets")
        );
        check_note(&run, "the service account's are used");
    }
    let after = inject(
        &config,
        &with(
            pod(),
            "",
            json!({"spec": {"imagePullSecrets": [{"name": "own"}]}}),
        ),
    );
    assert_eq!(
        after["spec"]["imagePullSecrets"],
        json!([{"name": "own"}, {"name": "mirror"}])
    );
}

#[test]
fn retired_volume_stays_while_a_container_mounts_it() {
    let before = inject(
        &mounting(json!([]), json!([{"name": "v", "emptyDir": {}}])),
        &pod(),
    );
    let mut used = before.clone();
    used["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    let config = with(proxy(), "", json!({"retired": ["/spec/volumes/[name=v]"]}));
    let run = run(&config, &used);
    assert_eq!(names(&run.pod, "volumes"), ["v"]);
    check_note(&run, "stays: a container mounts it");
    assert_eq!(inject(&config, &before)["spec"]["volumes"], json!([]));
}

/// The API server has copied the service account's secrets before it sets the priority: so a pod without any has no others.
#[test]
fn pull_secrets_are_added_in_a_review_though_the_pod_has_none() {
    let config = with(
        proxy(),
        "",
        json!({"imagePullSecrets": [{"name": "mirror"}]}),
    );
    let reviewed = with(pod(), "", json!({"spec": {"priority": 0}}));
    let after = inject(&config, &reviewed);
    assert_eq!(
        after["spec"]["imagePullSecrets"],
        json!([{"name": "mirror"}])
    );
}

#[test]
fn injected_empty_dirs_keep_no_node_where_that_is_granted() {
    let annotation = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes";
    let volumes = json!([{"name": "v", "emptyDir": {}}, {"name": "c", "configMap": {"name": "c"}}]);
    let of = |safe: Value| {
        let mut config = mounting(json!([]), volumes.clone());
        config["safeToEvict"] = safe;
        config
    };
    let before = with(
        having(json!([{"name": "v", "hostPath": {"path": "/"}}])),
        "",
        json!({"metadata": {"annotations": {annotation: "scratch, other"}}}),
    );
    let after = inject(&of(json!(true)), &before);
    let annotations = &after["metadata"]["annotations"];
    assert_eq!(annotations[annotation], "scratch,other,v-podloom");

    let opted_out = with(
        after.clone(),
        "",
        json!({"metadata": {"labels": {"sidecar.podloom.dev/inject": "false"}}}),
    );
    let stripped = inject(&of(json!(true)), &opted_out);
    let annotations = &stripped["metadata"]["annotations"];
    assert_eq!(annotations[annotation], "scratch,other");

    // By default the plugin does not ask for the grant, and tests grant what it asks for.
    let run = run(&of(Value::Null), &before);
    assert_eq!(
        run.pod["metadata"]["annotations"][annotation],
        "scratch, other"
    );
    check_note(
        &run,
        "may keep the cluster autoscaler from removing the node",
    );
}
