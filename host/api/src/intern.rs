//! Parts of objects that thousands of them have alike, kept in memory once.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

/// How many different values an interner knows at most. If there are more, it knows those that most objects hold, so that nobody
/// keeps others from sharing by inventing values.
const MOST: usize = 256;

/// Values of a type that something holds, each once.
///
/// ```
/// use std::sync::Arc;
///
/// use podloom_api::intern::Interner;
///
/// static NAMES: Interner<String> = Interner::new();
///
/// let [one, other] = ["chrome", "chrome"].map(|name| NAMES.intern(name.to_owned()));
/// assert!(Arc::ptr_eq(&one, &other));
/// ```
#[derive(Debug)]
pub struct Interner<T> {
    /// The values by their hash.
    known: LazyLock<Mutex<HashMap<u64, Weak<T>>>>,
    hasher: LazyLock<RandomState>,
}

impl<T: Eq + Hash> Interner<T> {
    /// Knows nothing yet.
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        Self {
            known: LazyLock::new(Mutex::default),
            hasher: LazyLock::new(RandomState::new),
        }
    }

    /// Returns this value, in the memory of an equal one if something holds such a value.
    pub fn intern(&self, value: T) -> Arc<T> {
        let hash = self.hasher.hash_one(&value);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let same = known.get(&hash).and_then(Weak::upgrade);
        if let Some(same) = same.filter(|same| **same == value) {
            return same;
        }
        if known.len() >= MOST {
            let rarest = known.iter().min_by_key(|(_, it)| it.strong_count());
            let rarest = rarest.map(|(hash, _)| *hash);
            known.remove(&rarest.unwrap_or_default());
        }
        let first = Arc::new(value);
        known.insert(hash, Arc::downgrade(&first));
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_kept_once() {
        let interner = Interner::new();
        let one = interner.intern(1);
        assert!(Arc::ptr_eq(&one, &interner.intern(1)));
        assert!(!Arc::ptr_eq(&one, &interner.intern(2)));
    }

    #[test]
    fn many_values_displace_only_what_few_objects_hold() {
        let interner = Interner::new();
        let popular = [(); 2].map(|()| interner.intern(0));
        let invented: Vec<_> = (1..=2 * MOST).map(|it| interner.intern(it)).collect();
        assert!(interner.known.lock().unwrap().len() <= MOST);
        assert!(Arc::ptr_eq(&popular[0], &interner.intern(0)));
        drop(invented);
        let late = interner.intern(1);
        assert!(Arc::ptr_eq(&late, &interner.intern(1)));
    }
}
