use super::meant;

#[test]
fn slashes_of_keys_and_selectors_are_found() {
    for (path, expected) in [
        (
            "/metadata/annotations/example.com/team",
            "/metadata/annotations/example.com~1team",
        ),
        ("/metadata/labels/a/b/c", "/metadata/labels/a~1b~1c"),
        ("/metadata/labels/a~1b/c", "/metadata/labels/a~1b~1c"),
        (
            "/spec/nodeSelector/kubernetes.io/os",
            "/spec/nodeSelector/kubernetes.io~1os",
        ),
        (
            "/spec/overhead/example.com/x",
            "/spec/overhead/example.com~1x",
        ),
        (
            "/spec/containers/*/resources/limits/nvidia.com/gpu",
            "/spec/containers/*/resources/limits/nvidia.com~1gpu",
        ),
        (
            "/spec/containers/0/resources/requests/nvidia.com/gpu",
            "/spec/containers/0/resources/requests/nvidia.com~1gpu",
        ),
        (
            "/spec/containers/*/volumeMounts/[mountPath=/etc/mesh]",
            "/spec/containers/*/volumeMounts/[mountPath=~1etc~1mesh]",
        ),
        (
            "/spec/containers/*/volumeMounts/[mountPath=/]/name",
            "/spec/containers/*/volumeMounts/[mountPath=~1]/name",
        ),
        (
            "/spec/volumes/[name=a]/csi/volumeAttributes/a/b",
            "/spec/volumes/[name=a]/csi/volumeAttributes/a~1b",
        ),
        (
            "/spec/containers/[image=a/b:1]/resources/limits/a/b",
            "/spec/containers/[image=a~1b:1]/resources/limits/a~1b",
        ),
        ("/spec/tomorrow/[path=/a]/b", "/spec/tomorrow/[path=~1a]/b"),
        (
            "/spec/topologySpreadConstraints/0/labelSelector/matchLabels/a/b",
            "/spec/topologySpreadConstraints/0/labelSelector/matchLabels/a~1b",
        ),
    ] {
        assert_eq!(meant(path).as_deref(), Some(expected), "{path}");
        assert_eq!(meant(expected), None, "{expected}");
    }
}

#[test]
fn other_slashes_are_what_they_are() {
    for path in [
        "",
        "/spec",
        "/spec/nodeName/x",
        "/spec/containers/[name=a/b",
        "/spec/tomorrow/a/b",
        "/metadata/annotations/a",
        "/spec/nodeName/[a/b]",
    ] {
        assert_eq!(meant(path), None, "{path}");
    }
}
