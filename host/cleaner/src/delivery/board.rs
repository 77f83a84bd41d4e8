//! Which attempts run, what came of the last one of each Cleaner, and who waits for room. A state machine without I/O.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use podloom_turns::lock;

use super::attempt::{Attempt, AttemptState};
use super::step::Shot;
use crate::who::CleanerId;

/// How many attempts may run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// In all.
    pub(super) attempts: usize,
    /// Of Cleaners of one namespace.
    pub(super) per_namespace: usize,
}

/// All attempts.
pub(super) struct Board {
    room: Room,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By the UID of the Cleaner: at most one of each runs.
    running: HashMap<Arc<str>, Running>,
    /// Those that have ended, by UID.
    ended: HashMap<Arc<str>, Attempt>,
    /// Cleaners that found no room, the first one first; each once.
    waiting: VecDeque<CleanerId>,
}

struct Running {
    namespace: Arc<str>,
    attempt: Attempt,
}

/// Whether an attempt may begin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Begun {
    /// It has begun, or one runs already.
    Running(Attempt),
    /// There is no room. The Cleaner is woken when there may be.
    Full,
}

impl Board {
    pub(super) fn new(room: Room) -> Self {
        Self {
            room,
            state: Mutex::default(),
        }
    }

    /// Notes that an attempt begins, if none runs and there is room. Returns whether it is to be made, and what is known now.
    pub(super) fn begin(&self, id: &CleanerId, shot: &Shot) -> (bool, Begun) {
        let mut state = lock(&self.state);
        if let Some(running) = state.running.get(&id.uid) {
            return (false, Begun::Running(running.attempt.clone()));
        }
        if !state.has_room(self.room, &id.namespace) {
            if !state.waiting.contains(id) {
                state.waiting.push_back(id.clone());
            }
            return (false, Begun::Full);
        }
        let attempt = Attempt {
            number: shot.number,
            sink: shot.sink.clone(),
            failures: shot.failures,
            state: AttemptState::Running,
        };
        state.waiting.retain(|waiting| waiting != id);
        let running = Running {
            namespace: Arc::clone(&id.namespace),
            attempt: attempt.clone(),
        };
        state.running.insert(Arc::clone(&id.uid), running);
        (true, Begun::Running(attempt))
    }

    /// Notes what came of an attempt, unless the Cleaner was forgotten. Returns who is woken: that Cleaner, and the first one that waits
    /// and has room now.
    pub(super) fn end(
        &self,
        id: &CleanerId,
        state_of: impl FnOnce(&Attempt) -> Attempt,
    ) -> Vec<CleanerId> {
        let mut state = lock(&self.state);
        let mut woken = Vec::new();
        if let Some(Running { attempt, .. }) = state.running.remove(&id.uid) {
            let ended = state_of(&attempt);
            state.ended.insert(Arc::clone(&id.uid), ended);
            woken.push(id.clone());
        }
        let room = self.room;
        let mut waiting = state.waiting.iter();
        let next = waiting.position(|waiting| state.has_room(room, &waiting.namespace));
        woken.extend(next.and_then(|next| state.waiting.remove(next)));
        woken
    }

    /// Takes back that an attempt has begun: it was not made.
    pub(super) fn withdraw(&self, uid: &str) {
        lock(&self.state).running.remove(uid);
    }

    /// Returns the attempt that runs, or the last one that has ended.
    pub(super) fn attempt(&self, uid: &str) -> Option<Attempt> {
        let state = lock(&self.state);
        let running = state.running.get(uid).map(|running| &running.attempt);
        running.or_else(|| state.ended.get(uid)).cloned()
    }

    /// Forgets a Cleaner that is gone. What comes of an attempt that runs does not matter any more.
    pub(super) fn forget(&self, uid: &str) {
        let mut state = lock(&self.state);
        state.running.remove(uid);
        state.ended.remove(uid);
        state.waiting.retain(|waiting| &*waiting.uid != uid);
    }
}

impl State {
    fn has_room(&self, room: Room, namespace: &str) -> bool {
        let of_it = |running: &&Running| &*running.namespace == namespace;
        self.running.len() < room.attempts
            && self.running.values().filter(of_it).count() < room.per_namespace
    }
}

#[cfg(test)]
mod tests;
