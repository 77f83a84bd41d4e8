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

/// Names that another user asks about at the same relay.
const OTHERS: [&str; 2] = ["app-2.relay.example", "app-3.relay.example"];

/// A tunnel can make a relay fail when it is asked about it.
#[tokio::test]
async fn one_hostname_that_the_relay_fails_for_says_nothing_about_the_others() {
    // One of them is asked about before all others, and one after them.
    for failing in [&[OTHERS[0]], &[APP]] {
        let scene = Scene::start(SHORT);
        let relay = scene.relay(Manner::Fails(failing)).await;
        relay.lease(&[(APP, 1), (OTHERS[0], 1), (OTHERS[1], 1)]);
        let hostnames = [APP, OTHERS[0], OTHERS[1]];
        for hostname in hostnames {
            let own = Lease {
                hostname: hostname.to_owned(),
                ..lease(&relay)
            };
            scene.relays.set(&user(hostname), vec![own]);
        }
        for hostname in hostnames {
            let (status, code) = match failing.contains(&hostname) {
                true => (Disconnected, "BadResponse"),
                false => (Connected, ""),
            };
            let link = || {
                let link = scene
                    .relays
                    .link(&user(hostname), &authority(&relay), hostname);
                link.unwrap()
            };
            let shown = async {
                while (link().status, code_of(&link())) != (status, code) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let found = timeout(PATIENCE, shown).await;
            assert!(found.is_ok(), "{hostname}: {:?}", link());
        }
        assert_eq!(scene.up(), ["1"]);
    }
}

#[tokio::test]
async fn a_relay_that_fails_for_all_hostnames_is_in_trouble() {
    let scene = Scene::start(SHORT);
    let relay = scene
        .relay(Manner::Fails(&[APP, OTHERS[0], OTHERS[1]]))
        .await;
    let leases = [APP, OTHERS[0], OTHERS[1]].map(|hostname| Lease {
        hostname: hostname.to_owned(),
        ..lease(&relay)
    });
    scene.relays.set(&user("one"), leases.to_vec());
    scene.troubled(&relay, "BadResponse").await;
    assert_eq!(scene.up(), ["0"]);
    // It is no other kind of relay, so the tunnels themselves are not asked.
    assert!(!relay.lines().iter().any(|line| line.starts_with("HEAD")));
}

/// Answers to lookups would tell which Services exist.
#[tokio::test]
async fn names_of_the_cluster_are_not_looked_up() {
    /// Finds every name at this address, and counts the names.
    struct Counting(Arc<std::sync::atomic::AtomicUsize>);

    impl Resolve for Counting {
        fn resolve(&self, _: &str, _: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            futures::future::ready(Ok(vec![[127, 0, 0, 1].into()])).boxed()
        }
    }

    let looked_up = Arc::<std::sync::atomic::AtomicUsize>::default();
    let count = || looked_up.load(std::sync::atomic::Ordering::Relaxed);
    let scene = |change: fn(&mut RelaySettings)| {
        let resolver = Arc::new(Counting(Arc::clone(&looked_up)));
        Scene::at(resolver, SHORT, change)
    };
    let hosts = ["web", "web.team.svc", "web.team.svc.example.com"];
    for host in hosts {
        let scene = scene(|settings| settings.allow.clear());
        let relay = scene.relay(Manner::State).await;
        let at = at(host, relay.address.port());
        let own = Lease {
            authority: at.clone(),
            ..lease(&relay)
        };
        scene.relays.set(&user("one"), vec![own]);
        let link = scene.look(at, |link| code_of(link) == "Blocked").await;
        assert_eq!((link.status, count()), (Unknown, 0), "{host}");
    }
    // With an exception, it may be at an address that is allowed.
    let scene = scene(|_| {});
    let relay = scene.relay(Manner::State).await;
    let at = at(hosts[1], relay.address.port());
    let own = Lease {
        authority: at.clone(),
        ..lease(&relay)
    };
    scene.relays.set(&user("one"), vec![own]);
    // The certificate is for other names.
    scene.look(at, |link| code_of(link) == "TLSError").await;
    assert!(count() > 0);
}

#[tokio::test]
async fn addresses_that_are_denied_are_blocked_though_they_are_allowed() {
    let scene = Scene::with(SHORT, |settings| {
        settings.deny = vec!["127.0.0.0/8".parse().unwrap()];
    });
    let relay = scene.relay(Manner::State).await;
    relay.lease(&[(APP, 1)]);
    scene.relays.set(&user("one"), vec![lease(&relay)]);
    let link = scene.troubled(&relay, "Blocked").await;
    let error = link.last_error.unwrap();
    assert!(
        error.contains("--portal-relay-deny-cidr") && !error.contains("127"),
        "{error}"
    );
    assert_eq!(relay.most_open(), 0, "it was not even dialled");
}
