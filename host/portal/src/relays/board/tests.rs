mod accounts;
mod schedule;

use podloom_api::RelayConnection;
use podloom_api::RelayConnection::{Connected, Disconnected, Unknown};

use super::*;

const INTERVAL: Duration = Duration::from_secs(30);

/// A board at a relay's side, with a clock that the test moves.
struct Scene {
    board: Board,
    start: Instant,
    second: u64,
}

fn relay(host: &str) -> Authority {
    Authority::parse(&format!("https://{host}")).expect(host)
}

fn user(name: &str) -> UserId {
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    UserId {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

fn ready(host: &str, hostname: &str) -> Lease {
    Lease {
        authority: relay(host),
        hostname: hostname.to_owned(),
        has_ready_pod: true,
        last_known: None,
    }
}

fn waiting(host: &str, hostname: &str) -> Lease {
    Lease {
        has_ready_pod: false,
        ..ready(host, hostname)
    }
}

fn answers(answers: &[(&str, Answer)]) -> Finding {
    let owned = |(hostname, answer): &(&str, Answer)| ((*hostname).to_owned(), answer.clone());
    Finding::Answers(answers.iter().map(owned).collect())
}

fn trouble() -> Finding {
    Finding::Trouble(Trouble::bad_response("it answered 500"))
}

impl Scene {
    fn new(observation: Observation) -> Self {
        Self {
            board: Board::new(observation, INTERVAL),
            start: Instant::now(),
            second: 0,
        }
    }

    fn times(&self) -> (Timestamp, Instant) {
        let date = Timestamp::from_second(self.second.try_into().unwrap()).unwrap();
        (date, self.start + Duration::from_secs(self.second))
    }

    /// Sets what a user wants, and returns the relays that get a hint.
    fn set(&self, name: &str, leases: &[Lease]) -> Vec<String> {
        let (date, now) = self.times();
        let hinted = self.board.set(&user(name), leases.to_vec(), date, now);
        hinted.iter().map(ToString::to_string).collect()
    }

    fn step(&self, host: &str) -> Option<Step> {
        self.board.step(&relay(host), self.times().1)
    }

    /// Returns the question that is due.
    #[track_caller]
    fn question(&self, host: &str) -> Question {
        match self.step(host) {
            Some(Step::Ask(question)) => {
                self.board.end(&question.tenant);
                question
            }
            other => panic!("{other:?} after {} s", self.second),
        }
    }

    /// Records a look at a relay, and returns who is woken, and the seconds until the next look. The interval has no jitter.
    fn record(&self, host: &str, finding: &Finding) -> (Vec<String>, u64) {
        let recorded = self
            .board
            .record(&relay(host), finding, 0.5, self.times())
            .expect("a relay that is wanted");
        let names = recorded.0.into_iter().map(|user| user.name);
        (names.collect(), recorded.1.as_secs())
    }

    #[track_caller]
    fn check(&self, name: &str, host: &str, hostname: &str, expected: RelayConnection) {
        let link = self.board.link(&user(name), &relay(host), hostname);
        let status = link.expect("a link").status;
        assert_eq!(status, expected, "{name} after {} s", self.second);
    }

    fn waits(&self, host: &str) -> Option<u64> {
        match self.step(host) {
            Some(Step::Wait(wait)) => Some(wait.as_secs()),
            Some(Step::Ask(question)) => {
                self.board.end(&question.tenant);
                Some(0)
            }
            Some(Step::Rest | Step::Queue) | None => None,
        }
    }
}

fn scene() -> Scene {
    Scene::new(Observation::Poll)
}

#[test]
fn all_users_of_a_relay_share_its_looks() {
    let mut scene = scene();
    for number in 0..10 {
        let lease = ready("relay.example", &format!("app-{number}.relay.example"));
        assert_eq!(
            scene.set(&format!("user-{number}"), &[lease]),
            ["relay.example"]
        );
    }
    let question = scene.question("relay.example");
    assert_eq!(question.hostnames.len(), 10);
    assert_eq!(question.due.len(), 10);
    let found: Vec<_> = question
        .hostnames
        .iter()
        .map(|name| (name.as_str(), Answer::Ready))
        .collect();
    let (woken, wait) = scene.record("relay.example", &answers(&found));
    assert_eq!((woken.len(), wait), (10, 30));
    scene.second = 29;
    assert_eq!(scene.waits("relay.example"), Some(1));
    scene.second = 30;
    assert_eq!(scene.question("relay.example").due.len(), 10);
}

#[test]
fn what_is_set_again_wakes_nothing() {
    let scene = scene();
    let leases = [
        ready("a.example", "x.a.example"),
        waiting("b.example", "x.b.example"),
    ];
    assert_eq!(scene.set("one", &leases), ["a.example", "b.example"]);
    assert!(scene.set("one", &leases).is_empty());
    let stored = Link::stored(Connected, None, None);
    let again = leases.clone().map(|lease| Lease {
        last_known: Some(stored.clone()),
        ..lease
    });
    assert!(scene.set("one", &again).is_empty());
    scene.check("one", "a.example", "x.a.example", Unknown);
}

#[test]
fn a_relay_goes_with_its_last_user() {
    let scene = scene();
    let lease = [ready("a.example", "x.a.example")];
    scene.set("one", &lease);
    scene.set("two", &[ready("a.example", "y.a.example")]);
    assert!(scene.set("one", &[]).is_empty(), "it has another user");
    assert_eq!(
        scene
            .board
            .link(&user("one"), &lease[0].authority, "x.a.example"),
        None
    );
    let hostnames = scene.question("a.example").hostnames;
    assert_eq!(Vec::from_iter(hostnames), ["y.a.example"]);
    assert_eq!(scene.set("two", &[]), ["a.example"]);
    assert!(scene.board.wanted().is_empty());
    assert!(!scene.board.is_wanted(&lease[0].authority));
    assert!(scene.step("a.example").is_none());
    let (date, now) = scene.times();
    let recorded = scene
        .board
        .record(&lease[0].authority, &trouble(), 0.5, (date, now));
    assert_eq!(recorded, None, "a look that ends too late changes nothing");
}

#[test]
fn a_user_can_change_relays_and_hostnames() {
    let scene = scene();
    scene.set(
        "one",
        &[
            ready("a.example", "x.a.example"),
            ready("b.example", "x.b.example"),
        ],
    );
    scene.question("a.example");
    scene.record("a.example", &answers(&[("x.a.example", Answer::Ready)]));
    let leases = [
        ready("a.example", "x.a.example"),
        ready("c.example", "x.c.example"),
    ];
    assert_eq!(scene.set("one", &leases), ["b.example", "c.example"]);
    scene.check("one", "a.example", "x.a.example", Connected);
    scene.check("one", "c.example", "x.c.example", Unknown);
    let renamed = [
        ready("a.example", "z.a.example"),
        ready("c.example", "z.c.example"),
    ];
    assert_eq!(scene.set("one", &renamed), ["a.example", "c.example"]);
    assert_eq!(
        scene
            .board
            .link(&user("one"), &relay("a.example"), "x.a.example"),
        None
    );
    scene.check("one", "a.example", "z.a.example", Unknown);
}

#[test]
fn a_stored_link_counts_until_the_relay_was_asked() {
    let scene = scene();
    let since = Timestamp::from_second(5).ok();
    let lease = Lease {
        last_known: Some(Link::stored(Connected, since, None)),
        ..ready("a.example", "x.a.example")
    };
    scene.set("one", &[lease]);
    scene.check("one", "a.example", "x.a.example", Connected);
    assert_eq!(scene.waits("a.example"), Some(0), "it is asked at once");
    let (woken, wait) = scene.record("a.example", &answers(&[("x.a.example", Answer::Ready)]));
    assert!(woken.is_empty(), "nothing looks different");
    assert_eq!(wait, 30);
    let link = scene
        .board
        .link(&user("one"), &relay("a.example"), "x.a.example");
    assert_eq!(link.unwrap().connected_at, since);
}

#[test]
fn a_tunnel_without_a_pod_is_disconnected_and_not_asked_about() {
    let scene = scene();
    let stored = Link::stored(Connected, Timestamp::from_second(5).ok(), None);
    let lease = Lease {
        last_known: Some(stored),
        ..waiting("a.example", "x.a.example")
    };
    scene.set("one", std::slice::from_ref(&lease));
    scene.check("one", "a.example", "x.a.example", Disconnected);
    assert!(matches!(scene.step("a.example"), Some(Step::Rest)));
    let (woken, wait) = scene.record("a.example", &answers(&[("x.a.example", Answer::Ready)]));
    assert_eq!((woken, wait), (vec![], 30));
    scene.check("one", "a.example", "x.a.example", Disconnected);
    scene.record("a.example", &trouble());
    scene.check("one", "a.example", "x.a.example", Disconnected);
}

#[test]
fn a_tunnel_that_gets_a_pod_is_looked_at_soon() {
    let mut scene = scene();
    scene.set("one", &[waiting("a.example", "x.a.example")]);
    scene.set("two", &[ready("a.example", "y.a.example")]);
    scene.question("a.example");
    let found = answers(&[("y.a.example", Answer::Ready)]);
    assert_eq!(scene.record("a.example", &found).1, 30);
    scene.second = 1;
    assert_eq!(
        scene.set("one", &[ready("a.example", "x.a.example")]),
        ["a.example"]
    );
    scene.check("one", "a.example", "x.a.example", Unknown);
    assert_eq!(scene.waits("a.example"), Some(1), "2 s after the last look");
    scene.second = 2;
    scene.question("a.example");
    let (woken, wait) = scene.record("a.example", &answers(&[("x.a.example", Answer::Ready)]));
    assert_eq!((woken, wait), (vec!["one".to_owned()], 30));
}

#[test]
fn a_tunnel_that_loses_its_pods_is_disconnected_at_once() {
    let scene = scene();
    scene.set("one", &[ready("a.example", "x.a.example")]);
    scene.record("a.example", &answers(&[("x.a.example", Answer::Ready)]));
    scene.check("one", "a.example", "x.a.example", Connected);
    assert_eq!(
        scene.set("one", &[waiting("a.example", "x.a.example")]),
        ["a.example"]
    );
    scene.check("one", "a.example", "x.a.example", Disconnected);
    assert_eq!(scene.waits("a.example"), None, "there is nothing to ask");
}

#[test]
fn a_missing_lease_is_urgent_for_two_minutes_an_episode() {
    let mut scene = scene();
    let none = answers(&[("x.a.example", Answer::NoLease)]);
    scene.set("one", &[ready("a.example", "x.a.example")]);
    let mut looks = 0;
    while scene.second < 120 {
        scene.question("a.example");
        let (_, wait) = scene.record("a.example", &none);
        looks += 1;
        assert_eq!(wait, 2, "after {} s", scene.second);
        scene.second += wait;
    }
    assert_eq!(looks, 60);
    assert_eq!(scene.waits("a.example"), Some(28), "the episode is over");
    scene.second += 28;
    scene.question("a.example");
    assert_eq!(scene.record("a.example", &none).1, 30, "no new one begins");
    scene.second += 30;
    scene.question("a.example");
    let (_, wait) = scene.record("a.example", &answers(&[("x.a.example", Answer::Ready)]));
    assert_eq!(wait, 30);
    scene.second += 30;
    scene.question("a.example");
    assert_eq!(
        scene.record("a.example", &none).1,
        30,
        "the budget is spent"
    );
    scene.record("a.example", &answers(&[("x.a.example", Answer::Ready)]));
    scene.second = 120 + 15 * 60;
    scene.question("a.example");
    assert_eq!(scene.record("a.example", &none).1, 2, "a new episode");
}

#[test]
fn a_relay_that_gives_and_takes_a_lease_costs_little() {
    let mut scene = scene();
    scene.set("one", &[ready("a.example", "x.a.example")]);
    let mut looks = 0;
    while scene.second < 15 * 60 {
        scene.question("a.example");
        let answer = match looks % 10 {
            0 => Answer::Ready,
            _ => Answer::NoLease,
        };
        let found = answers(&[("x.a.example", answer)]);
        let (_, wait) = scene.record("a.example", &found);
        looks += 1;
        scene.second += wait;
        scene.second += scene.waits("a.example").unwrap();
    }
    assert!(looks <= 60 + 30 + 2, "{looks} looks in 15 minutes");
}

#[test]
fn an_error_that_was_not_shown_is_shown_later() {
    let mut scene = scene();
    scene.set("one", &[ready("a.example", "x.a.example")]);
    let look = |scene: &Scene, answer| {
        let found = answers(&[("x.a.example", answer)]);
        let (woken, _) = scene.record("a.example", &found);
        let link = scene
            .board
            .link(&user("one"), &relay("a.example"), "x.a.example");
        (woken.len(), link.unwrap().last_error.is_some())
    };
    assert_eq!(look(&scene, Answer::Ready), (1, false));
    assert_eq!(look(&scene, Answer::NoLease), (1, true));
    scene.second = 29;
    assert_eq!(look(&scene, Answer::Ready), (0, true), "too early");
    scene.second = 30;
    assert_eq!(look(&scene, Answer::Ready), (1, false));
}

#[test]
fn a_lost_connection_is_confirmed_soon() {
    let mut scene = scene();
    scene.set("one", &[ready("a.example", "x.a.example")]);
    scene.record("a.example", &answers(&[("x.a.example", Answer::Ready)]));
    let none = answers(&[("x.a.example", Answer::NoLease)]);
    for expected in [Connected, Connected, Disconnected] {
        scene.second += scene.waits("a.example").unwrap();
        scene.question("a.example");
        let (woken, wait) = scene.record("a.example", &none);
        let is_new = scene.second == 30 || expected == Disconnected;
        assert_eq!((woken.len(), wait), (is_new.into(), 2));
        scene.check("one", "a.example", "x.a.example", expected);
    }
    assert_eq!(scene.second, 34);
}

#[test]
fn a_relay_in_trouble_is_asked_less_and_less() {
    let mut scene = scene();
    scene.set("one", &[ready("a.example", "x.a.example")]);
    scene.set("two", &[ready("a.example", "y.a.example")]);
    for expected in [1, 2, 4, 8, 16, 32, 60, 60] {
        let question = scene.question("a.example");
        assert_eq!(question.due.len(), 2, "trouble is no answer");
        let (_, wait) = scene.record("a.example", &trouble());
        assert_eq!(wait, expected);
        scene.second += wait;
    }
    scene.check("one", "a.example", "x.a.example", Disconnected);
    let back = answers(&[
        ("x.a.example", Answer::NoLease),
        ("y.a.example", Answer::Ready),
    ]);
    let (woken, wait) = scene.record("a.example", &back);
    assert_eq!(
        (woken.len(), wait),
        (2, 2),
        "the tunnels have to come back too"
    );
}

#[test]
fn a_look_without_room_changes_nothing() {
    let scene = scene();
    scene.set("one", &[ready("a.example", "x.a.example")]);
    let before = scene
        .board
        .link(&user("one"), &relay("a.example"), "x.a.example");
    assert_eq!(scene.record("a.example", &Finding::Busy), (vec![], 1));
    let after = scene
        .board
        .link(&user("one"), &relay("a.example"), "x.a.example");
    assert_eq!(after, before);
}

#[test]
fn after_a_look_without_room_the_next_namespace_pays() {
    let mut scene = scene();
    for name in ["hostile/one", "team/one"] {
        scene.set(name, &[ready("a.example", "x.a.example")]);
    }
    let found = answers(&[("x.a.example", Answer::Ready)]);
    let mut tenants = Vec::new();
    for _ in 0..6 {
        let tenant = scene.question("a.example").tenant;
        let is_stuck = tenant == "hostile";
        let finding = if is_stuck { &Finding::Busy } else { &found };
        let (_, wait) = scene.record("a.example", finding);
        assert_eq!(wait, if is_stuck { 1 } else { 30 });
        scene.second += wait;
        tenants.push(tenant);
    }
    assert_eq!(tenants[..4], ["hostile", "team", "hostile", "team"]);
    scene.check("team/one", "a.example", "x.a.example", Connected);
}

#[test]
fn a_hostname_that_was_not_asked_about_keeps_its_link() {
    let mut scene = scene();
    for name in ["one", "two"] {
        scene.set(name, &[ready("a.example", &format!("{name}.a.example"))]);
    }
    scene.record(
        "a.example",
        &answers(&[
            ("one.a.example", Answer::Ready),
            ("two.a.example", Answer::Ready),
        ]),
    );
    scene.second = 30;
    let (woken, _) = scene.record("a.example", &answers(&[("one.a.example", Answer::Ready)]));
    assert!(woken.is_empty());
    scene.check("two", "a.example", "two.a.example", Connected);
    scene.second = 60;
    let due = scene.question("a.example").due;
    assert_eq!(
        due,
        ["two.a.example", "one.a.example"],
        "the longest unanswered first"
    );
}

#[test]
fn while_one_tunnel_is_waited_for_the_others_are_not_asked_about_each_time() {
    let mut scene = scene();
    for name in ["one", "two", "three"] {
        scene.set(name, &[ready("a.example", &format!("{name}.a.example"))]);
    }
    let found = answers(&[
        ("one.a.example", Answer::Ready),
        ("two.a.example", Answer::LeaseNotReady),
        ("three.a.example", Answer::Ready),
    ]);
    scene.record("a.example", &found);
    scene.second = 2;
    let question = scene.question("a.example");
    assert_eq!(question.due, ["two.a.example"]);
    assert_eq!(
        question.hostnames.len(),
        3,
        "one answer with all leases is used for all"
    );
    scene.record(
        "a.example",
        &answers(&[("two.a.example", Answer::LeaseNotReady)]),
    );
    scene.second = 28;
    assert_eq!(scene.question("a.example").due.len(), 3);
}

#[test]
fn the_namespaces_of_the_users_take_turns() {
    let mut scene = scene();
    for name in ["a/one", "a/two", "a/three", "b/one", "c/one"] {
        scene.set(name, &[ready("a.example", "x.a.example")]);
    }
    let mut tenants = Vec::new();
    for _ in 0..6 {
        tenants.push(scene.question("a.example").tenant);
        let (_, wait) = scene.record("a.example", &answers(&[("x.a.example", Answer::Ready)]));
        scene.second += wait;
    }
    assert_eq!(tenants, ["a", "b", "c", "a", "b", "c"]);
}

#[test]
fn a_namespace_without_a_ready_pod_pays_nothing() {
    let mut scene = scene();
    scene.set("a/one", &[waiting("a.example", "x.a.example")]);
    scene.set("b/one", &[ready("a.example", "x.a.example")]);
    for _ in 0..3 {
        assert_eq!(scene.question("a.example").tenant, "b");
        let found = answers(&[("x.a.example", Answer::Ready)]);
        scene.second += scene.record("a.example", &found).1;
    }
}

#[test]
fn relays_beyond_the_share_of_a_namespace_wait_for_their_turn() {
    let scene = scene();
    let leases = ["a.example", "b.example", "c.example"].map(|host| ready(host, "x"));
    scene.set("bad/one", &leases);
    scene.set("good/one", &[ready("c.example", "x")]);
    let ask = |host: &str| match scene.step(host) {
        Some(Step::Ask(question)) => Some(question.tenant),
        Some(Step::Queue) => None,
        other => panic!("{other:?}"),
    };
    assert_eq!(ask("a.example").as_deref(), Some("bad"));
    assert_eq!(ask("b.example").as_deref(), Some("bad"));
    assert_eq!(ask("c.example").as_deref(), Some("good"), "it pays alone");
    scene.set("good/one", &[]);
    scene.board.end("good");
    assert_eq!(ask("c.example"), None);
    assert!(scene.board.called().is_empty());
    // A relay that goes takes its place in the line with it.
    scene.set("bad/one", &leases[..2]);
    scene.board.end("bad");
    assert!(scene.board.called().is_empty());
    scene.set("bad/one", &leases);
    assert_eq!(ask("c.example").as_deref(), Some("bad"));
}

#[test]
fn two_users_of_one_hostname_have_links_of_their_own() {
    let scene = scene();
    scene.set("older", &[ready("a.example", "x.a.example")]);
    scene.set("younger", &[waiting("a.example", "x.a.example")]);
    assert_eq!(scene.question("a.example").due, ["x.a.example"]);
    let (woken, _) = scene.record("a.example", &answers(&[("x.a.example", Answer::Ready)]));
    assert_eq!(woken, ["older"]);
    scene.check("older", "a.example", "x.a.example", Connected);
    scene.check("younger", "a.example", "x.a.example", Disconnected);
}

#[test]
fn equal_results_wake_nobody() {
    let mut scene = scene();
    scene.set("one", &[ready("a.example", "x.a.example")]);
    let good = answers(&[("x.a.example", Answer::Ready)]);
    assert_eq!(scene.record("a.example", &good).0, ["one"]);
    let link = scene
        .board
        .link(&user("one"), &relay("a.example"), "x.a.example");
    for _ in 0..10 {
        scene.second += 30;
        assert!(scene.record("a.example", &good).0.is_empty());
        let now = scene
            .board
            .link(&user("one"), &relay("a.example"), "x.a.example");
        assert_eq!(now, link, "connectedAt stays");
    }
}

#[test]
fn with_assume_a_ready_pod_is_a_connection() {
    let mut scene = Scene::new(Observation::Assume);
    scene.second = 7;
    scene.set(
        "one",
        &[
            ready("a.example", "x.a.example"),
            waiting("b.example", "x.b.example"),
        ],
    );
    scene.check("one", "a.example", "x.a.example", Connected);
    scene.check("one", "b.example", "x.b.example", Disconnected);
    scene.second = 20;
    scene.set(
        "one",
        &[
            ready("a.example", "x.a.example"),
            ready("b.example", "x.b.example"),
        ],
    );
    for (host, since) in [("a.example", 7), ("b.example", 20)] {
        let hostname = format!("x.{host}");
        let link = scene.board.link(&user("one"), &relay(host), &hostname);
        let expected = Link::stored(Connected, Timestamp::from_second(since).ok(), None);
        assert_eq!(link, Some(expected));
    }
    scene.set("one", &[waiting("a.example", "x.a.example")]);
    scene.check("one", "a.example", "x.a.example", Disconnected);
}

#[test]
fn odd_intervals_neither_spin_nor_overflow() {
    for (interval, least) in [(Duration::ZERO, SHORTEST), (Duration::MAX, LONGEST)] {
        let scene = Scene {
            board: Board::new(Observation::Poll, interval),
            ..scene()
        };
        scene.set("one", &[ready("a.example", "x.a.example")]);
        let recorded = scene.board.record(
            &relay("a.example"),
            &answers(&[("x.a.example", Answer::Ready)]),
            0.5,
            scene.times(),
        );
        assert_eq!(recorded.expect("a relay").1, least);
    }
}
