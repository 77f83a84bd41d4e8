use super::super::*;

/// How a look ended.
type Look = fn() -> Finding;

const USABLE: Look = || Finding::Answers(BTreeMap::new());
const UNUSABLE: Look = || Finding::Trouble(Trouble::no_host());
const BUSY_LOOK: Look = || Finding::Busy;

const INTERVAL: Duration = Duration::from_secs(30);

/// Looks at a relay with these results, each as soon as it is due, and returns the pauses after them.
fn pauses(looks: &[(Look, f64)], soon: bool) -> Vec<Duration> {
    let mut schedule = Schedule::default();
    let mut now = Instant::now();
    looks
        .iter()
        .map(|(look, random)| {
            schedule.looked(&look(), *random, now);
            let due = schedule.due(INTERVAL, soon, now);
            let pause = due - now;
            now = due;
            pause
        })
        .collect()
}

fn seconds(seconds: &[u64]) -> Vec<Duration> {
    seconds.iter().copied().map(Duration::from_secs).collect()
}

#[test]
fn a_new_relay_is_due_at_once() {
    let now = Instant::now();
    assert_eq!(Schedule::default().due(INTERVAL, false, now), now);
}

#[test]
fn a_relay_that_answers_is_asked_at_the_interval_plus_or_minus_a_tenth() {
    let looks = [0.0, 0.5, 1.0].map(|random| (USABLE, random));
    assert_eq!(pauses(&looks, false), seconds(&[27, 30, 33]));
}

#[test]
fn a_relay_that_answers_is_asked_soon_while_a_tunnel_is_waited_for() {
    let looks = [(USABLE, 0.0), (USABLE, 1.0)];
    assert_eq!(pauses(&looks, true), seconds(&[2, 2]));
}

#[test]
fn to_ask_soon_never_means_later_than_the_interval() {
    let mut schedule = Schedule::default();
    let now = Instant::now();
    schedule.looked(&USABLE(), 0.0, now);
    let short = Duration::from_millis(500);
    assert_eq!(schedule.due(short, true, now) - now, short);
}

#[test]
fn a_relay_that_does_not_answer_is_asked_after_doubling_pauses() {
    let looks = [(UNUSABLE, 0.0); 9];
    for soon in [false, true] {
        let expected = seconds(&[1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(pauses(&looks, soon), expected);
    }
    let many = vec![(UNUSABLE, 0.0); 200];
    assert_eq!(pauses(&many, false).last(), Some(&BACKOFF_LONGEST));
}

#[test]
fn an_answer_ends_the_doubling() {
    let looks = [
        (UNUSABLE, 0.5),
        (UNUSABLE, 0.5),
        (USABLE, 0.5),
        (UNUSABLE, 0.5),
    ];
    assert_eq!(pauses(&looks, false), seconds(&[1, 2, 30, 1]));
}

#[test]
fn a_request_without_room_is_repeated_and_counts_as_nothing() {
    let looks = [
        (UNUSABLE, 0.5),
        (UNUSABLE, 0.5),
        (BUSY_LOOK, 0.5),
        (BUSY_LOOK, 0.5),
        (UNUSABLE, 0.5),
        (USABLE, 0.5),
    ];
    assert_eq!(pauses(&looks, false), seconds(&[1, 2, 1, 1, 4, 30]));
}

#[test]
fn an_episode_is_urgent_for_two_minutes() {
    let start = Instant::now();
    let mut episode = Episode::default();
    assert!(!episode.is_urgent(start));
    episode.start(start);
    for (second, expected) in [(0, true), (119, true), (120, false), (500, false)] {
        let now = start + Duration::from_secs(second);
        // It still lacks its lease, which is no new episode.
        episode.start(now);
        assert_eq!(episode.is_urgent(now), expected, "after {second} s");
    }
    let later = start + Duration::from_secs(500);
    episode.end(later);
    assert!(!episode.is_urgent(later));
    episode.start(later);
    assert!(!episode.is_urgent(later), "the budget is spent");
    episode.end(later);
    // The impatience ended after 2 minutes.
    let renewed = start + Duration::from_mins(17);
    episode.start(renewed);
    assert!(episode.is_urgent(renewed));
}

#[test]
fn short_episodes_share_the_budget() {
    let start = Instant::now();
    let mut episode = Episode::default();
    let mut urgent = 0;
    // The lease comes and goes every 2 seconds, for an hour.
    for second in 0..3600 {
        let now = start + Duration::from_secs(second);
        match second % 4 {
            0 => episode.start(now),
            2 => episode.end(now),
            _ => {}
        }
        if episode.is_urgent(now) {
            urgent += 1;
        }
        if second == 899 {
            assert_eq!(urgent, 120);
        }
    }
    // The budgets begin after 0, 19 and 38 minutes; of the fourth, after 57 minutes, the hour has 3.
    assert_eq!(urgent, 3 * 120 + 90);
}
