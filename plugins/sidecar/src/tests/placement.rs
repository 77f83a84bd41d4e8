//! Where containers stand.

use podloom_plugin_sdk::serde_json::{Value, json};
use podloom_plugin_sdk::testing::Submitted;

use super::{check_note, container, inject, names, pod, proxy, run, run_for, with};

const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// A pod with these containers and init containers.
fn pod_with(init: &[&str], containers: &[&str]) -> Value {
    let list = |names: &[&str]| {
        names
            .iter()
            .map(|name| json!({"name": name, "image": "x"}))
            .collect::<Vec<_>>()
    };
    json!({"metadata": {}, "spec": {"initContainers": list(init), "containers": list(containers)}})
}

fn sidecar(name: &str, placement: &str, position: Value) -> Value {
    let mut sidecar = json!({"container": container(name), "placement": placement});
    if !position.is_null() {
        sidecar["position"] = position;
    }
    sidecar
}

#[track_caller]
fn check(
    sidecars: Vec<Value>,
    init: &[&str],
    containers: &[&str],
    expected_init: &[&str],
    expected_containers: &[&str],
) {
    let after = inject(
        &json!({"containers": sidecars}),
        &pod_with(init, containers),
    );
    assert_eq!(names(&after, "initContainers"), expected_init);
    assert_eq!(names(&after, "containers"), expected_containers);
}

#[test]
fn native_sidecar_is_an_init_container_that_restarts_always() {
    let after = inject(&proxy(), &pod());
    assert_eq!(
        after["spec"]["initContainers"][0]["restartPolicy"],
        "Always"
    );
    assert_eq!(names(&after, "containers"), ["app"]);
}

#[test]
fn init_container_has_no_restart_policy() {
    let config = json!({"containers": [sidecar("setup", "init", Value::Null)]});
    let after = inject(&config, &pod());
    assert!(
        after["spec"]["initContainers"][0]
            .get("restartPolicy")
            .is_none()
    );
}

#[test]
fn by_default_native_is_first_and_init_and_classic_are_last() {
    check(
        vec![sidecar("n", "native", Value::Null)],
        &["a", "b"],
        &["app"],
        &["n", "a", "b"],
        &["app"],
    );
    check(
        vec![sidecar("i", "init", Value::Null)],
        &["a", "b"],
        &["app"],
        &["a", "b", "i"],
        &["app"],
    );
    check(
        vec![sidecar("c", "classic", Value::Null)],
        &["a"],
        &["app", "x"],
        &["a"],
        &["app", "x", "c"],
    );
}

#[test]
fn explicit_position_is_honoured() {
    for (position, expected) in [
        (json!("first"), ["s", "a", "b"]),
        (json!("last"), ["a", "b", "s"]),
        (json!({"before": "a"}), ["s", "a", "b"]),
        (json!({"before": "b"}), ["a", "s", "b"]),
        (json!({"after": "a"}), ["a", "s", "b"]),
        (json!({"after": "b"}), ["a", "b", "s"]),
    ] {
        for placement in ["native", "init"] {
            check(
                vec![sidecar("s", placement, position.clone())],
                &["a", "b"],
                &["app"],
                &expected,
                &["app"],
            );
        }
        check(
            vec![sidecar("s", "classic", position)],
            &[],
            &["a", "b"],
            &[],
            &expected,
        );
    }
}

#[test]
fn several_at_one_position_keep_the_order_of_the_configuration() {
    for (position, expected) in [
        (json!("first"), ["z", "m", "c", "a", "b"]),
        (json!("last"), ["a", "b", "z", "m", "c"]),
        (json!({"before": "b"}), ["a", "z", "m", "c", "b"]),
        (json!({"after": "a"}), ["a", "z", "m", "c", "b"]),
    ] {
        let sidecars = ["z", "m", "c"].map(|name| sidecar(name, "native", position.clone()));
        check(
            sidecars.to_vec(),
            &["a", "b"],
            &["app"],
            &expected,
            &["app"],
        );
    }
}

#[test]
fn position_may_name_another_sidecar() {
    let sidecars = vec![
        sidecar("z", "native", Value::Null),
        sidecar("a", "init", json!({"after": "z"})),
    ];
    check(
        sidecars,
        &["app-init"],
        &["app"],
        &["z", "a", "app-init"],
        &["app"],
    );
}

#[test]
fn missing_anchor_means_the_default_position_and_a_note() {
    let run = run(
        &json!({"containers": [sidecar("s", "init", json!({"before": "istio-init"})), sidecar("n", "native", json!({"after": "istio-init"}))]}),
        &pod_with(&["a"], &["app"]),
    );
    assert_eq!(names(&run.pod, "initContainers"), ["n", "a", "s"]);
    check_note(
        &run,
        "container s has its default position: the pod has no container istio-init beside it",
    );
}

/// As a webhook does that comes between two passes: in front of ours, between them and behind them.
#[test]
fn containers_that_others_put_in_the_way_are_passed_again() {
    let sidecars = vec![
        sidecar("end", "init", json!("last")),
        sidecar("one", "native", json!("first")),
        sidecar("two", "native", json!("first")),
        sidecar("near", "init", json!({"before": "migrate"})),
        sidecar("helper", "classic", Value::Null),
    ];
    let config = json!({"containers": sidecars});
    let mut between = inject(&config, &pod_with(&["migrate"], &["app"]));
    assert_eq!(
        names(&between, "initContainers"),
        ["one", "two", "near", "migrate", "end"]
    );
    let foreign = |name: &str| json!({"name": name, "image": "x"});
    let containers = between["spec"]["initContainers"].as_array_mut().unwrap();
    containers[0]["image"] = json!("changed/by:others");
    containers.push(foreign("late"));
    containers.insert(3, foreign("beside"));
    containers.insert(1, foreign("middle"));
    containers.insert(0, foreign("secrets-init"));
    let containers = between["spec"]["containers"].as_array_mut().unwrap();
    containers.push(foreign("log"));

    let run = run(&config, &between);
    assert_eq!(
        names(&run.pod, "initContainers"),
        [
            "one",
            "two",
            "secrets-init",
            "middle",
            "beside",
            "near",
            "migrate",
            "late",
            "end"
        ]
    );
    assert_eq!(
        names(&run.pod, "containers"),
        ["app", "helper", "log"],
        "nobody said where"
    );
    let first = &run.pod["spec"]["initContainers"][0];
    assert_eq!(first["image"], "changed/by:others");
    check_note(&run, "/spec/initContainers/[name=one]");
    check_note(&run, "moved back to its position");
}

/// It never was where its position says.
#[test]
fn a_container_in_place_of_the_pods_own_keeps_that_place() {
    let mut config = json!({"containers": [sidecar("own", "native", Value::Null)]});
    config["containers"][0]["onConflict"] = json!("replace");
    let after = inject(&config, &pod_with(&["a", "own"], &["app"]));
    assert_eq!(names(&after, "initContainers"), ["a", "own"]);
    assert!(run(&config, &after).writes.is_empty());
}

#[test]
fn foreign_containers_survive_untouched() {
    let before = pod_with(&["istio-init", "vault"], &["app", "log"]);
    let after = inject(&proxy(), &before);
    assert_eq!(
        after["spec"]["initContainers"][1],
        before["spec"]["initContainers"][0]
    );
    assert_eq!(
        after["spec"]["initContainers"][2],
        before["spec"]["initContainers"][1]
    );
    assert_eq!(after["spec"]["containers"], before["spec"]["containers"]);
}

#[test]
fn kubectl_exec_keeps_meaning_the_app() {
    let first = json!({"containers": [sidecar("c", "classic", json!("first"))]});
    let after = inject(&first, &pod());
    assert_eq!(names(&after, "containers"), ["c", "app"]);
    assert_eq!(after["metadata"]["annotations"][DEFAULT_CONTAINER], "app");

    let chosen = with(
        pod(),
        "",
        json!({"metadata": {"annotations": {DEFAULT_CONTAINER: "chosen"}}}),
    );
    assert_eq!(
        inject(&first, &chosen)["metadata"]["annotations"][DEFAULT_CONTAINER],
        "chosen"
    );

    let last = json!({"containers": [sidecar("c", "classic", json!("last"))]});
    assert!(
        inject(&last, &pod())["metadata"]["annotations"]
            .get(DEFAULT_CONTAINER)
            .is_none()
    );
}

#[test]
fn classic_sidecar_is_kept_out_of_pods_that_complete() {
    let classic = json!({"containers": [sidecar("c", "classic", Value::Null), sidecar("n", "native", Value::Null)]});
    for policy in ["Never", "OnFailure"] {
        let job = with(pod(), "", json!({"spec": {"restartPolicy": policy}}));
        let run = run(&classic, &job);
        assert_eq!(names(&run.pod, "containers"), ["app"]);
        assert_eq!(names(&run.pod, "initContainers"), ["n"]);
        check_note(
            &run,
            "container c is not injected: as a classic sidecar it would keep the pod from completing",
        );
    }
    let browser = Submitted {
        kind: "Browser".to_owned(),
        ..Submitted::default()
    };
    let never = with(pod(), "", json!({"spec": {"restartPolicy": "Never"}}));
    assert_eq!(
        names(&run_for(&classic, &browser, &never).pod, "containers"),
        ["app", "c"]
    );
}

#[test]
fn output_is_the_same_bytes_over_a_hundred_runs() {
    let config = json!({
        "containers": [sidecar("z", "native", Value::Null), sidecar("a", "classic", Value::Null)],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "addToContainers": {"env": [{"name": "Z", "value": "1"}, {"name": "A", "value": "$(Z)"}]},
    });
    let first = inject(&config, &pod()).to_string();
    for _ in 0..100 {
        assert_eq!(inject(&config, &pod()).to_string(), first);
    }
}
