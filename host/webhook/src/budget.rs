//! How much memory the requests that are being answered may take together, with answers that are not sent yet.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use memchr::memchr_iter;
use podloom_turns::lock;

/// The longest body. The API server takes objects of up to 3 MiB, and a review of an update has two.
pub(crate) const BODY_BYTES: usize = 8 << 20;
/// All requests together.
const TOTAL: usize = 128 << 20;
/// What each request takes, however short it is: buffers of its connection, a fresh sandbox.
const BASE: usize = 64 << 10;
/// How much more memory a body takes than its text while it arrives: the buffer grows by doubling.
const ARRIVING: usize = 2;
/// The most that one review takes, when nobody else wants anything.
const OF_ONE_REVIEW: usize = TOTAL / 4;

/// A budget for memory. There is no queue: what does not fit is refused at once, since the API server would wait in vain.
///
/// A peer takes at most as much as it leaves free: half of all if it is alone, a third each if there are two. In the same way each
/// tenant of a peer, which is a namespace, leaves half of what its peer may still take to the others. So whoever comes finds room.
/// What a request takes counts for its peer, and from the moment at which its namespace is known for its tenant, too.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget(Arc<Mutex<Taken>>);

type Tenant = (IpAddr, String);

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_peer: HashMap<IpAddr, usize>,
    by_tenant: HashMap<Tenant, usize>,
}

/// What one request takes, until it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Budget,
    peer: IpAddr,
    /// None until the namespace is known.
    tenant: Option<Tenant>,
    bytes: usize,
}

impl Budget {
    /// Returns the share of a request of which no body has arrived yet; none if there is not enough left.
    pub(crate) fn begin(&self, peer: IpAddr) -> Option<Share> {
        let mut share = Share {
            budget: self.clone(),
            peer,
            tenant: None,
            bytes: 0,
        };
        share.grow(BASE).then_some(share)
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        lock(&self.0)
    }
}

impl Taken {
    /// Whether so much is left for a peer, and for a tenant of it.
    fn has(&self, bytes: usize, peer: IpAddr, of_tenant: Option<usize>) -> bool {
        let of_peer = self.by_peer.get(&peer).copied().unwrap_or_default();
        let (of_peer, all) = (of_peer + bytes, self.all + bytes);
        // How much more is left free than the peer has: it may still take half of that.
        let Some(surplus) = TOTAL.checked_sub(all + of_peer) else {
            return false;
        };
        of_tenant.is_none_or(|of_tenant| of_tenant + bytes <= surplus / 2)
    }

    /// Counts so much for a share, and no longer what it had.
    fn set(&mut self, share: (IpAddr, Option<&Tenant>), had: usize, bytes: usize) {
        self.all = self.all - had + bytes;
        set(&mut self.by_peer, &share.0, had, bytes);
        if let Some(tenant) = share.1 {
            set(&mut self.by_tenant, tenant, had, bytes);
        }
    }
}

fn set<K: Eq + Hash + Clone>(taken: &mut HashMap<K, usize>, key: &K, had: usize, bytes: usize) {
    match taken.get_mut(key) {
        Some(of) => {
            *of = *of - had + bytes;
            if *of == 0 {
                taken.remove(key);
            }
        }
        // A share that was refused has nothing.
        None if bytes == 0 => {}
        None => drop(taken.insert(key.clone(), bytes)),
    }
}

impl Share {
    /// Whether so much more is more than one review may ever take.
    pub(crate) fn is_too_much(&self, bytes: usize) -> bool {
        self.bytes + bytes > OF_ONE_REVIEW
    }

    /// Whether so much more is more than one review may take, together with the other reviews of its tenant.
    pub(crate) fn is_tenants(&self, bytes: usize) -> bool {
        let taken = self.budget.taken();
        let tenant = self.tenant.as_ref();
        let of_tenant = tenant.and_then(|tenant| taken.by_tenant.get(tenant));
        of_tenant.is_some_and(|of_tenant| of_tenant + bytes > OF_ONE_REVIEW)
    }

    /// Takes what a part of the body takes that has arrived. A peer pays for what it sends, not for what it announces.
    pub(crate) fn arrived(&mut self, bytes: usize) -> bool {
        self.grow(bytes * ARRIVING)
    }

    /// Notes the namespace that the request is about, once that is known, and takes what its objects will take.
    pub(crate) fn parse(&mut self, namespace: String, bytes: usize) -> bool {
        if self.tenant.is_none() {
            let tenant = (self.peer, namespace);
            set(&mut self.budget.taken().by_tenant, &tenant, 0, self.bytes);
            self.tenant = Some(tenant);
        }
        self.grow(bytes)
    }

    /// The request is over, and its answer is what still takes memory. It exists already, so nobody asks whether there is room.
    pub(crate) fn answered(&mut self, bytes: usize) {
        let who = (self.peer, self.tenant.as_ref());
        self.budget.taken().set(who, self.bytes, BASE + bytes);
        self.bytes = BASE + bytes;
    }

    /// Returns false if there is not enough left.
    fn grow(&mut self, bytes: usize) -> bool {
        let mut taken = self.budget.taken();
        let of_tenant = self.tenant.as_ref();
        let of_tenant =
            of_tenant.map(|tenant| taken.by_tenant.get(tenant).copied().unwrap_or_default());
        if !taken.has(bytes, self.peer, of_tenant) {
            return false;
        }
        let who = (self.peer, self.tenant.as_ref());
        taken.set(who, self.bytes, self.bytes + bytes);
        drop(taken);
        self.bytes += bytes;
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let who = (self.peer, self.tenant.as_ref());
        self.budget.taken().set(who, self.bytes, 0);
    }
}

/// At most what a JSON text takes once it is parsed. A map is a tree, whose nodes have room for eleven fields each, so a map with one
/// short field takes a hundred times its text.
pub(crate) fn parsed(text: &[u8]) -> usize {
    let count = |wanted: u8| memchr_iter(wanted, text).count();
    let weights = [(b'{', 704), (b'[', 160), (b',', 128), (b'"', 8)];
    let more = weights.map(|(byte, size)| (size - 1) * count(byte));
    text.len() + more.iter().sum::<usize>()
}

#[cfg(test)]
mod tests;
