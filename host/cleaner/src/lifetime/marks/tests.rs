use jiff::Timestamp;
use kube::core::ObjectMeta;
use podloom_api::PropagationPolicy;
use podloom_api::names::cleaner::lifetime::{
    JANITOR_EXPIRES, JANITOR_TTL, KYVERNO_PROPAGATION, KYVERNO_TTL,
};
use serde_json::json;

use super::{Expiry, expiry};

const CREATED: &str = "2026-01-30T12:00:00Z";

/// An object with marks. The keys of Kyverno that are labels are put there.
fn marked(marks: &[(&str, &str)]) -> ObjectMeta {
    let of = |is_label: bool| {
        let marks = marks
            .iter()
            .filter(move |(key, _)| (*key == KYVERNO_TTL) == is_label);
        marks
            .map(|(key, value)| (key.to_string(), json!(value)))
            .collect::<serde_json::Map<_, _>>()
    };
    serde_json::from_value(
        json!({ "creationTimestamp": CREATED, "annotations": of(false), "labels": of(true) }),
    )
    .unwrap()
}

fn read(marks: &[(&str, &str)]) -> Result<Option<Expiry>, String> {
    expiry(&marked(marks))
}

/// What a mark says: a time, `never`, or the start of what is wrong.
#[track_caller]
fn check(key: &str, cases: &[(&str, &str)]) {
    for (value, expected) in cases {
        let found = match read(&[(key, value)]) {
            Ok(None) => "never".to_owned(),
            Ok(Some(expiry)) => expiry.due.to_string(),
            Err(problem) => problem,
        };
        assert!(
            found.starts_with(expected),
            "{value:?}: {found} is not {expected}"
        );
    }
}

#[test]
fn the_ttl_of_kube_janitor_counts_from_the_creation() {
    let wrong = |value| format!("the annotation janitor/ttl is {value:?}: write a number with");
    check(
        JANITOR_TTL,
        &[
            ("90s", "2026-01-30T12:01:30Z"),
            ("08s", "2026-01-30T12:00:08Z"),
            ("5m", "2026-01-30T12:05:00Z"),
            ("8h", "2026-01-30T20:00:00Z"),
            ("7d", "2026-02-06T12:00:00Z"),
            ("2w", "2026-02-13T12:00:00Z"),
            ("15000w", "2313-"),
            ("100000w", &wrong("100000w")),
            ("forever", "never"),
            ("Forever", "never"),
            ("0", &wrong("0")),
            ("", &wrong("")),
            ("1y", &wrong("1y")),
            ("-5m", &wrong("-5m")),
            ("5 m", &wrong("5 m")),
            ("2026-01-31", &wrong("2026-01-31")),
            ("99999999999999999999w", &wrong("99999999999999999999w")),
            (&"1s".repeat(33), "the annotation janitor/ttl is \""),
        ],
    );
}

#[test]
fn the_expiry_of_kube_janitor_is_a_time_in_utc() {
    let wrong = |value| format!("the annotation janitor/expires is {value:?}: write a time in UTC");
    check(
        JANITOR_EXPIRES,
        &[
            ("2026-01-31T04:05:06Z", "2026-01-31T04:05:06Z"),
            ("2026-01-31T04:05", "2026-01-31T04:05:00Z"),
            ("2026-01-31", "2026-01-31T00:00:00Z"),
            ("2026-01-31T04:05:06+02:00", "2026-01-31T02:05:06Z"),
            ("2020-01-01", "2020-01-01T00:00:00Z"),
            ("2026-02-30", &wrong("2026-02-30")),
            ("2026-01-31T04:05:06", &wrong("2026-01-31T04:05:06")),
            ("31.01.2026", &wrong("31.01.2026")),
            ("7d", &wrong("7d")),
            ("forever", &wrong("forever")),
        ],
    );
}

#[test]
fn the_ttl_of_kyverno_is_a_duration_or_a_time_without_colons() {
    let wrong = |value| format!("the label cleanup.kyverno.io/ttl is {value:?}: write a number");
    check(
        KYVERNO_TTL,
        &[
            ("2m", "2026-01-30T12:02:00Z"),
            ("1h30m", "2026-01-30T13:30:00Z"),
            ("1d", "2026-01-31T12:00:00Z"),
            ("1w", "2026-02-06T12:00:00Z"),
            ("2026-01-31T040506Z", "2026-01-31T04:05:06Z"),
            ("2026-01-31", "2026-01-31T00:00:00Z"),
            ("2hours", &wrong("2hours")),
            ("forever", &wrong("forever")),
            ("20260131", &wrong("20260131")),
            ("0", &wrong("0")),
        ],
    );
}

#[test]
fn the_earliest_time_counts_and_all_marks_are_remembered() {
    let all = [
        (JANITOR_TTL, "2d"),
        (JANITOR_EXPIRES, "2026-01-31T12:00"),
        (KYVERNO_TTL, "36h"),
    ];
    let found = read(&all).unwrap().unwrap();
    assert_eq!(
        found.due,
        "2026-01-31T12:00:00Z".parse::<Timestamp>().unwrap()
    );
    let values: Vec<_> = found
        .marks
        .iter()
        .filter_map(|it| Some((it.key, it.value.as_deref()?)))
        .collect();
    assert_eq!(values, all);
    // What lives for ever by one mark may end by another.
    let found = read(&[(JANITOR_TTL, "forever"), (KYVERNO_TTL, "1h")]);
    assert_eq!(
        found.unwrap().unwrap().due.to_string(),
        "2026-01-30T13:00:00Z"
    );
    // In doubt, the object stays.
    assert!(read(&[(JANITOR_TTL, "1h"), (KYVERNO_TTL, "soon")]).is_err());
}

#[test]
fn what_an_object_owns_goes_before_or_after_it_and_never_stays() {
    let with = |policy| {
        read(&[(KYVERNO_TTL, "1h"), (KYVERNO_PROPAGATION, policy)])
            .map(|it| it.unwrap().propagation)
    };
    assert_eq!(with("Background"), Ok(PropagationPolicy::Background));
    assert_eq!(with("Foreground"), Ok(PropagationPolicy::Foreground));
    assert!(with("Orphan").unwrap_err().contains("\"Orphan\": write"));
    assert_eq!(read(&[(KYVERNO_PROPAGATION, "Orphan")]), Ok(None));
    assert_eq!(expiry(&ObjectMeta::default()), Ok(None));
}
