use std::time::Duration;

use super::{show_bytes, show_duration};

#[test]
fn sizes_and_times_are_shown_for_people() {
    let bytes = |bytes: usize, expected: &str| assert_eq!(show_bytes(bytes), expected);
    bytes(0, "0 bytes");
    bytes(1023, "1023 bytes");
    bytes(1536, "1.5 KiB");
    bytes(16 << 20, "16 MiB");
    bytes(3 << 30, "3 GiB");
    let time = |millis: u64, expected: &str| {
        assert_eq!(show_duration(Duration::from_millis(millis)), expected)
    };
    time(50, "50 ms");
    time(1000, "1 s");
    time(1500, "1500 ms");
}
