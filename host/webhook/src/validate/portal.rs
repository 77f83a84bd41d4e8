//! Checks PortalExposes and TunnelClasses.

use std::time::Instant;

use podloom_api::{PortalExposeObject, TunnelClassObject};
use podloom_controllers::portal::validate::{self, Around};

use super::{ObjectWebhook, Versions};
use crate::review::{Answer, ReviewRequest};

impl ObjectWebhook {
    /// Checks a PortalExpose. Services and other PortalExposes are not known here, and the operator checks them.
    pub(super) async fn portal_expose(&self, review: ReviewRequest, deadline: Instant) -> Answer {
        let classes = self.caches.classes();
        self.check(
            review,
            deadline,
            move |versions: &Versions<PortalExposeObject>| {
                let candidates = classes.as_ref().map(|classes| classes.candidates());
                let around = Around {
                    classes: candidates.as_deref(),
                    ..Around::default()
                };
                validate::portal_expose(&versions.new, versions.old.as_ref(), &around)
            },
        )
        .await
    }

    /// Checks a TunnelClass.
    pub(super) async fn tunnel_class(&self, review: ReviewRequest, deadline: Instant) -> Answer {
        let classes = self.caches.classes().unwrap_or_default();
        self.check(
            review,
            deadline,
            move |versions: &Versions<TunnelClassObject>| {
                let old = versions.old.as_ref();
                validate::tunnel_class(&versions.new, old, &classes.candidates())
            },
        )
        .await
    }
}
