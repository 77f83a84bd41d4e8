//! Which servers a request reaches.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::AsyncWriteExt;

use super::super::{BlockedAddress, Cidr, Policy, Range, RequestErrorKind, RequestLimits, Rules};
use super::server::{self, Server, read_request, record, respond, script};
use super::{Names, ask, at, client, client_of, get, limits, rules, send, unchecked, url};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// One address allowed, its neighbour blocked.
fn only_the_first() -> Rules {
    Rules {
        allow: vec![Cidr::only([127, 0, 0, 1].into())],
        ..rules()
    }
}

/// A server on 127.0.0.1 that answers, and one on the same port of another address that must never be reached.
async fn pair(other: [u8; 4]) -> (Server, Server) {
    let good = Server::start(respond(OK)).await;
    let bad = SocketAddr::from((other, good.address.port()));
    let bad = Server::on(
        bad,
        None,
        respond("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nbad"),
    )
    .await;
    (good, bad)
}

#[tokio::test]
async fn a_name_that_changes_its_address_reaches_only_the_vetted_one() {
    let (good, bad) = pair([127, 0, 0, 2]).await;
    let names = Names::of(&[("rebinds.example", &[&["127.0.0.1"], &["127.0.0.2"]])]);
    let client = client_of(&names, only_the_first(), limits());
    let target = url(&format!("http://rebinds.example:{}/", good.address.port()));
    let response = ask(&client, &target).await.unwrap();
    assert_eq!(response.body, "ok");
    assert_eq!(names.lookups(), 1, "the name was looked up again");
    // From now on the name has the other address, which is vetted as well.
    let blocked = ask(&client, &target).await.unwrap_err();
    let expected = BlockedAddress {
        address: [127, 0, 0, 2].into(),
        range: Range::Loopback,
        policy: Policy::PublicOnly,
        flag: "--allow-cidr",
        denied: None,
    };
    assert_eq!(blocked, RequestErrorKind::Blocked(expected));
    assert_eq!((good.accepted(), bad.accepted()), (1, 0));
}

#[tokio::test]
async fn of_allowed_and_blocked_addresses_only_the_allowed_are_dialled() {
    let (good, bad) = pair([127, 0, 0, 2]).await;
    let port = good.address.port();
    let mixed: &[&str] = &["127.0.0.2", "::ffff:127.0.0.2", "127.0.0.1", "127.0.0.1"];
    let names = Names::of(&[("mixed.example", &[mixed])]);
    let client = client_of(&names, only_the_first(), limits());
    let target = url(&format!("http://mixed.example:{port}/"));
    assert_eq!(ask(&client, &target).await.unwrap().body, "ok");
    drop(good);
    // The good one is gone: the bad one is no way out.
    loop {
        match ask(&client, &target).await {
            // The listener is closed by its task, which may not have run yet.
            Ok(_) | Err(RequestErrorKind::BadResponse(_)) => tokio::task::yield_now().await,
            Err(RequestErrorKind::Connect { address, .. }) => {
                assert_eq!(address, SocketAddr::from(([127, 0, 0, 1], port)));
                break;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(bad.accepted(), 0);
}

#[tokio::test]
async fn a_name_with_blocked_addresses_only_is_blocked_with_the_first() {
    let (good, bad) = pair([127, 0, 0, 2]).await;
    let all: &[&str] = &["127.0.0.2", "10.0.0.1", "169.254.169.254"];
    let names = Names::of(&[("bad.example", &[all])]);
    let client = client_of(&names, only_the_first(), limits());
    let target = url(&format!("http://bad.example:{}/", good.address.port()));
    let blocked = ask(&client, &target).await.unwrap_err();
    assert!(
        blocked
            .to_string()
            .starts_with("127.0.0.2 is a loopback address"),
        "{blocked}"
    );
    assert_eq!((good.accepted(), bad.accepted()), (0, 0));
}

#[tokio::test]
async fn addresses_in_urls_are_vetted_in_every_form() {
    let (good, bad) = pair([127, 0, 0, 2]).await;
    let port = good.address.port();
    let names = Names::of(&[]);
    let client = client_of(&names, only_the_first(), limits());
    for host in [
        "127.0.0.2",
        "[::ffff:127.0.0.2]",
        "[::ffff:7f00:2]",
        "[0:0:0:0:0:FFFF:7F00:0002]",
        "[::127.0.0.2]",
        "[::1]",
        "0.0.0.0",
        "[::]",
    ] {
        let blocked = ask(&client, &url(&format!("http://{host}:{port}/"))).await;
        assert!(
            matches!(blocked, Err(RequestErrorKind::Blocked(_))),
            "{host}: {blocked:?}"
        );
    }
    assert_eq!((good.accepted(), bad.accepted()), (0, 0));
    for host in ["127.0.0.1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]"] {
        let response = ask(&client, &url(&format!("http://{host}:{port}/")))
            .await
            .unwrap();
        assert_eq!(response.body, "ok", "{host}");
    }
    assert_eq!((good.accepted(), bad.accepted()), (3, 0));
    assert_eq!(names.lookups(), 0, "an address was looked up as a name");
}

#[tokio::test]
async fn each_policy_holds_for_real_connections() {
    let server = Server::start(respond(OK)).await;
    for (policy, reaches) in [
        (Policy::PublicOnly, false),
        (Policy::NotLocal, false),
        (Policy::NotLinkLocal, true),
    ] {
        let rules = Rules {
            policy,
            allow: Vec::new(),
            deny: Vec::new(),
            flag: "--allow-cidr",
        };
        let client = client_of(&Names::of(&[]), rules, limits());
        let before = server.accepted();
        assert_eq!(
            ask(&client, &at(server.address)).await.is_ok(),
            reaches,
            "{policy:?}"
        );
        assert_eq!(server.accepted() > before, reaches, "{policy:?}");
    }
}

#[tokio::test]
async fn a_request_may_be_dialled_to_another_host() {
    let (script, heard) = record();
    let server = Server::start(script).await;
    let (good, bad) = pair([127, 0, 0, 2]).await;
    let names = Names::of(&[("way.example", &[&["127.0.0.1"]])]);
    let client = client_of(&names, only_the_first(), limits());
    // The URL's own host has no address at all: it is not asked for.
    let target = url("http://public.example/path?query");
    let tls = unchecked();
    let mut request = get(&target, &tls);
    let way = url(&format!(
        "https://way.example:{}/elsewhere",
        server.address.port()
    ));
    request.via = Some(&way);
    send(&client, request.clone()).await.unwrap();
    let heard = heard.lock().unwrap().clone();
    assert!(heard.starts_with("GET /path?query HTTP/1.1\r\n"), "{heard}");
    assert!(heard.contains("host: public.example\r\n"), "{heard}");
    // The way is vetted, whatever the URL is.
    let (allowed, blocked) = (at(good.address), at(bad.address));
    request.url = &allowed;
    request.via = Some(&blocked);
    let blocked = send(&client, request).await;
    assert!(
        matches!(blocked, Err(RequestErrorKind::Blocked(_))),
        "{blocked:?}"
    );
    assert_eq!((good.accepted(), bad.accepted()), (0, 0));
}

#[tokio::test]
async fn an_address_that_refuses_is_followed_by_the_next() {
    let server = Server::start(respond(OK)).await;
    let names = Names::of(&[("two.example", &[&["127.0.0.3", "127.0.0.1"]])]);
    let client = client_of(&names, rules(), limits());
    let target = url(&format!("http://two.example:{}/", server.address.port()));
    assert_eq!(ask(&client, &target).await.unwrap().body, "ok");
}

#[tokio::test]
async fn an_address_that_is_silent_leaves_time_for_the_next() {
    let server = Server::start(respond(OK)).await;
    let _full = server::full([127, 0, 0, 3].into(), server.address.port()).await;
    let names = Names::of(&[("two.example", &[&["127.0.0.3", "127.0.0.1"]])]);
    let limits = RequestLimits {
        connect_timeout: Duration::from_secs(2),
        ..limits()
    };
    let client = client_of(&names, rules(), limits);
    let target = url(&format!("http://two.example:{}/", server.address.port()));
    assert_eq!(ask(&client, &target).await.unwrap().body, "ok");
}

#[tokio::test]
async fn a_name_without_an_address_is_not_resolved() {
    let names = Names::of(&[("empty.example", &[&[]])]);
    let client = client_of(&names, rules(), limits());
    for (name, reason) in [
        ("empty.example", "it has no address"),
        ("unknown.example", "no such name"),
    ] {
        let kind = ask(&client, &url(&format!("http://{name}/")))
            .await
            .unwrap_err();
        assert_eq!(kind, RequestErrorKind::Resolve(reason.to_owned()));
    }
}

/// With a search domain a public name could become one of the cluster's.
#[tokio::test]
async fn public_names_are_looked_up_without_search_domains() {
    for (policy, host, asked) in [
        (Policy::PublicOnly, "a.example", "a.example."),
        (Policy::PublicOnly, "a.example.", "a.example."),
        (Policy::NotLocal, "a.example", "a.example"),
        (Policy::NotLinkLocal, "a.example.", "a.example."),
    ] {
        let names = Names::of(&[]);
        let rules = Rules { policy, ..rules() };
        let client = client_of(&names, rules, limits());
        let kind = ask(&client, &url(&format!("http://{host}/"))).await;
        assert!(
            matches!(kind, Err(RequestErrorKind::Resolve(_))),
            "{kind:?}"
        );
        assert_eq!(*names.asked.lock().unwrap(), [asked]);
    }
}

#[tokio::test]
async fn only_so_many_addresses_of_a_name_are_tried() {
    let port = Server::start(respond(OK)).await.address.port();
    let many: Vec<String> = (0..1000)
        .map(|number| format!("127.1.{}.{}", number / 250, number % 250))
        .collect();
    let mut many: Vec<&str> = many.iter().map(String::as_str).collect();
    many.push("127.0.0.1");
    let names = Names::of(&[("many.example", &[&many])]);
    let rules = Rules {
        allow: vec!["127.0.0.0/8".parse().unwrap()],
        ..rules()
    };
    let client = client_of(&names, rules, limits());
    let kind = ask(&client, &url(&format!("http://many.example:{port}/")))
        .await
        .unwrap_err();
    let RequestErrorKind::Connect { address, .. } = kind else {
        panic!("{kind}");
    };
    assert_eq!(address.ip().to_string(), "127.1.0.7");
}

#[tokio::test]
async fn redirects_are_shown_and_not_followed() {
    let (script, heard) = record();
    let other = Server::start(script).await;
    let cases = [
        (
            301,
            format!("http://{}/secret", other.address),
            Some("127.0.0.1"),
        ),
        (
            302,
            "https://me:pw@b.example:8443/secret?token".to_owned(),
            Some("b.example"),
        ),
        (303, "//c.example/secret".to_owned(), None),
        (300, "session=secret".to_owned(), None),
        (305, "secret".to_owned(), None),
        (301, "secret.example:80".to_owned(), None),
        (301, "secret://secret/".to_owned(), None),
        (302, "https://$secret/".to_owned(), None),
        (302, "https://[::1]:80/secret".to_owned(), Some("[::1]")),
        (307, "/secret".to_owned(), None),
        (308, "\u{0}".to_owned(), None),
        (308, format!("http://{}/", "a".repeat(300)), None),
    ];
    for (code, location, to) in cases {
        let head =
            format!("HTTP/1.1 {code} Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        let server = Server::start(respond(head)).await;
        let kind = ask(&client(limits()), &at(server.address))
            .await
            .unwrap_err();
        match &kind {
            RequestErrorKind::Redirected { status, to: found } => {
                assert_eq!(
                    (status.as_u16(), found.as_deref()),
                    (code, to),
                    "{location}"
                );
            }
            // No header has a NUL.
            RequestErrorKind::BadResponse(_) if location == "\u{0}" => {}
            other => panic!("{other}"),
        }
        let shown = format!("{kind} {kind:?}");
        assert!(
            !shown.contains("secret") && !shown.contains("pw@"),
            "{shown}"
        );
    }
    assert_eq!(other.accepted(), 0, "{heard:?}");
    // Without a location there is still nobody to ask.
    let server = Server::start(respond("HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n")).await;
    let kind = ask(&client(limits()), &at(server.address)).await;
    assert!(
        matches!(kind, Err(RequestErrorKind::Redirected { to: None, .. })),
        "{kind:?}"
    );
}

#[tokio::test]
async fn no_cookie_comes_back_and_nothing_says_where_we_were() {
    let heard = Arc::new(Mutex::new(String::new()));
    let kept = heard.clone();
    let server = Server::start(script(move |mut stream| {
        let kept = kept.clone();
        async move {
            let cookie = b"HTTP/1.1 200 OK\r\nset-cookie: a=b\r\ncontent-length: 0\r\n\r\n";
            let request = read_request(&mut *stream).await;
            kept.lock().unwrap().push_str(&request);
            stream.write_all(cookie).await.unwrap();
        }
    }))
    .await;
    let client = Arc::new(client(limits()));
    for _ in 0..2 {
        let response = ask(&client, &at(server.address)).await.unwrap();
        assert!(response.headers.contains_key("set-cookie"));
    }
    let heard = heard.lock().unwrap().to_lowercase();
    assert!(
        !heard.contains("cookie") && !heard.contains("referer"),
        "{heard}"
    );
    assert_eq!(server.accepted(), 2, "a connection was kept");
}

/// Whether this is the child of the test below.
const PROXIED: &str = "PODLOOM_TEST_PROXIED";

#[tokio::test]
async fn the_environment_names_no_proxy() {
    let server = Server::start(respond(OK)).await;
    assert_eq!(
        ask(&client(limits()), &at(server.address))
            .await
            .unwrap()
            .body,
        "ok"
    );
    if std::env::var_os(PROXIED).is_some() {
        return;
    }
    // Once more, in a process whose environment names a proxy that nobody answers for.
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([
        "--exact",
        "outbound::tests::addresses::the_environment_names_no_proxy",
    ]);
    child
        .env(PROXIED, "1")
        .env_remove("NO_PROXY")
        .env_remove("no_proxy");
    for name in [
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "https_proxy",
        "ALL_PROXY",
        "all_proxy",
    ] {
        child.env(name, "http://127.0.0.1:9");
    }
    let output = tokio::task::spawn_blocking(move || child.output())
        .await
        .unwrap()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("1 passed"), "{said}");
}
