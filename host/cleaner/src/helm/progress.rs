//! How far an uninstallation is, as the status has it. What is written there has a limit, whatever a chart says.

use podloom_api::{HelmProgress, HelmStep};
use podloom_engine::shown::at_most;
use podloom_helm::Status;

use super::StoredRecord;
use super::chart::Chart;

/// How much is kept of what went wrong, in bytes.
const MESSAGE_MAX: usize = 256;
/// How many objects are listed as kept, and as skipped.
const LISTED_MAX: usize = 100;
/// How much of each is listed, in bytes.
const LISTED_BYTES: usize = 256;

/// The progress of a release from whose records nothing was done yet: it is new, or has a later revision since.
pub(super) fn begun(progress: &HelmProgress, last: &StoredRecord, chart: &Chart) -> HelmProgress {
    HelmProgress {
        release: progress.release.clone(),
        step: match chart.status() {
            // Helm has kept the history, as the user wanted.
            Status::Uninstalled => HelmStep::Records,
            _ => HelmStep::PreDeleteHooks,
        },
        revision: Some(last.revision),
        uid: Some(last.uid.clone()),
        hooks_done: 0,
        objects_done: 0,
        objects_failed: 0,
        hook: None,
        kept: None,
        skipped: None,
        message: None,
    }
}

/// The progress once the hooks before the deletion are done.
pub(super) fn unhooked(progress: &HelmProgress, chart: &Chart) -> HelmProgress {
    HelmProgress {
        step: HelmStep::Manifest,
        hooks_done: 0,
        hook: None,
        objects_done: 0,
        objects_failed: 0,
        kept: listed(None, chart.kept()),
        skipped: None,
        message: None,
        ..progress.clone()
    }
}

/// The progress of an attempt that has failed: the next one goes on from there.
pub(super) fn given_up(progress: &HelmProgress, message: &str) -> Box<HelmProgress> {
    Box::new(HelmProgress {
        message: Some(text(message)),
        ..progress.clone()
    })
}

/// Returns the message about objects that cannot be deleted; it says why the first cannot.
pub(super) fn undeleted(progress: &HelmProgress, total: usize, first: &str) -> String {
    let failed = progress.objects_failed;
    let counted = format!("{failed} of {total} objects of the release cannot be deleted");
    match first.starts_with(&counted) {
        true => first.to_owned(),
        false => text(&format!("{counted}; the first: {first}")),
    }
}

/// Returns a message as a status may hold it.
pub(super) fn text(message: &str) -> String {
    cut(message, MESSAGE_MAX)
}

/// Adds objects to a list in the status; none if it is empty.
pub(super) fn listed(before: Option<&[String]>, more: Vec<String>) -> Option<Vec<String>> {
    let mut all: Vec<String> = before.unwrap_or_default().to_vec();
    for object in more {
        let object = cut(&object, LISTED_BYTES);
        if all.len() == LISTED_MAX {
            all.push("and more".to_owned());
        }
        if all.len() < LISTED_MAX && !all.contains(&object) {
            all.push(object);
        }
    }
    (!all.is_empty()).then_some(all)
}

/// Whoever writes records writes names and kinds: in one line.
fn cut(text: &str, most: usize) -> String {
    at_most(most, text.replace(char::is_control, " "))
}
