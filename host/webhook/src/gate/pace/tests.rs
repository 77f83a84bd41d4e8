use std::collections::HashSet;
use std::time::Duration;

use super::{Pace, Turn};

fn pods(uids: std::ops::Range<u32>) -> HashSet<String> {
    uids.map(|uid| uid.to_string()).collect()
}

fn turn(pace: &mut Pace, uids: std::ops::Range<u32>) -> (usize, u64) {
    let Turn { pods, pause } = pace.turn(pods(uids.clone()), uids.is_empty());
    (pods, pause.as_secs())
}

#[test]
fn it_begins_with_one_and_ends_with_twenty() {
    let mut pace = Pace::default();
    let turns = [100, 99, 97, 93, 85, 69, 49, 29].map(|left| turn(&mut pace, 0..left).0);
    assert_eq!(turns, [1, 2, 4, 8, 16, 20, 20, 20]);
    assert_eq!(turn(&mut pace, 0..0), (0, 5), "nobody waits");
}

#[test]
fn while_others_come_to_wait_it_only_tries_now_and_then() {
    let mut pace = Pace::default();
    assert_eq!(turn(&mut pace, 0..10), (1, 1));
    let (mut pauses, mut tried) = (Vec::new(), 0);
    for new in 0..7 {
        // The pod that was made anew waits again.
        let (made, pause) = turn(&mut pace, new + 1..new + 11);
        assert_eq!(made, 0);
        pauses.push(pause);
        tried += turn(&mut pace, new + 1..new + 11).0;
    }
    assert_eq!(pauses, [5, 10, 20, 40, 60, 60, 60]);
    assert_eq!(tried, 7, "one each time");
}

#[test]
fn pods_that_no_controller_makes_anew_keep_nobody_busy() {
    let mut pace = Pace::default();
    let turn = pace.turn(pods(0..3), true);
    let rest = Turn {
        pods: 0,
        pause: Duration::from_secs(5),
    };
    assert_eq!(turn, rest);
}
