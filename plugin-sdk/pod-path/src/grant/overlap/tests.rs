//! Which writes can make a difference to whom.

use super::Disturbance::{self, Adds, Creates, Writes};
use crate::{Access, Grants};

fn access(reads: &[&str], writes: &[&str]) -> Access {
    Access::new(
        Grants::parse(reads).unwrap(),
        Grants::parse_writes(writes).unwrap(),
    )
}

/// What a plugin that may write the one path does to another plugin that may read the other one, and write the third.
#[track_caller]
fn check(write: &str, read: &str, written: &[&str], expected: Option<&Disturbance>) {
    let (one, other) = (access(&[], &[write]), access(&[read], written));
    assert_eq!(one.disturbs(&other).as_ref(), expected);
}

#[test]
fn paths_that_do_not_meet_disturb_nobody() {
    for (write, read) in [
        ("/spec/nodeName", "/metadata"),
        ("/metadata/labels/team", "/spec"),
        ("/metadata/labels/team", "/metadata/annotations"),
        (
            "/spec/containers/*/image",
            "/spec/containers/*/env/[name=A]",
        ),
        (
            "/spec/containers/[name=a]",
            "/spec/containers/[name=b]/image",
        ),
        (
            "/spec/securityContext",
            "/spec/containers/*/securityContext",
        ),
    ] {
        check(write, read, &[], None);
    }
}

#[test]
fn a_write_where_the_other_reads_is_named_by_the_longer_path() {
    for (write, read, at) in [
        ("/spec", "/spec/nodeName", "/spec/nodeName"),
        ("/metadata/labels/team", "", "/metadata/labels/team"),
        (
            "/spec/containers/*/image",
            "/spec/containers/[name=a]",
            "/spec/containers/*/image",
        ),
        (
            "/spec/containers/[image=x]/env",
            "/spec/containers/[name=a]",
            "/spec/containers/[image=x]/env",
        ),
    ] {
        check(write, read, &[], Some(&Writes(at.to_owned())));
    }
}

/// A grant finds elements by a field, or shows their names with `*`.
#[test]
fn writing_the_field_by_which_the_other_finds_elements_is_seen() {
    let name = "/spec/containers/*/name";
    for read in [
        "/spec/containers/*/image",
        "/spec/containers/[name=a]/image",
    ] {
        check(name, read, &[], Some(&Writes(name.to_owned())));
    }
    let image = "/spec/containers/*/image";
    let seen = Some(Writes(image.to_owned()));
    check(image, "/spec/containers/[image=x]/env", &[], seen.as_ref());
    check(image, "/spec/containers/[name=a]/env", &[], None);
}

#[test]
fn two_that_add_to_the_same_list_decide_its_order() {
    let (one, other) = ("/spec/volumes/[name=a]", "/spec/volumes/[name=b]");
    let adds = Some(Adds("/spec/volumes".to_owned()));
    check(one, "/metadata", &[other], adds.as_ref());
    let adds = Some(Adds("/spec/containers/*/env".to_owned()));
    let (one, other) = (
        "/spec/containers/*/env/[name=A]",
        "/spec/containers/*/env/[name=B]",
    );
    check(one, "/metadata", &[other], adds.as_ref());
    // The other one adds nothing, and every pod has containers.
    check(
        "/spec/containers/[name=a]",
        "/metadata",
        &["/spec/containers/[name=b]/image"],
        None,
    );
}

/// A view of a granted path shows which parents of it are there.
#[test]
fn a_parent_that_may_be_missing_is_seen_by_who_is_granted_something_in_it() {
    for (write, read, parent) in [
        (
            "/metadata/labels/a",
            "/metadata/labels/b",
            "/metadata/labels",
        ),
        (
            "/spec/volumes/[name=a]",
            "/spec/volumes/[name=b]/name",
            "/spec/volumes",
        ),
        (
            "/spec/containers/*/securityContext/runAsUser",
            "/spec/containers/[name=a]/securityContext/runAsGroup",
            "/spec/containers/*/securityContext",
        ),
    ] {
        check(write, read, &[], Some(&Creates(parent.to_owned())));
    }
}

#[test]
fn overlapping_paths_are_found() {
    let of = |paths: &[&str]| Grants::parse(paths).unwrap();
    let labels = of(&["/metadata/labels/tier", "/metadata/labels/team"]);
    assert_eq!(
        labels.overlapping(&of(&["/metadata/labels/team"])),
        Some("/metadata/labels/team")
    );
    assert_eq!(
        labels.overlapping(&of(&["/metadata/labels"])),
        Some("/metadata/labels/tier")
    );
    assert_eq!(labels.overlapping(&of(&["/spec"])), None);
}
