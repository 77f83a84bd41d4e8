//! Native tests: paths, types, grants and the configuration's schema are checked by the code that the operator has.

use podloom_plugin_sdk::serde_json::{Value, json};
use podloom_plugin_sdk::testing::{self, Run, Submitted};

use super::{RegistryMirror, Rejection};

fn config(others: &str) -> Value {
    json!({
        "mirrors": [
            { "registry": "docker.io", "mirror": "mirror.example.com/hub" },
            { "registry": "quay.io", "mirror": "mirror.example.com:5000" },
        ],
        "others": others,
    })
}

/// Runs the plugin on a pod with an init container, a sidecar and a regular container.
#[track_caller]
fn run(config: &Value, images: [&str; 3]) -> Run {
    let [init, sidecar, regular] = images;
    let pod = json!({ "spec": {
        "initContainers": [
            { "name": "init", "image": init },
            { "name": "sidecar", "image": sidecar, "restartPolicy": "Always" },
        ],
        "containers": [{ "name": "app", "image": regular }],
    } });
    let run = testing::run::<RegistryMirror>(config, &Submitted::default(), &pod);
    testing::check_laws::<RegistryMirror>(config, &Submitted::default(), &pod);
    run
}

#[track_caller]
fn check(images: [&str; 3], expected: [&str; 3]) -> Run {
    let run = run(&config("keep"), images);
    assert_eq!(run.result, Ok(()));
    let spec = &run.pod["spec"];
    let images = [
        &spec["initContainers"][0]["image"],
        &spec["initContainers"][1]["image"],
        &spec["containers"][0]["image"],
    ];
    assert_eq!(images, expected);
    run
}

#[test]
fn images_of_all_containers_come_from_the_mirrors() {
    let run = check(
        [
            "busybox",
            "grafana/grafana:12",
            "quay.io/jetstack/cert-manager:v1",
        ],
        [
            "mirror.example.com/hub/library/busybox:latest",
            "mirror.example.com/hub/grafana/grafana:12",
            "mirror.example.com:5000/jetstack/cert-manager:v1",
        ],
    );
    assert_eq!(run.writes.len(), 3);
}

#[test]
fn images_of_other_registries_stay_as_they_are() {
    let images = [
        "registry.k8s.io/pause",
        "mirror.example.com/hub/a:1",
        "localhost/app",
    ];
    let run = check(images, images);
    assert!(run.writes.is_empty());
}

#[test]
fn images_of_other_registries_can_be_denied() {
    let run = run(
        &config("deny"),
        ["ghcr.io/a/b", "mirror.example.com/hub/a:1", "localhost/app"],
    );
    let reasons = "/spec/initContainers/[name=init]/image: ghcr.io has no mirror: use an image of another registry; \
        /spec/containers/[name=app]/image: localhost has no mirror: use an image of another registry";
    assert_eq!(run.result, Err(Rejection::Denied(reasons.to_owned())));
}

#[test]
fn what_names_no_image_is_left_alone_with_a_note() {
    let images = ["Busy Box", "mirror.example.com/a", "localhost/app"];
    let run = check(images, images);
    let note = "/spec/initContainers/[name=init]/image is no image: \
        write REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@sha256:DIGEST, the repository in lower case; it is left alone";
    assert_eq!(run.notes, [note]);
}

#[test]
fn a_wrong_configuration_is_explained() {
    let config = json!({ "mirrors": [
        { "registry": "hub", "mirror": "mirror.example.com" },
        { "registry": "docker.io", "mirror": "hub" },
        { "registry": "docker.io", "mirror": "quay.io/hub" },
        { "registry": "quay.io", "mirror": "mirror.example.com/Hub" },
    ] });
    let errors = testing::configure::<RegistryMirror>(&config).expect_err("it is wrong");
    assert_eq!(
        errors,
        [
            "mirrors[0]: registry `hub` is none: write a host, as in docker.io or registry.example.com:5000",
            "mirrors[1]: mirror `hub` is none: write a host, as in mirror.example.com/hub",
            "mirrors[2]: docker.io is listed twice",
            "mirrors[2]: mirror quay.io/hub is in a registry that has a mirror itself",
            "mirrors[3]: mirror `mirror.example.com/Hub` is none: write a host, as in mirror.example.com/hub",
        ]
    );
}
