//! What each answer means that is not the expected one.

use super::*;

fn refused(status: u16, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn update() -> Call {
    Call::Update {
        id: id(),
        template: "{}".to_owned(),
    }
}

#[track_caller]
fn is(answered: Result<Answer, Failure>, kind: FailureKind, sent: Sent, body: &str) {
    let failure = answered.unwrap_err();
    assert_eq!((failure.kind, failure.sent), (kind, sent), "{body}");
    assert!(failure.message.contains(body), "{failure}");
}

#[tokio::test]
async fn each_refusal_has_the_meaning_of_the_table() {
    use FailureKind::*;
    let state = Call::State { id: id() };
    let delete = Call::Delete {
        id: id(),
        force: false,
    };
    let wrong = "Invalid InfrastructureManager credentials";
    let no_template = "'tosca' infrastructure property is not valid in this infrastructure";
    for (call, status, body, kind) in [
        (&update(), 401, "whatever", CredentialsRejected),
        (&state, 400, wrong, CredentialsRejected),
        (&state, 400, "No credentials provided", CredentialsRejected),
        (
            &update(),
            400,
            "Error parsing request body: x",
            TemplateRejected,
        ),
        (&update(), 415, "x", TemplateRejected),
        (&update(), 400, "Quota exceeded", Refused),
        (
            &state,
            403,
            "Access to this infrastructure not granted.",
            NotGranted,
        ),
        (&update(), 403, "Operation disabled", ReadOnly),
        (&state, 403, no_template, NoTemplate),
        (&state, 403, "x", Refused),
        (&delete, 404, "Error deleting resources", Refused),
        (&state, 404, "Invalid infrastructure ID", Unreachable),
        (&Call::List, 404, "nginx", Unreachable),
        (&update(), 409, "busy", Conflict),
        (&update(), 418, "x", Unreachable),
    ] {
        let (answered, _) = exchange(call, &refused(status, body)).await;
        is(answered, kind, Sent::Refused, body);
    }
}

/// A proxy without anything behind it answers 404 too. Who believes that creates all machines once more.
#[tokio::test]
async fn only_im_itself_can_say_that_there_is_no_such_infrastructure() {
    let state = Call::State { id: id() };
    let im = |code: u16, message: &str| json!({ "message": message, "code": code }).to_string();
    let gone = "Error Getting Inf. prop: Deleted infrastructure.";
    let unknown = "Error Adding resources: Invalid infrastructure ID or access not granted.";
    for (body, kind) in [
        (im(404, gone), FailureKind::NotFound),
        (im(404, unknown), FailureKind::NotFound),
        (im(404, "Not Found"), FailureKind::Unreachable),
        (im(500, gone), FailureKind::Unreachable),
        (
            r#"{"message":"no Route matched"}"#.to_owned(),
            FailureKind::Unreachable,
        ),
        (
            r#"{"detail":"Not Found"}"#.to_owned(),
            FailureKind::Unreachable,
        ),
        (
            "<html>infrastructure</html>".to_owned(),
            FailureKind::Unreachable,
        ),
        (String::new(), FailureKind::Unreachable),
    ] {
        for call in [&state, &update()] {
            let (answered, _) = exchange(call, &refused(404, &body)).await;
            is(answered, kind, Sent::Refused, "");
        }
    }
}

/// After an error of the server, it may have acted.
#[tokio::test]
async fn errors_of_the_server_leave_open_what_it_did() {
    for (status, body) in [(500, "x"), (504, "x"), (204, "")] {
        let (answered, _) = exchange(&update(), &refused(status, body)).await;
        is(answered, FailureKind::Unreachable, Sent::Unknown, body);
    }
}

#[tokio::test]
async fn what_is_no_answer_of_an_im_is_unreachable_and_may_have_been_done() {
    let create = || Call::Create {
        template: "{}".to_owned(),
    };
    let state = || Call::State { id: id() };
    let many: String = (0..10_001).map(|n| format!(r#""{n}":"off","#)).collect();
    let many = format!(r#"{{"state":{{"state":"off","vm_states":{{{many}"x":"off"}}}}}}"#);
    let deep = "[".repeat(100_000);
    let cases = [
        (create(), ok("{}")),
        (create(), ok(r#"{"uri":"http://im/infrastructures/../x"}"#)),
        (
            create(),
            "HTTP/1.1 302 X\r\nlocation: http://127.0.0.1:1/\r\n\r\n".to_owned(),
        ),
        (create(), "garbage".to_owned()),
        (create(), String::new()),
        (
            create(),
            "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_owned(),
        ),
        (create(), ok(&"x".repeat(1024 * 1024 + 1))),
        (state(), ok("<html>")),
        (
            state(),
            ok(r#"{"state":{"state":"dancing","vm_states":{}}}"#),
        ),
        (
            state(),
            ok(r#"{"state":{"state":"off","vm_states":{"0":"dancing"}}}"#),
        ),
        (state(), ok(r#"{"state":"off"}"#)),
        (state(), ok(&many)),
        (Call::Outputs { id: id() }, ok(&deep)),
        (Call::Version, ok("<html>login</html>")),
        (Call::List, ok(r#"{"uri-list":[{"uri":"x"}]}"#)),
        // Portals answer 200 to whatever is asked.
        (Call::Start { id: id() }, ok("\n<!DOCTYPE html>")),
        (update(), ok("<html>login</html>")),
    ];
    for (call, answer) in cases {
        let (answered, _) = exchange(&call, &answer).await;
        let failure = answered.unwrap_err();
        let shown: String = answer.chars().take(80).collect();
        assert_eq!(failure.kind, FailureKind::Unreachable, "{shown}");
        assert_eq!(failure.sent, Sent::Unknown, "{shown}");
        assert!(failure.message.len() <= 512);
    }
}

#[tokio::test]
async fn what_never_left_was_not_sent() {
    let (client, _) = client();
    let call = Call::Create {
        template: "{}".to_owned(),
    };
    let mut unchecked = target("http://169.254.169.254");
    // It speaks no TLS.
    let plain = Server::start(&ok("")).await;
    let failures = [
        client
            .call(&target(&plain.url().replace("http:", "https:")), &call)
            .await,
        client.call(&target("http://127.0.0.1:1"), &call).await,
        client.call(&target("no URL"), &call).await,
        client.call(&unchecked, &call).await,
        {
            // Not even for administrators.
            unchecked.tenant = String::new();
            client.call(&unchecked, &call).await
        },
        client
            .call(
                &target("http://127.0.0.1:1"),
                &Call::Create {
                    template: "x".repeat(4 * 1024 * 1024 + 1),
                },
            )
            .await,
    ];
    for failure in failures {
        let failure = failure.unwrap_err();
        assert_eq!(
            (failure.kind, failure.sent),
            (FailureKind::Unreachable, Sent::No),
            "{failure}"
        );
    }
}

/// The largest template that is accepted, beside nodes of the same size that are gone, in the characters that take most bytes.
#[tokio::test]
async fn every_template_that_is_accepted_can_be_sent() {
    let text = "\u{7f}".repeat(2 * crate::template::TEMPLATE_BYTES_MAX);
    let template = crate::template::to_send(&json!({ "a": text }), "n");
    assert!(template.len() > 3 * 1024 * 1024);
    let update = Call::Update { id: id(), template };
    assert_eq!(exchange(&update, &ok("")).await.0.unwrap(), Answer::Done);
}

/// A Secret may have a megabyte; no header does.
#[tokio::test]
async fn credentials_that_no_request_can_carry_are_rejected_before_they_are_sent() {
    let server = Server::start(&ok(r#"{"uri-list":[]}"#)).await;
    let mut target = target(&server.url());
    let (client, _) = client();
    target.owner = Owner::Token(Hidden::new("x".repeat(60 * 1024)));
    client.call(&target, &Call::List).await.unwrap();
    target.owner = Owner::Token(Hidden::new("x".repeat(64 * 1024)));
    let failure = client.call(&target, &Call::List).await.unwrap_err();
    assert_eq!(
        (failure.kind, failure.sent),
        (FailureKind::CredentialsRejected, Sent::No)
    );
}

/// Silence ends after 30 seconds, and that of an update after a minute. The timer is only as slow as nothing else can happen.
#[tokio::test(start_paused = true)]
async fn silence_ends_and_leaves_open_what_was_done() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = target(&format!("http://{}", listener.local_addr().unwrap()));
    let (client, _) = client();
    for (call, expected) in [(Call::List, 30), (update(), 60)] {
        let begun = tokio::time::Instant::now();
        let failure = client.call(&target, &call).await.unwrap_err();
        let took = begun.elapsed().as_secs();
        assert!(
            (expected..expected + 3).contains(&took),
            "{call:?} took {took} s"
        );
        assert_eq!(
            (failure.kind, failure.sent),
            (FailureKind::Unreachable, Sent::Unknown)
        );
        assert!(failure.message.ends_with("000 ms"), "{failure}");
    }
}

/// Four requests to one provider at once; what finds no room says nothing about IM. Providers of users and of administrators do not take
/// the room of each other.
#[tokio::test(start_paused = true)]
async fn a_fifth_request_to_a_provider_finds_no_room() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = target(&format!("http://{}", listener.local_addr().unwrap()));
    let (client, registry) = client();
    let calls = futures::future::join_all((0..5).map(|_| client.call(&target, &Call::List)));
    let mut kinds: Vec<_> = calls
        .await
        .into_iter()
        .map(|it| it.unwrap_err().kind)
        .collect();
    kinds.sort_unstable_by_key(|kind| kind.as_str());
    let silent = [FailureKind::Unreachable; 4];
    assert_eq!(kinds, [&[FailureKind::Limited], &silent[..]].concat());
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    // It was not sent, so it has no duration.
    let line = r#"im_request_duration_seconds_count{operation="list"} 4"#;
    assert!(text.contains(line), "{text}");

    let of_users = futures::future::join_all((0..4).map(|_| client.call(&target, &Call::List)));
    let of_administrators = async {
        let target = Target {
            tenant: String::new(),
            ..target.clone()
        };
        client.call(&target, &Call::List).await.unwrap_err().kind
    };
    let (_, kind) = futures::join!(of_users, of_administrators);
    assert_eq!(kind, FailureKind::Unreachable);
}

/// At most 512 bytes in one line, before the stack trace, in the words of the field for them.
#[tokio::test]
async fn messages_are_short_and_in_one_line() {
    let message = |body: &str| {
        let answer = refused(400, body);
        async move { exchange(&Call::List, &answer).await.0.unwrap_err().message }
    };
    assert_eq!(
        message(r#"{"message":"one\n\ttwo","code":400}"#).await,
        "one two"
    );
    assert_eq!(message(r#"{"detail":"three"}"#).await, "three");
    assert_eq!(
        message("bad\nTraceback (most recent call last)\n  File x").await,
        "bad"
    );
    let two = "Error parsing request body: \n\tInvalidTypeError: Type \"a\" is not a valid type.\n\t\tFile /launch.py, line 60, in <module>\n\t\t\tmain()\n\t\tFile /x.py, line 1, in main\n\t\t\treturn 1\n\n\tUnknownFieldError: b.\n\t\tFile /launch.py, line 60, in <module>\n\t\t\tmain()";
    assert_eq!(
        message(two).await,
        "Error parsing request body: InvalidTypeError: Type \"a\" is not a valid type. UnknownFieldError: b."
    );
    assert_eq!(message("a\u{202e}b\u{7}c").await, "a b c");
    let long = message(&"ü".repeat(1000)).await;
    assert_eq!(long.len(), 512);
    for empty in [
        "",
        "\n<html><body>nginx</body></html>",
        "Traceback (most recent call last)\n x",
    ] {
        let text = message(empty).await;
        assert_eq!(text, "the Infrastructure Manager answers with HTTP 400");
    }
}

#[tokio::test]
async fn of_a_log_the_end_is_shown() {
    let log = |text: &str| {
        let answer = ok(&json!({ "contmsg": text }).to_string());
        async move {
            match exchange(&Call::Log { id: id() }, &answer).await.0.unwrap() {
                Answer::Log(log) => log,
                other => panic!("{other:?}"),
            }
        }
    };
    let text = log(&format!("{}the end", "x ".repeat(1000))).await;
    assert!(text.len() <= 512 && text.ends_with("x the end"), "{text}");
    assert_eq!(
        log("why\nTraceback (most recent call last)\n x").await,
        "why"
    );
    assert_eq!(log("").await, "");
}
