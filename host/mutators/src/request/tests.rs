use podloom_pod_path::LAST_APPLIED;

use super::Request;

#[test]
fn plugins_do_not_see_the_annotation_with_the_applied_object() {
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
