//! Takes the white space out of JSON while a plugin is compiled.
//!
//! The schema of a plugin's configuration lies in its memory during each call. As it is written for people it is half as large
//! again, and a call is quickest while all memory is 64 KiB.

/// Returns how long a text is without white space between its parts.
pub const fn minified_length(json: &str) -> usize {
    minified::<0>(json).1
}

/// Returns a text without white space between its parts; `LENGTH` is its [`minified_length`].
pub const fn minify<const LENGTH: usize>(json: &str) -> [u8; LENGTH] {
    minified(json).0
}

/// The first `LENGTH` bytes, and how many there are in all.
const fn minified<const LENGTH: usize>(json: &str) -> ([u8; LENGTH], usize) {
    let mut out = [0; LENGTH];
    let mut length = 0;
    let mut rest = json.as_bytes();
    let mut in_string = false;
    let mut escaped = false;
    while let [byte, after @ ..] = rest {
        rest = after;
        if in_string {
            in_string = escaped || *byte != b'"';
            escaped = !escaped && *byte == b'\\';
        } else if byte.is_ascii_whitespace() {
            continue;
        } else {
            in_string = *byte == b'"';
        }
        if length < LENGTH {
            out[length] = *byte;
        }
        length += 1;
    }
    (out, length)
}

#[cfg(test)]
mod tests {
    use super::{minified_length, minify};

    #[test]
    fn white_space_goes_but_in_strings() {
        const JSON: &str = r#" { "a b" : [ 1 , "\\" , "\" \"" ] ,
            "c" : "" } "#;
        const MINIFIED: [u8; minified_length(JSON)] = minify(JSON);
        let expected = r#"{"a b":[1,"\\","\" \""],"c":""}"#;
        assert_eq!(str::from_utf8(&MINIFIED), Ok(expected));
    }
}
