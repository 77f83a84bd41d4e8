//! Relays that serve a tunnel, refuse it, lie, hang and die, and what its PortalExpose shows.

use std::time::{Duration, Instant};

use podloom_api::RelayConnection::{Connected, Disconnected, Unknown};
use podloom_api::{PortalExpose, PortalPhase, RelayConnection, RelayState};
use podloom_tests::doubles::{Relay, RelayApi};
use podloom_tests::portal::{ASK_HERE, Portal, Relays, condition, is, relay_hostname};
use podloom_tests::{Cluster, blackbox_on, eventually};

/// The methods and paths of all requests that a relay received, without repetitions.
fn requests(relay: &Relay) -> Vec<String> {
    let received = relay.received().requests;
    let lines = received.iter();
    let mut lines: Vec<_> = lines
        .map(|request| format!("{} {}", request.method, request.path))
        .collect();
    lines.sort();
    lines.dedup();
    lines
}

fn states(expose: &PortalExpose) -> &[RelayState] {
    let relay = expose.status.as_ref().and_then(|it| it.relay.as_ref());
    relay
        .and_then(|relay| relay.connected.as_deref())
        .unwrap_or_default()
}

/// The status of each relay, with the code of its error.
fn shown(expose: &PortalExpose) -> Vec<(RelayConnection, &str)> {
    states(expose)
        .iter()
        .map(|state| {
            let error = state.last_error.as_deref().unwrap_or_default();
            (state.status, error.split(':').next().unwrap_or_default())
        })
        .collect()
}

fn summary(expose: &PortalExpose) -> &str {
    let relay = expose.status.as_ref().and_then(|it| it.relay.as_ref());
    relay
        .and_then(|relay| relay.summary.as_deref())
        .unwrap_or_default()
}

fn is_ready(expose: &PortalExpose) -> bool {
    is(expose, PortalPhase::Ready)
}

/// Whether the relays are shown like this, and the phase fits.
fn shows(expose: &PortalExpose, phase: PortalPhase, expected: &[(RelayConnection, &str)]) -> bool {
    is(expose, phase) && shown(expose) == expected
}

#[test]
fn two_of_three_relays_degrade_a_tunnel() {
    let name = "portal-two-of-three";
    blackbox_on(Cluster::without_operator, name, async |scene| {
        let portal = Portal::new(&scene).await;
        let relays = Relays::start(3, &["shop"]);
        relays.behave(0, RelayApi::State, &["shop"]);
        relays.behave(1, RelayApi::State, &["shop"]);
        let _operator = relays.operator(&portal, &ASK_HERE).await;
        let seen = portal.watch().await;
        portal
            .expose_with("shop", relays.spec(&portal, "shop"))
            .await;
        let degraded = [(Connected, ""), (Connected, ""), (Disconnected, "NoLease")];
        let is_so = |expose: &PortalExpose| {
            shows(expose, PortalPhase::Degraded, &degraded)
                && condition(expose, "Progressing") == "False/DeploymentStable"
        };
        let before = seen.until_is("shop", "is degraded", is_so).await;
        assert_eq!(summary(&before), "2/3");
        let partial = "False/PartialRelayConnection";
        assert_eq!(condition(&before, "RelayConnected"), partial);
        let available = "True/PortalExposeAvailable";
        assert_eq!(condition(&before, "Available"), available);
        assert!(states(&before)[0].connected_at.is_some());
        assert!(states(&before)[2].connected_at.is_none());
        let changes = seen.of("shop").len();
        let polls = relays.relays[0].received().count;
        eventually("ten more polls", async || {
            let count = relays.relays[0].received().count;
            (count >= polls + 10).then_some(()).ok_or(count.to_string())
        })
        .await;
        assert_eq!(
            seen.of("shop").len(),
            changes,
            "equal results write nothing"
        );

        relays.behave(2, RelayApi::State, &["shop"]);
        let after = seen.until_is("shop", "is ready", is_ready).await;
        assert_eq!(summary(&after), "3/3");
        let all = "True/AllRelaysConnected";
        assert_eq!(condition(&after, "RelayConnected"), all);
        for number in [0, 1] {
            let (before, after) = (&states(&before)[number], &states(&after)[number]);
            assert_eq!(before.connected_at, after.connected_at);
        }
        let warning = "Warning Degraded: 1 of 1 pods ready, 2 of 3 relays connected, not relay-2; relay-2: NoLease";
        let expected = ["Normal Created: ", warning, "Normal Ready: "];
        scene.events_are("shop", &expected).await;
    });
}

#[test]
fn older_relays_are_asked_in_other_ways() {
    let name = "portal-older-relays";
    blackbox_on(Cluster::without_operator, name, async |scene| {
        let portal = Portal::new(&scene).await;
        let relays = Relays::start(2, &["shop"]);
        relays.behave(0, RelayApi::Status, &["shop"]);
        relays.behave(1, RelayApi::Domain, &["shop"]);
        let _operator = relays.operator(&portal, &ASK_HERE).await;
        let seen = portal.watch().await;
        portal
            .expose_with("shop", relays.spec(&portal, "shop"))
            .await;
        seen.until_is("shop", "is ready", is_ready).await;
        let status = |number| {
            format!(
                "GET /tunnel/status?hostname={}",
                relay_hostname("shop", number)
            )
        };
        let expected = ["GET /api/state", &status(0)];
        assert_eq!(requests(&relays.relays[0]), expected);
        let expected = ["GET /api/state", "GET /sdk/domain", &status(1), "HEAD /"];
        assert_eq!(requests(&relays.relays[1]), expected);
        let received = relays.relays[1].received().requests;
        let probe = received.iter().find(|request| request.method == "HEAD");
        let port = relays.relays[1].address().port();
        let public = format!("{}:{port}", relay_hostname("shop", 1));
        assert_eq!(probe.unwrap().headers["host"], public);

        relays.behave(0, RelayApi::Status, &[]);
        relays.behave(1, RelayApi::Domain, &[]);
        let gone = [(Disconnected, "NoLease"), (Disconnected, "TLSError")];
        let is_so = |expose: &PortalExpose| shows(expose, PortalPhase::Failed, &gone);
        let expose = seen.until_is("shop", "has failed", is_so).await;
        assert_eq!(condition(&expose, "Available"), "False/NoRelayConnected");
    });
}

#[test]
fn ten_tunnels_share_the_requests_to_their_relay() {
    let name = "portal-ten-tunnels";
    blackbox_on(Cluster::without_operator, name, async |scene| {
        let portal = Portal::new(&scene).await;
        let apps: Vec<String> = (0..10).map(|number| format!("shop-{number}")).collect();
        let apps: Vec<&str> = apps.iter().map(String::as_str).collect();
        let relays = Relays::start(1, &apps);
        relays.behave(0, RelayApi::State, &apps);
        let interval = ["--portal-relay-poll-interval", "2s"];
        let operator = [&ASK_HERE[..2], &interval].concat();
        let _operator = relays.operator(&portal, &operator).await;
        let seen = portal.watch().await;
        for app in &apps {
            portal.expose_with(app, relays.spec(&portal, app)).await;
        }
        for app in &apps {
            seen.until_is(app, "is ready", is_ready).await;
        }
        relays.relays[0].forget();
        let begun = Instant::now();
        let received = eventually("four polls", async || {
            let received = relays.relays[0].received();
            let count = received.count;
            (count >= 4).then_some(received).ok_or(count.to_string())
        })
        .await;
        assert!(received.count <= 5, "{received:?}");
        assert_eq!(requests(&relays.relays[0]), ["GET /api/state"]);
        // Three pauses of at least nine tenths of the interval.
        assert!(begun.elapsed() >= Duration::from_millis(5_400));
    });
}

#[test]
fn relays_that_are_assumed_get_no_request() {
    let name = "portal-assumed";
    blackbox_on(Cluster::without_operator, name, async |scene| {
        let portal = Portal::new(&scene).await;
        let relays = Relays::start(1, &["shop", "blog"]);
        let assume = ["--portal-relay-observation", "assume"];
        let operator = portal.operator(&[&assume[..], &ASK_HERE].concat()).await;
        let seen = portal.watch().await;
        for app in ["shop", "blog"] {
            portal.expose_with(app, relays.spec(&portal, app)).await;
            let expose = seen.until_is(app, "is ready", is_ready).await;
            assert_eq!(condition(&expose, "RelayConnected"), "True/RelaysAssumed");
            assert!(states(&expose)[0].connected_at.is_some());
        }
        assert_eq!(relays.relays[0].received().count, 0);
        assert_eq!(operator.metric("podloom_external_request_duration"), 0.0);
    });
}

#[test]
fn the_death_of_relays_degrades_a_tunnel_and_then_fails_it() {
    let name = "portal-dead-relays";
    blackbox_on(Cluster::without_operator, name, async |scene| {
        let portal = Portal::new(&scene).await;
        let mut relays = Relays::start(2, &["shop"]);
        relays.behave(0, RelayApi::State, &["shop"]);
        relays.behave(1, RelayApi::State, &["shop"]);
        let operator = relays.operator(&portal, &ASK_HERE).await;
        let up =
            |relay: &str| operator.metric(&format!("podloom_portal_relay_up{{relay=\"{relay}\"}}"));
        let seen = portal.watch().await;
        portal
            .expose_with("shop", relays.spec(&portal, "shop"))
            .await;
        seen.until_is("shop", "is ready", is_ready).await;
        let alive = relays.relays[0].authority();
        let dead = relays.relays[1].authority();
        drop(relays.relays.remove(1));
        let one = [(Connected, ""), (Disconnected, "Unreachable")];
        let is_so = |expose: &PortalExpose| shows(expose, PortalPhase::Degraded, &one);
        let expose = seen.until_is("shop", "is degraded", is_so).await;
        assert_eq!(summary(&expose), "1/2");
        let available = "True/PortalExposeAvailable";
        assert_eq!(condition(&expose, "Available"), available);
        assert_eq!((up(&alive), up(&dead)), (1.0, 0.0));

        relays.behave(0, RelayApi::Error, &["shop"]);
        let none = [(Disconnected, "BadResponse"), (Disconnected, "Unreachable")];
        let is_so = |expose: &PortalExpose| shows(expose, PortalPhase::Failed, &none);
        let expose = seen.until_is("shop", "has failed", is_so).await;
        assert_eq!(
            condition(&expose, "RelayConnected"),
            "False/NoRelayConnected"
        );
        assert_eq!(condition(&expose, "Available"), "False/NoRelayConnected");

        relays.behave(0, RelayApi::State, &["shop"]);
        let is_so = |expose: &PortalExpose| shows(expose, PortalPhase::Degraded, &one);
        seen.until_is("shop", "is degraded again", is_so).await;
        let expected = [
            "Normal Created: ",
            "Normal Ready: ",
            "Warning Degraded: 1 of 1 pods ready, 1 of 2 relays connected",
            "Warning Failed: 1 of 1 pods ready, 0 of 2 relays connected",
            // The second Degraded is counted in the first.
        ];
        scene.events_are("shop", &expected).await;

        portal.delete("shop").await;
        eventually("the series of the relays are gone", async || {
            let (_, text) = operator.get("/metrics")?;
            let mut lines = text.lines();
            let series = lines.find(|line| line.contains(&alive) || line.contains(&dead));
            series.map_or(Ok(()), |series| Err(series.to_owned()))
        })
        .await;
    });
}

#[test]
fn no_word_of_a_relay_gets_into_a_status() {
    let name = "portal-hostile-relays";
    blackbox_on(Cluster::without_operator, name, async |scene| {
        let portal = Portal::new(&scene).await;
        let relays = Relays::start(3, &["shop"]);
        relays.behave(0, RelayApi::Website, &["shop"]);
        relays.behave(1, RelayApi::Redirect, &["shop"]);
        relays.behave(2, RelayApi::Garbage, &["shop"]);
        let operator = relays.operator(&portal, &ASK_HERE).await;
        let seen = portal.watch().await;
        portal
            .expose_with("shop", relays.spec(&portal, "shop"))
            .await;
        let bad = [(Disconnected, "BadResponse"); 3];
        let is_so = |expose: &PortalExpose| shows(expose, PortalPhase::Failed, &bad);
        let expose = seen.until_is("shop", "has failed", is_so).await;
        let status = serde_json::to_string(&expose.status).unwrap();
        for word in ["elsewhere", "maybe", "<title>"] {
            assert!(!status.contains(word), "{status}");
            assert!(operator.logged(&[word]).is_empty(), "{word}");
        }
    });
}

#[test]
fn a_relay_at_an_address_that_is_not_public_is_not_asked() {
    let name = "portal-blocked-relay";
    blackbox_on(Cluster::without_operator, name, async |scene| {
        let portal = Portal::new(&scene).await;
        let relays = Relays::start(1, &["shop"]);
        relays.behave(0, RelayApi::State, &["shop"]);
        let operator = relays.operator(&portal, &[]).await;
        let seen = portal.watch().await;
        portal
            .expose_with("shop", relays.spec(&portal, "shop"))
            .await;
        eventually("four looks", async || {
            let looks = operator.metric("podloom_portal_relay_poll_duration_seconds_count");
            (looks >= 4.0).then_some(()).ok_or(looks.to_string())
        })
        .await;
        let is_so =
            |expose: &PortalExpose| shows(expose, PortalPhase::Degraded, &[(Unknown, "Blocked")]);
        let expose = seen.until_is("shop", "is degraded", is_so).await;
        assert_eq!(condition(&expose, "RelayConnected"), "Unknown/NotObserved");
        let error = states(&expose)[0].last_error.clone().unwrap();
        assert!(error.contains("--portal-relay-allow-cidr"), "{error}");
        assert_eq!(relays.relays[0].received().count, 0);
    });
}

#[test]
fn a_restart_forgets_no_connection() {
    let name = "portal-relay-restart";
    blackbox_on(Cluster::without_operator, name, async |scene| {
        let portal = Portal::new(&scene).await;
        let relays = Relays::start(1, &["shop"]);
        relays.behave(0, RelayApi::State, &["shop"]);
        let mut operator = relays.operator(&portal, &ASK_HERE).await;
        let seen = portal.watch().await;
        portal
            .expose_with("shop", relays.spec(&portal, "shop"))
            .await;
        let before = seen.until_is("shop", "is ready", is_ready).await;
        let since = states(&before)[0].connected_at.clone();
        let changes = seen.of("shop").len();

        operator.kill();
        relays.behave(0, RelayApi::Hang, &["shop"]);
        operator.restart();
        operator.ready().await;
        let slow = |expose: &PortalExpose| shown(expose) == [(Connected, "Timeout")];
        seen.until_is("shop", "has a slow relay", slow).await;
        relays.behave(0, RelayApi::State, &["shop"]);
        let good = |expose: &PortalExpose| shown(expose) == [(Connected, "")];
        let after = seen.until_is("shop", "has a good relay", good).await;
        assert_eq!(states(&after)[0].connected_at, since);
        for change in &seen.of("shop")[changes..] {
            assert!(is_ready(change.object()), "{change:?}");
        }
    });
}
