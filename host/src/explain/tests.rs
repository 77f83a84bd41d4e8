use podloom_mutation::{CallFailure, Dimension, Note, PluginOutcome, PluginRun, Write};
use serde_json::{Value, json};

use super::object;

fn run(plugin: &str, outcome: PluginOutcome, writes: Vec<Write>, notes: &[&str]) -> PluginRun {
    PluginRun {
        plugin: plugin.to_owned(),
        version: "0.1.0".to_owned(),
        outcome,
        writes,
        notes: notes.iter().copied().map(Note::normal).collect(),
        ..PluginRun::default()
    }
}

fn write(path: &str, old: Option<Value>, new: Option<Value>) -> Write {
    Write {
        path: path.to_owned(),
        old,
        new: new.map(|new| new.to_string()),
    }
}

#[test]
fn shows_what_each_plugin_did_and_why() {
    let writes = vec![
        write("/metadata/labels/team", None, Some(json!("shop"))),
        write("/spec/hostname", Some(json!("a")), Some(json!("yes"))),
        write("/metadata/labels/debug", Some(json!("1")), None),
        write(
            "/spec/volumes/[name=tmp]",
            None,
            Some(json!({ "name": "tmp", "emptyDir": {} })),
        ),
        write(
            "/spec/containers/[name=a]/args",
            Some(json!(["a", "b", "c", "d"])),
            Some(json!(["a", "b", "x", "d"])),
        ),
    ];
    let runs = [
        run(
            "labels",
            PluginOutcome::Mutated,
            writes,
            &["kept the pod's own tier"],
        ),
        run(
            "sidecar",
            PluginOutcome::Skipped(Dimension::Namespaces),
            vec![],
            &[],
        ),
        run("hardening", PluginOutcome::Unchanged, vec![], &[]),
    ];
    let painted = object("Browser shop/session", &runs);
    let plain = anstream::adapter::strip_str(&painted).to_string();
    insta::assert_snapshot!(plain);
    assert!(
        painted.contains('\u{1b}'),
        "the text has colours, which the stream removes"
    );
}

#[test]
fn shows_what_led_to_a_rejection() {
    let written = vec![write("/metadata/labels/team", None, Some(json!("shop")))];
    for last in [
        PluginOutcome::Denied("no mirror pods".to_owned()),
        PluginOutcome::Failed(CallFailure::Reported(
            "it exhausted its call stack".to_owned(),
        )),
    ] {
        let runs = [
            run("labels", PluginOutcome::Mutated, written.clone(), &[]),
            run("hardening", last, vec![], &["a mirror pod"]),
        ];
        let painted = object("Pod shop/session", &runs);
        insta::assert_snapshot!(anstream::adapter::strip_str(&painted).to_string());
    }
}
