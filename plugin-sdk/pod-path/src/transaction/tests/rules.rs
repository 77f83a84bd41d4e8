//! Which values of the right type the API server would refuse.

use serde_json::{Value, json};

use super::{Call, Insert, Set, check_refused, granted, make, unrestricted};
use crate::{Access, Transaction};

const LABEL: &str =
    "is not 1 to 63 lower case letters, digits and `-`, with a letter or digit at both ends";
const NAME: &str = "has a name that is not 1 to 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends";
const NO_PORT: &str = "is no port: write a number from 1 to 65535";

/// Path, value, where it is wrong and what is wrong.
const BREACHES: &[(&str, &str, &str, &str)] = &[
    (
        "/metadata/labels/my team",
        r#""a""#,
        "",
        "the key \"my team\" has a name that is not 1 to 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends",
    ),
    (
        "/metadata/labels/team",
        r#""a b""#,
        "",
        "\"a b\" is not at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends",
    ),
    (
        "/metadata/annotations",
        r#"{"a_b/c":"d"}"#,
        "/a_b~1c",
        "the key \"a_b/c\" has a prefix that is no DNS subdomain (lower case letters, digits, `-` and `.`, at most 253)",
    ),
    (
        "/spec/containers/0/resources",
        r#"{"limits":{"cpu":"2 cores"}}"#,
        "/limits/cpu",
        "\"2 cores\" is no quantity: write a number, and one of the suffixes n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or none, \
         as in 500m, 1.5 or 2Gi",
    ),
    (
        "/spec/overhead/cpu",
        "-1",
        "",
        "-1 is negative: write 0 or more",
    ),
    (
        "/spec/containers/0/ports/-",
        r#"{"containerPort":70000}"#,
        "/containerPort",
        "70000 is no port: write a number from 1 to 65535",
    ),
    (
        "/spec/containers/0/livenessProbe/httpGet/port",
        r#""80""#,
        "",
        "\"80\" is no port name: 1 to 15 lower case letters, digits and `-`, at least one of them a letter, \
         without `-` at an end or twice in a row",
    ),
    (
        "/spec/containers/0/image",
        r#"" chrome""#,
        "",
        "\" chrome\" has white space at an end: remove it",
    ),
    (
        "/spec/volumes/[name=tmp]/secret/defaultMode",
        "777",
        "",
        "777 is no file mode: write a number from 0 to 511, which is 0777",
    ),
];

fn with_volume() -> Transaction {
    let mut pod = super::pod();
    pod["spec"]["volumes"] = json!([{ "name": "tmp", "secret": {} }]);
    Transaction::begin(pod, Access::unrestricted().into(), [].into())
}

#[test]
fn a_value_that_the_api_server_refuses_is_refused_with_its_path_and_rule() {
    for (path, value, place, problem) in BREACHES {
        let refusal = make(&mut with_volume(), Set(path, value)).unwrap_err();
        let expected = format!("invalid value at {path}{place}: {problem}");
        assert_eq!(refusal.to_string(), expected);
    }
    let insert = Insert("/spec/containers/0", r#"{"name":"My_App"}"#);
    let text = format!("invalid value at /spec/containers/0/name: \"My_App\" {LABEL}");
    check_refused(unrestricted(), insert, "invalid value", &text);
    let named = Set("/spec/containers/[name=My_App]", "{}");
    let text = format!("invalid value at /spec/containers/[name=My_App]/name: \"My_App\" {LABEL}");
    check_refused(unrestricted(), named, "invalid value", &text);
}

#[track_caller]
fn check(path: &str, good: &[&str], bad: &[&str]) {
    for value in good {
        assert_eq!(
            make(&mut with_volume(), Set(path, value)),
            Ok(true),
            "{path} {value}"
        );
    }
    for value in bad {
        let refusal = make(&mut with_volume(), Set(path, value));
        let text = refusal.map_err(|refusal| refusal.to_string());
        assert!(
            text.is_err_and(|text| text.starts_with("invalid value")),
            "{path} {value}"
        );
    }
}

#[test]
fn each_field_of_a_container_has_its_rule() {
    let container = "/spec/containers/0";
    let below = |field: &str| format!("{container}/{field}");
    check(&below("name"), &[r#""a-1""#], &[r#""a.b""#]);
    check(
        &below("env/-"),
        &[r#"{"name":"a.b c"}"#],
        &[r#"{"name":"a=b"}"#, r#"{"name":"ä"}"#],
    );
    check(
        &below("envFrom/-"),
        &[
            r#"{"prefix":"","secretRef":{"name":"a.b"}}"#,
            r#"{"configMapRef":{"name":"a-"}}"#,
        ],
        &[r#"{"prefix":"="}"#, r#"{"secretRef":{"name":"A"}}"#],
    );
    check(
        &below("env"),
        &[r#"[{"name":"A","valueFrom":{"secretKeyRef":{"name":"s","key":".k_y"}}}]"#],
        &[
            r#"[{"name":"A","valueFrom":{"secretKeyRef":{"name":"s","key":"..k"}}}]"#,
            r#"[{"name":"A","valueFrom":{"configMapKeyRef":{"name":"S"}}}]"#,
        ],
    );
    check(&below("ports/0/name"), &[r#""http-1""#], &[r#""http--1""#]);
    check(&below("ports/0/containerPort"), &["1", "65535"], &["0"]);
    check(&below("ports/0/hostPort"), &["0", "1"], &["65536", "-1"]);
    check(
        &below("readinessProbe/tcpSocket/port"),
        &["1", r#""web""#],
        &["0", r#""""#],
    );
    check(
        &below("resources/requests"),
        &[
            r#"{"cpu":0.5,"example.com/gpu":"1"}"#,
            r#"{"memory":" 1Gi "}"#,
        ],
        &[r#"{"c p u":1}"#, r#"{"cpu":""}"#, r#"{"cpu":"-1m"}"#],
    );
}

#[test]
fn each_field_of_a_pod_has_its_rule() {
    check("/spec/hostname", &[r#""""#, r#""a""#], &[r#""a.b""#]);
    check(
        "/spec/serviceAccountName",
        &[r#""a.b""#],
        &[r#""a_b""#, r#""A""#],
    );
    check("/spec/nodeSelector/a", &[r#""B.c""#], &[r#""b c""#]);
    check("/spec/volumes/0/name", &[r#""a""#], &[r#""a.b""#]);
    check(
        "/spec/volumes/0/emptyDir/sizeLimit",
        &["0", r#""1Gi""#],
        &[r#""1GB""#],
    );
    check(
        "/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution",
        &[r#"[{"topologyKey":"a/b","labelSelector":{"matchLabels":{"a":""}}}]"#],
        &[
            r#"[{"topologyKey":"a/b/c"}]"#,
            r#"[{"labelSelector":{"matchLabels":{"a b":""}}}]"#,
            r#"[{"labelSelector":{"matchExpressions":[{"key":"a","values":["b c"]}]}}]"#,
        ],
    );
}

#[test]
fn what_the_pod_had_before_is_not_the_plugins_mistake() {
    let invalid = json!({
        "metadata": { "labels": { "my team": "a b" } },
        "spec": { "containers": [{ "name": "My_App", "resources": { "limits": { "cpu": "x" } }, "ports": [{ "containerPort": 0 }] }] },
    });
    let check = |call: Call<'_>, expected: Result<bool, &str>| {
        let mut pod = Transaction::begin(invalid.clone(), Access::unrestricted().into(), [].into());
        let outcome = make(&mut pod, call).map_err(|refusal| refusal.to_string());
        match expected {
            Ok(_) => assert_eq!(outcome, Ok(true)),
            Err(text) => assert_eq!(outcome, Err(text.to_owned())),
        }
    };
    check(Set("/spec/containers/0/tty", "true"), Ok(true));
    check(Set("/metadata/labels/my team", r#""c""#), Ok(true));
    check(
        Set("/metadata/labels", r#"{"my team":"a b","other":"c"}"#),
        Ok(true),
    );
    let container = &mut invalid["spec"]["containers"][0].clone();
    container["tty"] = json!(true);
    let both = Value::Array(vec![json!({ "name": "first" }), container.clone()]);
    check(Set("/spec/containers", &both.to_string()), Ok(true));
    container["ports"][0]["containerPort"] = json!(70000);
    check(
        Set("/spec/containers/0", &container.to_string()),
        Err(&format!(
            "invalid value at /spec/containers/0/ports/0/containerPort: 70000 {NO_PORT}"
        )),
    );
    check(
        Set("/metadata/labels", r#"{"my team":"a b","his team":""}"#),
        Err(&format!(
            "invalid value at /metadata/labels/his team: the key \"his team\" {NAME}"
        )),
    );
}

#[test]
fn a_write_that_is_not_granted_is_forbidden_whatever_its_value_is() {
    for value in [r#""a""#, r#""a b""#] {
        let mut pod = granted(&[], &["/spec"]);
        let refusal = make(&mut pod, Set("/metadata/labels/my team", value)).unwrap_err();
        assert!(refusal.to_string().contains("is forbidden"), "{refusal}");
    }
}

#[test]
fn a_long_value_is_cut_in_the_message() {
    let long = json!("_".repeat(10_000)).to_string();
    let refusal = make(&mut unrestricted(), Set("/spec/hostname", &long)).unwrap_err();
    let expected = format!(
        "invalid value at /spec/hostname: \"{}...\" {LABEL}",
        "_".repeat(80)
    );
    assert_eq!(refusal.to_string(), expected);
}
