//! Secrets: their metadata alone, and only where it may be read.

use std::sync::Arc;

use futures::future::BoxFuture;
use kube::Api;
use kube::runtime::watcher::Event;
use podloom_engine::optional::{Optional, WhenRefused, watch_optional};
use podloom_engine::scope::WatchScope;

use super::Knot;
use crate::secret_metas::{SecretMeta, SecretMetas, SecretMetasOf, prune};

/// Watches the Secrets of all scopes, and those of cluster-scoped objects. Returns their caches, and the work that fills them.
pub(super) fn watch(
    scopes: &[WatchScope],
    global: &str,
    knot: &Knot,
) -> (SecretMetas, Vec<BoxFuture<'static, ()>>) {
    let mut namespaces: Vec<Option<String>> =
        scopes.iter().map(|scope| scope.namespace.clone()).collect();
    let is_covered = |namespace: &Option<String>| {
        namespace
            .as_deref()
            .is_none_or(|namespace| namespace == global)
    };
    if !namespaces.iter().any(is_covered) {
        namespaces.push(Some(global.to_owned()));
    }
    let Some(first) = scopes.first() else {
        return (SecretMetas([].into()), Vec::new());
    };
    let watched = namespaces.into_iter().map(|it| watch_one(first, it, knot));
    let (caches, work): (Vec<_>, Vec<_>) = watched.unzip();
    (SecretMetas(caches.into()), work)
}

fn watch_one(
    scope: &WatchScope,
    namespace: Option<String>,
    knot: &Knot,
) -> (SecretMetasOf, BoxFuture<'static, ()>) {
    let knot = Arc::clone(knot);
    let secrets = Optional {
        kind: "Secret",
        dyntype: (),
        label: "",
        prune,
        refused: WhenRefused::Forgotten,
        seen: Box::new(move |event: &Event<SecretMeta>| {
            let Some(hub) = knot.get() else { return };
            match event {
                Event::Apply(secret) | Event::Delete(secret) => hub.secret(&secret.metadata),
                Event::InitDone => hub.all(),
                Event::Init | Event::InitApply(_) => {}
            }
        }),
    };
    let of = namespace.clone();
    let api = move |client| match &of {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let (cache, work) = watch_optional(&scope.ctx.client, api, secrets, &scope.ctx.metrics);
    (SecretMetasOf { namespace, cache }, work)
}
