mod infrastructure;

use super::seconds;

#[test]
fn deadlines_are_whole_seconds() {
    assert!(seconds("120s").is_ok());
    assert!(seconds("500ms").is_err());
    assert!(seconds("0s").is_err());
}
