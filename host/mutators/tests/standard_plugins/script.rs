//! The plugin `script` in the sandbox: what its programs do, and that none of them does more.

use podloom_mutation::{Note, PodRejection, PodRequest};
use serde_json::{Value, json};

use super::{bundle, load, pod, request, try_load, unstamped};

const POLICY: &str = r#"
if pod.get("/spec/hostNetwork") == true { deny("hostNetwork is not allowed here"); }
for c in pod.view("/spec", ["/containers/*/name", "/containers/*/image"]).containers {
    if c.image.ends_with(":latest") { note(`${c.name} has no fixed version`); }
}
pod.set("/metadata/labels/team", request.namespace_label("team") ?? "none");
"#;

fn script(program: &str) -> Value {
    json!({
        "name": "script",
        "file": "script.wasm.gz",
        "allow": ["/metadata/labels/team", "/metadata/annotations"],
        "read": [""],
        "config": { "program": program },
        "idempotent": false,
    })
}

#[test]
fn a_policy_of_a_few_lines_changes_notes_and_denies() {
    let Some(bundle) = bundle() else { return };
    let chain = load(&bundle, &[script(POLICY)]);
    let mut latest = pod();
    latest["spec"]["containers"][0]["image"] = json!("example.com/app:latest");
    let mutation = super::mutate(&chain, latest.clone());
    assert_eq!(
        mutation.runs[0].notes,
        [Note::normal("browser has no fixed version")]
    );
    latest["metadata"]["labels"]["team"] = json!("web");
    assert_eq!(unstamped(mutation.pod), latest);

    let mut host = pod();
    host["spec"]["hostNetwork"] = json!(true);
    let rejected = chain.mutate(host, request()).unwrap_err();
    let reason = "script: hostNetwork is not allowed here".to_owned();
    assert_eq!(rejected.rejection, PodRejection::Denied(reason));
}

#[test]
fn a_program_gets_what_the_chain_grants_and_no_more() {
    let Some(bundle) = bundle() else { return };
    let error = try_load(&bundle, &[script(r#"pod.set("/spec/nodeName", "a")"#)]).err();
    let error = error.unwrap();
    assert!(error.contains("/spec/nodeName"), "{error}");

    // This path is not in the text, so it is refused when a pod comes.
    let computed =
        r#"try { pod.set(path("/spec", "nodeName"), "a"); } catch (error) { note(error); }"#;
    let mutation = super::mutate(&load(&bundle, &[script(computed)]), pod());
    assert_eq!(unstamped(mutation.pod), pod());
    let note = &mutation.runs[0].notes[0].text;
    assert!(note.contains("/spec/nodeName"), "{note}");
}

#[test]
fn a_program_with_a_mistake_does_not_load_and_the_message_has_the_line() {
    let Some(bundle) = bundle() else { return };
    let error = try_load(&bundle, &[script("let a = 1;\nnode.get()")]).err();
    let error = error.unwrap();
    assert!(
        error.contains("Undefined variable: node (line 2, position 1)"),
        "{error}"
    );
}

/// Programs that never end, or take what they can get: what they do, and what is said. All are parts of one program, since loading a
/// chain takes long; the team says which part runs.
const ATTACKS: [(&str, &str); 10] = [
    ("loop { }", "200 ms"),
    (r#"let s = "x"; loop { s += s; }"#, "limit"),
    ("let a = []; loop { a.push(1234567890123); }", "limit"),
    ("let a = [1]; a.pad(1000000000, 2);", "capacity overflow"),
    (r#"let s = "x"; s.pad(1000000000, "y");"#, "limit"),
    ("let a = 9223372036854775807; a += 1;", "overflow"),
    ("again(0);", "Stack overflow"),
    (r#"deep(14); fail("done");"#, "done"),
    (
        r#"let a = [[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]; fail("done");"#,
        "done",
    ),
    (
        r#"for i in 0..1000 { note(i.to_string()); print(i); } fail("done");"#,
        "done",
    ),
];

/// Each fails for the pod of its team; the next pod is mutated.
#[test]
fn a_hostile_program_fails_alone() {
    let Some(bundle) = bundle() else { return };
    let mut program = format!(
        "fn again(n) {{ again(n + 1) }}\nfn deep(n) {{ if n > 0 {{ [[[[[[[[deep(n - 1)]]]]]]]] }} }}\n{POLICY}"
    );
    for (team, (attack, _)) in ATTACKS.iter().enumerate() {
        program += &format!("if request.namespace_label(\"team\") == \"{team}\" {{ {attack} }}\n");
    }
    let mut entry = script(&program);
    entry["limits"] = json!({ "timeout": "200ms" });
    let chain = load(&bundle, &[entry]);
    for (team, (attack, reason)) in ATTACKS.iter().enumerate() {
        let of_team = PodRequest {
            namespace_labels: [("team".to_owned(), team.to_string())].into(),
            ..request()
        };
        let rejected = chain.mutate(pod(), of_team).unwrap_err().to_string();
        assert!(rejected.contains(reason), "{attack}: {rejected}");
        let next = super::mutate(&chain, pod());
        assert_eq!(next.pod["metadata"]["labels"]["team"], "web", "{attack}");
    }
}
