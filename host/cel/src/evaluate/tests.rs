use std::convert::Infallible;

use proptest::prelude::*;

use super::*;

fn search(now: i64, mut holds: impl FnMut(i64) -> bool) -> Option<i64> {
    let found: Result<_, Infallible> = first_true(now, |second| Ok(holds(second)));
    found.unwrap_or_else(|never| match never {})
}

proptest! {
    #[test]
    fn it_finds_what_trying_each_second_finds(now in -5_000_i64..5_000, after in 1_i64..3_000) {
        let becomes_true = now + after;
        let tried = (now + 1..).find(|second| *second >= becomes_true);
        prop_assert_eq!(search(now, |second| second >= becomes_true), tried);
    }

    #[test]
    fn it_finds_far_seconds_in_few_looks(now in 0_i64..4_000_000_000, after in 1_i64..=1 << FARTHEST) {
        let mut looks = 0;
        let found = search(now, |second| {
            looks += 1;
            second >= now + after
        });
        prop_assert_eq!(found, Some(now + after));
        prop_assert!(looks <= 59, "{} looks", looks);
    }

    #[test]
    fn what_comes_and_goes_is_true_where_it_says(now in 0_i64..1_000, start in 1_i64..5_000, length in 1_i64..5_000) {
        let holds = |second: i64| (now + start..now + start + length).contains(&second);
        if let Some(found) = search(now, holds) {
            prop_assert!(found > now && holds(found) && !holds(found - 1));
        }
    }
}

#[test]
fn what_never_comes_is_not_found() {
    assert_eq!(search(0, |_| false), None);
    assert_eq!(search(0, |second| second > 1 << FARTHEST), None);
}

#[test]
fn the_first_look_is_the_next_second() {
    assert_eq!(search(41, |_| true), Some(42));
}

#[test]
fn an_error_ends_the_search() {
    let mut looks = 0;
    let found = first_true(0, |second| {
        looks += 1;
        if second < 8 { Ok(false) } else { Err("no") }
    });
    assert_eq!(found, Err("no"));
    assert_eq!(looks, 4);
}
