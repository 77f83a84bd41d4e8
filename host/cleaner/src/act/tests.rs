use podloom_cel::{Failure, Reason};

use super::verdict;

fn failures(reasons: &[Reason]) -> Vec<Failure> {
    let failure = |(index, reason): (usize, &Reason)| Failure {
        index,
        reason: *reason,
        message: format!("conditions[{index}]: no"),
    };
    reasons.iter().enumerate().map(failure).collect()
}

/// The verdict is kept until the spec changes, so it must not be about a moment without threads.
#[test]
fn what_could_not_be_compiled_for_now_is_tried_again() {
    let wrong = failures(&[Reason::CompileError, Reason::CompileError]);
    let kept = verdict(wrong.clone()).unwrap();
    assert_eq!(kept, Err(wrong.into()));
    let error = verdict(failures(&[Reason::EvaluationError])).unwrap_err();
    assert_eq!(error.reason(), "Compile");
}
