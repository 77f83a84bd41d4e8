//! How much memory the objects that are being looked at may take together. Whoever fills a namespace with large objects must not be able
//! to stop the operator.
//!
//! There is no queue: a look that finds no room is made again later, and holds nothing until then.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use podloom_turns::lock;
use tokio::sync::{Semaphore, SemaphorePermit};

/// All looks together, in bytes.
const TOTAL: usize = 512 << 20;
/// Those for Cleaners of one namespace, so that none can keep the others out.
const OF_ONE_NAMESPACE: usize = TOTAL / 2;
/// How many long answers are read at once. Their text takes memory too, until it is parsed.
const LONG_ANSWERS: usize = 6;

/// How much memory objects may take. Cheap to clone; all clones share it.
#[derive(Clone)]
pub(super) struct Allowance {
    taken: Arc<Mutex<Taken>>,
    long: Arc<Semaphore>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    by_namespace: HashMap<Arc<str>, usize>,
}

/// What the objects of one target take, until it is dropped.
pub(super) struct Share {
    allowance: Allowance,
    namespace: Arc<str>,
    bytes: usize,
}

/// Why there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// This target alone takes too much.
    TooLarge,
    /// Others take it now.
    Taken,
}

impl Allowance {
    /// Returns one of which nothing is taken.
    pub(super) fn new() -> Self {
        Self {
            taken: Arc::default(),
            long: Arc::new(Semaphore::new(LONG_ANSWERS)),
        }
    }

    /// Returns an empty share for a target of a Cleaner in this namespace.
    pub(super) fn share(&self, namespace: &str) -> Share {
        Share {
            allowance: self.clone(),
            namespace: Arc::from(namespace),
            bytes: 0,
        }
    }

    /// Waits until another long answer may be read.
    pub(super) async fn long_answer(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.long.acquire().await.ok()
    }
}

impl Share {
    /// Takes what a text will take once it is parsed.
    ///
    /// # Errors
    ///
    /// If there is not enough left.
    pub(super) fn grow(&mut self, text: &[u8]) -> Result<(), NoRoom> {
        self.take(weight(text))
    }

    fn take(&mut self, bytes: usize) -> Result<(), NoRoom> {
        if self.bytes + bytes > OF_ONE_NAMESPACE {
            return Err(NoRoom::TooLarge);
        }
        let mut taken = lock(&self.allowance.taken);
        let of_namespace = taken.by_namespace.get(&self.namespace);
        let of_namespace = of_namespace.copied().unwrap_or_default() + bytes;
        if taken.all + bytes > TOTAL || of_namespace > OF_ONE_NAMESPACE {
            return Err(NoRoom::Taken);
        }
        taken.all += bytes;
        taken
            .by_namespace
            .insert(Arc::clone(&self.namespace), of_namespace);
        drop(taken);
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = lock(&self.allowance.taken);
        taken.all -= self.bytes;
        if let Some(of_namespace) = taken.by_namespace.get_mut(&self.namespace) {
            *of_namespace -= self.bytes;
            if *of_namespace == 0 {
                taken.by_namespace.remove(&self.namespace);
            }
        }
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes)
    }
}

/// What an object takes says nothing about it.
impl PartialEq for Share {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// About what a JSON text takes once it is parsed, and once more for conditions. A map is a tree whose nodes have room for eleven fields
/// each, so one with a short field takes a hundred times its text.
fn weight(text: &[u8]) -> usize {
    // One pass for each character is faster than one that looks at each byte: such a pass compares many bytes at once.
    let count = |wanted: u8| text.iter().filter(|&&byte| byte == wanted).count();
    let weights = [(b'{', 704), (b'[', 128), (b',', 96), (b'"', 16)];
    let more = weights.map(|(byte, size)| size * count(byte));
    2 * text.len() + more.iter().sum::<usize>()
}

#[cfg(test)]
mod tests;
