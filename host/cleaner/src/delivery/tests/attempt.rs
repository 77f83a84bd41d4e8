use super::super::*;

fn seconds(failures: u32, retry_after: Option<u64>) -> u64 {
    wait(failures, retry_after.map(Duration::from_secs)).as_secs()
}

#[test]
fn the_wait_doubles_up_to_five_minutes() {
    let waits: Vec<u64> = (1..12).map(|failures| seconds(failures, None)).collect();
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    assert_eq!(seconds(u32::MAX, None), 300);
}

#[test]
fn the_sink_is_left_alone_for_as_long_as_it_wants_up_to_five_minutes() {
    assert_eq!(seconds(1, Some(30)), 30);
    assert_eq!(seconds(1, Some(0)), 1, "never hot");
    assert_eq!(seconds(6, Some(3)), 32, "never sooner than without it");
    assert_eq!(seconds(1, Some(u64::MAX)), 300);
}

#[test]
fn a_pause_ends_with_its_time_or_if_the_clock_is_put_back() {
    let at: Timestamp = "2026-01-01T00:00:10Z".parse().unwrap();
    let end: Timestamp = "2026-01-01T00:00:15Z".parse().unwrap();
    let state = AttemptState::Postponed(at..end);
    assert_eq!(state.pause(at), Some(end));
    assert_eq!(state.pause(end), None);
    assert_eq!(state.pause("2026-01-01T00:00:09Z".parse().unwrap()), None);
}
