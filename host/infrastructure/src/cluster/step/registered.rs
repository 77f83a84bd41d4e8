//! What to do next about a cluster that existed before: it is only probed.

use super::{Case, Step, kubeconfig};

pub(crate) fn step(case: Case<'_>) -> Step {
    kubeconfig::probe(case.world, case.settings, case.now)
}
