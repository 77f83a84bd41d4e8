use super::{base64, signing_key};

#[track_caller]
fn check(bytes: &str, expected: &str) {
    assert_eq!(base64(bytes.as_bytes()), expected);
}

#[test]
fn base64_is_that_of_rfc_4648() {
    check("", "");
    check("f", "Zg==");
    check("fo", "Zm8=");
    check("foo", "Zm9v");
    check("foobar", "Zm9vYmFy");
    check("\u{ff}\u{fe}", "w7/Dvg==");
}

#[test]
fn keys_differ() {
    assert_ne!(signing_key().unwrap(), signing_key().unwrap());
}
