//! How much room something takes where the API server stores it: etcd takes no request of more than 1.5 MiB. Pure.

use std::io;

use serde::Serialize;

/// Returns how many bytes the API server stores, at most. It writes some characters as six, such as `<`.
pub(super) fn stored_bytes(value: &impl Serialize) -> usize {
    let mut counted = Counted(0);
    match serde_json::to_writer(&mut counted, value) {
        Ok(()) => counted.0,
        // What cannot be written takes no room.
        Err(_) => 0,
    }
}

struct Counted(usize);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sizes = bytes.iter().map(|byte| match byte {
            b'<' | b'>' | b'&' => 6,
            // So two characters that end lines begin, with three bytes each.
            0xe2 => 4,
            _ => 1,
        });
        self.0 = self.0.saturating_add(sizes.sum());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::stored_bytes;

    #[test]
    fn some_characters_take_six_bytes() {
        assert_eq!(stored_bytes(&json!({ "a": "b" })), r#"{"a":"b"}"#.len());
        assert_eq!(stored_bytes(&json!("<&>")), 20);
        assert_eq!(stored_bytes(&json!("\u{2028}")), 8);
    }
}
