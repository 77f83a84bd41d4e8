//! What came of an action, put into the progress and into what the pass knows.

use podloom_api::HelmProgress;

use super::progress::{listed, text, undeleted};
use super::{HelmLearned, HelmOutcome, SeenHook, Sweep};

/// Puts what came of an action into the progress and into what the pass knows.
pub(crate) fn learn(progress: &mut HelmProgress, learned: &mut HelmLearned, outcome: HelmOutcome) {
    learned.actions = learned.actions.saturating_add(1);
    let place = (progress.step, progress.hooks_done);
    match outcome {
        HelmOutcome::Listed(records) => learned.records = Some(records),
        HelmOutcome::Read(chart) => learned.chart = Some(chart),
        HelmOutcome::Seen(hook) => learned.hook = Some((place, hook)),
        HelmOutcome::HookDeleted => match learned.hook {
            // It may be gone already.
            Some((_, SeenHook::Other { .. })) => learned.hook = None,
            _ => learned.discarded = Some(place),
        },
        HelmOutcome::Tidied(left) => {
            learned.tidied = Some(progress.step);
            if let Some(left) = left {
                progress.message = Some(text(&left));
            }
        }
        HelmOutcome::Marked => learned.is_marked = true,
        HelmOutcome::Swept(sweep) => {
            learned.has_swept = true;
            swept(progress, sweep);
        }
        HelmOutcome::Purged => learned.is_purged = true,
        HelmOutcome::GaveUp(ended) => {
            learned.has_failed = true;
            *progress = *ended;
        }
        HelmOutcome::Unfinished => learned.actions = usize::MAX,
        HelmOutcome::Trouble(trouble) => learned.trouble = Some(trouble),
    }
}

fn swept(progress: &mut HelmProgress, sweep: Sweep) {
    let is_first = progress.objects_failed == 0;
    progress.objects_done = progress.objects_done.saturating_add(sweep.done);
    progress.objects_failed = progress.objects_failed.saturating_add(sweep.failed);
    if let (true, Some(failure)) = (is_first, &sweep.first_failure) {
        let is_whole = usize::try_from(progress.objects_done) == Ok(sweep.total);
        progress.message = Some(match is_whole {
            true => undeleted(progress, sweep.total, failure),
            false => text(failure),
        });
    }
    progress.skipped = listed(progress.skipped.as_deref(), sweep.skipped);
}
