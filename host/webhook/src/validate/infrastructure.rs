//! Checks Clusters, clouds and Infrastructure Managers.

use std::time::Instant;

use podloom_api::{CloudObject, ClusterObject, InfrastructureProviderObject};
use podloom_controllers::infrastructure::validate::{self, ClusterAround};

use super::{ObjectWebhook, Versions};
use crate::review::{Answer, ReviewRequest};

impl ObjectWebhook {
    /// Checks a Cluster. Its provider is not known here, so the operator decides about templates that name files.
    pub(super) async fn cluster(&self, review: ReviewRequest, deadline: Instant) -> Answer {
        self.check(review, deadline, |versions: &Versions<ClusterObject>| {
            let (old, around) = (versions.old.as_ref(), ClusterAround::default());
            validate::cluster(&versions.new, old, around)
        })
        .await
    }

    /// Checks a Cloud or a GlobalCloud.
    pub(super) async fn cloud(&self, review: ReviewRequest, deadline: Instant) -> Answer {
        self.check(review, deadline, |versions: &Versions<CloudObject>| {
            validate::cloud(&versions.new, versions.old.as_ref())
        })
        .await
    }

    /// Checks an InfrastructureProvider or a GlobalInfrastructureProvider.
    pub(super) async fn provider(&self, review: ReviewRequest, deadline: Instant) -> Answer {
        self.check(
            review,
            deadline,
            |versions: &Versions<InfrastructureProviderObject>| {
                validate::provider(&versions.new, versions.old.as_ref())
            },
        )
        .await
    }
}
