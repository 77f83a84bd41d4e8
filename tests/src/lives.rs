//! Many lives at once under one operator, each in a namespace of its own, so that each can be struck at another place.

use std::env;
use std::ops::Range;

use futures::future::join_all;
use serde_json::json;

use crate::cluster::Cluster;
use crate::faults::{Fault, Proxy, RequestFilter, Rule};
use crate::operator::Operator;
use crate::run::blackbox_on;
use crate::scene::Scene;
use crate::seed::Seed;
use crate::wait::{PATIENCE, eventually, eventually_within};

/// A test has all lives if there are no more than these, and else a random few.
const ALL: usize = 20;
const FEW: usize = 10;

/// The life of an object: what its user does, and what must come of it.
pub trait Life {
    /// How many are lived at once: others need what they share.
    const AT_ONCE: usize = usize::MAX;
    /// Whether it asks again and again, so that it may have more requests than there are places.
    const POLLS: bool = false;

    /// Starts an operator behind a proxy.
    fn operator(&self, flags: &[&str]) -> impl Future<Output = (Proxy, Operator)>;

    /// Does what is no part of the life. The operator works.
    fn prepares(&self) -> impl Future<Output = ()> {
        async {}
    }

    /// Creates the object.
    fn begins(&self) -> impl Future<Output = ()>;

    /// Does what the user does next, if it is time for that. Until the life is over, fails with how far it is.
    fn goes_on(&self) -> impl Future<Output = Result<(), String>>;

    /// Does what the user does before the operator works or sees again.
    fn meanwhile(&self, _: Blow) -> impl Future<Output = ()> {
        async {}
    }

    /// Whether nothing more happens by itself before that.
    fn rests(&self) -> bool {
        true
    }

    /// Checks what was and what is left.
    fn ends(&self) -> impl Future<Output = ()>;

    /// The proxy in which it is struck, if that is not the one before the API server.
    fn proxy(&self) -> Option<&Proxy> {
        None
    }
}

/// How a life is struck.
#[derive(Clone, Copy, PartialEq)]
pub enum Blow {
    /// The operator is killed in a request: neither this one nor a later one arrives.
    KilledIn,
    /// The operator is killed after a request of which it gets no answer: the next one, which may repeat it, never arrives.
    KilledAfter,
    /// A request does not arrive.
    Lost,
    /// A request is done, but not answered.
    Unanswered,
    /// A watch breaks before a change, and the list after it is answered only when the world has gone on.
    Unobserved,
}

impl Blow {
    fn rules(self, on: &RequestFilter, number: u64) -> Vec<Rule> {
        let once = |fault| Rule::once(on.clone(), number, fault);
        let hangs = Rule {
            times: None,
            ..once(Fault::Stall)
        };
        match self {
            Self::KilledIn => vec![hangs],
            Self::KilledAfter => vec![once(Fault::Cut), hangs],
            Self::Lost => vec![once(Fault::Drop)],
            Self::Unanswered => vec![once(Fault::Cut)],
            Self::Unobserved => Rule::unobserved(&on.resources[0], number).into(),
        }
    }

    fn kills(self) -> bool {
        matches!(self, Self::KilledIn | Self::KilledAfter)
    }

    /// Whether a life goes on no more, by how often its rules were applied.
    fn stops(self, hits: &[u64]) -> bool {
        match self {
            Self::Lost | Self::Unanswered => false,
            Self::KilledIn | Self::KilledAfter => hits[hits.len() - 1] > 0,
            Self::Unobserved => hits.iter().skip(1).any(|held| *held > 0),
        }
    }

    /// Whether a life was struck, by how often its rules were applied.
    fn struck(self, hits: &[u64]) -> bool {
        hits[0] > 0 && (self != Self::Unobserved || self.stops(hits))
    }
}

/// The places where a life can be struck: requests or changes that are counted together, and how many of them a life has.
pub type Series = (RequestFilter, Range<u64>);

/// A place of a series, and the namespace of the life that is struck there.
#[derive(Clone, Copy)]
pub struct Place {
    /// Which series.
    pub series: usize,
    number: u64,
    /// The namespace.
    pub scene: &'static Scene,
}

impl Place {
    async fn new(scene: &Scene, series: usize, number: u64) -> Self {
        let name = format!("{}-{series}-{number}", scene.namespace);
        let scene = scene.beside(&name, json!({})).await;
        Self {
            series,
            number,
            // As long as the process, like the cluster that all of these tests share.
            scene: Box::leak(Box::new(scene)),
        }
    }
}

/// Lives a life for each place of these series, and strikes it there; only a few if there are many, but with `PODLOOM_LIVES` all.
pub fn strike<L: Life>(name: &str, blow: Blow, series: &[Series], life: impl AsyncFn(Place) -> L) {
    blackbox_on(Cluster::without_operator, name, async |scene| {
        let all = series.iter().enumerate();
        let all = all.flat_map(|(index, (_, count))| (0..count.end).map(move |it| (index, it)));
        let mut all: Vec<(usize, u64)> = all.collect();
        if all.len() > ALL && env::var("PODLOOM_LIVES").is_err() {
            let mut seed = Seed::new(name);
            // The first place of each series is always there, so it is noticed if nothing is struck.
            let (firsts, mut rest): (Vec<_>, Vec<_>) =
                all.into_iter().partition(|(_, number)| *number == 0);
            while firsts.len() + rest.len() > FEW {
                rest.swap_remove(seed.below(rest.len()));
            }
            all = [firsts, rest].concat();
        }
        let mut met = Vec::new();
        for some in all.chunks(L::AT_ONCE) {
            let places = some.iter();
            let places = places.map(|(series, number)| Place::new(&scene, *series, *number));
            let places = join_all(places).await;
            let lives = join_all(places.iter().map(|place| life(*place))).await;
            let names = places.iter().map(|it| it.scene.namespace.as_str());
            let names = names.collect::<Vec<_>>().join(",");
            let (proxy, operator) = lives[0].operator(&["--namespace", &names]).await;
            join_all(lives.iter().map(L::prepares)).await;
            let struck = Struck {
                blow,
                series,
                places,
                lives,
                proxy,
            };
            met.extend(struck.live(operator).await);
        }
        check(series, &met, L::POLLS);
    });
}

/// Checks how many places each series has, if there was a life for each. `Met` says of each life in which it was struck, and whether.
fn check(series: &[Series], met: &[(usize, bool)], polls: bool) {
    for (index, (on, count)) in series.iter().enumerate() {
        let met = met.iter().filter(|(series, _)| *series == index);
        let met: Vec<bool> = met.map(|(_, is_met)| *is_met).collect();
        let found = met.iter().filter(|it| **it).count() as u64;
        assert!(found > 0 || count.start == 0, "{on:?} is never struck");
        let is_all = met.len() as u64 == count.end;
        let is_covered = count.contains(&found) || polls && found == count.end;
        assert!(!is_all || is_covered, "{on:?}: {met:?}");
    }
}

/// Lives that are struck.
struct Struck<'s, L> {
    blow: Blow,
    series: &'s [Series],
    places: Vec<Place>,
    lives: Vec<L>,
    proxy: Proxy,
}

impl<L: Life> Struck<'_, L> {
    /// Returns of each life in which series it was to be struck, and whether it was.
    async fn live(&self, mut operator: Operator) -> Vec<(usize, bool)> {
        let (lives, kills) = (self.lives.iter(), self.blow.kills());
        self.set_rules();
        join_all(lives.clone().map(L::begins)).await;
        self.go_on(true).await;
        let hits = self.hits();
        if kills {
            operator.kill();
        }
        join_all(lives.clone().map(|life| life.meanwhile(self.blow))).await;
        if self.blow == Blow::Unobserved {
            eventually("the world has gone on", async || {
                let rest = lives.clone().all(L::rests);
                rest.then_some(()).ok_or_else(String::new)
            })
            .await;
        }
        let proxies = lives.clone().filter_map(L::proxy).chain([&self.proxy]);
        proxies.for_each(|proxy| proxy.set_rules(&[]));
        if kills {
            operator.restart();
            operator.ready().await;
        }
        self.go_on(false).await;
        join_all(lives.map(L::ends)).await;
        let met = self.places.iter().zip(hits);
        met.map(|(place, hits)| (place.series, self.blow.struck(&hits)))
            .collect()
    }

    fn set_rules(&self) {
        let mut all = Vec::new();
        for (life, place) in self.lives.iter().zip(&self.places) {
            let (on, _) = &self.series[place.series];
            let mut rules = self.blow.rules(on, place.number);
            if let Some(own) = life.proxy() {
                own.set_rules(&rules);
                continue;
            }
            for rule in &mut rules {
                let path = &mut rule.on.path;
                *path = format!("/namespaces/{}/{path}", place.scene.namespace);
            }
            all.extend(rules);
        }
        self.proxy.set_rules(&all);
    }

    /// How often the rules of each life were applied.
    fn hits(&self) -> Vec<Vec<u64>> {
        let common = self.proxy.hits();
        let mut common = common.chunks((common.len() / self.lives.len()).max(1));
        let hits = |life: &L| match life.proxy() {
            Some(own) => own.hits(),
            None => common.next().unwrap().to_vec(),
        };
        self.lives.iter().map(hits).collect()
    }

    /// Waits until each life is over, or is stopped while there are rules.
    async fn go_on(&self, has_rules: bool) {
        eventually_within("all lives are over", PATIENCE * 2, async || {
            let hits = if has_rules { self.hits() } else { Vec::new() };
            let mut open = Vec::new();
            for (index, life) in self.lives.iter().enumerate() {
                let is_stopped = hits.get(index).is_some_and(|hits| self.blow.stops(hits));
                if !is_stopped && let Err(now) = life.goes_on().await {
                    let name = &self.places[index].scene.namespace;
                    open.push(format!("{name} {:?}: {now}", hits.get(index)));
                }
            }
            open.is_empty().then_some(()).ok_or_else(|| open.join("\n"))
        })
        .await;
    }
}
