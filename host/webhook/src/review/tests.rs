use serde_json::{Value, json};

use super::{Answer, Operation, ReviewError, WARNING_BYTES, WARNINGS, namespace, parse, shorten};

fn review(request: &Value) -> String {
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request })
        .to_string()
}

fn answered(answer: &Answer) -> Value {
    let body = answer.body("abc").expect("an answer can be written");
    serde_json::from_slice(&body).expect("an answer is JSON")
}

#[test]
fn a_review_is_read_with_the_fields_that_no_type_of_ours_has() {
    let request = json!({
        "uid": "abc", "operation": "CREATE", "dryRun": true, "namespace": "team-a", "name": "",
        "kind": { "group": "", "version": "v1", "kind": "Pod" },
        "userInfo": { "username": "alice", "groups": ["system:authenticated"] },
        "object": { "spec": { "fieldOfTheFuture": [1] } }, "oldObject": null, "requestKind": { "kind": "Pod" },
    });
    let read = parse(&review(&request)).expect("it is a review");
    assert_eq!(read.operation, Operation::Create);
    assert_eq!(
        (read.uid.as_str(), read.namespace.as_str()),
        ("abc", "team-a")
    );
    assert_eq!(read.user_info.username, "alice");
    assert_eq!(read.dry_run, Some(true));
    assert_eq!(read.object, request["object"]);
}

#[test]
fn a_body_that_is_no_review_is_refused_with_the_reason() {
    let refused = |body: &str| parse(body).expect_err("it is no review").to_string();
    let malformed = refused("{\"apiVersion\":");
    assert!(
        malformed.starts_with("the body is not an AdmissionReview: EOF"),
        "{malformed}"
    );
    let beta = json!({ "apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview" });
    let beta = refused(&beta.to_string());
    assert!(beta.contains("set admissionReviewVersions: [v1]"), "{beta}");
    assert!(matches!(
        parse(&review(&Value::Null)),
        Err(ReviewError::NoRequest)
    ));
    for uid in [String::new(), "x".repeat(129)] {
        assert!(matches!(
            parse(&review(
                &json!({ "uid": uid, "operation": "CREATE", "kind": { "version": "v1", "kind": "Pod" } })
            )),
            Err(ReviewError::Uid)
        ));
    }
    let deep = format!(r#"{{"request":{{"object":{}"#, "[".repeat(100_000));
    assert!(refused(&deep).contains("recursion limit"));
}

#[test]
fn an_answer_repeats_the_uid_and_has_the_patch_in_base64() {
    let answer = Answer {
        patch: Some("[]".to_owned()),
        ..Answer::admitted()
    };
    let expected =
        json!({ "uid": "abc", "allowed": true, "patchType": "JSONPatch", "patch": "W10=" });
    assert_eq!(answered(&answer)["response"], expected);
    assert_eq!(answered(&answer)["apiVersion"], "admission.k8s.io/v1");
}

#[test]
fn a_denial_has_a_code_a_reason_and_a_message_of_bounded_length() {
    let denied = answered(&Answer::forbidden("x".repeat(100_000)));
    let status = &denied["response"]["status"];
    assert_eq!(
        (&status["code"], &status["reason"]),
        (&json!(403), &json!("Forbidden"))
    );
    assert!(
        status["message"]
            .as_str()
            .is_some_and(|text| text.len() <= 4096)
    );
}

#[test]
fn warnings_are_few_short_and_without_line_breaks() {
    let answer = Answer {
        warnings: vec![format!("a\nb\u{202e}{}", "ü".repeat(1000)); 100],
        ..Answer::admitted()
    };
    let body = answered(&answer);
    let warnings = body["response"]["warnings"]
        .as_array()
        .expect("there are warnings");
    assert_eq!(warnings.len(), WARNINGS);
    let (last, shown) = warnings.split_last().expect("there are warnings");
    assert_eq!(last, "85 more warnings are not shown");
    for warning in shown.iter().filter_map(Value::as_str) {
        assert!(
            warning.len() <= WARNING_BYTES && warning.starts_with("a b "),
            "{warning}"
        );
        assert!(!warning.contains(char::is_control));
    }
}

#[test]
fn as_many_warnings_as_fit_are_shown_without_a_count() {
    let answer = Answer {
        warnings: vec!["a".to_owned(); WARNINGS],
        ..Answer::admitted()
    };
    let body = answered(&answer);
    assert_eq!(
        body["response"]["warnings"],
        serde_json::json!(answer.warnings)
    );
}

#[test]
fn a_cut_is_shown_and_never_splits_a_character() {
    assert_eq!(shorten("short", 5), "short");
    assert_eq!(shorten("üüüü", 6), "ü…");
}

/// What counts is the namespace of the review that is answered, in whatever order its fields stand.
#[test]
fn the_namespace_is_that_of_the_review() {
    let fields = |request: &str| {
        format!(
            r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u",
            "kind":{{"version":"v1","kind":"Pod"}},"operation":"CREATE",{request}}}}}"#
        )
    };
    for (request, expected) in [
        (r#""namespace":"a","object":{"namespace":"b"}"#, "a"),
        (r#""object":{"namespace":"b"},"namespace":"a""#, "a"),
        ("\"namespace\": \"a\" ,\n \"object\": {}", "a"),
        (
            r#""userInfo":{"namespace":"b","object":1},"namespace":"a""#,
            "a",
        ),
        (r#""x":[{"object":1}],"namespace":"a","object":{}"#, "a"),
        (r#""object":{}"#, ""),
    ] {
        let body = fields(request);
        assert_eq!(namespace(&body).unwrap(), expected, "{request}");
        assert_eq!(parse(&body).unwrap().namespace, expected, "{request}");
    }
    // Two of them: nothing is answered.
    let twice = fields(r#""namespace":"a","object":{},"namespace":"b""#);
    assert!(parse(&twice).is_err());
}
