use serde_json::{Value, json};

use super::{annotations, values};

fn deployment() -> Value {
    json!({
        "metadata": {
            "name": "web",
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "{\"secret\":1}",
                "podloom.dev/chain": "abc",
                "team": "shop",
            },
        },
        "spec": { "template": {
            "metadata": { "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}" } },
            "spec": { "containers": [{
                "name": "web",
                "image": "registry.example/web:1",
                "command": ["/bin/web", "-phunter2"],
                "args": ["--log-level=debug", "--verbose", "hunter2", "-phunter2", "--Password=x"],
                "env": [
                    { "name": "PASSWORD", "value": "hunter2" },
                    { "name": "EMPTY", "value": "" },
                    { "name": "FROM", "valueFrom": { "secretKeyRef": { "name": "web", "key": "password" } } },
                ],
                "livenessProbe": { "httpGet": { "port": 80, "httpHeaders": [{ "name": "Authorization", "value": "Basic 123" }] } },
                "lifecycle": { "preStop": { "exec": { "command": ["sh", "-c", "curl -u me:hunter2 example"] } } },
            }] },
        } },
    })
}

#[test]
fn annotations_of_objects_and_templates_are_left_out() {
    let mut object = deployment();
    annotations(&mut object);
    assert_eq!(object["metadata"]["annotations"], json!({ "team": "shop" }));
    let template = &object["spec"]["template"]["metadata"];
    assert_eq!(*template, json!({}));
}

#[test]
fn values_become_placeholders_that_say_nothing() {
    let mut object = deployment();
    values(&mut object);
    let container = &object["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        container["args"],
        json!([
            "--log-level=value-1",
            "--verbose",
            "value-2",
            "value-3",
            "value-4"
        ])
    );
    assert_eq!(container["command"], json!(["/bin/web", "value-3"]));
    // The same value of an object is the same placeholder.
    assert_eq!(container["env"][0]["value"], "value-2");
    assert_eq!(container["env"][1]["value"], "");
    let reference = &container["env"][2]["valueFrom"]["secretKeyRef"]["name"];
    assert_eq!(reference, "web");
    assert_eq!(container["image"], "registry.example/web:1");
    let text = object.to_string().replace("last-applied", "");
    for secret in ["hunter2", "Basic 123", "debug"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}

#[test]
fn a_second_recording_gives_the_same_placeholders() {
    let (mut once, mut again) = (deployment(), deployment());
    values(&mut once);
    values(&mut again);
    assert_eq!(once, again);
}

#[test]
fn options_of_a_browser_are_concealed() {
    let options = json!({ "containers": { "browser": { "env": { "TOKEN": "hunter2" } } }, "labels": { "team": "shop" } });
    let mut browser = json!({
        "metadata": { "annotations": { "selenosis.io/options": options.to_string() } },
    });
    values(&mut browser);
    let text = browser["metadata"]["annotations"]["selenosis.io/options"].as_str();
    let concealed: Value = serde_json::from_str(text.unwrap()).unwrap();
    assert_eq!(
        concealed["containers"]["browser"]["env"]["TOKEN"],
        "value-1"
    );
    assert_eq!(concealed["labels"]["team"], "shop");
}

#[test]
fn options_that_nobody_can_read_are_no_place_for_a_secret() {
    let mut browser = json!({
        "metadata": { "annotations": { "selenosis.io/options": "TOKEN=hunter2" } },
    });
    values(&mut browser);
    assert!(!browser.to_string().contains("hunter2"));
}

#[test]
fn patterns_of_names_are_kept() {
    let mut config =
        json!({ "spec": { "sessionOptions": { "env": { "browser": ["LANG", "APP_*"] } } } });
    let before = config.clone();
    values(&mut config);
    assert_eq!(config, before);
}

#[test]
fn command_lines_queries_and_what_drivers_read_are_concealed() {
    let mut pod = json!({ "spec": {
        "containers": [{
            "command": ["curl -u me:hunter2 example"],
            "startupProbe": { "httpGet": { "port": 80, "path": "/healthz?token=hunter2" } },
            "readinessProbe": { "httpGet": { "port": 80, "path": "/healthz" } },
        }],
        "volumes": [
            { "name": "a", "csi": { "driver": "d", "volumeAttributes": { "server": "hunter2" } } },
            { "name": "b", "flexVolume": { "driver": "d", "options": { "password": "hunter2" } } },
        ],
        "dnsConfig": { "options": [{ "name": "ndots", "value": "2" }] },
    } });
    values(&mut pod);
    let container = &pod["spec"]["containers"][0];
    assert_eq!(container["command"], json!(["value-1"]));
    let path = |probe: &str| container[probe]["httpGet"]["path"].clone();
    assert_eq!(path("startupProbe"), "/healthz?value-2");
    assert_eq!(path("readinessProbe"), "/healthz");
    assert_eq!(pod["spec"]["volumes"][0]["csi"]["driver"], "d");
    assert_eq!(pod["spec"]["dnsConfig"]["options"][0]["value"], "2");
    let text = pod.to_string();
    assert!(!text.contains("hunter2"), "{text}");
}
