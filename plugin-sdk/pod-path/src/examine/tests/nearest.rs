use super::super::nearest;

#[track_caller]
fn check(unknown: &str, expected: Option<&str>) {
    let known = ["image", "imagePullPolicy", "env", "volumes", "volumeMounts"];
    assert_eq!(nearest(unknown, known), expected);
}

#[test]
fn suggests_only_what_is_near() {
    check("imgae", Some("image"));
    check("ImagePullpolicy", Some("imagePullPolicy"));
    check("volumeMount", Some("volumeMounts"));
    check("volume", Some("volumes"));
    check("envs", Some("env"));
    check("ev", None);
    check("nodePort", None);
    check("", None);
}
