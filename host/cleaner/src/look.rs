//! A look at the targets that conditions see. Their watches begin before they are read, so that no change is missed.

use std::sync::Arc;

use futures::{StreamExt, stream};
use jiff::Timestamp;

use crate::checked::{Checked, CheckedTarget, Selection};
use crate::discovery::ServedKind;
use crate::index::SeenObject;
use crate::kind::CleanerKind;
use crate::memory::CleanerId;
use crate::read::{Found, Problem, SeenTarget, Sight, metadata, seen};
use crate::watches::Wish;

/// How many targets are read at once.
const READS: usize = 4;

/// A target and its kind.
type Known<'a> = (&'a CheckedTarget, Result<Arc<ServedKind>, Problem>);

impl CleanerKind {
    /// Looks at the targets that conditions see; `at` is the time for the conditions.
    pub(super) async fn look(&self, id: &CleanerId, checked: &Checked, at: Timestamp) -> Sight {
        let known = self.kinds(checked).await;
        let wishes = known.iter().filter_map(|it| wish(it, &id.namespace));
        self.watches.set(id, &wishes.collect::<Vec<_>>());
        self.forget_if_gone(id);
        self.watches.answered(&id.uid).await;
        // What comes from now on may not be in what is read.
        let events = self.memory.events(&id.uid);
        let read: Vec<_> = known
            .iter()
            .map(|known| self.read(known, &id.namespace))
            .collect();
        let read = all(read).await;
        let mut targets = Vec::new();
        let mut problem = None;
        for result in read.into_iter().flatten() {
            match result {
                Ok(target) => targets.push(target),
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        self.watches.see(id, seen_objects(&targets, id));
        Sight {
            at,
            events,
            targets,
            problem,
            unwatched: self.watches.unwatched(&id.uid),
        }
    }

    /// Forgets a Cleaner that is gone.
    pub(super) fn forget(&self, id: &CleanerId) {
        // In this order: a look that goes on meanwhile sees the one, or the other comes after it.
        self.memory.forget(&id.uid);
        self.watches.forget(id);
    }

    /// Watches nothing for a Cleaner that was deleted while it was looked at.
    fn forget_if_gone(&self, id: &CleanerId) {
        if !self.memory.knows(&id.uid) {
            self.watches.forget(id);
        }
    }

    /// Reads the targets that are only deleted.
    ///
    /// # Errors
    ///
    /// The first problem, in the order of the spec.
    pub(super) async fn doom(
        &self,
        id: &CleanerId,
        checked: &Checked,
    ) -> Result<Vec<SeenTarget>, Problem> {
        let targets = checked.targets.iter();
        let doomed = targets.filter(|target| target.is_deleted && !target.is_evaluated);
        let read: Vec<_> = doomed
            .map(|target| self.doomed(target, &id.namespace))
            .collect();
        all(read).await.into_iter().collect()
    }

    async fn doomed(&self, target: &CheckedTarget, namespace: &str) -> Result<SeenTarget, Problem> {
        let kind = self.reader.kind(target).await?;
        self.reader.target(target, &kind, namespace).await
    }

    /// The kinds of the targets that conditions see and of single ones. Other targets never block.
    async fn kinds<'a>(&self, checked: &'a Checked) -> Vec<Known<'a>> {
        let mut wanted = Vec::new();
        for target in &checked.targets {
            if target.is_evaluated || matches!(target.selection, Selection::One(_)) {
                wanted.push(self.known(target));
            }
        }
        all(wanted).await
    }

    async fn known<'a>(&self, target: &'a CheckedTarget) -> Known<'a> {
        (target, self.reader.kind(target).await)
    }

    /// Reads a target that conditions see, and only names another; none if its kind is not known.
    async fn read(
        &self,
        (target, kind): &Known<'_>,
        namespace: &str,
    ) -> Option<Result<SeenTarget, Problem>> {
        match (kind, &target.selection) {
            (Ok(kind), _) if target.is_evaluated => {
                Some(self.reader.target(target, kind, namespace).await)
            }
            (Ok(kind), Selection::One(name)) => {
                Some(Ok(seen(target, kind, Found::Named(name.clone()))))
            }
            (Err(problem), _) if target.is_evaluated => Some(Err(problem.clone())),
            _ => None,
        }
    }
}

/// What some requests come to, a few at once, in their order.
async fn all<F: Future>(requests: Vec<F>) -> Vec<F::Output> {
    stream::iter(requests).buffered(READS).collect().await
}

/// What to watch for a target that conditions see.
fn wish((target, kind): &Known<'_>, namespace: &str) -> Option<Wish> {
    let can_match = !matches!(target.selection, Selection::Labelled(Err(_)));
    let kind = kind.as_ref().ok();
    let kind = kind.filter(|_| target.is_evaluated && can_match)?;
    let namespace = kind.namespace(namespace).unwrap_or_default();
    let place = (kind.key(), Arc::from(namespace));
    Some((Arc::clone(kind), (place, target.selection.clone())))
}

/// The versions of the objects that conditions see.
fn seen_objects(targets: &[SeenTarget], id: &CleanerId) -> Vec<SeenObject> {
    let mut objects = Vec::new();
    for target in targets.iter().filter(|target| target.is_evaluated) {
        let namespace = target.kind.namespace(&id.namespace).unwrap_or_default();
        let place = (target.kind.key(), Arc::from(namespace));
        let text = |object, field| metadata(object, field).to_owned();
        objects.extend(target.objects().iter().map(|object| {
            let (name, version) = (text(object, "name"), text(object, "resourceVersion"));
            (place.clone(), name, version)
        }));
    }
    objects
}
