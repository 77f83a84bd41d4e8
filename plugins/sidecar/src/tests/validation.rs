//! Configurations that cannot be.

use podloom_plugin_sdk::serde_json::{Value, json};
use podloom_plugin_sdk::testing;

use super::{container, proxy, with};
use crate::Plugin;

#[track_caller]
fn check(config: Value, errors: &[&str]) {
    assert_eq!(
        testing::configure::<Plugin>(&config)
            .err()
            .unwrap_or_default(),
        errors
    );
}

fn native(fields: Value) -> Value {
    json!({"containers": [{"container": with(container("proxy"), "", fields)}]})
}

#[test]
fn valid_configurations_pass() {
    check(json!({}), &[]);
    check(proxy(), &[]);
    check(
        native(json!({"restartPolicy": "Always", "startupProbe": {"tcpSocket": {"port": 1}}})),
        &[],
    );
}

#[test]
fn container_needs_a_name_and_an_image() {
    check(
        json!({"containers": [{"container": {"image": "x"}}]}),
        &["config/containers/0/container: the field name is missing"],
    );
    check(
        json!({"containers": [{"container": {"name": "Proxy", "image": "x"}}]}),
        &[
            "container Proxy: \"Proxy\" is no name: use lower case letters, digits and -, at most 63",
        ],
    );
    check(
        json!({"containers": [{"container": {"name": "proxy", "image": ""}}]}),
        &["config/containers/0/container/image: value is shorter than 1 character"],
    );
    check(
        json!({"containers": [{"container": {"name": "proxy", "image": "x\ny"}}]}),
        &[
            "container proxy: image must be a text, without control characters, quotes and backslashes",
        ],
    );
    check(
        json!({"containers": [{"container": container("a")}, {"container": container("a"), "placement": "classic"}]}),
        &["container a: the name is taken by another one"],
    );
}

#[test]
fn placement_and_fields_must_agree() {
    check(
        native(json!({"restartPolicy": "Never"})),
        &["container proxy: a native sidecar has restartPolicy Always"],
    );
    for placement in ["init", "classic"] {
        let mut config = native(json!({"restartPolicy": "Always"}));
        config["containers"][0]["placement"] = json!(placement);
        check(
            config,
            &[
                "container proxy: restartPolicy Always makes it a native sidecar: set placement native",
            ],
        );
    }
    for field in [
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
    ] {
        let mut config = native(json!({field: {}}));
        config["containers"][0]["placement"] = json!("init");
        check(
            config,
            &[&format!(
                "container proxy: an init container has no {field}: remove it, or set placement native"
            )],
        );
    }
}

#[test]
fn own_containers_may_not_collide() {
    let port = |name: &str| json!({"container": with(container(name), "", json!({"ports": [{"containerPort": 80}]}))});
    check(
        json!({"containers": [port("a"), port("b")]}),
        &["container b: it has the same port number as a"],
    );
    check(
        native(
            json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "w", "mountPath": "/v/"}]}),
        ),
        &["container proxy: /v is there twice"],
    );
    check(
        json!({"volumes": [{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]}),
        &["volumes: a is there twice"],
    );
}

/// None of these second names is one that anybody wrote.
#[test]
fn volumes_whose_second_names_would_be_the_same_get_others() {
    let long = "v".repeat(55);
    for names in [
        [format!("{long}-a"), format!("{long}-b")],
        ["a".to_owned(), "a-podloom".to_owned()],
    ] {
        let volumes = names.map(|name| json!({"name": name, "emptyDir": {}}));
        check(json!({"volumes": volumes}), &[]);
    }
    let token = |name: &str| json!({"container": container(name), "token": {"mountPath": "/t", "audience": "a"}});
    let long = "c".repeat(60);
    check(
        json!({"containers": [token(&format!("{long}-a")), token(&format!("{long}-b"))]}),
        &[],
    );
    check(
        json!({"containers": [token("proxy")], "volumes": [{"name": "proxy-token", "emptyDir": {}}]}),
        &[],
    );
}

#[test]
fn token_is_checked() {
    let mut config = proxy();
    config["containers"][0]["token"] =
        json!({"mountPath": "token", "audience": "", "expirationSeconds": 599});
    check(
        config,
        &[
            "container proxy: token.expirationSeconds must be at least 600",
            "container proxy: token.audience must not be empty",
            "container proxy: mountPath \"token\" must be absolute",
        ],
    );
}

#[test]
fn additions_selectors_secrets_and_retired_paths_are_checked() {
    check(
        with(
            proxy(),
            "",
            json!({
                "addToContainers": {
                    "names": ["proxy"],
                    "env": [{"name": "A"}, {"name": "A"}, {"name": "B\"", "value": "x"}],
                    "volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/v/w"}, {"name": "w\\", "mountPath": "x"}],
                },
                "imagePullSecrets": [{"name": "a\tb"}],
                "neverInject": [{"matchExpressions": [{"key": "a", "operator": "In"}]}],
                "alwaysInject": [{"matchExpressions": [{"key": "b", "operator": "Exists", "values": ["x"]}]}],
                "retired": ["/metadata/labels", "/spec/volumes/"],
            }),
        ),
        &[
            "imagePullSecrets: name must be a text, without control characters, quotes and backslashes",
            "addToContainers: proxy is an injected container: configure it there",
            "addToContainers: name must be a text, without control characters, quotes and backslashes",
            "addToContainers: A is there twice",
            "addToContainers: mountPath /v/w is the same as another, or inside it, or around it",
            "addToContainers: name must be a text, without control characters, quotes and backslashes",
            "addToContainers: mountPath \"x\" must be absolute",
            "selectors: a: In and NotIn need values, Exists and DoesNotExist take none",
            "selectors: b: In and NotIn need values, Exists and DoesNotExist take none",
            "retired: /metadata/labels is no path of a part of the spec: copy it from the annotation",
            "retired: /spec/volumes/ is no path of a part of the spec: copy it from the annotation",
        ],
    );
}

#[test]
fn fields_of_the_wrong_type_are_named() {
    for (config, error) in [
        (
            json!({"contianers": []}),
            "config: unknown field contianers; did you mean containers?",
        ),
        (
            json!({"containers": {}}),
            "config/containers: expected a list, found an object",
        ),
        (
            json!({"containers": [1]}),
            "config/containers/0: expected an object, found 1",
        ),
        (
            json!({"containers": [{}]}),
            "config/containers/0: the field container is missing",
        ),
        (
            json!({"containers": [{"container": "x"}]}),
            "config/containers/0/container: expected an object, found a string",
        ),
        (
            json!({"containers": [{"container": container("a"), "placement": "Native"}]}),
            r#"config/containers/0/placement: value must be "native", "classic" or "init", found "Native"; did you mean "native"?"#,
        ),
        (
            json!({"containers": [{"container": container("a"), "position": "middle"}]}),
            r#"config/containers/0/position: value must be "first" or "last", found "middle""#,
        ),
        (
            json!({"containers": [{"container": container("a"), "position": {"before": "a", "after": "b"}}]}),
            "config/containers/0/position: unknown field after; the fields are before",
        ),
        (
            json!({"containers": [{"container": container("a"), "token": {"mountPath": "/t"}}]}),
            "config/containers/0/token: the field audience is missing",
        ),
        (
            json!({"injectByDefault": "yes"}),
            "config/injectByDefault: expected a boolean, found a string",
        ),
        (
            json!({"retired": [1]}),
            "config/retired/0: expected a string, found a number; write it in quotes",
        ),
        (
            json!({"neverInject": [{"matchExpressions": [{"key": "a"}]}]}),
            "config/neverInject/0/matchExpressions/0: the field operator is missing",
        ),
    ] {
        check(config, &[error]);
    }
}
