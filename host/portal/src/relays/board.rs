//! Who wants to know what of which relay, and what is known. No I/O; the times are passed in.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use podloom_turns::lock;
use tokio::time::Instant;

use super::answer::{Answer, Link, Trouble};
use super::{Lease, Observation, UserId};
use crate::check::Authority;

/// The bounds of the interval, so that a loop cannot spin, and times cannot overflow.
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_hours(24);
/// How often an error that comes, goes or changes is shown while the rest stays as it is, unless the interval is shorter.
const ERROR_PAUSE: Duration = Duration::from_secs(30);

/// What all PortalExposes want to know, and the results.
pub(super) struct Board {
    observation: Observation,
    interval: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    relays: HashMap<Authority, Relay>,
    /// The relays of each PortalExpose.
    users: HashMap<UserId, BTreeSet<Authority>>,
    accounts: Accounts,
}

/// A relay that at least one PortalExpose wants to know about.
#[derive(Default)]
struct Relay {
    wishes: BTreeMap<UserId, BTreeMap<String, Wish>>,
    schedule: Schedule,
    /// How often it was asked, to give each namespace its turn.
    looks: usize,
}

/// One hostname that a PortalExpose wants to know about, and what is known.
struct Wish {
    has_ready_pod: bool,
    link: Link,
    /// What is shown of it, and when an error alone was shown last.
    shown: Link,
    error_shown: Option<Instant>,
    /// While the tunnel has a ready pod and lacks its lease.
    lacking: Episode,
    /// When it was answered last.
    answered: Option<Instant>,
}

/// What to do about a relay now.
#[derive(Debug)]
pub(super) enum Step {
    /// No tunnel has a ready pod, so there is nothing to ask about. A hint comes when one has.
    Rest,
    /// The namespaces of its users have as many looks as they may have. A hint comes when it is the relay's turn.
    Queue,
    Wait(Duration),
    Ask(Question),
}

/// What to ask a relay.
#[derive(Debug)]
pub(super) struct Question {
    /// The namespace on whose account the look is, and the relay's name is looked up. Those of its users with a ready pod take turns: if
    /// name servers hang for one of them, the others still get their results. Give the account back with [`Board::end`].
    pub(super) tenant: String,
    /// The hostnames of tunnels with a ready pod.
    pub(super) hostnames: BTreeSet<String>,
    /// Those to ask about if each takes a request of its own: not those that were answered a moment ago. The longest unanswered are
    /// first.
    pub(super) due: Vec<String>,
}

/// What a look at a relay found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// Answers about hostnames; one that is missing was not asked about.
    Answers(BTreeMap<String, Answer>),
    /// No usable answer at all.
    Trouble(Trouble),
    /// The relay was not asked, since too many other requests are running.
    Busy,
}

impl Board {
    pub(super) fn new(observation: Observation, interval: Duration) -> Self {
        Self {
            observation,
            interval: interval.clamp(SHORTEST, LONGEST),
            state: Mutex::default(),
        }
    }

    /// Replaces what a PortalExpose wants to know. Returns the relays that may be due earlier or are wanted by nobody any more.
    pub(super) fn set(
        &self,
        user: &UserId,
        leases: Vec<Lease>,
        date: Timestamp,
        now: Instant,
    ) -> BTreeSet<Authority> {
        let mut state = self.state();
        let mut wanted: BTreeMap<Authority, BTreeMap<String, Lease>> = BTreeMap::new();
        for lease in leases {
            let of_relay = wanted.entry(lease.authority.clone()).or_default();
            of_relay.insert(lease.hostname.clone(), lease);
        }
        let relays: BTreeSet<Authority> = wanted.keys().cloned().collect();
        let before = match relays.is_empty() {
            true => state.users.remove(user),
            false => state.users.insert(user.clone(), relays),
        };
        let mut changed = BTreeSet::new();
        for authority in before.unwrap_or_default() {
            if !wanted.contains_key(&authority) && state.leave(&authority, user) {
                changed.insert(authority);
            }
        }
        for (authority, leases) in wanted {
            let relay = state.relays.entry(authority.clone()).or_default();
            let wishes = relay.wishes.entry(user.clone()).or_default();
            wishes.retain(|hostname, _| leases.contains_key(hostname));
            for (hostname, lease) in leases {
                let old = wishes.remove(&hostname);
                let (wish, is_news) = self.wish(old, lease, date, now);
                wishes.insert(hostname, wish);
                if is_news {
                    changed.insert(authority.clone());
                }
            }
        }
        changed
    }

    /// Returns what is known of a hostname that a PortalExpose wants to know about.
    pub(super) fn link(
        &self,
        user: &UserId,
        authority: &Authority,
        hostname: &str,
    ) -> Option<Link> {
        let state = self.state();
        let wishes = state.relays.get(authority)?.wishes.get(user)?;
        Some(wishes.get(hostname)?.shown.clone())
    }

    /// Returns the relays that somebody wants to know about.
    pub(super) fn wanted(&self) -> Vec<Authority> {
        self.state().relays.keys().cloned().collect()
    }

    /// Returns whether somebody wants to know about a relay.
    pub(super) fn is_wanted(&self, authority: &Authority) -> bool {
        self.state().relays.contains_key(authority)
    }

    /// Returns what to do about a relay; none if nobody wants to know about it.
    pub(super) fn step(&self, authority: &Authority, now: Instant) -> Option<Step> {
        let mut state = self.state();
        let State {
            relays, accounts, ..
        } = &mut *state;
        let relay = relays.get_mut(authority)?;
        let namespaces = relay.namespaces();
        if namespaces.is_empty() {
            accounts.leave(authority);
            return Some(Step::Rest);
        }
        let wait = relay.wait(self.interval, now);
        if !wait.is_zero() {
            accounts.leave(authority);
            return Some(Step::Wait(wait));
        }
        let Some(tenant) = accounts.begin(authority, &namespaces) else {
            return Some(Step::Queue);
        };
        let question = relay.question(tenant.to_owned(), self.interval, now);
        relay.looks = relay.looks.wrapping_add(1);
        Some(Step::Ask(question))
    }

    /// Ends a look on the account of a namespace.
    pub(super) fn end(&self, tenant: &str) {
        self.state().accounts.end(tenant);
    }

    /// Returns the relays whose turn it is now, though they wait.
    pub(super) fn called(&self) -> BTreeSet<Authority> {
        self.state().accounts.called()
    }

    /// Records what a look at a relay found, and returns the PortalExposes for which a result changed, and how long to wait for the
    /// next look; none if nobody wants to know about the relay any more. The random number is from 0 to 1.
    pub(super) fn record(
        &self,
        authority: &Authority,
        finding: &Finding,
        random: f64,
        (date, now): (Timestamp, Instant),
    ) -> Option<(Vec<UserId>, Duration)> {
        let mut state = self.state();
        let relay = state.relays.get_mut(authority)?;
        relay.schedule.looked(finding, random, now);
        let mut changed = Vec::new();
        for (user, wishes) in &mut relay.wishes {
            let mut is_changed = false;
            for (hostname, wish) in wishes.iter_mut() {
                wish.learn(hostname, finding, date, now);
                is_changed |= wish.show(ERROR_PAUSE.min(self.interval), now);
            }
            if is_changed {
                changed.push(user.clone());
            }
        }
        Some((changed, relay.wait(self.interval, now)))
    }

    /// Returns the wish for a lease, and whether the relay may be due earlier because of it.
    fn wish(&self, old: Option<Wish>, lease: Lease, date: Timestamp, now: Instant) -> (Wish, bool) {
        let had_ready_pod = old.as_ref().map(|old| old.has_ready_pod);
        let is_news = had_ready_pod != Some(lease.has_ready_pod);
        let mut wish = old.unwrap_or_else(|| Wish {
            has_ready_pod: false,
            link: lease.last_known.unwrap_or_default(),
            shown: Link::default(),
            error_shown: None,
            lacking: Episode::default(),
            answered: None,
        });
        wish.has_ready_pod = lease.has_ready_pod;
        let link = std::mem::take(&mut wish.link);
        wish.link = match (lease.has_ready_pod, self.observation) {
            (false, _) => Link::without_pod(),
            (true, Observation::Assume) => link.connected(date),
            (true, Observation::Poll) => link.with_pod(),
        };
        if !wish.has_ready_pod {
            wish.lacking.end(now);
        } else if is_news && !wish.link.is_connected() {
            wish.lacking.start(now);
        }
        if is_news {
            wish.shown = wish.link.clone();
        }
        (wish, is_news)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// Removes a PortalExpose from a relay. Returns whether nobody else wants to know about the relay, which is then forgotten.
    fn leave(&mut self, authority: &Authority, user: &UserId) -> bool {
        let Entry::Occupied(mut relay) = self.relays.entry(authority.clone()) else {
            return false;
        };
        relay.get_mut().wishes.remove(user);
        let is_last = relay.get().wishes.is_empty();
        if is_last {
            relay.remove();
            self.accounts.leave(authority);
        }
        is_last
    }
}

impl Relay {
    /// How long until it is due.
    fn wait(&self, interval: Duration, now: Instant) -> Duration {
        let soon = self.all().any(|(_, wish)| wish.lacking.is_urgent(now));
        let due = self.schedule.due(interval, soon, now);
        due.saturating_duration_since(now)
    }

    /// The namespaces of the tunnels with a ready pod, beginning with the one whose turn it is.
    fn namespaces(&self) -> Vec<&str> {
        let users = self.wishes.iter();
        let ready = users.filter(|(_, wishes)| wishes.values().any(|wish| wish.has_ready_pod));
        let mut namespaces: Vec<&str> = ready.map(|(user, _)| user.namespace.as_str()).collect();
        // The users are sorted by namespace.
        namespaces.dedup();
        let turn = self.looks.checked_rem(namespaces.len()).unwrap_or_default();
        namespaces.rotate_left(turn);
        namespaces
    }

    fn question(&self, tenant: String, interval: Duration, now: Instant) -> Question {
        // The pause is an interval less a tenth at least.
        let old = interval.mul_f64(0.8);
        let ready = self.all().filter(|(_, wish)| wish.has_ready_pod);
        let hostnames = ready.clone().map(|(hostname, _)| hostname.to_owned());
        let due = ready.filter(|(_, wish)| {
            let age = wish.answered.map(|at| now.saturating_duration_since(at));
            wish.lacking.is_urgent(now) || age.is_none_or(|age| age >= old)
        });
        let mut due: Vec<_> = due
            .map(|(hostname, wish)| (wish.answered, hostname))
            .collect();
        due.sort_unstable();
        let mut seen = BTreeSet::new();
        due.retain(|(_, hostname)| seen.insert(*hostname));
        Question {
            tenant,
            hostnames: hostnames.collect(),
            due: due.iter().map(|(_, it)| (*it).to_owned()).collect(),
        }
    }

    fn all(&self) -> impl Iterator<Item = (&str, &Wish)> + Clone {
        let wishes = self.wishes.values().flatten();
        wishes.map(|(hostname, wish)| (hostname.as_str(), wish))
    }
}

impl Wish {
    /// Records what a look found about this hostname.
    fn learn(&mut self, hostname: &str, finding: &Finding, date: Timestamp, now: Instant) {
        let answer = match finding {
            _ if !self.has_ready_pod => return,
            Finding::Busy => return,
            Finding::Answers(answers) => match answers.get(hostname) {
                Some(answer) => answer.clone(),
                None => return,
            },
            Finding::Trouble(trouble) => Answer::Unusable(trouble.clone()),
        };
        // While a relay is away, its own pauses count. When it is back, it is asked about all hostnames, and an episode starts afresh.
        let is_away = matches!(finding, Finding::Trouble(_));
        self.answered = (!is_away).then_some(now);
        if is_away || answer == Answer::Ready {
            self.lacking.end(now);
        } else {
            self.lacking.start(now);
        }
        self.link = std::mem::take(&mut self.link).after(&answer, date);
    }

    /// Shows what is known. Returns whether the status looks different now. A look that comes too early to show an error alone leaves it
    /// to a later one.
    fn show(&mut self, pause: Duration, now: Instant) -> bool {
        if self.link.is_state_of(&self.shown) {
            if self.link.last_error == self.shown.last_error {
                return false;
            }
            let age = self.error_shown.map(|at| now.saturating_duration_since(at));
            if age.is_some_and(|age| age < pause) {
                return false;
            }
            self.error_shown = Some(now);
        }
        self.shown = self.link.clone();
        true
    }
}

// On whose account a relay is looked at, and which relays wait. Any user can name relays, so no namespace gets more than its share of
// the looks: what it names beyond that waits in a line of its own. No I/O.

/// How many looks run at once on the account of one namespace: a quarter of all.
pub(super) const LOOKS_PER_NAMESPACE: usize = 2;

/// The accounts of all namespaces with a look or a line.
#[derive(Default)]
pub(super) struct Accounts(HashMap<String, Account>);

#[derive(Default)]
struct Account {
    /// How many looks run.
    running: usize,
    /// The relays that wait, the first comer first.
    line: VecDeque<Authority>,
}

impl Account {
    /// Whether it is the relay's turn. Those before it in the line come first.
    fn has_room(&self, relay: &Authority) -> bool {
        let ahead = self.line.iter().take_while(|it| *it != relay).count();
        self.running + ahead < LOOKS_PER_NAMESPACE
    }
}

impl Accounts {
    /// Begins a look on the account of the first of these namespaces that has room, and returns it. If none has, the relay waits in the
    /// lines of all of them.
    pub(super) fn begin<'a>(
        &mut self,
        relay: &Authority,
        namespaces: &[&'a str],
    ) -> Option<&'a str> {
        let has_room = |namespace: &&'a str| {
            let account = self.0.get(*namespace);
            account.is_none_or(|account| account.has_room(relay))
        };
        let payer = namespaces.iter().copied().find(has_room);
        match payer {
            Some(payer) => {
                self.leave(relay);
                self.0.entry(payer.to_owned()).or_default().running += 1;
            }
            None => {
                for namespace in namespaces {
                    let account = self.0.entry((*namespace).to_owned()).or_default();
                    if !account.line.contains(relay) {
                        account.line.push_back(relay.clone());
                    }
                }
            }
        }
        payer
    }

    /// Ends a look on the account of a namespace.
    pub(super) fn end(&mut self, namespace: &str) {
        if let Some(account) = self.0.get_mut(namespace) {
            account.running = account.running.saturating_sub(1);
        }
        self.tidy();
    }

    /// The relay waits no more.
    pub(super) fn leave(&mut self, relay: &Authority) {
        for account in self.0.values_mut() {
            account.line.retain(|it| it != relay);
        }
        self.tidy();
    }

    /// Returns the relays that wait though there is room for them now.
    pub(super) fn called(&self) -> BTreeSet<Authority> {
        let firsts = self.0.values().flat_map(|account| {
            let room = LOOKS_PER_NAMESPACE.saturating_sub(account.running);
            account.line.iter().take(room)
        });
        firsts.cloned().collect()
    }

    fn tidy(&mut self) {
        self.0
            .retain(|_, account| account.running > 0 || !account.line.is_empty());
    }
}

// When a relay is to be asked. Pure: every call passes the current time, and the random number where one is needed.

/// The pause while a tunnel that could be connected is not.
const SOON: Duration = Duration::from_secs(2);
/// How long a tunnel is waited for so impatiently, all its episodes together.
const BUDGET: Duration = Duration::from_mins(2);
/// After so long without impatience the whole budget is there again. A relay that gives and takes a lease all the time costs no more.
const RENEWAL: Duration = Duration::from_mins(15);
/// The pause after the first look without a usable answer; it doubles with each further one.
const BACKOFF_FIRST: Duration = Duration::from_secs(1);
/// The longest such pause.
const BACKOFF_LONGEST: Duration = Duration::from_mins(1);
/// The pause if there was no room for the request.
const BUSY: Duration = Duration::from_secs(1);

/// When a relay was asked last, and how long to wait after that.
#[derive(Clone, Debug, Default)]
pub(super) struct Schedule {
    last: Option<(Instant, Pause)>,
}

#[derive(Clone, Copy, Debug)]
enum Pause {
    /// The interval times this factor.
    Interval(f64),
    /// After so many looks in a row without a usable answer.
    Backoff(u32),
    /// After `Busy`, with the looks without a usable answer before it.
    Busy(u32),
}

impl Schedule {
    /// Returns when the relay is due; `soon` says whether a tunnel is waited for.
    pub(super) fn due(&self, interval: Duration, soon: bool, now: Instant) -> Instant {
        let Some((last, pause)) = self.last else {
            return now;
        };
        last + match pause {
            Pause::Interval(_) if soon => SOON.min(interval),
            Pause::Interval(factor) => interval.mul_f64(factor),
            Pause::Backoff(failures) => backoff(failures),
            Pause::Busy(_) => BUSY,
        }
    }

    /// Records a look that has just ended. The random number is from 0 to 1.
    pub(super) fn looked(&mut self, finding: &Finding, random: f64, now: Instant) {
        let failures = match self.last {
            Some((_, Pause::Backoff(failures) | Pause::Busy(failures))) => failures,
            Some((_, Pause::Interval(_))) | None => 0,
        };
        let pause = match finding {
            Finding::Answers(_) => Pause::Interval(0.9 + 0.2 * random),
            Finding::Trouble(_) => Pause::Backoff(failures.saturating_add(1)),
            Finding::Busy => Pause::Busy(failures),
        };
        self.last = Some((now, pause));
    }
}

/// The pause after so many looks in a row without a usable answer, which are at least one.
fn backoff(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1);
    BACKOFF_FIRST
        .saturating_mul(2_u32.saturating_pow(doublings))
        .min(BACKOFF_LONGEST)
}

/// The time in which a tunnel with a ready pod lacks its lease, and what is left of the budget for such times.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Episode {
    since: Option<Instant>,
    /// What earlier episodes have spent of the budget, and until when.
    spent: Duration,
    until: Option<Instant>,
}

impl Episode {
    /// The tunnel lacks its lease; the episode starts now unless it has started.
    pub(super) fn start(&mut self, now: Instant) {
        if self.since.is_some() {
            return;
        }
        self.since = Some(now);
        let pause = self.until.map(|until| now.saturating_duration_since(until));
        if pause.is_some_and(|pause| pause >= RENEWAL) {
            self.spent = Duration::ZERO;
        }
    }

    /// The tunnel has its lease, or has no pod that could get one, or nobody knows.
    pub(super) fn end(&mut self, now: Instant) {
        let Some(since) = self.since.take() else {
            return;
        };
        let urgent = now.saturating_duration_since(since).min(self.left());
        if !urgent.is_zero() {
            self.spent += urgent;
            self.until = Some(since + urgent);
        }
    }

    /// Whether the relay is asked about the tunnel soon.
    pub(super) fn is_urgent(self, now: Instant) -> bool {
        self.since
            .is_some_and(|since| now.saturating_duration_since(since) < self.left())
    }

    fn left(self) -> Duration {
        BUDGET.saturating_sub(self.spent)
    }
}

#[cfg(test)]
mod tests;
