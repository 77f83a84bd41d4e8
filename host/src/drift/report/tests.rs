//! Names that are part of a command.

use super::is_name;

#[test]
fn a_name_is_no_part_of_a_command() {
    for name in ["web", "web-5d9f.1", "system:node"] {
        assert!(is_name(name), "{name}");
    }
    for name in [
        "",
        "-n",
        "web; sh",
        "web -n kube-system",
        "$(sh)",
        "web\n",
        "w|sh",
        "Wéb",
    ] {
        assert!(!is_name(name), "{name:?}");
    }
    assert!(is_name(&"a".repeat(253)) && !is_name(&"a".repeat(254)));
}
