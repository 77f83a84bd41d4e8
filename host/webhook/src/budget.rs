//! How much memory the requests that are being answered may take together.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The longest body. The API server takes objects of up to 3 MiB, and a review of an update has two.
pub(crate) const BODY_BYTES: usize = 8 << 20;
/// All requests together.
const TOTAL: usize = 128 << 20;
/// The requests of one peer, so that none can keep the others out.
const OF_ONE_PEER: usize = TOTAL / 2;
/// What each request takes, however short it is: buffers of its connection, a fresh sandbox.
const BASE: usize = 64 << 10;
/// How much more memory a body takes than its text while it arrives: the buffer grows by doubling.
const ARRIVING: usize = 2;

/// A budget for memory. There is no queue: what does not fit is refused at once, since the API server would wait in vain.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget(Arc<Mutex<Taken>>);

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_peer: HashMap<IpAddr, usize>,
}

/// What one request takes, until it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Budget,
    peer: IpAddr,
    bytes: usize,
}

impl Budget {
    /// Returns the share of a request of which no body has arrived yet; none if there is not enough left.
    pub(crate) fn begin(&self, peer: IpAddr) -> Option<Share> {
        let mut share = Share {
            budget: self.clone(),
            peer,
            bytes: 0,
        };
        share.grow(BASE).then_some(share)
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Takes what a part of the body takes that has arrived. A peer pays for what it sends, not for what it announces.
    pub(crate) fn arrived(&mut self, bytes: usize) -> bool {
        self.grow(bytes * ARRIVING)
    }

    /// Takes what a body will take once it is parsed.
    pub(crate) fn parse(&mut self, body: &[u8]) -> bool {
        self.grow(parsed(body))
    }

    /// Returns false if there is not enough left.
    fn grow(&mut self, bytes: usize) -> bool {
        let mut taken = self.budget.taken();
        let of_peer = taken.by_peer.get(&self.peer).copied().unwrap_or_default();
        if taken.all + bytes > TOTAL || of_peer + bytes > OF_ONE_PEER {
            return false;
        }
        taken.all += bytes;
        taken.by_peer.insert(self.peer, of_peer + bytes);
        drop(taken);
        self.bytes += bytes;
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.budget.taken();
        taken.all -= self.bytes;
        if let Some(of_peer) = taken.by_peer.get_mut(&self.peer) {
            *of_peer -= self.bytes;
            if *of_peer == 0 {
                taken.by_peer.remove(&self.peer);
            }
        }
    }
}

/// At most what a JSON text takes once it is parsed. A map is a tree, whose nodes have room for eleven fields each, so a map with one
/// short field takes a hundred times its text.
fn parsed(text: &[u8]) -> usize {
    let count = |wanted: u8| -> usize {
        // One pass for each character is faster than one that looks at each byte: such a pass compares many bytes at once, and counts
        // them in bytes, as far as a byte can count.
        let parts = text.chunks(usize::from(u8::MAX));
        let counts = parts.map(|part| {
            part.iter()
                .map(|&byte| u8::from(byte == wanted))
                .sum::<u8>()
        });
        counts.map(usize::from).sum()
    };
    let weights = [(b'{', 704), (b'[', 160), (b',', 128), (b'"', 8)];
    let more = weights.map(|(byte, size)| (size - 1) * count(byte));
    text.len() + more.iter().sum::<usize>()
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::{BODY_BYTES, Budget, OF_ONE_PEER, TOTAL, parsed};

    fn peer(number: u8) -> IpAddr {
        [127, 1, 0, number].into()
    }

    #[test]
    fn hundreds_of_pods_fit_and_nothing_is_left_over() {
        let pod = include_bytes!("../../mutators/benches/pod.json");
        let budget = Budget::default();
        let take = |number: u32| {
            let mut share = budget.begin(peer(u8::from(number.is_multiple_of(2))))?;
            (share.arrived(pod.len()) && share.parse(pod)).then_some(share)
        };
        let shares: Vec<_> = (0..).map_while(take).collect();
        assert!(shares.len() > 400, "{}", shares.len());
        drop(shares);
        let taken = budget.taken();
        assert_eq!((taken.all, taken.by_peer.len()), (0, 0));
    }

    #[test]
    fn a_peer_that_announces_much_and_sends_nothing_takes_little() {
        let budget = Budget::default();
        let silent: Vec<_> = (0..500).map_while(|_| budget.begin(peer(1))).collect();
        assert_eq!(silent.len(), 500);
        assert!(budget.begin(peer(2)).is_some());
    }

    #[test]
    fn one_peer_cannot_keep_others_out() {
        let budget = Budget::default();
        let send = |number| {
            let mut share = budget.begin(peer(number)).expect("room for a beginning");
            let long = share.arrived(BODY_BYTES);
            (share, long)
        };
        let all: Vec<_> = (0..4).map(|_| send(1)).collect();
        assert!(all.iter().take(3).all(|(_, fits)| *fits));
        assert!(!all.iter().all(|(_, fits)| *fits));
        assert!(send(2).1, "another peer has the other half");
        assert_eq!(OF_ONE_PEER * 2, TOTAL);
    }

    /// Bodies that are small as text and large as a tree.
    #[test]
    fn a_text_is_weighed_as_what_it_becomes() {
        for text in [r#"{"":0},"#, r#"{"name":"a"},"#] {
            let body = format!("[{}0]", text.repeat(1000));
            assert!(parsed(body.as_bytes()) > 1000 * 690, "{text}");
        }
        assert!(parsed("[[],[],[]]".as_bytes()) > 4 * 32);
    }
}
