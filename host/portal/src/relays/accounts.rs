//! On whose account a relay is looked at, and which relays wait. Any user can name relays, so no namespace gets more than its share of
//! the looks: what it names beyond that waits in a line of its own. No I/O.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::authority::Authority;

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

#[cfg(test)]
mod tests;
