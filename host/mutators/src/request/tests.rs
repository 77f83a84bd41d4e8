use podloom_pod_path::LAST_APPLIED;

use super::Request;

#[test]
fn the_applied_object_is_no_annotation_that_plugins_see() {
    let annotations = [("team", "web"), (LAST_APPLIED, "{}")];
    let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let request = Request {
        annotations: annotations.clone().into(),
        namespace_annotations: annotations.into(),
        ..Request::default()
    };
    assert_eq!(request.annotation("team"), Some("web"));
    assert_eq!(request.namespace_annotation("team"), Some("web"));
    assert_eq!(request.annotation(LAST_APPLIED), None);
    assert_eq!(request.namespace_annotation(LAST_APPLIED), None);
}
