use super::permits;

#[track_caller]
fn check(processors: usize, expected: usize) {
    assert_eq!(permits(processors), expected, "{processors} processors");
}

#[test]
fn proving_one_plugin_leaves_permits_for_pods() {
    check(1, 2);
    check(2, 2);
    check(3, 3);
    check(64, 4);
}
