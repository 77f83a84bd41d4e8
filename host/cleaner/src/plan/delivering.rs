//! The next step for a Cleaner whose CloudEvent is being delivered.

use jiff::Timestamp;
use podloom_api::{DeletionProgress, duration};
use podloom_engine::plan::{Plan, Then, later};

use super::progress::{advanced, record};
use super::report;
use crate::action::Action;
use crate::delivery::{self, DeliveryState, DeliveryStep, Terms};
use crate::rules::Rules;
use crate::status;
use crate::world::World;

/// Plans the next step of the phase in which the CloudEvent is delivered.
pub(super) fn plan(
    world: &World,
    written: &DeletionProgress,
    progress: &DeletionProgress,
    now: Timestamp,
) -> Plan<Action> {
    let before = progress.event.clone().unwrap_or_default();
    let delivery = delivery::progress(&before, world.attempt.as_ref());
    let began = progress.phase_started_at.0;
    let terms = Terms::of(world.spec());
    let state = DeliveryState {
        terms: &terms,
        began,
        progress: &delivery,
        attempt: world.attempt.as_ref(),
        is_full: world.learned.is_delivery_full,
    };
    let then = match delivery::step(state, now) {
        DeliveryStep::Delivered => {
            let notice = report::delivered();
            return record(world, written, advanced(progress, now), now).with_notices([notice]);
        }
        DeliveryStep::GivenUp => {
            let notice = report::given_up(&terms.sink, &delivery);
            return record(world, written, advanced(progress, now), now).with_notices([notice]);
        }
        DeliveryStep::Send(shot) => Plan::act(Action::Deliver(shot)),
        DeliveryStep::Wait(until) => Plan::wait(Then::At(until)),
        DeliveryStep::WaitForSpec => Plan::wait(Then::Change),
    };
    let timeout = Rules::of(world.spec()).timeout;
    let deadline = later(began, timeout);
    let late = (deadline <= now && delivery.attempts > 0).then(|| {
        let timeout = duration::print(timeout);
        format!("the CloudEvent could not be delivered within {timeout}; the operator keeps trying")
    });
    let undelivered = report::undelivered(&before, &delivery);
    let wanted = DeletionProgress {
        event: Some(delivery),
        ..progress.clone()
    };
    let wanted = status::deleting(world, wanted, late.as_deref(), now);
    if world.status() != Some(&wanted) {
        let late = late.as_ref().and_then(|late| report::late(world, late));
        let notices = undelivered.into_iter().chain(late);
        return Plan::act(Action::WriteStatus(Box::new(wanted))).with_notices(notices);
    }
    match then.action.is_none() && now < deadline {
        true => Plan::wait(then.then.by(deadline)),
        false => then,
    }
}
