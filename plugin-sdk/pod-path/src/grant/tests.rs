//! What can be granted, and what covers what.

use super::Grants;

#[track_caller]
fn check_parses(path: &str) {
    assert_eq!(Grants::parse_writes(&[path]).err(), None);
}

#[test]
fn prefixes_any_elements_and_chosen_elements_are_granted() {
    for path in [
        "/spec",
        "/metadata/labels",
        "/metadata/labels/a.b~1c",
        "/metadata/labels/0",
        "/metadata/annotations",
        "/metadata/creationTimestamp",
        "/spec/containers",
        "/spec/containers/*",
        "/spec/containers/*/env/[name=TZ]/value",
        "/spec/containers/[name=a]/volumeMounts/[mountPath=~1data]",
        "/spec/containers/[image=a=b]]",
        "/spec/containers/*/ports/[containerPort=8080]",
        "/spec/fieldOfTomorrow/*/below",
        "/spec/fieldOfTomorrow/below",
    ] {
        check_parses(path);
    }
}

#[track_caller]
fn check_refused(path: &str, expected: &str) {
    let error = Grants::parse_writes(&[path]).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{path:?} cannot be granted: {expected}")
    );
}

#[test]
fn malformed_paths_are_refused() {
    check_refused(
        "spec",
        "it must start with `/`; only the empty path, which is the whole pod, does not",
    );
    check_refused(
        "/metadata/labels/a~2b",
        "`~` must be written `~0`, and `/` inside a segment `~1`",
    );
    check_refused(
        "/spec/fieldOfTomorrow/[a]",
        "`[a]` is not of the form `[key=value]`",
    );
}

#[test]
fn grants_have_no_more_segments_than_paths() {
    check_parses(&format!("/spec{}", "/a".repeat(63)));
    check_refused(
        &format!("/spec{}", "/a".repeat(64)),
        "it has more than 64 segments",
    );
}

#[test]
fn positions_are_refused_with_the_key_to_use() {
    check_refused(
        "/spec/containers/0",
        "`0` is a position, which shifts as elements come and go; name the element as `[name=...]`, or any as `*`",
    );
    check_refused(
        "/spec/containers/*/volumeMounts/-",
        "`-` is a position, which shifts as elements come and go; name the element as `[mountPath=...]`, or any as `*`",
    );
    check_refused(
        "/spec/fieldOfTomorrow/0",
        "`0` is a position, which shifts as elements come and go; name the element as `[key=...]`, or any as `*`",
    );
}

#[test]
fn segments_that_do_not_fit_the_pod_are_refused() {
    check_refused(
        "/spec/containers/proxy",
        "`proxy` stands on a list, where an element is named as `[name=...]`, or any as `*`",
    );
    for path in ["/metadata/labels/*", "/spec/*"] {
        check_refused(
            path,
            "`*` stands for elements of lists only; a path covers everything below it, so end it before the `*`",
        );
    }
    check_refused(
        "/spec/[name=a]",
        "`[name=a]` selects elements of lists only, and stands on an object",
    );
    check_refused(
        "/spec/nodeName/x",
        "`x` stands below a string, which has nothing below it",
    );
}

#[test]
fn what_is_never_written_is_refused_and_so_are_its_ancestors() {
    for (path, never) in [
        ("", "/apiVersion"),
        ("/metadata", "/metadata/name"),
        ("/apiVersion", "/apiVersion"),
        ("/kind", "/kind"),
        ("/status", "/status"),
        ("/status/phase", "/status"),
        ("/metadata/name", "/metadata/name"),
        ("/metadata/generateName", "/metadata/generateName"),
        ("/metadata/namespace", "/metadata/namespace"),
        ("/metadata/uid", "/metadata/uid"),
        ("/metadata/ownerReferences", "/metadata/ownerReferences"),
        (
            "/metadata/ownerReferences/*/name",
            "/metadata/ownerReferences",
        ),
        ("/metadata/finalizers", "/metadata/finalizers"),
        ("/metadata/resourceVersion", "/metadata/resourceVersion"),
        ("/metadata/managedFields", "/metadata/managedFields"),
    ] {
        check_refused(
            path,
            &format!("{never} is never written by a plugin; grant paths beside it"),
        );
        assert!(Grants::parse(&[path]).is_ok(), "{path} may be read");
    }
}

#[test]
fn the_key_of_a_chosen_element_is_refused() {
    check_refused(
        "/spec/containers/[name=a]/name",
        "an element that is granted by its field name keeps that field; write `*` instead of the selector to let it change",
    );
    check_parses("/spec/containers/[image=a]/name");
}

#[track_caller]
fn check_covers(grant: &str, needed: &str, expected: bool) {
    let (grants, needs) = (
        Grants::parse(&[grant]).unwrap(),
        Grants::parse(&[needed]).unwrap(),
    );
    let missing = if expected {
        Ok(())
    } else {
        Err(vec![needed.to_owned()])
    };
    assert_eq!(grants.covers(&needs), missing, "{grant} covers {needed}");
}

#[test]
fn a_path_covers_itself_and_what_lies_below() {
    check_covers("", "", true);
    check_covers("", "/spec/containers/*", true);
    check_covers("/spec", "", false);
    check_covers("/spec", "/spec", true);
    check_covers("/spec", "/specification", false);
    check_covers("/spec/containers", "/spec/containers/*/env", true);
    check_covers("/spec/containers/*/env", "/spec/containers", false);
    check_covers("/spec/containers/*", "/spec/containers/[name=a]", true);
    check_covers("/spec/containers/[name=a]", "/spec/containers/*", false);
    check_covers(
        "/spec/containers/[name=a]",
        "/spec/containers/[name=a]/env/[name=TZ]",
        true,
    );
    check_covers(
        "/spec/containers/[name=a]",
        "/spec/containers/[name=b]",
        false,
    );
    check_covers(
        "/spec/containers/[name=a]",
        "/spec/containers/[image=a]",
        false,
    );
    check_covers(
        "/spec/volumes/[name=a~1b]",
        "/spec/volumes/[name=a~1b]/emptyDir",
        true,
    );
}

#[test]
fn every_needed_path_that_is_missing_is_named() {
    let grants = Grants::parse(&["/spec/volumes", "/metadata/labels"]).unwrap();
    let needs = Grants::parse(&["/spec/volumes/*", "/spec", "/metadata/annotations"]).unwrap();
    assert_eq!(
        grants.covers(&needs),
        Err(vec!["/spec".to_owned(), "/metadata/annotations".to_owned()])
    );
    assert_eq!(
        needs.paths().collect::<Vec<_>>(),
        ["/spec/volumes/*", "/spec", "/metadata/annotations"]
    );
}
