use super::{NOTE_MAX, cut};

#[test]
fn a_long_note_is_cut_between_characters() {
    assert_eq!(cut("short".to_owned()), "short");
    let note = cut("é".repeat(NOTE_MAX));
    assert_eq!(note.len(), NOTE_MAX);
    let note = cut(format!("x{}", "é".repeat(NOTE_MAX)));
    assert_eq!(note.len(), NOTE_MAX - 1);
}
