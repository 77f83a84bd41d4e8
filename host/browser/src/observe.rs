//! Reads the world around a Browser from caches, and from the API server where a cache cannot show that a pod is gone, or that
//! another's is still there.

use std::sync::Arc;

use kube::Resource;
use kube::runtime::reflector::ObjectRef;
use podloom_api::BrowserObject;
use podloom_engine::error::{Attempt, Error};
use podloom_engine::kind::{Context, Kind, Source};
use podloom_engine::write::Target;

use super::failure;
use super::kind::BrowserKind;
use super::memory::Unseen;
use super::pod::SeenPod;
use super::world::{Learned, World};

const READ_POD: Attempt = Attempt::new("ReadPod", "read pod");

impl BrowserKind {
    /// Reads the world as far as a plan needs it.
    pub(super) async fn look_around(
        &self,
        ctx: &Context,
        browser: &BrowserObject,
        source: Source,
    ) -> Result<World, Error> {
        let metadata = &browser.metadata;
        let namespace = metadata.namespace.as_deref();
        let configs = self
            .caches
            .configs
            .state_filter(|config| config.meta().namespace.as_deref() == namespace);
        let mut world = World {
            api: self.api,
            configs,
            pod: None,
            pod_is_watched: false,
            first_seen: None,
            lacks_config_since: None,
            learned: Learned {
                browser_confirmed: source == Source::Live,
                ..Learned::default()
            },
            browser: Arc::new(browser.clone()),
        };
        if world.has_finalizer() {
            world.learned.metadata_rejected = self.memory.labels_were_rejected(metadata);
        }
        let cached = self.cached_pod(&world);
        let is_taken = match cached {
            Some(pod) if world.owns(&pod) => {
                self.take_cached(ctx, &mut world, pod);
                return Ok(world);
            }
            // The name was used before: the other's pod may be gone, though the cache still shows it.
            other => other.is_some(),
        };
        let mut is_overdue = false;
        match self.memory.created_pod(metadata) {
            Some(Unseen::Fresh(pod)) => world.pod = Some(pod),
            Some(Unseen::Overdue(pod)) => {
                is_overdue = true;
                world.learned.created.clone_from(&pod.metadata.uid);
            }
            None => {}
        }
        let may_hide = if world.is_deleted() {
            // Its pod has to go first, even one that no cache ever showed.
            world.has_finalizer() && !self.memory.saw_pod_go(metadata)
        } else {
            // Only a session that is not over is lost with its pod.
            (is_taken || world.had_pod()) && !world.is_over()
        };
        if world.pod.is_none() && (is_overdue || may_hide) {
            world.pod = self.read_pod(ctx, &world).await?;
        }
        if world.lacks_pod() && !world.is_over() {
            world.first_seen = Some(self.memory.first_seen(metadata, ctx.clock.now()));
        }
        if world.pod.is_none() {
            world.learned.disruption = self.memory.disruption(metadata);
        }
        Ok(world)
    }

    /// Takes the session's own pod from the cache into its world.
    fn take_cached(&self, ctx: &Context, world: &mut World, pod: Arc<SeenPod>) {
        let browser = Arc::clone(&world.browser);
        let metadata = &browser.metadata;
        // Until the status has its UID, nothing else would know of it if it disappeared.
        match world.pod_uid() {
            Some(_) => self.memory.pod_is_cached(metadata, &pod),
            None => self.memory.created(metadata, Arc::clone(&pod)),
        }
        world.lacks_config_since = failure::lacks_config(&pod)
            .map(|_| self.memory.lacks_config(metadata, ctx.clock.now()));
        world.pod_is_watched = true;
        world.pod = Some(pod);
    }

    /// Returns the pod of the Browser's name, as the cache has it.
    pub(super) fn cached_pod(&self, world: &World) -> Option<Arc<SeenPod>> {
        let namespace = world.browser.metadata.namespace.as_deref();
        let pod = ObjectRef::new(world.name()).within(namespace.unwrap_or_default());
        self.caches.pods.get(&pod)
    }

    /// Reads the pod of the Browser's name from the API server; none if there is none.
    pub(super) async fn read_pod(
        &self,
        ctx: &Context,
        world: &World,
    ) -> Result<Option<Arc<SeenPod>>, Error> {
        let read = self.pod(ctx, world).read::<SeenPod>(READ_POD).await?;
        Ok(read.map(Arc::new))
    }

    /// The pod of the Browser's name.
    pub(super) fn pod<'a>(&'a self, ctx: &'a Context, world: &'a World) -> Target<'a> {
        Target {
            resource: &self.resources.pod,
            ..self.browser(ctx, world)
        }
    }

    /// The Browser.
    pub(super) fn browser<'a>(&'a self, ctx: &'a Context, world: &'a World) -> Target<'a> {
        Target::of(
            &ctx.client,
            &self.resources.browser,
            &world.browser.metadata,
            Self::TRAITS.field_manager,
        )
    }
}
