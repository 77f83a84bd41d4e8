use super::super::Lines;

#[test]
fn values_are_found_by_their_pointers() {
    let text = "plugins:\n- name: a\n  config:\n    x: 1\n    \"y/z\": [1,\n      2]\n- {name: b, config: null}\n";
    let lines = Lines::of(text);
    for (pointer, line) in [
        ("/plugins/0/name", 2),
        ("/plugins/0/config/x", 4),
        ("/plugins/0/config/y~1z", 5),
        ("/plugins/0/config/y~1z/1", 6),
        ("/plugins/1/config", 7),
        // The nearest value around it.
        ("/plugins/0/config/gone/away", 4),
    ] {
        assert_eq!(lines.line(pointer), line, "{pointer}");
    }
    assert_eq!(Lines::of("a: [").line("/a"), 0);
}
