//! How those who read a cluster let others work.

use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;

use super::Pace;
use crate::drift::Reader;

fn pace(reader: Reader) -> Pace {
    Pace {
        reader,
        worked: Duration::ZERO,
    }
}

#[tokio::test(start_paused = true)]
async fn the_operator_rests_longer_than_it_works() {
    for (reader, rest) in [(Reader::Operator, 300), (Reader::Person, 0)] {
        let (began, mut pace) = (Instant::now(), pace(reader));
        for _ in 0..100 {
            pace.worked(Duration::from_millis(1)).await;
        }
        let rested = began.elapsed().as_millis();
        assert!((rest..=rest + 20).contains(&rested), "{reader:?}: {rested}");
    }
}

/// So it can be dropped there: what never waits goes on to the end, whatever is cancelled.
#[tokio::test]
async fn others_run_after_each_object() {
    for reader in [Reader::Operator, Reader::Person] {
        let mut pace = pace(reader);
        let worked = pace.worked(Duration::ZERO).now_or_never();
        assert!(worked.is_none(), "{reader:?}");
    }
}
