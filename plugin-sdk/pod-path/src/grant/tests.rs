//! Parsing of grants, and which grants cover which.

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
    check_refused("spec", "it must start with `/`; write /spec");
    check_refused(
        "spec/containers/*/env",
        "it must start with `/`; write /spec/containers/*/env",
    );
    check_refused(
        "spec.nodeName",
        "it must start with `/`; write /spec/nodeName",
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
fn indices_are_refused_with_the_key_to_use() {
    check_refused(
        "/spec/containers/0",
        "`0` is an index, which shifts when elements are added or removed; write `[name=...]` for one element, or `*` for all",
    );
    check_refused(
        "/spec/containers/*/volumeMounts/-",
        "`-` is an index, which shifts when elements are added or removed; write `[mountPath=...]` for one element, or `*` for all",
    );
    check_refused(
        "/spec/fieldOfTomorrow/0",
        "`0` is an index, which shifts when elements are added or removed; write `[key=...]` for one element, or `*` for all",
    );
}

#[test]
fn segments_that_do_not_fit_the_pod_are_refused() {
    check_refused(
        "/spec/containers/proxy",
        "`proxy` is on a list; write `[name=...]` for one element, or `*` for all",
    );
    for path in ["/metadata/labels/*", "/spec/*"] {
        check_refused(
            path,
            "`*` is only for elements of lists; end the path before it, since a path covers everything below",
        );
    }
    check_refused(
        "/spec/[name=a]",
        "`[name=a]` selects elements of lists, but is on an object; write the name of a field",
    );
    check_refused(
        "/spec/nodeName/x",
        "`x` is below a string, which has no fields; end the path before it",
    );
}

#[test]
fn a_slash_that_belongs_to_a_key_or_a_value_is_told() {
    for (path, meant) in [
        (
            "/metadata/annotations/example.com/team",
            "/metadata/annotations/example.com~1team",
        ),
        (
            "/spec/containers/*/resources/limits/nvidia.com/gpu",
            "/spec/containers/*/resources/limits/nvidia.com~1gpu",
        ),
        (
            "/spec/containers/*/volumeMounts/[mountPath=/etc/mesh]",
            "/spec/containers/*/volumeMounts/[mountPath=~1etc~1mesh]",
        ),
    ] {
        let reason = format!("a `/` in a key or value is written `~1`; write {meant}");
        check_refused(path, &reason);
        check_parses(meant);
    }
}

#[test]
fn paths_that_plugins_never_write_are_refused_with_their_ancestors() {
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
        let reason = match path {
            "" => format!(
                "it would also grant {never}, which plugins never write; grant what the plugin needs below it, \
                 of /spec, /metadata/labels and /metadata/annotations"
            ),
            "/metadata" => format!(
                "it would also grant {never}, which plugins never write; grant what the plugin needs below it, \
                 of /metadata/labels and /metadata/annotations"
            ),
            _ => {
                format!("plugins never write {never}, whatever they are granted; remove this path")
            }
        };
        check_refused(path, &reason);
        assert!(Grants::parse(&[path]).is_ok(), "{path} may be read");
    }
}

#[test]
fn the_key_of_a_selected_element_is_refused() {
    check_refused(
        "/spec/containers/[name=a]/name",
        "the selector needs the field name to stay as it is; write `*` in place of the selector to grant changes of it",
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
fn a_path_covers_itself_and_everything_below() {
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
