//! The loops of leaders and replicas against a counterfeit API server, with a clock that jumps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Instant as RealInstant, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use podloom_control_loop::NoRecorder;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::super::x509::{self, Pair, next_secret};
use super::super::*;
use super::api::{Api, CONFIGURATIONS, Fate, SECRET};
use super::{HOSTS, LIFETIME, connect_any, setup};

fn lead(setup: OwnSetup) -> AbortOnDropHandle<()> {
    let issuing = issue(setup, Arc::new(NoRecorder), CancellationToken::new());
    AbortOnDropHandle::new(tokio::spawn(issuing))
}

struct Replica {
    slot: Arc<CertificateSlot>,
    _task: AbortOnDropHandle<()>,
}

fn replica(setup: OwnSetup) -> Replica {
    let slot = Arc::new(CertificateSlot::new(setup.metrics.clone()));
    let serving = serve_own(
        setup,
        Arc::clone(&slot),
        Arc::new(NoRecorder),
        CancellationToken::new(),
    );
    Replica {
        slot,
        _task: AbortOnDropHandle::new(tokio::spawn(serving)),
    }
}

impl Replica {
    async fn until(&self, words: &str) {
        // On the clock of the test, which runs ahead while threads work.
        for _ in 0..6000 {
            let (Ok(status) | Err(status)) = self.slot.status();
            if status.contains(words) {
                return;
            }
            sleep(Duration::from_millis(100)).await;
        }
        panic!("{words:?} is not in {:?}", self.slot.status());
    }
}

/// Waits until the Secret and all webhooks agree.
async fn until_published(api: &Api) {
    for _ in 0..600 {
        let bundle = api
            .get(SECRET)
            .map(|secret| secret["data"]["ca.crt"].clone());
        let bundles = api.bundles();
        let agree = |bundle: &Value| bundles.iter().all(|found| json!(found) == *bundle);
        if bundle.as_ref().is_some_and(agree) {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("not published");
}

/// The Secret's certificates, as an operator writes them.
fn secret(authority: &Pair, leaf: &Pair) -> Value {
    let authorities = [authority.certificate.clone()];
    let secret = next_secret(None, &authorities, Some(&authority.key), Some(leaf));
    serde_json::to_value(secret).unwrap()
}

fn authority() -> Pair {
    x509::authority(SystemTime::now(), LIFETIME).unwrap()
}

fn leaf(authority: &Pair, hosts: &[&str]) -> Pair {
    let hosts = parse_hosts(hosts).unwrap();
    x509::server(&authority.key, &hosts, SystemTime::now(), LIFETIME).unwrap()
}

/// Writes the caBundle of all webhooks.
fn publish(api: &Api, authorities: &[&Pair]) {
    let text = x509::certificates_pem(authorities.iter().map(|pair| &pair.certificate));
    for path in CONFIGURATIONS {
        let mut object = api.get(path).unwrap();
        for webhook in object["webhooks"].as_array_mut().unwrap() {
            webhook["clientConfig"]["caBundle"] = json!(STANDARD.encode(&text));
        }
        api.put(path, object);
    }
}

/// How often a leader failed.
fn failures(registry: &Registry) -> u64 {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    let name = "podloom_webhook_certificate_failed_looks_total{loop=\"webhook-issue\"} ";
    let count = text.lines().find_map(|line| line.strip_prefix(name));
    count.map_or(0, |count| count.parse().unwrap())
}

/// A setup whose failures are counted.
fn counted(client: Client) -> (OwnSetup, Registry) {
    let mut registry = Registry::with_prefix("podloom");
    let mut setup = setup(client, &HOSTS);
    setup.metrics = CertificateMetrics::register(&mut registry);
    (setup, registry)
}

/// Drops a leader at each of its requests, before it arrives and before its answer does; another leader then finishes.
#[tokio::test(start_paused = true)]
async fn a_leader_that_is_dropped_anywhere_leaves_nothing_half_done() {
    for fate in [Fate::Lost, Fate::Unanswered] {
        for last in 0..16 {
            let api = Api::default();
            api.configure();
            let stuck =
                api.client(move |number, _| if number < last { Fate::Answered } else { fate });
            let first = lead(setup(stuck, &HOSTS));
            sleep(Duration::from_millis(500)).await;
            let before = api.get(SECRET);
            drop(first);
            let _second = lead(setup(api.plain_client(), &HOSTS));
            let replica = replica(setup(api.plain_client(), &HOSTS));
            replica.slot.first().await;
            until_published(&api).await;
            if let Some(before) = before {
                let after = api.get(SECRET).unwrap();
                assert_eq!(
                    after, before,
                    "the second leader takes over what the first one made"
                );
            }
            let bundle = STANDARD.decode(&api.bundles()[0]).unwrap();
            let bundle = String::from_utf8(bundle).unwrap();
            connect_any(&replica.slot, &bundle, "localhost")
                .await
                .unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_settled_cluster_is_read_every_ten_seconds_and_not_written() {
    let api = Api::default();
    api.configure();
    let _leader = lead(setup(api.plain_client(), &HOSTS));
    until_published(&api).await;
    sleep(Duration::from_secs(1)).await;
    let before = api.requests().len();
    sleep(Duration::from_secs(1000)).await;
    let requests = api.requests().split_off(before);
    assert!(
        requests.iter().all(|line| line.starts_with("GET ")),
        "{requests:?}"
    );
    let looks = requests.len() / 3;
    assert!((90..=230).contains(&looks), "{looks} looks");
}

#[tokio::test(start_paused = true)]
async fn what_is_forbidden_is_tried_again_after_growing_pauses() {
    let api = Api::default();
    api.configure();
    let refused = |_: usize, line: &str| {
        if line.contains("secrets") {
            Fate::Refused
        } else {
            Fate::Answered
        }
    };
    let mut registry = Registry::with_prefix("podloom");
    let mut setup = setup(api.client(refused), &HOSTS);
    setup.metrics = CertificateMetrics::register(&mut registry);
    let (_leader, replica) = (lead(setup.clone()), replica(setup));
    replica
        .until("could not read Secret system/tls: you may not (status 403)")
        .await;
    sleep(Duration::from_secs(100)).await;
    let reads = api.requests().len();
    // The replica has no certificate, so it asks each second; the leader asks less and less often.
    assert!((100..=150).contains(&reads), "{reads} requests");
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    for line in [
        "podloom_webhook_certificate_expiry_timestamp_seconds 0",
        "podloom_webhook_certificate_failed_looks_total{loop=\"webhook-issue\"}",
        "podloom_webhook_certificate_failed_looks_total{loop=\"webhook-serve\"}",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_never_answered_is_given_up() {
    let api = Api::default();
    // The second look may follow the first at once. It waits too, and the answer of the first stays in sight.
    let silent = |number, _: &str| {
        if number < 2 {
            Fate::Unanswered
        } else {
            Fate::Answered
        }
    };
    let leaf_of = authority();
    api.put(SECRET, secret(&leaf_of, &leaf(&leaf_of, &HOSTS)));
    let replica = replica(setup(api.client(silent), &HOSTS));
    replica.until("no answer within 10s").await;
    replica.slot.first().await;
    replica.until("serves").await;
}

#[tokio::test(start_paused = true)]
async fn a_replica_of_a_new_version_serves_until_the_leader_knows_its_hosts() {
    let api = Api::default();
    let authority = authority();
    api.put(
        SECRET,
        secret(&authority, &leaf(&authority, &["localhost"])),
    );
    let replica = replica(setup(api.plain_client(), &["localhost", "new.svc"]));
    replica.slot.first().await;
    replica
        .until("is not for new.svc, until the leader issues another one")
        .await;
    assert!(
        replica.slot.status().is_ok(),
        "it is ready: {:?}",
        replica.slot.status()
    );
    let renewed = leaf(&authority, &["localhost", "new.svc"]);
    api.put(SECRET, secret(&authority, &renewed));
    for _ in 0..300 {
        sleep(Duration::from_millis(100)).await;
        if replica
            .slot
            .status()
            .is_ok_and(|status| !status.contains(';'))
        {
            let served = replica.slot.served().unwrap();
            assert_eq!(served.certificate, renewed.certificate);
            return;
        }
    }
    panic!("{:?}", replica.slot.status());
}

#[tokio::test(start_paused = true)]
async fn a_certificate_for_something_else_does_not_serve() {
    let api = Api::default();
    let authority = authority();
    api.put(
        SECRET,
        secret(&authority, &leaf(&authority, &["elsewhere"])),
    );
    let replica = replica(setup(api.plain_client(), &HOSTS));
    replica.until("is for none of our hosts").await;
    assert!(replica.slot.served().is_none());
}

/// The authority of the Secret changes while nobody publishes it.
#[tokio::test(start_paused = true)]
async fn another_authority_waits_for_its_publication_and_ten_seconds_more() {
    let api = Api::default();
    api.configure();
    let (old, new) = (authority(), authority());
    let publish = |authorities: &[&Pair]| publish(&api, authorities);
    let (first, second) = (leaf(&old, &HOSTS), leaf(&new, &HOSTS));
    api.put(SECRET, secret(&old, &first));
    publish(&[&old]);
    let replica = replica(setup(api.plain_client(), &HOSTS));
    replica.slot.first().await;
    let serves = |pair: &Pair| replica.slot.served().unwrap().certificate == pair.certificate;
    api.put(SECRET, secret(&new, &second));
    replica
        .until("waits until all webhooks trust its authority")
        .await;
    sleep(Duration::from_secs(100)).await;
    assert!(serves(&first) && replica.slot.status().is_ok());
    publish(&[&new, &old]);
    let published = Instant::now();
    while serves(&first) {
        sleep(Duration::from_millis(100)).await;
    }
    assert!(serves(&second));
    let waited = published.elapsed();
    let (least, most) = (Duration::from_secs(10), Duration::from_secs(13));
    assert!(least <= waited && waited <= most, "{waited:?}");
    // A Secret that is lost changes nothing.
    api.delete(SECRET);
    replica.until("Secret system/tls does not exist").await;
    assert!(serves(&second) && replica.slot.status().is_ok());
}

/// Nobody knows then who trusts the new authority.
#[tokio::test(start_paused = true)]
async fn another_authority_waits_while_the_configurations_cannot_be_read() {
    let api = Api::default();
    api.configure();
    let (old, new) = (authority(), authority());
    let (first, second) = (leaf(&old, &HOSTS), leaf(&new, &HOSTS));
    api.put(SECRET, secret(&old, &first));
    publish(&api, &[&new, &old]);
    let readable = Arc::new(AtomicBool::new(true));
    let refuses = Arc::clone(&readable);
    let replica = replica(setup(
        api.client(move |_, line| {
            let is_readable = refuses.load(Ordering::Relaxed);
            if !is_readable && line.contains("webhookconfigurations") {
                Fate::Refused
            } else {
                Fate::Answered
            }
        }),
        &HOSTS,
    ));
    replica.slot.first().await;
    let serves = |pair: &Pair| replica.slot.served().unwrap().certificate == pair.certificate;
    readable.store(false, Ordering::Relaxed);
    api.put(SECRET, secret(&new, &second));
    sleep(Duration::from_secs(100)).await;
    assert!(serves(&first), "{:?}", replica.slot.status());
    readable.store(true, Ordering::Relaxed);
    for _ in 0..6000 {
        sleep(Duration::from_millis(100)).await;
        if serves(&second) {
            return;
        }
    }
    panic!("{:?}", replica.slot.status());
}

#[tokio::test(start_paused = true)]
async fn the_first_certificate_waits_until_a_webhook_trusts_it_but_not_for_ever() {
    let authority = authority();
    let configured = || {
        let api = Api::default();
        api.configure();
        api.put(SECRET, secret(&authority, &leaf(&authority, &HOSTS)));
        api
    };
    let api = configured();
    let replica_of = |client| replica(setup(client, &HOSTS));
    let waiting = replica_of(api.plain_client());
    waiting
        .until("waits until a webhook trusts its authority")
        .await;
    sleep(Duration::from_secs(20)).await;
    assert!(waiting.slot.status().is_err());
    publish(&api, &[&authority]);
    sleep(Duration::from_secs(3)).await;
    assert!(waiting.slot.status().is_ok());
    // Nobody publishes it.
    let alone = replica_of(configured().plain_client());
    let begun = Instant::now();
    alone.slot.first().await;
    let waited = begun.elapsed().as_secs();
    assert!((30..=33).contains(&waited), "{waited} s");
    // The configurations cannot be read.
    let begun = Instant::now();
    let unreadable = configured().client(|_, line| {
        if line.contains("configurations") {
            Fate::Refused
        } else {
            Fate::Answered
        }
    });
    replica_of(unreadable).slot.first().await;
    assert!(begun.elapsed() < Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn webhooks_of_somebody_else_are_left_alone() {
    let api = Api::default();
    api.configure();
    let mut object = api.get(CONFIGURATIONS[0]).unwrap();
    let foreign = json!({
        "name": "foreign", "clientConfig": { "url": "https://example.com/a", "caBundle": "Zm9yZWlnbg==" },
    });
    let webhooks = object["webhooks"].as_array_mut().unwrap();
    webhooks.insert(1, foreign.clone());
    api.put(CONFIGURATIONS[0], object.clone());
    let (setup, registry) = counted(api.plain_client());
    let _leader = lead(setup);
    sleep(Duration::from_secs(60)).await;
    let bundle = api.get(SECRET).unwrap()["data"]["ca.crt"].clone();
    let written = api.bundles();
    assert_eq!(written[1], "Zm9yZWlnbg==");
    for place in [0, 2, 3, 4] {
        assert_eq!(json!(written[place]), bundle, "webhook {place}");
    }
    assert_eq!(failures(&registry), 0);
    // No webhook is left that is ours.
    object["webhooks"] = json!([foreign]);
    api.put(CONFIGURATIONS[0], object);
    sleep(Duration::from_secs(60)).await;
    assert!(failures(&registry) > 0);
    assert_eq!(api.bundles()[0], "Zm9yZWlnbg==");
}

#[tokio::test(start_paused = true)]
async fn a_few_lost_races_are_no_problem_but_many_are() {
    for (lost, is_problem) in [(4, false), (5, true), (usize::MAX, true)] {
        let api = Api::default();
        api.configure();
        let patches = AtomicUsize::new(0);
        let (setup, registry) = counted(api.client(move |_, line| {
            let is_patch = line.starts_with("PATCH");
            let number = || patches.fetch_add(1, Ordering::Relaxed);
            if is_patch && number() < lost {
                Fate::Invalid
            } else {
                Fate::Answered
            }
        }));
        let _leader = lead(setup);
        sleep(Duration::from_secs(60)).await;
        assert_eq!(failures(&registry) > 0, is_problem, "{lost} in a row");
    }
}

/// The machine's clock is right, and the API server's is far ahead; or the other way round.
#[tokio::test(start_paused = true)]
async fn certificates_follow_the_clock_of_the_api_server() {
    let api = Api::default();
    let later = SystemTime::now() + LIFETIME * 10;
    let ahead = setup(api.plain_client(), &HOSTS);
    ahead.clock.heard(later, RealInstant::now());
    let _leader = lead(ahead.clone());
    let replica = replica(ahead);
    replica.slot.first().await;
    let end = replica.slot.served().unwrap().certificate.not_after;
    assert!(end > later + LIFETIME / 2, "{end:?}");
    // What the webhooks trust is not replaced while one of the clocks is wrong.
    let api = Api::default();
    api.configure();
    let authority = authority();
    api.put(SECRET, secret(&authority, &leaf(&authority, &HOSTS)));
    publish(&api, &[&authority]);
    let (ahead, registry) = counted(api.plain_client());
    ahead.clock.heard(later, RealInstant::now());
    let (before, _leader) = (api.get(SECRET), lead(ahead));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(api.get(SECRET), before);
    assert!(failures(&registry) > 0);
}
