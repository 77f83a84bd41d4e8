use super::*;

const ROOM: Room = Room {
    attempts: 3,
    per_namespace: 2,
};

fn id(namespace: &str, name: &str) -> CleanerId {
    CleanerId {
        namespace: namespace.into(),
        name: name.into(),
        uid: format!("{namespace}-{name}").into(),
    }
}

fn shot(number: i32) -> Shot {
    Shot {
        number,
        sink: "http://sink/".to_owned(),
        failures: 0,
    }
}

fn accepted(attempt: &Attempt) -> Attempt {
    Attempt {
        state: AttemptState::Accepted,
        ..attempt.clone()
    }
}

/// Begins an attempt. Returns whether it is to be made.
fn begin(board: &Board, id: &CleanerId) -> bool {
    let (is_new, begun) = board.begin(id, &shot(1));
    assert_eq!(is_new, begun != Begun::Full, "no other runs");
    is_new
}

#[test]
fn a_cleaner_has_one_attempt_at_a_time() {
    let board = Board::new(ROOM);
    let shop = id("demo", "shop");
    assert!(begin(&board, &shop));
    let (is_new, begun) = board.begin(&shop, &shot(2));
    assert!(!is_new);
    let Begun::Running(attempt) = begun else {
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
    assert!(begin(&board, &shop));
    assert_eq!(
        board.attempt(&shop.uid).unwrap().state,
        AttemptState::Running
    );
}

#[test]
fn a_namespace_leaves_room_for_others() {
    let board = Board::new(ROOM);
    let [a, b, c] = ["a", "b", "c"].map(|name| id("demo", name));
    let [d, e] = ["d", "e"].map(|name| id("other", name));
    assert!(begin(&board, &a));
    assert!(begin(&board, &b));
    assert!(!begin(&board, &c), "two of its namespace run");
    assert!(begin(&board, &d));
    assert!(!begin(&board, &e), "three run in all");
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
    let board = Board::new(ROOM);
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| id("demo", name));
    assert!(begin(&board, &a));
    assert!(begin(&board, &b));
    assert!(!begin(&board, &c));
    assert!(!begin(&board, &d));
    assert!(!begin(&board, &c));
    assert_eq!(board.end(&a, accepted), [a, c.clone()]);
    assert!(begin(&board, &c));
    assert_eq!(board.end(&b, accepted), [b, d.clone()]);
    assert_eq!(board.end(&c, accepted), [c]);
}

#[test]
fn one_that_began_does_not_wait_any_more() {
    let board = Board::new(ROOM);
    let [a, b, c] = ["a", "b", "c"].map(|name| id("demo", name));
    assert!(begin(&board, &a));
    assert!(begin(&board, &b));
    assert!(!begin(&board, &c));
    board.withdraw(&a.uid);
    assert!(begin(&board, &c), "there is room again");
    assert_eq!(board.end(&b, accepted), [b]);
}

#[test]
fn a_cleaner_that_is_gone_leaves_nothing() {
    let board = Board::new(ROOM);
    let [a, b, c] = ["a", "b", "c"].map(|name| id("demo", name));
    for gone in [&a, &b] {
        assert!(begin(&board, gone));
    }
    assert!(!begin(&board, &c));
    board.end(&a, accepted);
    assert!(begin(&board, &a));
    for gone in [&a, &b, &c] {
        board.forget(&gone.uid);
    }
    let what_came = board.end(&a, accepted);
    assert_eq!(what_came, [], "it is not woken, and nobody waits");
    let state = lock(&board.state);
    assert!(state.running.is_empty() && state.ended.is_empty() && state.waiting.is_empty());
}
