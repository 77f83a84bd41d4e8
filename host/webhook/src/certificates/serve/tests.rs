use super::super::x509::{self, Pair};
use super::*;

const LIFETIME: Duration = Duration::from_secs(3600);
const SETTLE: Duration = Duration::from_secs(10);

fn pair_of(authority: &Pair, now: SystemTime) -> Served {
    let hosts = [ServerName::try_from("localhost").unwrap()];
    let pair = x509::server(&authority.key, &hosts, now, LIFETIME).unwrap();
    Served {
        key: Arc::new(pair.certificate.with(&pair.key).unwrap()),
        certificate: pair.certificate,
        authority: Some(authority.certificate.clone()),
    }
}

/// A served certificate, another one of its authority, and one of another authority.
struct Scene {
    now: SystemTime,
    served: Served,
    renewed: Served,
    other: Served,
}

impl Scene {
    fn new() -> Self {
        let now = SystemTime::now();
        let [old, new] = [(); 2].map(|()| x509::authority(now, LIFETIME).unwrap());
        Self {
            now,
            served: pair_of(&old, now),
            renewed: pair_of(&old, now),
            other: pair_of(&new, now),
        }
    }

    /// Whether a certificate needs trust to take the place of the served one.
    fn needs_trust(&self, at: SystemTime, found: &Served) -> bool {
        needs_trust(found, &self.served, at)
    }
}

#[test]
fn a_certificate_of_the_same_authority_serves_at_once() {
    let scene = Scene::new();
    assert!(!scene.needs_trust(scene.now, &scene.served));
    assert!(!scene.needs_trust(scene.now, &scene.renewed));
}

#[test]
fn a_certificate_of_another_authority_waits_until_that_is_trusted() {
    let scene = Scene::new();
    assert!(scene.needs_trust(scene.now, &scene.other));
    // The seconds for which it was trusted, and whether the served one still is.
    for (seconds, is_served_trusted, expected) in [
        (None, true, false),
        (None, false, false),
        (Some(0), true, false),
        (Some(9), true, false),
        (Some(10), true, true),
        // Nobody accepts the served one any more.
        (Some(0), false, true),
    ] {
        let trusted_for = seconds.map(Duration::from_secs);
        let found = is_trusted_enough(trusted_for, is_served_trusted, SETTLE);
        assert_eq!(found, expected, "{seconds:?} {is_served_trusted}");
    }
}

#[test]
fn an_expired_certificate_is_kept_for_nothing() {
    let scene = Scene::new();
    let late = scene.now + LIFETIME + Duration::from_secs(1);
    assert!(!scene.needs_trust(late, &scene.other));
}
