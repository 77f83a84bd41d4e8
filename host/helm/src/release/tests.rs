mod hook;

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::{HookEvent, PayloadError, Record, Release, SIZE_MAX, Status, unpacked_size};

const RECORD: Record<'_> = Record {
    release: "shop",
    namespace: "demo",
    revision: 3,
};

/// A payload as Helm makes it, with more than we know.
fn shop() -> Value {
    json!({
        "name": "shop",
        "namespace": "demo",
        "version": 3,
        "info": {
            "first_deployed": "2026-01-01T00:00:00.1Z",
            "deleted": "",
            "description": "Upgrade complete",
            "status": "deployed",
            "notes": "hello",
        },
        "chart": { "metadata": { "name": "shop" }, "templates": [{ "data": "e30=", "name": "a" }], "values": { "n": 1.5 } },
        "config": { "password": "hunter2" },
        "manifest": "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\n",
        "hooks": [
            { "name": "b", "kind": "Job", "manifest": "{}", "events": ["pre-delete", "post-delete"], "weight": 1 },
            { "name": "z", "kind": "Job", "manifest": "{}", "events": ["pre-delete"], "weight": -5 },
            { "name": "a", "kind": "Job", "manifest": "{}", "events": ["pre-delete"], "weight": 1 },
            { "name": "c", "kind": "Job", "manifest": "{}", "events": ["pre-install", "test"] },
            { "name": "d", "kind": "Job", "manifest": "{}", "events": null, "delete_policies": null },
        ],
    })
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

fn base64(bytes: &[u8]) -> Vec<u8> {
    STANDARD.encode(bytes).into_bytes()
}

fn packed(payload: &Value) -> Vec<u8> {
    base64(&gzip(payload.to_string().as_bytes()))
}

/// The error that a payload gives.
#[track_caller]
fn refused(data: &[u8]) -> PayloadError {
    let error = Release::decode(data, RECORD).unwrap_err();
    assert!(!error.to_string().contains("hunter2"), "{error}");
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    error
}

#[track_caller]
fn check(release: &Release) {
    assert_eq!(release.name, "shop");
    assert_eq!(release.namespace, "demo");
    assert_eq!(release.revision, 3);
    assert_eq!(release.status, Status::Other);
    assert_eq!(release.objects().unwrap().deleted[0].name, "web");
    let shown = format!("{release:?}");
    assert!(
        !shown.contains("hunter2") && !shown.contains("web"),
        "{shown}"
    );
}

#[test]
fn payloads_are_compressed_or_not_and_may_have_line_breaks() {
    let compressed = packed(&shop());
    check(&Release::decode(&compressed, RECORD).unwrap());
    let plain = base64(shop().to_string().as_bytes());
    check(&Release::decode(&plain, RECORD).unwrap());
    let mut lines = Vec::new();
    for line in compressed.chunks(76) {
        lines.extend_from_slice(line);
        lines.extend_from_slice(b"\r\n");
    }
    check(&Release::decode(&lines, RECORD).unwrap());
}

#[test]
fn hooks_run_by_weight_and_then_by_name() {
    let release = Release::decode(&packed(&shop()), RECORD).unwrap();
    let names = |event| -> Vec<String> {
        let hooks = release.hooks(event);
        hooks.into_iter().map(|hook| hook.name.clone()).collect()
    };
    assert_eq!(names(HookEvent::PreDelete), ["z", "a", "b"]);
    assert_eq!(names(HookEvent::PostDelete), ["b"]);
    let mut without = shop();
    without["hooks"] = Value::Null;
    let release = Release::decode(&packed(&without), RECORD).unwrap();
    assert!(release.hooks(HookEvent::PreDelete).is_empty());
}

#[test]
fn every_status_is_read() {
    for (text, expected) in [
        ("deployed", Status::Other),
        ("uninstalled", Status::Uninstalled),
        ("superseded", Status::Other),
        ("failed", Status::Other),
        ("uninstalling", Status::Uninstalling),
        ("pending-install", Status::Other),
        ("pending-upgrade", Status::Other),
        ("pending-rollback", Status::Other),
        ("unknown", Status::Other),
        ("of a later version of Helm", Status::Other),
    ] {
        let mut payload = shop();
        payload["info"]["status"] = text.into();
        let release = Release::decode(&packed(&payload), RECORD).unwrap();
        assert_eq!(release.status, expected, "{text}");
    }
}

#[test]
fn what_we_do_not_know_is_written_back() {
    let release = Release::decode(&packed(&shop()), RECORD).unwrap();
    let written = release.uninstalling("2026-02-02T00:00:00Z").unwrap();
    let again = crate::release::unpack(&written).unwrap();
    let mut expected = shop();
    expected["info"]["status"] = "uninstalling".into();
    expected["info"]["deleted"] = "2026-02-02T00:00:00Z".into();
    expected["info"]["description"] = "Deletion in progress (or silently failed)".into();
    assert_eq!(again, expected);
    let again = Release::decode(&written, RECORD).unwrap();
    assert_eq!(again.status, Status::Uninstalling);
    assert_eq!(again.manifest, release.manifest);
}

#[test]
fn a_payload_of_another_record_is_refused() {
    for (field, value) in [
        ("name", json!("other")),
        ("namespace", json!("kube-system")),
        ("version", json!(2)),
    ] {
        let mut payload = shop();
        payload[field] = value;
        let error = refused(&packed(&payload));
        assert!(
            matches!(error, PayloadError::Mismatch(found) if found == field),
            "{error:?}"
        );
    }
}

#[test]
fn a_payload_without_what_is_needed_is_refused() {
    for (pointer, field) in [
        ("/name", "name"),
        ("/namespace", "namespace"),
        ("/version", "version"),
        ("/info", "info.status"),
        ("/info/status", "info.status"),
        ("/manifest", "manifest"),
        ("/hooks", "hooks"),
        ("/hooks/0", "hooks"),
        ("/hooks/0/name", "hooks"),
        ("/hooks/0/weight", "hooks"),
        ("/hooks/0/events", "hooks"),
        ("/hooks/0/events/0", "hooks"),
        ("/hooks/0/manifest", "hooks"),
    ] {
        for value in [
            json!(["hunter2"]),
            json!({ "hunter2": 1 }),
            json!(true),
            json!(1.5),
        ] {
            let mut payload = shop();
            if pointer.ends_with("events") && value.is_array() {
                continue; // An event of a later version of Helm.
            }
            *payload.pointer_mut(pointer).unwrap() = value.clone();
            let error = refused(&packed(&payload));
            assert!(
                matches!(error, PayloadError::Field(found) if found == field),
                "{pointer} {value}: {error:?}"
            );
        }
    }
    for payload in [
        json!(null),
        json!([]),
        json!("hunter2"),
        json!({}),
        json!(1),
    ] {
        let error = refused(&packed(&payload));
        assert!(matches!(error, PayloadError::Field("name")), "{error:?}");
    }
}

#[test]
fn corrupt_payloads_are_refused() {
    assert!(matches!(refused(b""), PayloadError::Json { .. }));
    assert!(matches!(refused(b"hunter2!"), PayloadError::Base64));
    assert!(matches!(refused(b"e30"), PayloadError::Base64));
    let good = gzip(shop().to_string().as_bytes());
    for length in [2, 3, 10, good.len() / 2, good.len() - 1] {
        let error = refused(&base64(&good[..length]));
        assert!(
            matches!(error, PayloadError::Gzip { .. }),
            "{length}: {error:?}"
        );
    }
    let mut wrong_sum = good.clone();
    let at = wrong_sum.len() - 6;
    wrong_sum[at] ^= 0xff;
    assert!(matches!(
        refused(&base64(&wrong_sum)),
        PayloadError::Gzip { .. }
    ));
    for text in [
        "hunter2",
        "{\"name\": \"hunter2\"",
        "{\"name\": hunter2}",
        "{} {}",
        "\u{0}",
    ] {
        for data in [base64(text.as_bytes()), base64(&gzip(text.as_bytes()))] {
            let error = refused(&data);
            assert!(
                matches!(error, PayloadError::Json { .. }),
                "{text}: {error:?}"
            );
        }
    }
    // Compressed twice.
    assert!(matches!(
        refused(&base64(&gzip(&good))),
        PayloadError::Json { .. }
    ));
}

/// A few kilobytes that become as much as one likes.
#[test]
fn bombs_are_refused() {
    let spaces = vec![b' '; SIZE_MAX + 1];
    let bomb = base64(&gzip(&spaces));
    assert!(bomb.len() < 1024 * 1024, "it fits in a Secret");
    assert!(matches!(refused(&bomb), PayloadError::TooLarge));
    let weighed = unpacked_size(&bomb);
    assert!(matches!(weighed, Err(PayloadError::TooLarge)));
    // In several parts, each of which is small enough.
    let part = gzip(&spaces[..SIZE_MAX / 2 + 1]);
    let parts = base64(&[part.clone(), part].concat());
    assert!(matches!(refused(&parts), PayloadError::TooLarge));
    let many = format!("[{}0]", "0,".repeat(250_000));
    assert!(matches!(
        refused(&base64(&gzip(many.as_bytes()))),
        PayloadError::TooManyValues
    ));
    let empty = format!("[{}{{}}]", "{},".repeat(130_000));
    assert!(matches!(
        refused(&base64(&gzip(empty.as_bytes()))),
        PayloadError::TooManyValues
    ));
    let deep = "[".repeat(10_000);
    assert!(matches!(
        refused(&base64(&gzip(deep.as_bytes()))),
        PayloadError::Json { .. }
    ));
}

#[test]
fn the_size_of_a_payload_is_known_before_it_is_read() {
    let json = br#"{ "name": "shop" }"#;
    for payload in [base64(json), base64(&gzip(json))] {
        assert_eq!(unpacked_size(&payload).unwrap(), json.len());
    }
    assert!(matches!(unpacked_size(b"?"), Err(PayloadError::Base64)));
}

#[test]
fn what_is_in_strings_is_not_counted() {
    let mut payload = shop();
    payload["config"] = format!("\\\"{}", "[{,\"\\".repeat(100_000)).into();
    Release::decode(&packed(&payload), RECORD).unwrap();
}
