//! Who is next. Pure: the time is an argument.
//!
//! - **How many turns.** A tenant has at most as many turns as it leaves free: half of all if it is alone, a third each if there are
//!   two. So there is nearly always a free turn for one who comes, and nothing that runs has to be interrupted for it.
//! - **In which order.** As they came; but a tenant, and its group, counts as having come later by the time that its turns took, times
//!   the number of those that share them. So those with long turns have fewer of them, and nobody waits for ever: each has a place in
//!   time, and whoever comes after that is served after it.
//! - **How many wait.** If there are too many, the newest of the tenant with the most leaves, of the group with the most.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use crate::{Key, Limits};

/// How much later one counts at most as having come: so much longer than others it waits at most.
const LATEST: Duration = Duration::from_secs(10);
/// Tenants that want nothing any more are forgotten when there are so many, and then twice as many as were left.
const FORGET_AT: usize = 64;

/// All turns, and who waits for one.
pub(crate) struct Line<G, T, W> {
    limits: Limits,
    /// The sum over all groups.
    all: Use,
    groups: HashMap<G, Use>,
    tenants: HashMap<(G, T), Tenant<W>>,
    next_number: u64,
    forget_at: usize,
}

/// What a group or a tenant has, and what it waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Use {
    taken: usize,
    waiting: usize,
    /// Whoever came before counts as having come then.
    counts_from: Option<Instant>,
}

struct Tenant<W> {
    of: Use,
    /// As they came.
    line: VecDeque<Waiting<W>>,
}

struct Waiting<W> {
    came: Instant,
    number: u64,
    who: W,
}

/// What becomes of one who asks for a turn.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Granted,
    /// With the number of its place.
    Waits(u64),
    Refused,
}

impl Use {
    fn is_there(&self) -> bool {
        self.taken > 0 || self.waiting > 0
    }

    fn is_forgotten(&self, now: Instant) -> bool {
        !self.is_there() && self.counts_from.is_none_or(|from| from <= now)
    }

    fn charge(&mut self, spent: Duration, sharing: usize, now: Instant) {
        let sharing = u32::try_from(sharing).unwrap_or(u32::MAX);
        let behind = self
            .counts_from
            .map_or(Duration::ZERO, |from| from.saturating_duration_since(now));
        let behind = behind.saturating_add(spent.saturating_mul(sharing));
        self.counts_from = Some(now + behind.min(LATEST));
    }
}

impl<W> Default for Tenant<W> {
    fn default() -> Self {
        Self {
            of: Use::default(),
            line: VecDeque::new(),
        }
    }
}

impl<G: Key, T: Key, W> Line<G, T, W> {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            all: Use::default(),
            groups: HashMap::new(),
            tenants: HashMap::new(),
            next_number: 0,
            forget_at: FORGET_AT,
        }
    }

    /// Asks for a turn.
    pub(crate) fn ask(&mut self, key: &(G, T), who: W, now: Instant) -> Asked {
        self.forget(now);
        if self.all.waiting == 0 && self.may_take(key) {
            self.change(key, |of| of.taken += 1);
            return Asked::Granted;
        }
        if self.all.waiting >= self.limits.waiting && !self.make_room(key) {
            return Asked::Refused;
        }
        let of = self.tenants.entry(key.clone()).or_default();
        if of.line.len() >= self.limits.waiting.div_ceil(2) {
            return Asked::Refused;
        }
        let number = self.next_number;
        self.next_number += 1;
        of.line.push_back(Waiting {
            came: now,
            number,
            who,
        });
        self.change(key, |of| of.waiting += 1);
        Asked::Waits(number)
    }

    /// Gives a turn to the next who may have one.
    pub(crate) fn next(&mut self) -> Option<((G, T), W)> {
        if self.all.waiting == 0 || self.all.taken >= self.limits.turns.max(1) {
            return None;
        }
        let able = self.tenants.iter().filter_map(|(key, tenant)| {
            let first = tenant.line.front()?;
            let came = Some(first.came).max(tenant.of.counts_from);
            let group = self.groups.get(&key.0)?;
            // A tenant is late if its group is. Of those that are late with their group, the one that is first by itself.
            let rank = (came.max(group.counts_from), came, first.number);
            self.may_take(key).then_some((rank, key))
        });
        let (_, key) = able.min_by_key(|(rank, _)| *rank)?;
        let key = key.clone();
        let first = self.tenants.get_mut(&key)?.line.pop_front()?;
        self.change(&key, |of| {
            of.waiting -= 1;
            of.taken += 1;
        });
        Some((key, first.who))
    }

    /// Reports the end of a turn that took so long.
    pub(crate) fn end(&mut self, key: &(G, T), spent: Duration, now: Instant) {
        let are_there =
            |all: &mut dyn Iterator<Item = &Use>| all.filter(|of| of.is_there()).count();
        let groups = are_there(&mut self.groups.values());
        let of_group = self
            .tenants
            .iter()
            .filter(|((group, _), _)| *group == key.0);
        let tenants = are_there(&mut of_group.map(|(_, tenant)| &tenant.of));
        self.change(key, |of| of.taken -= 1);
        if let Some(group) = self.groups.get_mut(&key.0) {
            group.charge(spent, groups, now);
        }
        if let Some(tenant) = self.tenants.get_mut(key) {
            tenant.of.charge(spent, tenants, now);
        }
    }

    /// One who waits leaves, if it did not get its turn before.
    pub(crate) fn leave(&mut self, key: &(G, T), number: u64) {
        let Some(tenant) = self.tenants.get_mut(key) else {
            return;
        };
        let place = tenant.line.binary_search_by_key(&number, |of| of.number);
        if let Ok(at) = place {
            tenant.line.remove(at);
            self.change(key, |of| of.waiting -= 1);
        }
    }

    /// Whether a tenant has fewer turns than it leaves free, and its group too if another one is there. What is kept for other groups is
    /// not free for it, unless its group has none yet.
    fn may_take(&self, key: &(G, T)) -> bool {
        let of_group = self.groups.get(&key.0).map_or(0, |group| group.taken);
        let of_tenant = self.tenants.get(key).map_or(0, |tenant| tenant.of.taken);
        let free = self.limits.turns.max(1).saturating_sub(self.all.taken);
        let free = match of_group {
            0 => free,
            _ => free.saturating_sub(self.limits.kept),
        };
        let mut groups = self.groups.iter();
        let is_shared = groups.any(|(group, of)| *group != key.0 && of.is_there());
        of_tenant < free && !(is_shared && of_group >= free)
    }

    /// Lets the newest of the longest line leave. Returns false if that is the one who asks.
    fn make_room(&mut self, asks: &(G, T)) -> bool {
        let of_group = |group: &G| self.groups.get(group).map_or(0, |of| of.waiting);
        let own = self.tenants.get(asks).map_or(0, |of| of.line.len());
        let own = (of_group(&asks.0) + 1, own + 1);
        let others = self.tenants.iter().filter(|(key, _)| *key != asks);
        let lengths = others.map(|(key, tenant)| {
            let asker_too = usize::from(key.0 == asks.0);
            ((of_group(&key.0) + asker_too, tenant.line.len()), key)
        });
        let waiting = lengths.filter(|((_, length), _)| *length > 0);
        let longest = waiting.max_by_key(|(length, _)| *length);
        let Some((_, longest)) = longest.filter(|(length, _)| *length > own) else {
            return false;
        };
        let longest = longest.clone();
        let newest = self.tenants.get_mut(&longest).map(|of| of.line.pop_back());
        if newest.flatten().is_some() {
            self.change(&longest, |of| of.waiting -= 1);
        }
        true
    }

    fn change(&mut self, key: &(G, T), change: impl Fn(&mut Use)) {
        change(&mut self.all);
        change(self.groups.entry(key.0.clone()).or_default());
        change(&mut self.tenants.entry(key.clone()).or_default().of);
    }

    /// Forgets tenants and groups that want nothing and owe nothing. Now and then, so that it costs little for each turn.
    fn forget(&mut self, now: Instant) {
        if self.tenants.len() < self.forget_at {
            return;
        }
        self.tenants
            .retain(|_, tenant| !tenant.of.is_forgotten(now));
        self.groups.retain(|_, group| !group.is_forgotten(now));
        self.forget_at = FORGET_AT.max(self.tenants.len() * 2);
    }
}

#[cfg(test)]
mod tests;
