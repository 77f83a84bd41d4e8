//! What programs do to a pod, and what is said about those that cannot run.

use podloom_plugin_sdk::serde_json::{Value, json};
use podloom_plugin_sdk::testing::{self, Run, Submitted};
use podloom_plugin_sdk::{Level, Mutator, Needs, Operation, Rejection};

use crate::{Config, Script};

mod comparisons;
mod doubts;
mod policies;

fn submitted() -> Submitted {
    Submitted {
        name: "web-1".into(),
        namespace: "shop".into(),
        labels: [("channel".into(), "stable".into())].into(),
        annotations: [("example.com/ticket".into(), "7".into())].into(),
        namespace_labels: [("team".into(), "web".into())].into(),
        namespace_annotations: [("owner".into(), "Ann".into())].into(),
        ..Submitted::default()
    }
}

fn pod() -> Value {
    json!({
        "metadata": { "name": "web-1", "labels": { "app": "web" } },
        "spec": {
            "priority": 7,
            "hostNetwork": true,
            "containers": [
                { "name": "app", "image": "example.com/app:latest" },
                { "name": "proxy", "image": "example.com/proxy:1.2", "args": ["a"] },
            ],
        },
    })
}

fn config(program: &str) -> Value {
    json!({ "program": program })
}

#[track_caller]
fn run(program: &str) -> Run {
    let config = config(program);
    testing::check_laws::<Script>(&config, &submitted(), &pod());
    testing::run::<Script>(&config, &submitted(), &pod())
}

#[track_caller]
fn denied(program: &str) -> String {
    match run(program).result {
        Err(Rejection::Denied(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn failed(program: &str) -> String {
    match run(program).result {
        Err(Rejection::Failed(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

fn refused(program: &str) -> String {
    testing::configure::<Script>(&config(program))
        .err()
        .unwrap_or_default()
        .join("; ")
}

fn needs(program: &str) -> Needs {
    let config = testing::configure::<Script>(&config(program)).unwrap();
    Script::needs(&config)
}

#[test]
fn writes_what_it_read_elsewhere() {
    let run = run(r#"
        let team = request.namespace_label("team") ?? "none";
        pod.set("/metadata/labels/team", team);
        pod.set("/metadata/labels/tier", request.namespace_label("tier") ?? "none");
        pod.set("/metadata/annotations/example.com~1owner", request.namespace_annotation("owner"));
    "#);
    assert_eq!(run.result, Ok(()));
    assert_eq!(
        run.pod["metadata"],
        json!({
            "name": "web-1",
            "labels": { "app": "web", "team": "web", "tier": "none" },
            "annotations": { "example.com/owner": "Ann" },
        })
    );
}

#[test]
fn knows_for_whom() {
    let program = r#"
        let known = [request.kind, request.name, request.namespace, request.dry_run,
            request.label("channel"), request.annotation("example.com/ticket"), request.label("none")];
        deny(known.to_string());
    "#;
    assert_eq!(
        denied(program),
        r#"["Pod", "web-1", "shop", false, "stable", "7", ()]"#
    );
}

#[test]
fn walks_over_containers() {
    let program = r#"
        let bad = pod.get("/spec/containers").filter(|c| c.image.ends_with(":latest"));
        if !bad.is_empty() {
            deny("no fixed version: " + bad.map(|c| c.name).reduce(|all, name| all + ", " + name));
        }
    "#;
    // `reduce` begins with the unit.
    assert!(denied(program).ends_with("app"), "{}", denied(program));
}

#[test]
fn changes_lists_by_the_name_of_an_element() {
    let run = run(r#"
        for c in pod.view("/spec", ["/containers/*/name"]).containers {
            let here = path("/spec/containers", "name", c.name);
            pod.set(here + "/imagePullPolicy", "Always");
        }
        if !pod.get("/spec/containers/[name=proxy]/args").contains("b") {
            pod.set("/spec/containers/[name=proxy]/args/-", "b");
            pod.insert("/spec/containers/[name=proxy]/args/0", "first");
        }
        pod.set("/spec/containers/[name=app]/resources", #{ limits: #{ memory: "64Mi" } });
        pod.remove("/spec/hostNetwork");
        if pod.remove("/spec/hostPID") { fail("there was none"); }
        // Its path is in the text, and the loop may write what it may.
        pod.set("/spec/containers/0/imagePullPolicy", "Always");
    "#);
    assert_eq!(run.result, Ok(()));
    let spec = &run.pod["spec"];
    assert_eq!(spec.get("hostNetwork"), None);
    assert_eq!(spec["containers"][0]["imagePullPolicy"], "Always");
    assert_eq!(
        spec["containers"][0]["resources"]["limits"]["memory"],
        "64Mi"
    );
    assert_eq!(spec["containers"][1]["args"], json!(["first", "a", "b"]));
}

#[test]
fn a_field_of_a_view_is_a_path() {
    let reason = failed(r#"pod.view("/spec", ["/hostPID", 7]);"#);
    assert!(
        reason.contains("/spec: a field of a view is a path"),
        "{reason}"
    );
    assert!(reason.contains("one is of type i64"), "{reason}");
}

#[test]
fn says_what_it_found() {
    let run = run(r#"
        note("priority " + pod.get("/spec/priority"));
        print(pod.keys("/metadata/labels").to_string());
    "#);
    assert_eq!(run.notes, ["priority 7"]);
    assert_eq!(run.logs, [(Level::Info, r#"["app"]"#.to_owned())]);
}

/// A closure that denies one of the containers.
const DENIES: &str = r#"|c| if c.name == "proxy" { deny("proxy") }"#;

#[test]
fn denies_from_a_function_and_past_a_catch() {
    let program = r#"
        fn check(pod) {
            if pod.get("/spec/hostNetwork") == true { deny("hostNetwork"); }
        }
        try { check(pod); } catch { }
        deny("not reached");
    "#;
    assert_eq!(denied(program), "hostNetwork");
    for (method, closure) in [
        (
            "for_each",
            r#"|| if this.name == "proxy" { deny("proxy") }"#,
        ),
        ("map", DENIES),
        ("filter", DENIES),
        ("find_map", DENIES),
        ("index_of", DENIES),
        ("some", DENIES),
    ] {
        let program = format!(
            r#"try {{ pod.get("/spec/containers").{method}({closure}); }} catch {{ }} try {{ deny("later"); }} catch {{ }}"#
        );
        assert_eq!(denied(&program), "proxy", "{method}");
    }
    assert_eq!(failed(r#"fail("not my day")"#), "not my day");
}

#[test]
fn a_failure_names_its_line() {
    for (program, reason) in [
        (
            "let a = 1;\nthrow \"too early\";",
            "Runtime error: too early (line 2, position 1)",
        ),
        (
            "\npod.set(\"/spec/nodeName\", request.label(\"node\"));",
            "Runtime error: /spec/nodeName: there is no value to write: give a default, as in `value ?? \"none\"`, or use pod.remove (line 2, position 5)",
        ),
    ] {
        assert_eq!(failed(program), reason);
    }
    let reason = failed("pod.get(\"/spec/containers\").frobnicate()");
    assert!(
        reason.contains("frobnicate") && reason.contains("line 1"),
        "{reason}"
    );
}

#[test]
fn what_is_not_granted_stays_as_it_is() {
    // The path is put together, so nothing asked for it.
    let reason = failed(r#"pod.set(path("/spec", "hostNetwork"), false)"#);
    assert!(reason.contains("/spec/hostNetwork"), "{reason}");
    assert!(reason.contains("line 1"), "{reason}");
}

#[test]
fn a_program_that_cannot_run_is_refused() {
    for (program, message) in [
        ("", "program"),
        ("let a = ;", "line 1, position 9"),
        ("pods.get(\"/spec\")", "Undefined variable: pods"),
        ("eval(\"1\")", "eval"),
        ("import \"other\" as other;", "line 1"),
    ] {
        let refused = refused(program);
        assert!(refused.contains(message), "{program}: {refused}");
    }
    let refused = refused(&format!("let a = {}1{};", "(".repeat(500), ")".repeat(500)));
    assert!(
        refused.contains("too complex") || refused.contains("complexity"),
        "{refused}"
    );
}

#[test]
fn a_program_that_calls_itself_without_end_fails() {
    let reason = failed("fn again(n) { again(n + 1) }\nagain(0);");
    assert!(reason.to_lowercase().contains("stack overflow"), "{reason}");
}

#[test]
fn needs_the_paths_in_its_text() {
    let found = needs(
        r#"
        const TEAM = "/metadata/labels/team";
        fn of(pod) { pod.get("/spec/containers/0/image") }
        if of(pod) == "" { pod.insert("/spec/containers/[name=app]/args/-", "x"); }
        pod.view("/spec", ["/hostPID", "/volumes/0/name", request.name]);
        pod.containers(["/ports"]);
        pod.get("/metadata/labels").get("app");
        pod.set(TEAM, "a");
        pod.remove(path("/metadata/labels", "b"));
    "#,
    );
    let mut reads = found.reads;
    reads.sort();
    assert_eq!(
        reads,
        [
            "/metadata/labels",
            "/spec/containers/*/image",
            "/spec/containers/*/name",
            "/spec/containers/*/ports",
            "/spec/ephemeralContainers/*/name",
            "/spec/ephemeralContainers/*/ports",
            "/spec/hostPID",
            "/spec/initContainers/*/name",
            "/spec/initContainers/*/ports",
            "/spec/volumes/*/name",
        ]
    );
    assert_eq!(
        found.writes,
        [
            "/spec/containers/[name=app]/args/*",
            "/metadata/labels/team"
        ]
    );
}

#[test]
fn does_not_show_its_program_when_it_is_logged() {
    let config: Config = testing::configure::<Script>(&config("let password = 1;")).unwrap();
    let mut config = config;
    Script::prepare(&mut config);
    assert!(format!("{:?}", config.parsed).contains("Program"));
}

#[test]
fn a_program_sees_what_is_changed_in_a_pod_that_exists() {
    let program = r#"
        if request.operation == "update" && "/spec/containers/[name=app]/image" in request.changes {
            deny("no other image")
        }
    "#;
    assert!(run(program).result.is_ok());
    let submitted = Submitted {
        operation: Operation::Update,
        changes: vec!["/spec/containers/[name=app]/image".to_owned()],
        ..submitted()
    };
    let run = testing::run::<Script>(&config(program), &submitted, &pod());
    let denied = Rejection::Denied("no other image".to_owned());
    assert_eq!(run.result, Err(denied));
}
