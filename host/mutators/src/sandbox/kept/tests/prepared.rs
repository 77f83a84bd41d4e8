//! Differences between two memories, and differences that are too large to keep.

use super::super::{BLOCK, PREPARED_BYTES, Prepared};

fn runs(before: &[u8], after: &[u8]) -> Vec<(usize, usize)> {
    let prepared = Prepared::of(before, after).expect("it is small");
    assert_eq!(prepared.size, after.len());
    let lengths = prepared.runs.iter().map(|(at, run)| (*at, run.len()));
    lengths.collect()
}

#[test]
fn what_is_the_same_is_not_kept() {
    let before = vec![7; 10 * BLOCK];
    let mut after = before.clone();
    assert_eq!(runs(&before, &after), []);
    after[3 * BLOCK] = 0;
    after[5 * BLOCK - 1] = 0;
    after[9 * BLOCK + 1] = 0;
    assert_eq!(
        runs(&before, &after),
        [(3 * BLOCK, 2 * BLOCK), (9 * BLOCK, BLOCK)]
    );
}

#[test]
fn added_memory_counts_where_it_is_not_zero() {
    let before = vec![7; 2 * BLOCK];
    let mut after = before.clone();
    after.resize(6 * BLOCK, 0);
    after[4 * BLOCK + 5] = 1;
    assert_eq!(runs(&before, &after), [(4 * BLOCK, BLOCK)]);
}

#[test]
fn too_much_is_not_kept() {
    let before = vec![0; PREPARED_BYTES + BLOCK];
    let mut after = vec![1; PREPARED_BYTES];
    after.resize(PREPARED_BYTES + BLOCK, 0);
    assert!(Prepared::of(&before, &after).is_some());
    after[PREPARED_BYTES] = 1;
    assert!(Prepared::of(&before, &after).is_none());
}
