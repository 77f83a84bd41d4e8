//! Several users, several relays, and how often each is asked.

use super::*;

#[tokio::test]
async fn ten_users_of_one_relay_cost_one_request_an_interval() {
    let interval = Duration::from_millis(300);
    let scene = Scene::start(interval);
    let relay = scene.relay(Manner::State).await;
    let hostname = |number: usize| format!("app-{number}.relay.example");
    let hostnames: Vec<String> = (0..10).map(hostname).collect();
    let leases: Vec<_> = hostnames.iter().map(|name| (name.as_str(), 1)).collect();
    relay.lease(&leases);
    for (number, hostname) in hostnames.iter().enumerate() {
        let own = Lease {
            hostname: hostname.clone(),
            ..lease(&relay)
        };
        scene.relays.set(&user(&number.to_string()), vec![own]);
    }
    timeout(PATIENCE, relay.await_requests(4)).await.unwrap();
    for (number, hostname) in hostnames.iter().enumerate() {
        let link = scene
            .relays
            .link(&user(&number.to_string()), &authority(&relay), hostname);
        assert_eq!(link.unwrap().status, Connected);
    }
    let seen = relay.seen();
    assert!(
        seen.iter().all(|seen| seen.line == "GET /api/state"),
        "{seen:?}"
    );
    for pair in seen.windows(2) {
        let pause = pair[1].at - pair[0].at;
        assert!(pause >= interval.mul_f64(0.85), "{pause:?}");
    }
}

#[tokio::test]
async fn a_user_that_comes_or_changes_costs_no_request_of_its_own() {
    let scene = Scene::start(LONG);
    let relay = scene.relay(Manner::State).await;
    relay.lease(&[(APP, 1)]);
    scene.relays.set(&user("one"), vec![lease(&relay)]);
    scene.awaits(&relay, Connected, "").await;
    for name in ["two", "three", "four"] {
        let other = Lease {
            has_ready_pod: false,
            ..lease(&relay)
        };
        scene.relays.set(&user(name), vec![other]);
    }
    scene.relays.set(&user("one"), vec![lease(&relay)]);
    scene.relays.forget(&user("two"));
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(relay.seen().len(), 1);
}

#[tokio::test]
async fn a_tunnel_that_gets_a_pod_is_found_soon() {
    let scene = Scene::start(LONG);
    let relay = scene.relay(Manner::State).await;
    let waiting = Lease {
        has_ready_pod: false,
        ..lease(&relay)
    };
    scene.relays.set(&user("one"), vec![waiting.clone()]);
    scene.awaits(&relay, Disconnected, "NoReadyPod").await;
    tokio::time::sleep(SHORT).await;
    assert!(relay.seen().is_empty(), "there is nothing to ask about");
    scene.relays.set(&user("one"), vec![lease(&relay)]);
    scene.awaits(&relay, Disconnected, "NoLease").await;
    relay.lease(&[(APP, 1)]);
    scene.awaits(&relay, Connected, "").await;
    assert!(
        relay.seen().len() <= 4,
        "every 2 seconds: {:?}",
        relay.seen()
    );
    scene.relays.set(&user("one"), vec![waiting]);
    let gone = async {
        while !scene.up().is_empty() {
            tokio::time::sleep(SHORT).await;
        }
    };
    timeout(PATIENCE, gone)
        .await
        .expect("a relay at rest has no series");
}

#[tokio::test]
async fn a_relay_that_nobody_wants_is_asked_no_more() {
    let scene = Scene::start(SHORT);
    let (relay, other) = (
        scene.relay(Manner::State).await,
        scene.relay(Manner::State).await,
    );
    relay.lease(&[(APP, 1)]);
    scene
        .relays
        .set(&user("one"), vec![lease(&relay), lease(&other)]);
    scene.relays.set(&user("two"), vec![lease(&relay)]);
    timeout(PATIENCE, relay.await_requests(2)).await.unwrap();
    timeout(PATIENCE, other.await_requests(2)).await.unwrap();
    assert_eq!(scene.up(), ["1", "1"]);
    scene.relays.forget(&user("one"));
    assert_eq!(
        scene.relays.link(&user("one"), &authority(&relay), APP),
        None
    );
    let gone = async {
        while scene.up().len() > 1 {
            tokio::time::sleep(SHORT).await;
        }
    };
    timeout(PATIENCE, gone).await.expect("its series stays");
    let (before, of_relay) = (other.seen().len(), relay.seen().len());
    timeout(PATIENCE, relay.await_requests(of_relay + 4))
        .await
        .unwrap();
    assert_eq!(other.seen().len(), before);
}

#[tokio::test]
async fn at_most_eight_requests_run_at_once() {
    let scene = Scene::start(SHORT);
    let mut authorities = Vec::new();
    let relay = scene.relay(Manner::Hangs).await;
    for number in 0..20 {
        authorities.push(at(&format!("{number}.many.example"), relay.address.port()));
    }
    let leases = authorities.into_iter().map(|authority| Lease {
        authority,
        ..lease(&relay)
    });
    for (number, lease) in leases.enumerate() {
        let user = UserId {
            namespace: number.to_string(),
            name: "one".to_owned(),
        };
        scene.relays.set(&user, vec![lease]);
    }
    timeout(PATIENCE, relay.await_requests(8)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!((relay.most_open(), relay.seen().len()), (8, 8));
}

#[tokio::test]
async fn one_namespace_cannot_take_the_looks_of_others() {
    let scene = Scene::start(SHORT);
    let (hanging, good) = (
        scene.relay(Manner::Hangs).await,
        scene.relay(Manner::State).await,
    );
    good.lease(&[(APP, 1)]);
    let leases = (0..20).map(|number| Lease {
        authority: at(&format!("{number}.many.example"), hanging.address.port()),
        ..lease(&hanging)
    });
    let hostile = UserId {
        namespace: "hostile".to_owned(),
        name: "one".to_owned(),
    };
    scene.relays.set(&hostile, leases.collect());
    timeout(PATIENCE, hanging.await_requests(2)).await.unwrap();
    scene.relays.set(&user("one"), vec![lease(&good)]);
    timeout(Duration::from_secs(4), scene.awaits(&good, Connected, ""))
        .await
        .expect("it waits for nobody");
    assert_eq!(hanging.most_open(), 2);
    // Those that wait get their turn as soon as the first have timed out.
    timeout(PATIENCE, hanging.await_requests(4)).await.unwrap();
}

#[tokio::test]
async fn one_relay_that_hangs_stops_no_other() {
    let scene = Scene::start(SHORT);
    let (hanging, good) = (
        scene.relay(Manner::Hangs).await,
        scene.relay(Manner::State).await,
    );
    good.lease(&[(APP, 1)]);
    scene
        .relays
        .set(&user("one"), vec![lease(&hanging), lease(&good)]);
    timeout(PATIENCE, hanging.await_requests(1)).await.unwrap();
    timeout(PATIENCE, good.await_requests(5)).await.unwrap();
    scene.awaits(&good, Connected, "").await;
    assert_eq!(hanging.seen().len(), 1);
}

#[tokio::test]
async fn two_hosts_at_one_address_are_two_relays() {
    let scene = Scene::start(SHORT);
    let relay = scene.relay(Manner::State).await;
    relay.lease(&[("app.other.example", 1)]);
    let other = at("other.example", relay.address.port());
    let at_other = Lease {
        authority: other.clone(),
        hostname: "app.other.example".to_owned(),
        ..lease(&relay)
    };
    scene
        .relays
        .set(&user("one"), vec![lease(&relay), at_other]);
    scene.awaits(&relay, Disconnected, "NoLease").await;
    let link = scene.relays.link(&user("one"), &other, "app.other.example");
    assert_eq!(link.unwrap().status, Connected);
}

#[tokio::test]
async fn the_work_ends_at_once_when_it_is_stopped() {
    let mut scene = Scene::start(SHORT);
    let (relay, good) = (
        scene.relay(Manner::Hangs).await,
        scene.relay(Manner::State).await,
    );
    scene
        .relays
        .set(&user("one"), vec![lease(&relay), lease(&good)]);
    timeout(PATIENCE, relay.await_requests(1)).await.unwrap();
    timeout(PATIENCE, good.await_requests(2)).await.unwrap();
    assert_eq!(scene.up(), ["1"]);
    let begun = Instant::now();
    scene.stop.cancel();
    timeout(PATIENCE, &mut scene.work).await.unwrap().unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    // The links are still there for passes that end later.
    let link = scene.relays.link(&user("one"), &authority(&relay), APP);
    assert_eq!(link.unwrap().status, Unknown);
    scene.relays.set(&user("one"), Vec::new());
    assert!(scene.up().is_empty(), "the next leader shows the series");
}
