//! The plain part of a string.

/// Returns where the plain part of a string ends: at its quote, an escape, or a control character.
///
/// Eight bytes are looked at together, as in `serde_json`: most of what a plugin reads is names and values.
#[inline]
pub(in crate::json) fn plain_end(bytes: &[u8], start: usize) -> usize {
    const ONES: u64 = u64::MAX / 0xFF;
    const HIGH: u64 = ONES << 7;
    let equals = |word: u64, byte: u8| {
        let zero = word ^ (ONES * u64::from(byte));
        zero.wrapping_sub(ONES) & !zero
    };
    let mut position = start;
    while let Some(chunk) = bytes.get(position..).and_then(|rest| rest.first_chunk()) {
        let word = u64::from_le_bytes(*chunk);
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        // The lowest mark is right; those above it may come from borrowing.
        let marks = (equals(word, b'"') | equals(word, b'\\') | control) & HIGH;
        if marks != 0 {
            return position + marks.trailing_zeros() as usize / 8;
        }
        position += 8;
    }
    while bytes
        .get(position)
        .is_some_and(|byte| *byte >= 0x20 && !matches!(byte, b'"' | b'\\'))
    {
        position += 1;
    }
    position
}
