//! Configurations that cannot be.

use podloom_plugin_sdk::schemars::schema_for;
use podloom_plugin_sdk::serde_json::{Value, json, to_value};
use podloom_plugin_sdk::testing;

use super::{container, proxy, with};
use crate::config::read;
use crate::{Config, Plugin};

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
        &["container : \"\" is no name: use lower case letters, digits and -, at most 63"],
    );
    check(
        json!({"containers": [{"container": {"name": "Proxy", "image": "x"}}]}),
        &[
            "container Proxy: \"Proxy\" is no name: use lower case letters, digits and -, at most 63",
        ],
    );
    check(
        json!({"containers": [{"container": {"name": "proxy", "image": ""}}]}),
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
        json!({"volumes": [{"name": "a", "emptyDir": {}}, {"name": "a-podloom", "emptyDir": {}}]}),
        &["volumes: a-podloom is there twice"],
    );
    let mut token = json!({"containers": [{"container": container("proxy"), "token": {"mountPath": "/t", "audience": "a"}}]});
    token["volumes"] = json!([{"name": "proxy-token", "emptyDir": {}}]);
    check(
        token,
        &[
            "volumes: proxy-token is there twice",
            "volumes: proxy-token-podloom is there twice",
        ],
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
                    "env": [{"name": "A"}, {"name": "A"}, {"value": "x"}],
                    "volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/v/w"}, {"mountPath": "x"}],
                },
                "imagePullSecrets": [{}],
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
            "unknown field contianers, known: ",
        ),
        (json!({"containers": {}}), "containers: expected a list"),
        (
            json!({"containers": [1]}),
            "containers: expected a list of objects",
        ),
        (json!({"containers": [{}]}), "field container is missing"),
        (
            json!({"containers": [{"container": "x"}]}),
            "container: expected an object",
        ),
        (
            json!({"containers": [{"container": {}, "placement": "Native"}]}),
            "placement: expected native, classic, init",
        ),
        (
            json!({"containers": [{"container": {}, "position": "middle"}]}),
            "position: expected first, last",
        ),
        (
            json!({"containers": [{"container": {}, "position": {"before": "a", "after": "b"}}]}),
            "position: either before or after",
        ),
        (
            json!({"containers": [{"container": {}, "token": {"mountPath": "/t"}}]}),
            "audience: expected a text",
        ),
        (
            json!({"injectByDefault": "yes"}),
            "injectByDefault: expected true or false",
        ),
        (json!({"retired": [1]}), "retired: expected a list of texts"),
        (
            json!({"neverInject": [{"matchExpressions": [{"key": "a"}]}]}),
            "operator: expected In, NotIn, Exists or DoesNotExist",
        ),
    ] {
        let found = testing::configure::<Plugin>(&config).unwrap_err();
        assert!(found.len() == 1 && found[0].starts_with(error), "{found:?}");
    }
}

#[test]
fn schema_has_the_fields_that_are_read() {
    let schema = to_value(schema_for!(Config)).unwrap();
    let check = |pointer: &str, known: &[&str]| {
        let mut known: Vec<&str> = known.to_vec();
        known.sort_unstable();
        let fields: Vec<&String> = schema.pointer(pointer).unwrap()["properties"]
            .as_object()
            .unwrap()
            .keys()
            .collect();
        assert_eq!(fields, known, "{pointer}");
        assert_eq!(
            schema.pointer(pointer).unwrap()["additionalProperties"],
            false
        );
    };
    check("", &read::CONFIG);
    check("/$defs/Sidecar", &read::SIDECAR);
    check("/$defs/Token", &read::TOKEN);
    check("/$defs/Additions", &read::ADDITIONS);
    check("/$defs/LabelSelector", &read::SELECTOR);
    check("/$defs/Requirement", &read::REQUIREMENT);
}
