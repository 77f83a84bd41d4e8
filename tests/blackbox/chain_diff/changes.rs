//! Holds what was told of a pod against what the webhook answers under both chains.

use serde_json::{Value, json};

use super::answers::Answer;

/// What is wrong with what was told; none if it is exactly the difference between the answers.
pub(super) fn check(told: Option<&Value>, old: &Answer, new: &Answer) -> Option<String> {
    let verdict = told.map_or("none", |group| group["verdict"].as_str().unwrap());
    let is_same = |warned: bool| old.pod == new.pod && warned == (old.warnings != new.warnings);
    let fits = match (&old.pod, &new.pod) {
        (Ok(before), Ok(now)) => match verdict {
            "none" => is_same(false),
            "WarnedOtherwise" => is_same(true),
            "Changed" | "IgnoredNow" => {
                if verdict == "Changed" && before == now {
                    return Some("the pods are the same".to_owned());
                }
                let made = apply_all(before.clone(), &told?["changes"]);
                if made != *now {
                    return Some(format!("the changes make this of the old pod: {made}"));
                }
                verdict == "Changed" || old.warnings != new.warnings
            }
            _ => false,
        },
        (Ok(_), Err((403, _))) => verdict == "DeniedNow",
        (Ok(_), Err(_)) => verdict == "FailsNow",
        (Err((403, _)), Ok(_)) => verdict == "AllowedNow",
        (Err(_), Ok(_)) => verdict == "FailsNoMore",
        (Err(before), Err(now)) => match (before.0, now.0) {
            _ if before == now => verdict == "none",
            (403, 500) => verdict == "FailsNow",
            (500, 403) => verdict == "DeniedNow",
            _ => verdict == "RejectedOtherwise",
        },
    };
    (!fits).then(|| format!("{verdict} is not what happens"))
}

/// Makes the changes, as the documentation of the JSON says that they are meant.
fn apply_all(mut pod: Value, changes: &Value) -> Value {
    for change in changes.as_array().unwrap() {
        let path = change["path"].as_str().unwrap();
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        match change["operation"].as_str().unwrap() {
            "Removed" => remove(&mut pod, &segments, change),
            "Reordered" => reorder(&mut pod, &segments, &change["new"]),
            _ => put(&mut pod, &segments, change["new"].clone()),
        }
    }
    pod
}

fn unescaped(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

fn position(list: &[Value], segment: &str) -> Option<usize> {
    let selector = segment
        .strip_prefix('[')
        .and_then(|it| it.strip_suffix(']'));
    let Some((key, value)) = selector.and_then(|it| it.split_once('=')) else {
        return segment.parse().ok();
    };
    list.iter().position(|element| match &element[key] {
        Value::String(text) => *text == unescaped(value),
        Value::Number(number) => number.to_string() == value,
        _ => false,
    })
}

fn find<'v>(value: &'v mut Value, segments: &[&str]) -> &'v mut Value {
    segments.iter().fold(value, |value, segment| match value {
        Value::Array(list) => {
            let index = position(list, segment).unwrap();
            &mut list[index]
        }
        other => &mut other[unescaped(segment)],
    })
}

fn remove(pod: &mut Value, segments: &[&str], change: &Value) {
    let parents = change["emptiedParents"].as_u64().unwrap_or(0);
    for depth in 0..=usize::try_from(parents).unwrap() {
        let (path, _) = segments.split_at(segments.len() - depth);
        let (last, above) = path.split_last().unwrap();
        let target = find(pod, path);
        if depth == 0 {
            assert_eq!(*target, change["old"], "{change}");
        } else if *target != json!({}) && *target != json!([]) {
            break;
        }
        match find(pod, above) {
            Value::Array(list) => {
                let index = position(list, last).unwrap();
                list.remove(index);
            }
            other => {
                other
                    .as_object_mut()
                    .unwrap()
                    .remove(&unescaped(last))
                    .unwrap();
            }
        }
    }
}

fn reorder(pod: &mut Value, segments: &[&str], order: &Value) {
    let order = order.as_array().unwrap();
    let list = find(pod, segments).as_array_mut().unwrap();
    let keys = ["name", "containerPort", "mountPath"];
    list.sort_by_key(|element| {
        let key = keys
            .iter()
            .find(|key| element.get(**key).is_some())
            .unwrap();
        order.iter().position(|it| it[*key] == element[*key])
    });
}

fn put(value: &mut Value, segments: &[&str], new: Value) {
    let Some((first, rest)) = segments.split_first() else {
        *value = new;
        return;
    };
    if value.is_null() {
        let is_element = first.starts_with('[') || *first == "-";
        *value = if is_element { json!([]) } else { json!({}) };
    }
    match value {
        Value::Array(list) => match position(list, first) {
            Some(index) => put(&mut list[index], rest, new),
            None => list.push(new),
        },
        other => put(&mut other[unescaped(first)], rest, new),
    }
}
