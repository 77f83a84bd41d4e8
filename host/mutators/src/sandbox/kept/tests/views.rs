use podloom_pod_path::{Access, Fields, Transaction};
use serde_json::json;

use super::super::{LIST_BYTES, LIST_SEGMENTS, LISTS, Views};
use crate::limits::{CHAIN_KEPT_BYTES, MemoryBudget};

fn fields(names: &[&str]) -> Fields {
    let pod = Transaction::begin(json!({}), Access::unrestricted().into(), [].into());
    pod.fields("", names).expect("paths")
}

fn found<'v>(views: &'v Views, names: &[&str]) -> Option<&'v [String]> {
    views.find(|known| known == names).map(Fields::names)
}

#[test]
fn a_list_is_found_by_all_its_names_in_their_order() {
    let views = Views::default();
    assert_eq!(found(&views, &["/a", "/b"]), None);
    views.keep(fields(&["/a", "/b"]), &MemoryBudget::default());
    views.keep(fields(&[]), &MemoryBudget::default());
    assert_eq!(
        found(&views, &["/a", "/b"]),
        Some(&["/a".to_owned(), "/b".to_owned()][..])
    );
    assert_eq!(found(&views, &[]), Some(&[][..]));
    for others in [&["/b", "/a"][..], &["/a"], &["/a", "/b", "/c"], &["/a/b"]] {
        assert_eq!(found(&views, others), None, "{others:?}");
    }
}

#[test]
fn the_number_and_size_of_kept_lists_are_limited() {
    let views = Views::default();
    let long = format!("/{}", "x".repeat(1000));
    views.keep(
        fields(&vec![long.as_str(); LIST_BYTES / long.len() + 1]),
        &MemoryBudget::default(),
    );
    let deep = "/x".repeat(64);
    views.keep(
        fields(&[deep.as_str(); LIST_SEGMENTS / 64 + 1]),
        &MemoryBudget::default(),
    );
    assert_eq!(views.0.iter().flat_map(|slot| slot.get()).count(), 0);
    let names: Vec<String> = (0..=LISTS).map(|name| format!("/{name}")).collect();
    for name in &names {
        views.keep(fields(&[name]), &MemoryBudget::default());
    }
    for name in &names[..LISTS] {
        assert!(found(&views, &[name]).is_some(), "{name}");
    }
    assert_eq!(found(&views, &[&names[LISTS]]), None);
}

#[test]
fn lists_over_the_budget_of_the_chain_are_not_kept() {
    let budget = MemoryBudget::default();
    assert!(budget.take_to_keep(CHAIN_KEPT_BYTES - 1500));
    let views = Views::default();
    views.keep(fields(&["/a/b/c"]), &budget);
    views.keep(fields(&["/a/b"]), &budget);
    assert!(found(&views, &["/a/b/c"]).is_none());
    assert!(found(&views, &["/a/b"]).is_some());
}
