//! What a configuration needs, and nothing more. That it is enough, every other test shows.

use podloom_plugin_sdk::serde_json::{Value, json};
use podloom_plugin_sdk::{Mutator as _, testing};

use super::{container, proxy, with};
use crate::Plugin;

#[track_caller]
fn check(config: Value, expected: &[&str]) {
    let config = testing::configure::<Plugin>(&config).unwrap();
    let mut expected: Vec<&str> = expected.to_vec();
    expected.insert(0, "/metadata/annotations/sidecar.podloom.dev~1injected");
    assert_eq!(Plugin::needs(&config).writes, expected);
}

#[test]
fn writes_name_what_is_injected() {
    check(json!({}), &[]);
    check(proxy(), &["/spec/initContainers/[name=proxy]"]);
    check(
        json!({
            "containers": [
                {"container": container("proxy"), "placement": "classic", "token": {"mountPath": "/t", "audience": "a"}},
                {"container": container("setup"), "placement": "init"},
            ],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "imagePullSecrets": [{"name": "mirror"}],
        }),
        &[
            "/spec/containers/[name=proxy]",
            "/spec/initContainers/[name=setup]",
            "/spec/volumes/[name=v]",
            "/spec/volumes/[name=proxy-token]",
            "/spec/volumes/[name=v-podloom]",
            "/spec/volumes/[name=proxy-token-podloom]",
            "/spec/imagePullSecrets/[name=mirror]",
        ],
    );
    check(
        json!({"volumes": [{"name": "v", "emptyDir": {}}], "onVolumeConflict": "deny", "retired": ["/spec/initContainers/*"]}),
        &["/spec/volumes/[name=v]", "/spec/initContainers/*"],
    );
}

#[test]
fn default_container_is_written_only_where_a_classic_sidecar_may_come_first() {
    let annotation = "/metadata/annotations/kubectl.kubernetes.io~1default-container";
    for (position, needed) in [
        (json!("first"), true),
        (json!({"before": "a"}), true),
        (json!("last"), false),
        (json!({"after": "a"}), false),
    ] {
        let config = json!({"containers": [{"container": container("c"), "placement": "classic", "position": position}]});
        let expected = ["/spec/containers/[name=c]", annotation];
        check(config, if needed { &expected } else { &expected[..1] });
    }
}

#[test]
fn additions_are_granted_one_by_one() {
    let additions = json!({"env": [{"name": "A", "value": "1"}], "volumeMounts": [{"name": "v", "mountPath": "/run/proxy"}]});
    check(
        json!({"addToContainers": additions}),
        &[
            "/spec/containers/*/env/[name=A]",
            "/spec/containers/*/volumeMounts/[mountPath=~1run~1proxy]",
        ],
    );
    check(
        json!({"addToContainers": with(additions, "", json!({"names": ["app"]}))}),
        &[
            "/spec/containers/[name=app]/env/[name=A]",
            "/spec/containers/[name=app]/volumeMounts/[mountPath=~1run~1proxy]",
        ],
    );
}

#[test]
fn values_of_the_pods_variables_are_never_read() {
    let config = testing::configure::<Plugin>(&proxy()).unwrap();
    let reads = Plugin::needs(&config).reads;
    assert!(
        reads
            .iter()
            .all(|path| !path.contains("env") && path != "/spec/containers" && path != "/spec"),
        "{reads:?}"
    );
    assert!(
        !reads
            .iter()
            .any(|path| path.ends_with("/ports") || path == "/metadata/labels"),
        "{reads:?}"
    );
}
