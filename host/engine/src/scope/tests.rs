use podloom_scripted::client;
use serde_json::Value;

use super::*;
use crate::readable::Readable;
use crate::testing::context;
use crate::tests::{Lamp, lamp, lamps};

fn scope(namespace: Option<&str>) -> WatchScope {
    let (client, _) = client(503, Value::Null);
    WatchScope {
        namespace: namespace.map(str::to_owned),
        ctx: Arc::new(context(client)),
        readiness: Readiness::default(),
        stop: CancellationToken::new(),
        pace: Pace {
            concurrency: 4,
            resync: Duration::from_mins(10),
        },
    }
}

/// How many passes run at once in a namespace, if so many objects of it are woken.
fn passes(scope: &WatchScope, objects: usize) -> usize {
    let (permits, _woken) = scope.permits::<Readable<Lamp>>(&lamps());
    let lamps: Vec<Lamp> = (0..objects)
        .map(|number| lamp("demo", &number.to_string(), 1))
        .collect();
    let taken: Vec<_> = lamps
        .iter()
        .map(|lamp| permits.acquire(&lamp.metadata))
        .collect();
    taken.iter().flatten().count()
}

#[tokio::test]
async fn a_namespace_has_a_quarter_of_the_passes() {
    let all = scope(None);
    assert_eq!(passes(&all, 9), 1);
    assert_eq!(passes(&all.with_passes(16, 1), 9), 4);
    assert_eq!(passes(&scope(Some("demo")), 9), 4);
}

#[tokio::test]
async fn a_namespace_has_as_many_passes_as_it_needs_at_least() {
    for namespace in [None, Some("demo")] {
        let scope = scope(namespace).with_passes(8, 8);
        assert_eq!(passes(&scope, 9), 8, "{namespace:?}");
    }
    assert_eq!(scope(None).with_passes(8, 8).pace.concurrency, 32);
    assert_eq!(scope(None).with_passes(64, 8).pace.concurrency, 64);
}
