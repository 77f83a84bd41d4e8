use rustls::pki_types::ServerName;

use super::super::sign::{self, Pair};
use super::*;

const LIFETIME: Duration = Duration::from_secs(3600);
const SETTLE: Duration = Duration::from_secs(10);

fn pair_of(authority: &Pair, now: SystemTime) -> Serving {
    let hosts = [ServerName::try_from("localhost").unwrap()];
    Serving {
        pair: sign::server(&authority.key, &hosts, now, LIFETIME).unwrap(),
        authority: authority.certificate.clone(),
    }
}

/// A served certificate, another one of its authority, and one of another authority.
struct Scene {
    now: SystemTime,
    served: Serving,
    renewed: Serving,
    other: Serving,
}

impl Scene {
    fn new() -> Self {
        let now = SystemTime::now();
        let [old, new] = [(); 2].map(|()| sign::authority(now, LIFETIME).unwrap());
        Self {
            now,
            served: pair_of(&old, now),
            renewed: pair_of(&old, now),
            other: pair_of(&new, now),
        }
    }

    /// Expects a decision about a certificate, while another one serves.
    #[track_caller]
    fn check(&self, found: &Serving, trust: Option<Trust>, expected: Decision) {
        self.check_at(self.now, found, trust, expected);
    }

    #[track_caller]
    fn check_at(&self, at: SystemTime, found: &Serving, trust: Option<Trust>, expected: Decision) {
        let serves = Some((&self.served.pair.certificate, &self.served.authority));
        assert_eq!(decide(found, serves, trust, (SETTLE, at)), expected);
        // The configurations are read only if they matter.
        let matters = trust.is_some() || expected == Decision::Wait;
        assert_eq!(depends_on_trust(found, serves, at), matters);
    }
}

/// The other authority was found for some seconds or not at all; the served one is still trusted, or not.
fn trust(found: Option<u64>, served: bool) -> Option<Trust> {
    Some(Trust {
        found: found.map(Duration::from_secs),
        served,
    })
}

#[test]
fn the_first_certificate_serves_at_once() {
    let scene = Scene::new();
    let decision = decide(&scene.other, None, None, (SETTLE, scene.now));
    assert_eq!(decision, Decision::Switch);
    assert!(!depends_on_trust(&scene.other, None, scene.now));
}

#[test]
fn a_certificate_of_the_same_authority_serves_at_once() {
    let scene = Scene::new();
    scene.check(&scene.served, None, Decision::Keep);
    scene.check(&scene.renewed, None, Decision::Switch);
}

#[test]
fn a_certificate_of_another_authority_waits_until_that_is_trusted() {
    let scene = Scene::new();
    let check = |trust, expected| scene.check(&scene.other, trust, expected);
    // The configurations could not be read.
    check(None, Decision::Wait);
    check(trust(None, true), Decision::Wait);
    check(trust(None, false), Decision::Wait);
    check(trust(Some(0), true), Decision::Wait);
    check(trust(Some(9), true), Decision::Wait);
    check(trust(Some(10), true), Decision::Switch);
    // Nobody accepts the served one any more.
    check(trust(Some(0), false), Decision::Switch);
}

#[test]
fn an_expired_certificate_is_kept_for_nothing() {
    let scene = Scene::new();
    let late = scene.now + LIFETIME + Duration::from_secs(1);
    scene.check_at(late, &scene.served, None, Decision::Keep);
    scene.check_at(late, &scene.other, None, Decision::Switch);
}
