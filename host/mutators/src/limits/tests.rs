use super::{CHAIN_KEPT_BYTES, CHAIN_PATHS_BYTES, MemoryBudget, SEGMENT_BYTES};

#[test]
fn paths_count_by_their_segments() {
    let budget = MemoryBudget::default();
    let paths = ["/a/b/c".to_owned(), "/d".to_owned()];
    let fit = CHAIN_PATHS_BYTES / (4 * SEGMENT_BYTES + 8);
    for _ in 0..fit {
        assert!(budget.take_for_paths(&paths));
    }
    assert!(!budget.take_for_paths(&paths));
    assert!(budget.take_for_paths(&[]), "nothing always fits");
    assert!(budget.take_to_keep(1), "paths have a budget of their own");
}

#[test]
fn what_does_not_fit_takes_nothing() {
    let budget = MemoryBudget::default();
    assert!(!budget.take_to_keep(CHAIN_KEPT_BYTES + 1));
    assert!(budget.take_to_keep(CHAIN_KEPT_BYTES));
    assert!(!budget.take_to_keep(1));
}
