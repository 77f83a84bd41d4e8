//! What was read of owners lately. Many pods of one owner arrive together: one of them asks, and the others wait for its answer.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use podloom_turns::lock;
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// How long it counts which labels an owner needs. Most selectors never change, so what was known also counts while the API server
/// does not answer.
const KNOWN: Duration = Duration::from_secs(60);
/// How long it counts that there is no such owner.
const ABSENT: Duration = Duration::from_secs(2);
/// How long nobody asks again after a failure.
const FAILED: Duration = Duration::from_secs(1);
/// How many owners are remembered at least. At twice as many, half of them are forgotten.
const OWNERS: usize = 1024;
/// How many bytes the keys of one owner may take to be remembered.
const BYTES: usize = 2048;
/// What each key takes besides its text.
const KEY: usize = 32;

/// The keys of the labels that an owner needs.
pub(crate) type Found = Arc<[String]>;
/// None if there is no such owner; the error says why it is not known.
type Answer = Result<Option<Found>, String>;
type Cell = Arc<Place>;

/// What is known of an owner.
#[derive(Default)]
struct Place {
    /// The answer, and how long it counts.
    now: OnceCell<(Answer, Instant)>,
    /// What counted before.
    before: Option<Found>,
}

/// Answers about owners.
#[derive(Default)]
pub(super) struct Cache(Mutex<Generations>);

/// Those that were asked for lately are in the new one.
#[derive(Default)]
struct Generations {
    new: HashMap<String, Cell>,
    old: HashMap<String, Cell>,
}

impl Cache {
    /// Returns the answer about an owner. Asks if it is not known, unless somebody else does so already.
    pub(super) async fn get(&self, owner: String, ask: impl AsyncFnOnce() -> Answer) -> Answer {
        let cell = self.cell(&owner);
        let asked = async || {
            let known = |why| cell.before.clone().map(Some).ok_or(why);
            kept(ask().await.or_else(known))
        };
        // If who asks goes away, another one that waits here asks.
        let (answer, until) = cell.now.get_or_init(asked).await;
        if *until <= Instant::now() {
            self.generations().new.remove(&owner);
        }
        answer.clone()
    }

    /// Whether nobody needs to ask about an owner.
    pub(super) fn knows(&self, owner: &str) -> bool {
        let Generations { new, old } = &*self.generations();
        let cell = new.get(owner).or_else(|| old.get(owner));
        let answer = cell.and_then(|cell| cell.now.get());
        answer.is_some_and(|(_, until)| Instant::now() < *until)
    }

    /// What was known of an owner last.
    pub(super) fn last(&self, owner: &str) -> Option<Found> {
        let Generations { new, old } = &*self.generations();
        let cell = new.get(owner).or_else(|| old.get(owner))?;
        match cell.now.get() {
            Some((answer, _)) => answer.clone().ok().flatten(),
            None => cell.before.clone(),
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let generations = self.generations();
        generations.new.len() + generations.old.len()
    }

    fn generations(&self) -> MutexGuard<'_, Generations> {
        lock(&self.0)
    }

    fn cell(&self, owner: &str) -> Cell {
        let Generations { new, old } = &mut *self.generations();
        let now = Instant::now();
        let known = new.remove(owner).or_else(|| old.remove(owner));
        let known = known.unwrap_or_default();
        let cell = match known.now.get() {
            Some((answer, until)) if *until <= now => Arc::new(Place {
                before: answer.clone().ok().flatten(),
                ..Place::default()
            }),
            _ => known,
        };
        if new.len() >= OWNERS {
            *old = mem::take(new);
        }
        new.insert(owner.to_owned(), Arc::clone(&cell));
        cell
    }
}

/// An answer, and how long it counts.
fn kept(answer: Answer) -> (Answer, Instant) {
    let time = match &answer {
        Ok(Some(labels)) => {
            let bytes: usize = labels.iter().map(|key| key.len() + KEY).sum();
            if bytes <= BYTES {
                KNOWN
            } else {
                Duration::ZERO
            }
        }
        Ok(None) => ABSENT,
        Err(_) => FAILED,
    };
    (answer, Instant::now() + time)
}
