use super::super::{CAREFUL, FastLane};

#[test]
fn after_a_slow_call_the_next_ones_begin_elsewhere() {
    let lane = FastLane::default();
    assert!(lane.is_open());
    lane.close();
    for _ in 0..CAREFUL {
        assert!(!lane.is_open());
    }
    assert!(lane.is_open());
}
