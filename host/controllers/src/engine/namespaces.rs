//! What namespaces say of themselves, for plugins: metadata alone, and only where it may be read.

use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, future};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::Event;
use kube::{Api, ResourceExt};
use tokio::time::sleep;

use super::kind::Context;
use super::readiness::Readiness;
use super::scope::WatchScope;
use super::watch::{watch_config, watch_into_cache};

/// When to ask again after no answer.
const AGAIN: Duration = Duration::from_secs(1);

/// The cache of namespaces, none where they may not be read.
pub type Namespaces = Option<Store<PartialObjectMeta<Namespace>>>;

/// Is called with the name of a namespace that changed, or may have.
type OnChange = Box<dyn Fn(&str) + Send>;

/// Returns the cache once it is filled, and the work that keeps it so.
async fn watch(
    ctx: &Context,
    readiness: &Readiness,
    changed: OnChange,
) -> (Namespaces, BoxFuture<'static, ()>) {
    let api: Api<Namespace> = Api::all(ctx.client.clone());
    if !may_read(&api).await {
        return (None, future::pending().boxed());
    }
    let awaited = readiness.await_cache("namespaces".to_owned());
    let metrics = ctx.metrics.clone();
    let client = metrics.watch_client(&ctx.client, "Namespace");
    let (store, events) = watch_into_cache(
        Api::<PartialObjectMeta<Namespace>>::all(client),
        watch_config(),
        (),
        |namespace| namespace.metadata.managed_fields = None,
        move |error| {
            metrics.watch_broke("Namespace");
            tracing::warn!(
                kind = "Namespace",
                error = error as &dyn std::error::Error,
                "watch broke, restarting"
            );
        },
    );
    let reader = store.clone();
    let mut is_listed = false;
    let work = events.for_each(move |event| {
        match event {
            Ok(Event::Apply(namespace)) => changed(&namespace.name_any()),
            // What changed while the watch was broken shows in no event. The first list is no change.
            Ok(Event::InitDone) if std::mem::replace(&mut is_listed, true) => {
                for namespace in reader.state() {
                    changed(&namespace.name_any());
                }
            }
            _ => {}
        }
        future::ready(())
    });
    let mut work = work.boxed();
    let reader = store.clone();
    tokio::select! {
        _ = reader.wait_until_ready() => {}
        () = &mut work => {}
    }
    drop(awaited);
    (Some(store), work)
}

/// Returns the cache of namespaces for the controllers in these scopes once it is filled, and the work that keeps it so. Logs which of
/// the watched namespaces do not exist.
///
/// Without the right to read namespaces there is no cache, and plugins see no labels and annotations of theirs. `changed` is called with
/// the name of each namespace that changes after that, once the cache has it.
pub async fn watch_for(
    scopes: &[WatchScope],
    changed: impl Fn(&str) + Send + 'static,
) -> (Namespaces, BoxFuture<'static, ()>) {
    let Some(scope) = scopes.first() else {
        return (None, future::pending().boxed());
    };
    let (namespaces, work) = watch(&scope.ctx, &scope.readiness, Box::new(changed)).await;
    let watched = scopes.iter().filter_map(|scope| scope.namespace.as_deref());
    let watched: Vec<&str> = watched.collect();
    if namespaces.is_none() && !watched.is_empty() {
        tracing::info!(
            namespaces = watched.join(","),
            "the operator may not read namespaces, so it cannot check whether the watched ones exist"
        );
    }
    for namespace in missing(&namespaces, watched) {
        tracing::warn!(
            namespace,
            "the watched namespace does not exist: correct --namespace, or create it"
        );
    }
    (namespaces, work)
}

/// Returns which of these namespaces do not exist. Returns none without the right to read namespaces: then it cannot be known.
fn missing<'n>(
    known: &Namespaces,
    names: impl IntoIterator<Item = &'n str>,
) -> impl Iterator<Item = &'n str> {
    names.into_iter().filter(move |name| {
        let known = known.as_ref();
        known.is_some_and(|store| store.get(&ObjectRef::new(name)).is_none())
    })
}

/// Whether namespaces may be read; an API server that does not answer is asked again, since that is no answer.
async fn may_read(api: &Api<Namespace>) -> bool {
    loop {
        match api.list_metadata(&ListParams::default().limit(1)).await {
            Ok(_) => return true,
            Err(kube::Error::Api(status)) if status.is_forbidden() => {
                // Whoever looks for missing rights before we start has said it, and we may start again and again.
                tracing::debug!(
                    reason = status.message,
                    "namespaces may not be read, so plugins see none of their labels and annotations"
                );
                return false;
            }
            Err(error) => {
                tracing::warn!(
                    kind = "Namespace",
                    error = &error as &dyn std::error::Error,
                    "could not list, trying again"
                );
                sleep(AGAIN).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;
    use kube::core::{ObjectMeta, PartialObjectMeta, PartialObjectMetaExt};
    use kube::runtime::reflector::store::Writer;
    use kube::runtime::watcher::Event;

    use super::missing;

    #[test]
    fn a_watched_namespace_that_does_not_exist_is_missing() {
        let mut writer: Writer<PartialObjectMeta<Namespace>> = Writer::default();
        let known = ObjectMeta {
            name: Some("team-a".to_owned()),
            ..ObjectMeta::default()
        };
        let store = Some(writer.as_reader());
        writer.apply_watcher_event(&Event::Apply(known.into_response_partial()));
        let names = ["team-a", "team-b"];
        assert_eq!(missing(&store, names).collect::<Vec<_>>(), ["team-b"]);
        assert_eq!(missing(&None, names).count(), 0);
    }
}
