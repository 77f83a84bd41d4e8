//! Checks Cleaners.

use std::time::Instant;

use podloom_api::CleanerObject;
use tokio::time::timeout_at;

use super::{ObjectWebhook, Versions, answer, overdue};
use crate::review::{Answer, ReviewRequest};

impl ObjectWebhook {
    /// Checks a Cleaner, and compiles its conditions on threads of their own: they may take long.
    pub(super) async fn cleaner(&self, review: ReviewRequest, deadline: Instant) -> Answer {
        let checked = async {
            let tenant = review.tenant();
            let read = self.run(tenant.clone(), move || {
                Versions::<CleanerObject>::read(review)
            });
            let versions = match read.await {
                Some(Ok(versions)) => versions,
                Some(Err(unreadable)) => return unreadable,
                None => return overdue(),
            };
            let new = &versions.new;
            let old = versions.old.as_ref().map(|old| &old.spec);
            // Our own writes change no spec.
            if new.metadata.deletion_timestamp.is_some() || old == Some(&new.spec) {
                return Answer::admitted();
            }
            let findings = self
                .cleaners
                .check(&new.spec, old, (tenant.0, &tenant.1))
                .await;
            answer(versions.judge(findings))
        };
        timeout_at(deadline.into(), checked)
            .await
            .unwrap_or_else(|_| overdue())
    }
}
