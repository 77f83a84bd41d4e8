//! Each case is a state of the cluster and what the leader does about it.
//!
//! Time starts at the moment when the certificates of the first Secret were made. They live for 90 hours, their authority for 360.

use std::time::UNIX_EPOCH;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::WebhookClientConfig;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;

use super::super::x509::{self, Pair, our_authorities};
use super::*;

const HOUR: Duration = Duration::from_secs(3600);
const LIFETIME: Duration = Duration::from_secs(3600 * 90);

fn start() -> SystemTime {
    UNIX_EPOCH + HOUR * 500_000
}

fn host(name: &str) -> ServerName<'static> {
    ServerName::try_from(name.to_owned()).unwrap()
}

fn hosts() -> Vec<ServerName<'static>> {
    ["podloom-webhook.podloom-system.svc", "127.0.0.1"]
        .map(host)
        .to_vec()
}

/// An authority and a leaf of it, made this many hours after the start.
fn made(hours: u32) -> (Pair, Pair) {
    let now = start() + HOUR * hours;
    let authority = x509::authority(now, LIFETIME).unwrap();
    let leaf = x509::server(&authority.key, &hosts(), now, LIFETIME).unwrap();
    (authority, leaf)
}

/// A Secret of ours: authorities, the key of the first, and a leaf.
fn secret(authorities: &[&Pair], leaf: &Pair) -> Secret {
    let certificates: Vec<Certificate> = authorities
        .iter()
        .map(|pair| pair.certificate.clone())
        .collect();
    next_secret(None, &certificates, Some(&authorities[0].key), Some(leaf))
}

fn bundle(authorities: &[&Pair]) -> Vec<u8> {
    certificates_pem(authorities.iter().map(|pair| &pair.certificate)).into_bytes()
}

/// A configuration whose webhooks have these bundles.
fn configuration(bundles: &[Vec<u8>]) -> Option<Configuration> {
    let webhooks = bundles.iter().enumerate().map(|(place, bundle)| Webhook {
        name: format!("{place}.podloom.dev"),
        client_config: WebhookClientConfig {
            ca_bundle: Some(ByteString(bundle.clone())),
            ..WebhookClientConfig::default()
        },
        trusted: Some(our_authorities(bundle)),
    });
    Some(Configuration {
        metadata: ObjectMeta::default(),
        webhooks: webhooks.collect(),
    })
}

/// Both configurations publish these authorities.
fn publishing(authorities: &[&Pair]) -> Configurations {
    vec![
        configuration(&[bundle(authorities)]),
        configuration(&[bundle(authorities), bundle(authorities)]),
    ]
}

struct Scenario {
    secret: Option<Secret>,
    configurations: Configurations,
    trusted_for: Option<Duration>,
    /// After the start.
    hours: u32,
    /// Between the clocks.
    skew: Duration,
}

impl Scenario {
    fn of(secret: Option<Secret>, configurations: Configurations, hours: u32) -> Self {
        Self {
            secret,
            configurations,
            trusted_for: Some(HOUR * 1000),
            hours,
            skew: Duration::ZERO,
        }
    }

    fn world(self) -> Result<World, String> {
        Ok(World {
            secret: OurSecret::read(self.secret)?,
            configurations: self.configurations,
            trusted_for: self.trusted_for,
            now: start() + HOUR * self.hours,
            skew: self.skew,
        })
    }

    /// Expects a change of the Secret.
    fn change(self) -> Change {
        let world = self.world().unwrap_or_else(|why| panic!("{why}"));
        match planned(&world) {
            Step::Write(change) => change,
            other => panic!("nothing is written: {other:?}"),
        }
    }

    /// In a few words: `create new+1 new leaf`, with the number of older authorities.
    fn words(self) -> String {
        let verb = if self.secret.is_none() {
            "create"
        } else {
            "replace"
        };
        let world = match self.world() {
            Ok(world) => world,
            Err(why) => return format!("stuck: {why}"),
        };
        match planned(&world) {
            Step::Wait => "wait".to_owned(),
            Step::Rest => "rest".to_owned(),
            Step::Doubt => "doubt".to_owned(),
            Step::Foreign(place) => format!("foreign {place}"),
            Step::Write(change) => {
                let signer = change.signer.map_or("new", |_| "same");
                let leaf = if change.new_leaf { "new" } else { "same" };
                format!("{verb} {signer}+{} {leaf} leaf", change.older.len())
            }
            Step::Publish(at) => {
                let bundle = certificates_pem(&world.secret.authorities);
                let outdated = world.configurations[at].as_ref().unwrap();
                let outdated = outdated.outdated(&bundle);
                let places = outdated.iter().map(|(place, _)| place.to_string());
                format!("publish {at}: {}", places.collect::<Vec<_>>().join(" "))
            }
        }
    }
}

fn planned(world: &World) -> Step {
    plan(world, &hosts(), &Times::of(LIFETIME))
}

#[track_caller]
fn check(secret: Option<Secret>, configurations: Configurations, hours: u32, expected: &str) {
    assert_eq!(
        Scenario::of(secret, configurations, hours).words(),
        expected
    );
}

fn absent() -> Configurations {
    vec![None, None]
}

#[test]
fn a_new_cluster_gets_a_secret_and_then_its_configurations() {
    let (authority, leaf) = made(0);
    let secret = || Some(secret(&[&authority], &leaf));
    let unset = || configuration(&[vec![], vec![]]);
    let right = || configuration(&[bundle(&[&authority])]);
    check(None, absent(), 0, "create new+0 new leaf");
    check(None, vec![unset(), unset()], 0, "create new+0 new leaf");
    check(secret(), absent(), 0, "rest");
    check(secret(), vec![unset(), unset()], 0, "publish 0: 0 1");
    check(secret(), vec![right(), unset()], 0, "publish 1: 0 1");
    check(secret(), vec![None, unset()], 0, "publish 1: 0 1");
    check(secret(), publishing(&[&authority]), 0, "rest");
}

#[test]
fn only_webhooks_with_another_bundle_are_written() {
    let (authority, leaf) = made(0);
    let right = bundle(&[&authority]);
    let found = configuration(&[right.clone(), b"garbage".to_vec(), right, vec![]]);
    let secret = Some(secret(&[&authority], &leaf));
    check(secret, vec![found], 0, "publish 0: 1 3");
}

#[test]
fn a_bundle_of_garbage_is_replaced() {
    let (authority, leaf) = made(0);
    let garbage = [
        vec![0xff; 1 << 20],
        vec![b'-'; 1 << 20],
        b"-----BEGIN CERTIFICATE-----\n".repeat(40_000),
    ];
    for garbage in garbage {
        let found = || vec![configuration(std::slice::from_ref(&garbage)), None];
        check(
            Some(secret(&[&authority], &leaf)),
            found(),
            0,
            "publish 0: 0",
        );
        check(None, found(), 0, "create new+0 new leaf");
    }
}

#[test]
fn a_leaf_is_renewed_when_two_thirds_are_over() {
    let (authority, leaf) = made(0);
    let at = |hours, expected: &str| {
        let secret = secret(&[&authority], &leaf);
        check(Some(secret), publishing(&[&authority]), hours, expected);
    };
    at(59, "rest");
    at(60, "replace same+0 new leaf");
    at(89, "replace same+0 new leaf");
    // Also when it expired while no leader worked.
    at(91, "replace same+0 new leaf");
    // The authority would expire before a new leaf.
    at(271, "replace new+1 new leaf");
    at(361, "replace new+0 new leaf");
}

/// The life of an authority's successor, step by step.
#[test]
fn an_authority_is_published_before_it_signs_and_leaves_when_nobody_serves_with_it() {
    let (old, _) = made(0);
    let last = x509::server(&old.key, &hosts(), start() + HOUR * 240, LIFETIME).unwrap();
    let new = x509::authority(start() + HOUR * 300, LIFETIME).unwrap();
    let next = x509::server(&new.key, &hosts(), start() + HOUR * 301, LIFETIME).unwrap();
    let (one, both, two) = (&[&old][..], &[&new, &old][..], &[&new][..]);
    // Authorities and leaf of the Secret, what is published, the hour, and for how many seconds that was found.
    let steps = [
        (one, &last, one, 299, Some(9999), "rest"),
        (one, &last, one, 300, Some(9999), "replace new+1 same leaf"),
        (both, &last, one, 300, None, "publish 0: 0"),
        (both, &last, both, 300, None, "wait"),
        (both, &last, both, 300, Some(9), "wait"),
        (both, &last, both, 300, Some(10), "replace same+1 new leaf"),
        (both, &next, both, 301, Some(9999), "rest"),
        (both, &next, both, 302, Some(3599), "rest"),
        (both, &next, both, 302, None, "rest"),
        (
            both,
            &next,
            both,
            302,
            Some(3600),
            "replace same+0 same leaf",
        ),
        (two, &next, both, 302, Some(3600), "publish 0: 0"),
        (two, &next, two, 302, Some(3600), "rest"),
        // Nobody could publish the new authority. When the old one's certificate has expired, nothing is lost by trying.
        (both, &last, one, 329, None, "publish 0: 0"),
        (both, &last, one, 331, None, "replace same+1 new leaf"),
    ];
    for (step, (authorities, leaf, published, hours, trusted, expected)) in
        steps.into_iter().enumerate()
    {
        let found = Some(secret(authorities, leaf));
        let mut scenario = Scenario::of(found, publishing(published), hours);
        scenario.trusted_for = trusted.map(Duration::from_secs);
        assert_eq!(scenario.words(), expected, "step {step}");
    }
}

#[test]
fn a_lost_secret_keeps_what_replicas_serve_with() {
    let (authority, _) = made(0);
    let (second, _) = made(10);
    let published = |authorities: &[&Pair]| publishing(authorities);
    check(None, published(&[&authority]), 20, "create new+1 new leaf");
    check(
        None,
        published(&[&authority, &second]),
        20,
        "create new+2 new leaf",
    );
    check(
        None,
        published(&[&authority, &second]),
        361,
        "create new+1 new leaf",
    );
    let five: Vec<Pair> = (0..6).map(|hours| made(hours).0).collect();
    let five: Vec<&Pair> = five.iter().collect();
    check(None, published(&five), 20, "create new+4 new leaf");
    // The authority of another program.
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let foreign = params.self_signed(&key).unwrap();
    let foreign = Certificate::parse(foreign.into()).unwrap();
    let foreign = certificates_pem([&foreign]).into_bytes();
    check(
        None,
        vec![configuration(&[foreign])],
        20,
        "create new+0 new leaf",
    );
}

#[test]
fn a_secret_of_a_backup_keeps_what_replicas_serve_with() {
    let [(old, leaf), (middle, _), (new, _)] = [made(0), made(5), made(10)];
    // Nobody trusts the authority of the Secret yet.
    let untrusted = |secret: Secret, published: &[&Pair]| {
        let mut scenario = Scenario::of(Some(secret), publishing(published), 12);
        scenario.trusted_for = None;
        scenario.words()
    };
    let restored = |authorities: &[&Pair]| secret(authorities, &leaf);
    let (one, both) = ([&old], [&old, &new]);
    let published = [&new];
    assert_eq!(
        untrusted(restored(&one), &published),
        "replace same+1 same leaf"
    );
    assert_eq!(untrusted(restored(&both), &published), "publish 0: 0");
    assert_eq!(untrusted(restored(&both), &both), "rest");
    // All replicas had time to switch.
    let everywhere = || publishing(&both);
    check(
        Some(restored(&both)),
        everywhere(),
        12,
        "replace same+0 same leaf",
    );
    check(Some(restored(&one)), everywhere(), 12, "publish 0: 0");
    // The backup was made during a rotation.
    let rotating = [&middle, &old];
    let found = untrusted(restored(&rotating), &published);
    assert_eq!(found, "replace same+2 same leaf");
    let found = untrusted(restored(&[&middle, &old, &new]), &published);
    assert_eq!(found, "publish 0: 0");
    // The server certificate of the backup is damaged.
    let mut damaged = restored(&one);
    let data = damaged.data.get_or_insert_default();
    data.remove("tls.key");
    assert_eq!(untrusted(damaged, &published), "replace same+1 new leaf");
    // The Secret is full of authorities that nobody publishes.
    let many: Vec<Pair> = (1..6).map(|hours| made(hours).0).collect();
    let full: Vec<&Pair> = std::iter::once(&old).chain(&many).collect();
    let mut scenario = Scenario::of(Some(restored(&full)), publishing(&published), 12);
    scenario.trusted_for = None;
    let change = scenario.change();
    assert_eq!(change.older.len(), OLDER_MAX);
    assert!(change.older.contains(&new.certificate));
}

#[test]
fn a_configuration_without_webhooks_of_ours_is_reported_when_all_else_is_done() {
    let (authority, leaf) = made(0);
    let foreign = || configuration(&[]);
    let secret = || Some(secret(&[&authority], &leaf));
    let right = || configuration(&[bundle(&[&authority])]);
    check(None, vec![foreign(), foreign()], 0, "create new+0 new leaf");
    check(secret(), vec![foreign(), right()], 0, "foreign 0");
    check(
        secret(),
        vec![foreign(), configuration(&[vec![]])],
        0,
        "publish 1: 0",
    );
    check(secret(), vec![None, foreign()], 0, "foreign 1");
}

#[test]
fn no_authority_ends_by_clocks_that_differ() {
    let (authority, leaf) = made(0);
    let late = |skew, published: &[&Pair], secret: Option<Secret>| {
        let mut scenario = Scenario::of(secret, publishing(published), 400);
        scenario.skew = skew;
        scenario.words()
    };
    let secret = || Some(secret(&[&authority], &leaf));
    let one = [&authority];
    for found in [secret(), None] {
        assert_eq!(late(HOUR * 2, &one, found), "doubt");
    }
    assert_eq!(late(HOUR, &one, secret()), "replace new+0 new leaf");
    assert_eq!(late(HOUR, &one, None), "create new+0 new leaf");
    // Nobody trusts it, so nothing is lost.
    assert_eq!(late(HOUR * 2, &[], secret()), "replace new+0 new leaf");
    let (next, _) = made(390);
    assert_eq!(late(HOUR * 2, &[&next], None), "create new+1 new leaf");
}

/// A Secret with one field changed.
fn with(field: &str, value: &[u8]) -> (Secret, Pair) {
    let (authority, leaf) = made(0);
    let mut secret = secret(&[&authority], &leaf);
    let data = secret.data.get_or_insert_default();
    data.insert(field.to_owned(), ByteString(value.to_owned()));
    (secret, authority)
}

#[test]
fn each_damaged_part_is_made_again() {
    for garbage in [&b""[..], b"garbage", &[0xff; 70_000]] {
        for (field, expected) in [
            // The authority is still published, and replicas still serve with it.
            ("ca.crt", "replace new+1 new leaf"),
            // The leaf is still good, and its authority is trusted.
            ("ca.key", "replace new+1 same leaf"),
            ("tls.crt", "replace same+0 new leaf"),
            ("tls.key", "replace same+0 new leaf"),
        ] {
            let (secret, authority) = with(field, garbage);
            check(Some(secret), publishing(&[&authority]), 1, expected);
        }
    }
    let (mut secret, authority) = with("ca.crt", b"");
    secret.data = None;
    check(
        Some(secret),
        publishing(&[&authority]),
        1,
        "replace new+1 new leaf",
    );
}

#[test]
fn words_in_the_bundle_are_removed_and_other_fields_stay() {
    let (mut secret, authority) = with("notes", b"hello");
    check(Some(secret.clone()), publishing(&[&authority]), 1, "rest");
    let data = secret.data.get_or_insert_default();
    let text = data.get_mut("ca.crt").unwrap();
    text.0.extend(b"words\n");
    let scenario = Scenario::of(Some(secret.clone()), publishing(&[&authority]), 1);
    let change = scenario.change();
    assert!(change.signer.is_some() && !change.new_leaf);
    let tidied = next_secret(Some(&secret), &[authority.certificate], None, None);
    let data = tidied.data.unwrap();
    assert!(data["notes"].0 == b"hello" && !data["ca.crt"].0.ends_with(b"words\n"));
}

#[test]
fn a_leaf_for_other_hosts_is_made_again() {
    let (authority, _) = made(0);
    let now = start();
    let few = x509::server(&authority.key, &hosts()[..1], now, LIFETIME).unwrap();
    let found = Some(secret(&[&authority], &few));
    check(
        found,
        publishing(&[&authority]),
        1,
        "replace same+0 new leaf",
    );
    // More hosts than ours: those of a leader of another version.
    let mut hosts = hosts();
    hosts.push(host("localhost"));
    let more = x509::server(&authority.key, &hosts, now, LIFETIME).unwrap();
    let found = Some(secret(&[&authority], &more));
    check(found, publishing(&[&authority]), 1, "rest");
}

#[test]
fn a_clock_that_was_ahead_is_no_dead_end() {
    let (authority, leaf) = made(10);
    let found = Some(secret(&[&authority], &leaf));
    check(
        found,
        publishing(&[&authority]),
        2,
        "replace new+0 new leaf",
    );
}

#[test]
fn a_secret_of_somebody_else_is_left_alone() {
    let (authority, leaf) = made(0);
    let ours = secret(&[&authority], &leaf);
    let mut unlabelled = ours.clone();
    unlabelled.metadata.labels = None;
    check(
        Some(unlabelled),
        absent(),
        0,
        "stuck: it has data but not the label app.kubernetes.io/managed-by: podloom, so another program may own it; \
         delete it, or choose another name",
    );
    let mut token = ours;
    token.type_ = Some("kubernetes.io/service-account-token".to_owned());
    check(
        Some(token),
        absent(),
        0,
        "stuck: its type is kubernetes.io/service-account-token; delete it, or choose another name",
    );
    // An administrator created it empty, so that we need no right to create Secrets.
    let mut empty = Secret {
        type_: Some("kubernetes.io/tls".to_owned()),
        ..Secret::default()
    };
    check(Some(empty.clone()), absent(), 0, "replace new+0 new leaf");
    let nothing = ["tls.crt", "tls.key"].map(|name| (name.to_owned(), ByteString(vec![])));
    empty.data = Some(nothing.into());
    check(Some(empty), absent(), 0, "replace new+0 new leaf");
}

#[test]
fn a_secret_with_too_many_authorities_is_cut() {
    let many: Vec<(Pair, Pair)> = (0..8).map(made).collect();
    let authorities: Vec<&Pair> = many.iter().map(|(authority, _)| authority).collect();
    let found = secret(&authorities, &many[0].1);
    let mut scenario = Scenario::of(Some(found), publishing(&authorities), 10);
    scenario.trusted_for = None;
    assert_eq!(scenario.words(), "replace same+4 same leaf");
    // The authority of the leaf stays, whatever its place is.
    let mut found = secret(&authorities, &many[7].1);
    let data = found.data.get_or_insert_default();
    data.remove("ca.key");
    let change = Scenario::of(Some(found), absent(), 10).change();
    assert!(change.older.contains(&many[7].0.certificate));
    assert_eq!(change.older.len(), OLDER_MAX);
}

#[test]
fn what_is_made_of_a_change_needs_no_further_change() {
    let (authority, _) = made(0);
    let change = Scenario::of(None, publishing(&[&authority]), 0).change();
    let signer = x509::authority(start(), LIFETIME).unwrap();
    let leaf = x509::server(&signer.key, &hosts(), start(), LIFETIME).unwrap();
    let authorities: Vec<Certificate> = std::iter::once(signer.certificate.clone())
        .chain(change.older)
        .collect();
    let written = next_secret(None, &authorities, Some(&signer.key), Some(&leaf));
    let read = OurSecret::read(Some(written.clone())).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(read.authorities, authorities);
    check(Some(written), publishing(&[&signer, &authority]), 0, "rest");
}

#[test]
fn times_get_shorter_with_the_lifetime_only() {
    let day = HOUR * 24;
    let usual = Times {
        lifetime: day * 90,
        look: Duration::from_secs(10),
        soon: Duration::from_secs(1),
        settle: Duration::from_secs(10),
        keep: HOUR,
        patience: Duration::from_secs(30),
    };
    assert_eq!(Times::of(day * 90), usual);
    let lifetime = day;
    assert_eq!(Times::of(day), Times { lifetime, ..usual });
    for seconds in 2..10_000 {
        let lifetime = Duration::from_secs(seconds);
        let times = Times::of(lifetime);
        let slowest = times.look * 2 + times.settle;
        assert!(
            slowest < times.keep && times.keep < lifetime / 3,
            "{times:?}"
        );
    }
}
