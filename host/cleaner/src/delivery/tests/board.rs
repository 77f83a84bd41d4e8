use super::super::*;

fn board() -> Board {
    Board::new(3, 2)
}

fn id(namespace: &str, name: &str) -> CleanerId {
    CleanerId {
        namespace: namespace.into(),
        name: name.into(),
        uid: format!("{namespace}-{name}").into(),
    }
}

fn attempt(number: i32) -> Attempt {
    Attempt {
        number,
        sink: "http://sink/".to_owned(),
        failures: 0,
        state: AttemptState::Running,
    }
}

fn accepted(attempt: Attempt) -> Attempt {
    Attempt {
        state: AttemptState::Accepted,
        ..attempt
    }
}

/// Begins an attempt. Returns whether it is to be made.
fn begin(board: &mut Board, id: &CleanerId) -> bool {
    let (is_new, begun) = board.begin(id, &attempt(1));
    assert_eq!(is_new, begun.is_some(), "no other runs");
    is_new
}

#[test]
fn a_cleaner_has_one_attempt_at_a_time() {
    let mut board = board();
    let shop = id("demo", "shop");
    assert!(begin(&mut board, &shop));
    let (is_new, begun) = board.begin(&shop, &attempt(2));
    assert!(!is_new);
    let Some(attempt) = begun else {
        panic!("it runs");
    };
    assert_eq!(
        (attempt.number, &attempt.state),
        (1, &AttemptState::Running)
    );
    assert_eq!(board.attempt(&shop.uid), Some(attempt));
    assert_eq!(board.end(&shop, accepted), std::slice::from_ref(&shop));
    assert_eq!(
        board.attempt(&shop.uid).unwrap().state,
        AttemptState::Accepted
    );
    assert!(begin(&mut board, &shop));
    assert_eq!(
        board.attempt(&shop.uid).unwrap().state,
        AttemptState::Running
    );
}

#[test]
fn a_namespace_leaves_room_for_others() {
    let mut board = board();
    let [a, b, c] = ["a", "b", "c"].map(|name| id("demo", name));
    let [d, e] = ["d", "e"].map(|name| id("other", name));
    assert!(begin(&mut board, &a));
    assert!(begin(&mut board, &b));
    assert!(!begin(&mut board, &c), "two of its namespace run");
    assert!(begin(&mut board, &d));
    assert!(!begin(&mut board, &e), "three run in all");
    assert_eq!(board.attempt(&e.uid), None);
    assert_eq!(
        board.end(&d, accepted),
        [d.clone(), e.clone()],
        "c has no room still"
    );
    assert_eq!(board.end(&a, accepted), [a, c]);
    assert_eq!(board.end(&b, accepted), [b], "nobody waits any more");
}

#[test]
fn the_first_one_that_waits_is_woken_first_and_once() {
    let mut board = board();
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| id("demo", name));
    assert!(begin(&mut board, &a));
    assert!(begin(&mut board, &b));
    assert!(!begin(&mut board, &c));
    assert!(!begin(&mut board, &d));
    assert!(!begin(&mut board, &c));
    assert_eq!(board.end(&a, accepted), [a, c.clone()]);
    assert!(begin(&mut board, &c));
    assert_eq!(board.end(&b, accepted), [b, d.clone()]);
    assert_eq!(board.end(&c, accepted), [c]);
}

#[test]
fn one_that_began_does_not_wait_any_more() {
    let mut board = board();
    let [a, b, c] = ["a", "b", "c"].map(|name| id("demo", name));
    assert!(begin(&mut board, &a));
    assert!(begin(&mut board, &b));
    assert!(!begin(&mut board, &c));
    board.withdraw(&a.uid);
    assert!(begin(&mut board, &c), "there is room again");
    assert_eq!(board.end(&b, accepted), [b]);
}

#[test]
fn a_cleaner_that_is_gone_leaves_nothing() {
    let mut board = board();
    let [a, b, c] = ["a", "b", "c"].map(|name| id("demo", name));
    for gone in [&a, &b] {
        assert!(begin(&mut board, gone));
    }
    assert!(!begin(&mut board, &c));
    board.end(&a, accepted);
    assert!(begin(&mut board, &a));
    for gone in [&a, &b, &c] {
        board.forget(&gone.uid);
    }
    let what_came = board.end(&a, accepted);
    assert_eq!(what_came, [], "it is not woken, and nobody waits");
    assert!(board.running.is_empty() && board.ended.is_empty() && board.waiting.is_empty());
}
