mod grants;

use super::at_once;

#[track_caller]
fn check(processors: usize, expected: usize) {
    assert_eq!(at_once(processors), expected, "{processors} processors");
}

#[test]
fn one_plugin_that_takes_long_leaves_a_turn_for_the_next_pod() {
    check(1, 2);
    check(2, 2);
    check(3, 3);
    check(64, 4);
}
