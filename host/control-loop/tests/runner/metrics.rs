//! The metrics, as Prometheus reads them.

use std::sync::Arc;

use podloom_control_loop::{CallOutcome, HandleKind, LoopMetrics, Recorder};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::time::sleep;

use crate::support::{World, failed, looking_at, ms, secs, settled, start};

fn encoded(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).expect("text takes everything");
    text
}

#[track_caller]
fn has(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(
            text.lines().any(|one| one == *line),
            "{line} is not in\n{text}"
        );
    }
}

#[test]
fn latencies_are_counted_in_the_right_buckets_and_split_by_kind_and_success() {
    let mut registry = Registry::with_prefix("podloom");
    let metrics = LoopMetrics::register(&mut registry);
    for took in [ms(55), secs(1), secs(6)] {
        metrics.handle_duration("a", took, HandleKind::Add, CallOutcome::Success);
        metrics.queued_duration("a", took);
        metrics.list_duration("a", took, CallOutcome::Failure);
        metrics.get_duration("a", took, CallOutcome::Success);
    }
    metrics.handle_duration("a", secs(1), HandleKind::Delete, CallOutcome::Failure);
    metrics.get_duration("b", secs(1), CallOutcome::Failure);
    let text = encoded(&registry);
    for labels in [
        r#"loop_handle_duration_seconds_X{loop="a",kind="add",success="true""#,
        r#"loop_queued_duration_seconds_X{loop="a""#,
        r#"loop_listerwatcher_list_duration_seconds_X{loop="a",success="false""#,
        r#"loop_storage_get_duration_seconds_X{loop="a",success="true""#,
    ] {
        check_buckets(&text, labels);
    }
    has(
        &text,
        &[
            r#"podloom_loop_handle_duration_seconds_count{loop="a",kind="delete",success="false"} 1"#,
            r#"podloom_loop_storage_get_duration_seconds_count{loop="b",success="false"} 1"#,
        ],
    );
}

/// Samples of 55 ms, 1 s and 6 s.
#[track_caller]
fn check_buckets(text: &str, labels: &str) {
    let bucket = labels.replace("_X", "_bucket");
    let bucket = |le: &str, count: u32| {
        let bucket = bucket.replacen('{', &format!("{{le=\"{le}\","), 1);
        format!("podloom_{bucket}}} {count}")
    };
    let counts = [
        ("0.05", 0),
        ("0.1", 1),
        ("0.5", 1),
        ("1.0", 2),
        ("5.0", 2),
        ("10.0", 3),
        ("+Inf", 3),
    ];
    for (le, count) in counts {
        has(text, &[&bucket(le, count)]);
    }
    has(
        text,
        &[&format!("podloom_{}}} 3", labels.replace("_X", "_count"))],
    );
    has(
        text,
        &[&format!("podloom_{}}} 7.055", labels.replace("_X", "_sum"))],
    );
}

#[test]
fn registering_twice_does_not_panic_and_both_count() {
    let mut registry = Registry::default();
    let [first, second] = [(); 2].map(|()| LoopMetrics::register(&mut registry));
    first.dropped("a");
    second.dropped("b");
    let text = encoded(&registry);
    has(
        &text,
        &[
            r#"loop_dropped_total{loop="a"} 1"#,
            r#"loop_dropped_total{loop="b"} 1"#,
        ],
    );
}

#[tokio::test(start_paused = true)]
async fn a_loop_records_what_it_does() {
    let mut registry = Registry::with_prefix("podloom");
    let world = World::new([1, 2]);
    world.store([1]);
    let mut control_loop = looking_at(&world, |_, id| async move {
        sleep(secs(2)).await;
        if id == 1 { settled() } else { failed() }
    });
    control_loop.name = "a".into();
    control_loop.options.max_retries = Some(1);
    control_loop.recorder = Arc::new(LoopMetrics::register(&mut registry));
    let running = start(control_loop);
    sleep(secs(1)).await;
    has(
        &encoded(&registry),
        &[r#"podloom_loop_in_flight{loop="a"} 2"#],
    );
    sleep(secs(60)).await;
    let text = encoded(&registry);
    has(
        &text,
        &[
            r#"podloom_loop_queue_queued_total{loop="a"} 3"#,
            r#"podloom_loop_queue_dequeued_total{loop="a"} 3"#,
            r#"podloom_loop_queued_duration_seconds_count{loop="a"} 3"#,
            r#"podloom_loop_listerwatcher_list_duration_seconds_count{loop="a",success="true"} 1"#,
            r#"podloom_loop_storage_get_duration_seconds_count{loop="a",success="true"} 3"#,
            r#"podloom_loop_handle_duration_seconds_count{loop="a",kind="add",success="true"} 1"#,
            r#"podloom_loop_handle_duration_seconds_count{loop="a",kind="delete",success="false"} 2"#,
            r#"podloom_loop_handle_duration_seconds_sum{loop="a",kind="add",success="true"} 2.0"#,
            r#"podloom_loop_queue_depth{loop="a"} 0"#,
            r#"podloom_loop_in_flight{loop="a"} 0"#,
            r#"podloom_loop_retries_total{loop="a"} 1"#,
            r#"podloom_loop_dropped_total{loop="a"} 1"#,
        ],
    );
    running.stop().await;
}

#[test]
fn every_counter_has_its_name() {
    let mut registry = Registry::default();
    let metrics = LoopMetrics::register(&mut registry);
    metrics.queue_queued("a", 2);
    metrics.queue_dequeued("a");
    metrics.retried("a");
    metrics.dropped("a");
    metrics.lock_contended("a");
    metrics.watch_restarted("a");
    metrics.panicked("a");
    let text = encoded(&registry);
    has(
        &text,
        &[
            r#"loop_queue_queued_total{loop="a"} 2"#,
            r#"loop_queue_dequeued_total{loop="a"} 1"#,
            r#"loop_retries_total{loop="a"} 1"#,
            r#"loop_dropped_total{loop="a"} 1"#,
            r#"loop_lock_contended_total{loop="a"} 1"#,
            r#"loop_watch_restarts_total{loop="a"} 1"#,
            r#"loop_panics_total{loop="a"} 1"#,
        ],
    );
}
