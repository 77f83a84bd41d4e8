//! What the pod's own containers get.

use podloom_plugin_sdk::serde_json::{Value, json};

use super::{check_note, inject, pod, proxy, run, with};

fn config() -> Value {
    with(
        proxy(),
        "",
        json!({
            "volumes": [{"name": "socket", "emptyDir": {}}],
            "addToContainers": {
                "env": [{"name": "PROXY_HOST", "value": "localhost"}, {"name": "PROXY", "value": "$(PROXY_HOST):80"}],
                "volumeMounts": [{"name": "socket", "mountPath": "/run/proxy"}],
            },
        }),
    )
}

fn app(fields: Value) -> Value {
    let mut pod = pod();
    pod["spec"]["containers"][0] = with(pod["spec"]["containers"][0].take(), "", fields);
    pod
}

#[test]
fn variables_come_after_the_users_in_the_order_of_the_configuration() {
    let after = inject(
        &config(),
        &app(json!({"env": [{"name": "A", "value": "$(PROXY)"}]})),
    );
    assert_eq!(
        after["spec"]["containers"][0]["env"],
        json!([
            {"name": "A", "value": "$(PROXY)"},
            {"name": "PROXY_HOST", "value": "localhost"},
            {"name": "PROXY", "value": "$(PROXY_HOST):80"},
        ])
    );
}

#[test]
fn users_variable_is_never_overridden() {
    for own in [
        json!([{"name": "PROXY", "value": "secret"}]),
        json!([{"name": "PROXY", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]),
        json!([{"name": "PROXY", "value": "1"}, {"name": "PROXY", "value": "2"}]),
    ] {
        let run = run(&config(), &app(json!({"env": own})));
        let env = run.pod["spec"]["containers"][0]["env"].as_array().unwrap();
        let theirs: Vec<&Value> = env
            .iter()
            .filter(|variable| variable["name"] == "PROXY")
            .collect();
        assert_eq!(json!(theirs), own);
        check_note(
            &run,
            "/spec/containers/[name=app]/env/[name=PROXY]: is the pod's own and stays",
        );
        assert!(!run.notes.concat().contains("secret"));
    }
}

#[test]
fn mount_that_hides_or_lies_inside_another_is_left_out() {
    for own in [
        "/run/proxy",
        "/run/proxy/",
        "/run",
        "/run/proxy/inside",
        "/",
    ] {
        let mounts = json!([{"name": "data", "mountPath": own}]);
        let before = with(
            app(json!({"volumeMounts": mounts})),
            "",
            json!({"spec": {"volumes": [{"name": "data", "emptyDir": {}}]}}),
        );
        let run = run(&config(), &before);
        assert_eq!(
            run.pod["spec"]["containers"][0]["volumeMounts"], mounts,
            "{own}"
        );
        check_note(&run, "is not added: the container mounts ");
    }
    let beside = app(json!({"volumeMounts": [{"name": "data", "mountPath": "/run/proxy-data"}]}));
    let beside = with(
        beside,
        "",
        json!({"spec": {"volumes": [{"name": "data", "emptyDir": {}}]}}),
    );
    assert_eq!(
        inject(&config(), &beside)["spec"]["containers"][0]["volumeMounts"][1]["mountPath"],
        "/run/proxy"
    );
}

#[test]
fn containers_added_later_are_covered_by_a_rerun() {
    let mut after = inject(&config(), &pod());
    after["spec"]["containers"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "late", "image": "x"}));
    let again = inject(&config(), &after);
    assert_eq!(
        again["spec"]["containers"][1]["env"],
        again["spec"]["containers"][0]["env"]
    );
    assert_eq!(
        again["spec"]["containers"][0],
        after["spec"]["containers"][0]
    );
}

#[test]
fn container_that_is_gone_leaves_the_record() {
    let two = with(
        pod(),
        "",
        json!({"spec": {"containers": [{"name": "app", "image": "x"}, {"name": "gone", "image": "x"}]}}),
    );
    let mut after = inject(&config(), &two);
    after["spec"]["containers"].as_array_mut().unwrap().pop();
    assert!(
        super::record(&inject(&config(), &after))
            .iter()
            .all(|path| !path.contains("gone"))
    );
}

#[test]
fn only_the_named_containers_get_something() {
    let named = with(
        config(),
        "",
        json!({"addToContainers": {"names": ["app", "missing"]}}),
    );
    let before = with(
        pod(),
        "",
        json!({"spec": {"containers": [{"name": "app", "image": "x"}, {"name": "other", "image": "x"}]}}),
    );
    let after = inject(&named, &before);
    assert_eq!(
        after["spec"]["containers"][0]["env"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(
        after["spec"]["containers"][1],
        before["spec"]["containers"][1]
    );
}

#[test]
fn injected_classic_container_gets_nothing_added() {
    let classic = with(
        config(),
        "",
        json!({"containers": [{"container": super::container("proxy"), "placement": "classic"}]}),
    );
    assert!(
        inject(&classic, &pod())["spec"]["containers"][1]
            .get("env")
            .is_none()
    );
}

#[test]
fn changed_values_are_updated_and_gone_ones_taken_out() {
    let before = inject(
        &config(),
        &app(json!({"env": [{"name": "A", "value": "1"}]})),
    );
    let mut config = config();
    config["addToContainers"]["env"] = json!([{"name": "PROXY_HOST", "value": "127.0.0.1"}]);
    config["retired"] = json!(["/spec/containers/*/env/[name=PROXY]"]);
    assert_eq!(
        inject(&config, &before)["spec"]["containers"][0]["env"],
        json!([{"name": "A", "value": "1"}, {"name": "PROXY_HOST", "value": "127.0.0.1"}])
    );
}
