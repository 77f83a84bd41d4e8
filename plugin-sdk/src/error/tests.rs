use super::{Findings, KINDS};

#[test]
fn places_beyond_the_room_are_counted() {
    let mut found = Findings::default();
    for number in 0..12 {
        found.add(&format!("/spec/containers/[name=c{number}]/image"), "old");
    }
    found.add("/spec/hostPID", "must not be true");
    found.add("/spec/hostIPC", "must not be true");
    let expected = [
        "/spec/containers/[name=c0]/image, /spec/containers/[name=c1]/image, /spec/containers/[name=c2]/image and 9 more: old",
        "/spec/hostPID: must not be true",
        "/spec/hostIPC: must not be true",
    ];
    assert_eq!(found.notes(), expected);
    let reasons = found.reasons();
    assert!(
        reasons[0].ends_with("/spec/containers/[name=c11]/image: old"),
        "a reason has room for all: {reasons:?}"
    );
}

#[test]
fn a_long_place_does_not_hide_what_was_found() {
    let mut found = Findings::default();
    found.add(&format!("/[{}]", "x".repeat(80_000)), "privileged");
    found.add("/[y]", "privileged");
    let expected = format!(
        "/[{}... and 1 more: privileged",
        "x".repeat(super::PLACE - 2)
    );
    assert_eq!(found.notes(), [expected]);
}

#[test]
fn kinds_beyond_the_limit_are_counted() {
    let mut found = Findings::default();
    for number in 0..KINDS + 3 {
        found.add("/spec", &format!("finding {number}"));
    }
    let notes = found.notes();
    assert_eq!(notes.len(), KINDS + 1);
    assert_eq!(notes[KINDS], "3 more findings of other kinds");
}
