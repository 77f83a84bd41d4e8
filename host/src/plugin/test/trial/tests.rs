use std::sync::Arc;

use podloom_pod_path::{Access, EditError, Transaction};
use serde_json::{Value, json};

use super::covering;

const OPTIONS: &str = "/spec/dnsConfig/options";

fn two_options() -> Value {
    json!({ "spec": { "dnsConfig": { "options": [
        { "name": "timeout", "value": "1" },
        { "name": "ndots", "value": "5" },
    ] } } })
}

/// Checks which of these grants cover each write of an edit.
#[track_caller]
fn check(
    pod: &Value,
    edit: impl FnOnce(&mut Transaction) -> Result<(), EditError>,
    grants: &[&str],
    expected: &[&[&str]],
) {
    let access = Arc::new(Access::unrestricted());
    let mut transaction = Transaction::begin(pod.clone(), access, [].into());
    edit(&mut transaction).unwrap();
    let (_, writes) = transaction.commit();
    let grants: Vec<String> = grants.iter().map(ToString::to_string).collect();
    assert_eq!(covering(pod, &writes, &grants), expected);
}

#[test]
fn a_selector_covers_its_element_in_a_list_without_merge_key() {
    let ndots = format!("{OPTIONS}/[name=ndots]");
    let timeout = format!("{OPTIONS}/[name=timeout]");
    check(
        &two_options(),
        |pod| pod.set(&format!("{ndots}/value"), "\"2\"".to_owned()),
        &[&ndots, &timeout],
        &[&[&ndots]],
    );
}

#[test]
fn a_selector_covers_an_element_that_it_created() {
    let ndots = format!("{OPTIONS}/[name=ndots]");
    let timeout = format!("{OPTIONS}/[name=timeout]");
    let edit = |pod: &mut Transaction| {
        pod.set(&ndots, r#"{"name":"ndots","value":"2"}"#.to_owned())?;
        pod.set(&format!("{ndots}/value"), "\"3\"".to_owned())
    };
    check(
        &json!({ "spec": {} }),
        edit,
        &[&ndots, &timeout],
        &[&[&ndots], &[&ndots]],
    );
}

#[test]
fn a_selector_covers_an_element_that_moved() {
    let ndots = format!("{OPTIONS}/[name=ndots]");
    let timeout = format!("{OPTIONS}/[name=timeout]");
    let edit = |pod: &mut Transaction| {
        pod.remove(&timeout)?;
        pod.set(&format!("{ndots}/value"), "\"3\"".to_owned())
    };
    check(
        &two_options(),
        edit,
        &[&ndots, &timeout],
        &[&[&timeout], &[&ndots]],
    );
}

#[test]
fn a_star_covers_elements_by_index() {
    let any = format!("{OPTIONS}/*/value");
    check(
        &two_options(),
        |pod| pod.set(&format!("{OPTIONS}/1/value"), "\"2\"".to_owned()),
        &[&any, "/metadata/labels"],
        &[&[&any]],
    );
}

#[test]
fn a_selector_does_not_cover_an_element_that_was_put_before_its_own() {
    let ndots = format!("{OPTIONS}/[name=ndots]");
    check(
        &two_options(),
        |pod| pod.insert(&format!("{OPTIONS}/1"), r#"{"name":"debug"}"#.to_owned()),
        &[&ndots],
        &[&[]],
    );
}

#[test]
fn a_selector_does_not_cover_an_element_that_gets_its_name() {
    let trust = format!("{OPTIONS}/[name=trust-ad]");
    check(
        &two_options(),
        |pod| pod.set(&format!("{OPTIONS}/0/name"), "\"trust-ad\"".to_owned()),
        &[&trust],
        &[&[]],
    );
}
