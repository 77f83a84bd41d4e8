use http::HeaderValue;
use hyper::body::Bytes;

use super::super::*;

const HOST: &str = "app.relay.example";

fn response(status: u16, media: Option<&str>, body: impl Into<Bytes>) -> Response {
    let mut headers = HeaderMap::new();
    if let Some(media) = media {
        headers.insert(CONTENT_TYPE, HeaderValue::from_str(media).unwrap());
    }
    Response {
        status: StatusCode::from_u16(status).unwrap(),
        headers,
        body: body.into(),
    }
}

fn json(body: impl Into<Bytes>) -> Response {
    response(200, Some("application/json"), body)
}

fn hostnames() -> BTreeSet<String> {
    [HOST.to_owned()].into()
}

/// Reads the state, and returns the answer about [`HOST`].
fn ask(response: &Response) -> Reply<Answer> {
    let answers = state(response, &hostnames())?;
    Ok(answers.map(|mut answers| {
        assert_eq!(answers.len(), 1, "an answer for each hostname alone");
        answers.remove(HOST).expect("an answer")
    }))
}

#[track_caller]
fn check_state(body: &str, expected: &Answer) {
    let found = ask(&json(body.to_owned()));
    assert_eq!(found, Ok(Some(expected.clone())), "{body}");
}

#[track_caller]
fn check_leases(leases: &str, expected: &Answer) {
    check_state(
        &format!(r#"{{"ok":true,"data":{{"leases":{leases}}}}}"#),
        expected,
    );
}

#[track_caller]
fn check_unusable<T: fmt::Debug>(reply: &Reply<T>, body: &str) {
    let Err(trouble) = reply else {
        panic!("{reply:?} for {body}");
    };
    assert!(trouble.to_string().starts_with("BadResponse: "), "{body}");
}

#[test]
fn a_lease_with_a_ready_connection_is_ready() {
    check_leases(
        r#"[{"hostname":"app.relay.example","ready":1}]"#,
        &Answer::Ready,
    );
    check_leases(
        r#"[{"name":"app","expires_at":"2026-01-01T00:00:00Z","hostname":"app.relay.example","metadata":{"tags":["a"]},"ready":3}]"#,
        &Answer::Ready,
    );
    check_leases(
        r#"[{"Hostname":"app.relay.example","Ready":1}]"#,
        &Answer::Ready,
    );
    // The order does not matter.
    check_state(
        r#"{"data":{"landing_page_enabled":true,"leases":[{"ready":1,"hostname":"app.relay.example"}]},"ok":true}"#,
        &Answer::Ready,
    );
}

#[test]
fn a_lease_without_a_ready_connection_is_not_ready() {
    for ready in [
        "0",
        "-1",
        "0.0",
        "null",
        "\"1\"",
        "true",
        "[1]",
        "{\"a\":1}",
    ] {
        check_leases(
            &format!(r#"[{{"hostname":"app.relay.example","ready":{ready}}}]"#),
            &Answer::LeaseNotReady,
        );
    }
    check_leases(
        r#"[{"hostname":"app.relay.example"}]"#,
        &Answer::LeaseNotReady,
    );
}

#[test]
fn only_exactly_our_hostname_counts() {
    for hostname in [
        "\"other.relay.example\"",
        "\"App.relay.example\"",
        "\"app.relay.example.\"",
        "\" app.relay.example\"",
        "\"app.relay\"",
        "\"*.relay.example\"",
        "\"\"",
        "null",
        "7",
        "[\"app.relay.example\"]",
        "{\"app.relay.example\":1}",
    ] {
        check_leases(
            &format!(r#"[{{"hostname":{hostname},"ready":1}}]"#),
            &Answer::NoLease,
        );
    }
}

#[test]
fn a_relay_may_have_no_leases() {
    for leases in ["[]", "null", "[{}]"] {
        check_leases(leases, &Answer::NoLease);
    }
    check_state(r#"{"ok":true,"data":{}}"#, &Answer::NoLease);
}

#[test]
fn of_several_leases_for_a_hostname_a_ready_one_counts() {
    let lease = |ready: u8| format!(r#"{{"hostname":"app.relay.example","ready":{ready}}}"#);
    for (first, second) in [(0, 1), (1, 0), (1, 1)] {
        let leases = format!("[{},{}]", lease(first), lease(second));
        check_leases(&leases, &Answer::Ready);
    }
    let leases = format!("[{},{}]", lease(0), lease(0));
    check_leases(&leases, &Answer::LeaseNotReady);
}

#[test]
fn every_wanted_hostname_gets_an_answer() {
    let wanted = ["a.example", "b.example", "c.example"].map(str::to_owned);
    let body = r#"{"ok":true,"data":{"leases":[
        {"hostname":"b.example","ready":0},{"hostname":"a.example","ready":2},{"hostname":"d.example","ready":1}
    ]}}"#;
    let Ok(Some(answers)) = state(&json(body), &wanted.into()) else {
        panic!("no answers");
    };
    let found: Vec<_> = answers
        .iter()
        .map(|(name, answer)| (name.as_str(), answer))
        .collect();
    let expected = [
        ("a.example", &Answer::Ready),
        ("b.example", &Answer::LeaseNotReady),
        ("c.example", &Answer::NoLease),
    ];
    assert_eq!(found, expected);
}

#[test]
fn what_is_not_the_answer_of_a_relay_is_unusable() {
    for body in [
        "",
        "null",
        "[]",
        "7",
        "\"ok\"",
        "{",
        "{}",
        r#"{"ok":true}"#,
        r#"{"ok":true,"data":null}"#,
        r#"{"ok":true,"data":[]}"#,
        r#"{"ok":true,"data":"leases"}"#,
        r#"{"ok":true,"data":{"leases":{}}}"#,
        r#"{"ok":true,"data":{"leases":7}}"#,
        r#"{"ok":true,"data":{"leases":[7]}}"#,
        r#"{"ok":true,"data":{"leases":[{"hostname":"app.relay.example","ready":1,"ready":1}]}}"#,
        r#"{"ok":true,"data":{"leases":[{"hostname":"app.relay.example","ready":1}]"#,
        r#"{"ok":true,"data":{"leases":[{"hostname":"app.relay.example","ready":1}]}} more"#,
        r#"{"ok":true,"data":{},"data":{}}"#,
        r#"{"ok":false,"data":{"leases":[{"hostname":"app.relay.example","ready":1}]}}"#,
        r#"{"ok":"true","data":{"leases":[]}}"#,
        r#"{"ok":1,"data":{"leases":[]}}"#,
        r#"{"ok":false,"error":{"code":"internal","message":"a text of the relay"}}"#,
    ] {
        check_unusable(&ask(&json(body)), body);
    }
    check_unusable(
        &ask(&json(&b"{\"ok\":true,\"data\":\"\xff\"}"[..])),
        "no UTF-8",
    );
}

#[test]
fn deep_nesting_is_no_danger() {
    let deep = 200_000;
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = format!("{}1{}", open.repeat(deep), close.repeat(deep));
        for body in [
            nested.clone(),
            format!(r#"{{"ok":true,"data":{nested}}}"#),
            format!(r#"{{"ok":true,"data":{{"leases":{nested}}}}}"#),
            format!(r#"{{"ok":true,"data":{{"leases":[{{"hostname":{nested}}}]}}}}"#),
            format!(r#"{{"more":{nested},"ok":true,"data":{{"more":{nested}}}}}"#),
        ] {
            let found = ask(&json(body));
            assert_ne!(found, Ok(Some(Answer::Ready)));
        }
    }
    let nested = "[".repeat(deep);
    check_unusable(&ask(&json(nested)), "a list without an end");
}

#[test]
fn a_body_as_large_as_allowed_is_read() {
    let lease = r#"{"hostname":"x","ready":1},"#;
    let many = lease.repeat(4 * 1024 * 1024 / lease.len() - 8);
    check_leases(
        &format!(r#"[{many}{{"hostname":"app.relay.example","ready":1}}]"#),
        &Answer::Ready,
    );
    let text = "x".repeat(4_000_000);
    check_leases(
        &format!(r#"[{{"hostname":"{text}"}},{{"hostname":"app.relay.example","ready":1e300}}]"#),
        &Answer::Ready,
    );
}

#[test]
fn unknown_paths_are_recognised() {
    let good = r#"{"ok":true,"data":{"leases":[],"registered":true}}"#;
    for (status, media, body) in [
        (404, Some("application/json"), good),
        (404, Some("text/html"), "<html>"),
        (404, None, ""),
        (200, Some("text/html; charset=utf-8"), "<html>"),
        (200, Some("text/plain"), good),
        (200, Some("application/jsonp"), good),
        (200, Some("text/json"), good),
        (200, None, good),
        (401, Some("text/html"), "<html>"),
        (204, None, ""),
    ] {
        let response = response(status, media, body);
        assert_eq!(ask(&response), Ok(None), "{status} {media:?}");
        assert_eq!(tunnel(&response, HOST), Ok(None));
        assert_eq!(domain(&response), Ok(None));
    }
}

#[test]
fn errors_of_the_relay_are_unusable() {
    let good = r#"{"ok":true,"data":{"leases":[],"registered":true}}"#;
    for (status, media) in [
        (500, "application/json"),
        (502, "text/html"),
        (503, "text/html"),
        (401, "application/json"),
        (429, "application/json"),
    ] {
        let response = response(status, Some(media), good);
        let expected = Trouble::bad_response(format!("it answered {status}"));
        assert_eq!(ask(&response), Err(expected.clone()));
        assert_eq!(tunnel(&response, HOST), Err(expected.clone()));
        assert_eq!(domain(&response), Err(expected));
    }
}

#[test]
fn json_has_several_media_types() {
    let body = r#"{"ok":true,"data":{}}"#;
    for media in [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        "application/json;charset=utf-8",
        "application/problem+json",
    ] {
        let found = ask(&response(200, Some(media), body));
        assert_eq!(found, Ok(Some(Answer::NoLease)), "{media}");
    }
}

#[test]
fn a_tunnel_is_ready_if_it_is_registered_and_alive() {
    let body = |registered: bool, alive: bool| {
        format!(
            r#"{{"ok":true,"data":{{"hostname":"{HOST}","registered":{registered},"service_alive":{alive}}}}}"#
        )
    };
    for (registered, alive, expected) in [
        (true, true, Answer::Ready),
        (true, false, Answer::LeaseNotReady),
        (false, false, Answer::NoLease),
        (false, true, Answer::NoLease),
    ] {
        let found = tunnel(&json(body(registered, alive)), HOST);
        assert_eq!(found, Ok(Some(expected)));
    }
    let without = r#"{"ok":true,"data":{"registered":true}}"#;
    assert_eq!(
        tunnel(&json(without), HOST),
        Ok(Some(Answer::LeaseNotReady))
    );
}

#[test]
fn a_status_that_fits_nothing_is_unusable() {
    for body in [
        r#"{"ok":true,"data":{}}"#,
        r#"{"ok":true,"data":{"service":"portal-relay"}}"#,
        r#"{"ok":true,"data":{"registered":"true","service_alive":true}}"#,
        r#"{"ok":true,"data":{"registered":1,"service_alive":1}}"#,
        r#"{"ok":true,"data":{"registered":true,"service_alive":null}}"#,
        r#"{"ok":true,"data":{"hostname":"other.relay.example","registered":true,"service_alive":true}}"#,
        r#"{"ok":false,"data":{"registered":true,"service_alive":true}}"#,
    ] {
        check_unusable(&tunnel(&json(body), HOST), body);
    }
}

#[test]
fn a_domain_is_an_envelope_with_data() {
    let good = r#"{"ok":true,"data":{"protocol_version":"2","release_version":"v2.4.3"}}"#;
    assert_eq!(domain(&json(good)), Ok(Some(())));
    for body in [
        r#"{"ok":true}"#,
        r#"{"ok":true,"data":null}"#,
        r#"{"ok":true,"data":"relay"}"#,
        r#"{"ok":false,"data":{}}"#,
        "{}",
    ] {
        check_unusable(&domain(&json(body)), body);
    }
}

mod random {
    use proptest::prelude::*;

    use super::super::super::*;
    use super::*;

    proptest! {
        #[test]
        fn no_body_is_a_danger(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let response = json(body);
            let _ = (ask(&response), tunnel(&response, HOST), domain(&response));
        }

        #[test]
        fn no_text_of_a_relay_gets_into_a_trouble(text in "[a-z]{12,40}") {
            let quoted = format!(r#"{{"ok":false,"{text}":"{text}","error":{{"message":"{text}"}},"data":"{text}"}}"#);
            let response = json(quoted);
            for trouble in [
                format!("{:?}", ask(&response)),
                format!("{:?}", tunnel(&response, HOST)),
                format!("{:?}", domain(&response)),
            ] {
                prop_assert!(!trouble.contains(&text), "{trouble}");
            }
        }
    }
}
