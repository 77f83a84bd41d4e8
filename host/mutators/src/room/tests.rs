use super::{CHAIN_KEPT_BYTES, CHAIN_PATHS_BYTES, Room, SEGMENT_BYTES};

#[test]
fn paths_count_by_their_segments() {
    let room = Room::default();
    let paths = ["/a/b/c".to_owned(), "/d".to_owned()];
    let fit = CHAIN_PATHS_BYTES / (4 * SEGMENT_BYTES + 8);
    for _ in 0..fit {
        assert!(room.has_for_paths(&paths));
    }
    assert!(!room.has_for_paths(&paths));
    assert!(room.has_for_paths(&[]), "nothing always fits");
    assert!(room.has_to_keep(1), "paths leave room for the rest");
}

#[test]
fn what_does_not_fit_leaves_room_for_less() {
    let room = Room::default();
    assert!(!room.has_to_keep(CHAIN_KEPT_BYTES + 1));
    assert!(room.has_to_keep(CHAIN_KEPT_BYTES));
    assert!(!room.has_to_keep(1));
}
