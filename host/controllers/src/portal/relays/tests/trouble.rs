//! Relays that are broken, slow, hostile or gone.

use super::relay::{THEIRS, response};
use super::*;

/// Checks what is shown of a relay that behaves like this, and that no word of it is.
#[track_caller]
fn check(manner: Manner, code: &'static str) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let scene = Scene::start(SHORT);
        let relay = scene.relay(manner).await;
        scene.relays.set(&user("one"), vec![lease(&relay)]);
        let link = scene.troubled(&relay, code).await;
        let error = link.last_error.expect("an error");
        assert!(!error.contains(THEIRS), "{caller}: {error}");
        assert!(
            error.chars().count() <= code.len() + 2 + 200,
            "{caller}: {error}"
        );
        assert_eq!(scene.up(), ["0"], "{caller}");
        // When it is back it is found, and nothing of the trouble is left.
        relay.behave(Manner::State);
        relay.lease(&[(APP, 1)]);
        scene.awaits(&relay, Connected, "").await;
        assert_eq!(scene.up(), ["1"], "{caller}");
    }
}

#[tokio::test]
async fn a_website_is_no_relay() {
    check(Manner::Website, "BadResponse").await;
}

#[tokio::test]
async fn garbage_is_no_answer() {
    for bytes in [
        response(200, "application/json", THEIRS),
        response(
            200,
            "application/json",
            &format!("{{\"ok\":false,\"error\":\"{THEIRS}\"}}"),
        ),
        response(500, "text/html", THEIRS),
        response(403, "application/json", "{}"),
        THEIRS.as_bytes().to_vec(),
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"ok\""
            .to_vec(),
    ] {
        check(Manner::Says(bytes), "BadResponse").await;
    }
    check(Manner::Closes, "BadResponse").await;
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let scene = Scene::start(SHORT);
    let elsewhere = scene.relay(Manner::State).await;
    elsewhere.lease(&[(APP, 1)]);
    let to = format!("https://{}/api/state", authority(&elsewhere));
    let redirect =
        format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n").into_bytes();
    let relay = scene.relay(Manner::Says(redirect)).await;
    scene.relays.set(&user("one"), vec![lease(&relay)]);
    let link = scene.troubled(&relay, "BadResponse").await;
    let error = link.last_error.unwrap();
    assert!(error.contains("302") && !error.contains(HOST), "{error}");
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test]
async fn a_body_that_is_too_large_is_no_answer() {
    let body = " ".repeat(4 * 1024 * 1024 + 1);
    let large = response(200, "application/json", &body);
    check(Manner::Says(large), "BadResponse").await;
    // Without a length it shows only while it is read.
    let mut endless = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n".to_vec();
    endless.extend_from_slice(body.as_bytes());
    check(Manner::Says(endless), "BadResponse").await;
}

#[tokio::test]
async fn a_relay_that_hangs_times_out() {
    let begun = Instant::now();
    check(Manner::Hangs, "Timeout").await;
    assert!(begun.elapsed() >= Duration::from_secs(5));
}

#[tokio::test]
async fn a_relay_that_vanishes_is_disconnected_after_three_looks() {
    let scene = Scene::start(SHORT);
    let relay = scene.relay(Manner::State).await;
    relay.lease(&[(APP, 1)]);
    scene.relays.set(&user("one"), vec![lease(&relay)]);
    let before = scene.awaits(&relay, Connected, "").await;
    relay.vanish();
    let still = scene.awaits(&relay, Connected, "Unreachable").await;
    assert_eq!(still.connected_at, before.connected_at);
    let gone = scene.awaits(&relay, Disconnected, "Unreachable").await;
    assert_eq!(gone.connected_at, None);
    assert_eq!(scene.up(), ["0"]);
}

#[tokio::test]
async fn a_relay_without_an_address_is_unreachable() {
    let scene = Scene::start(SHORT);
    let relay = scene.relay(Manner::State).await;
    let long = format!("{}.example", "a".repeat(64));
    for host in ["nowhere.example", &long] {
        let authority = at(host, relay.address.port());
        let one = Lease {
            authority: authority.clone(),
            ..lease(&relay)
        };
        scene.relays.set(&user("one"), vec![one]);
        let is_it = |link: &Link| code_of(link) == "Unreachable";
        let link = scene.look(authority, is_it).await;
        assert_ne!(link.status, Connected);
    }
    assert_eq!(relay.most_open(), 0);
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_an_error() {
    let strangers = Certificates::new(&NAMES);
    let scene = Scene::start(SHORT);
    let relay = Relay::start(&strangers, Manner::State).await;
    relay.lease(&[(APP, 1)]);
    scene.relays.set(&user("one"), vec![lease(&relay)]);
    scene.troubled(&relay, "TLSError").await;
    assert!(relay.seen().is_empty(), "nothing was sent");
}

#[tokio::test]
async fn a_tunnel_with_a_certificate_for_another_name_is_not_connected() {
    let certificates = Certificates::new(&[HOST]);
    let scene = Scene::with(SHORT, |settings| settings.tls = certificates.tls());
    let relay = Relay::start(&certificates, Manner::Domain).await;
    relay.lease(&[(APP, 1)]);
    scene.relays.set(&user("one"), vec![lease(&relay)]);
    let link = scene.troubled(&relay, "TLSError").await;
    let error = link.last_error.unwrap();
    assert!(!error.contains(HOST), "{error}");
    assert_eq!(scene.up(), ["1"], "the relay itself answers");
}

#[tokio::test]
async fn addresses_that_are_not_public_are_blocked() {
    let scene = Scene::with(SHORT, |settings| settings.allow.clear());
    let relay = scene.relay(Manner::State).await;
    relay.lease(&[(APP, 1)]);
    scene.relays.set(&user("one"), vec![lease(&relay)]);
    let link = scene.troubled(&relay, "Blocked").await;
    let error = link.last_error.unwrap();
    assert!(
        error.contains("--portal-relay-allow-cidr") && !error.contains("127"),
        "{error}"
    );
    assert_eq!(relay.most_open(), 0, "it was not even dialled");
}
