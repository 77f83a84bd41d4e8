use std::collections::BTreeMap;

use jiff::Timestamp;
use podloom_api::OperationKind;

use super::absorb;
use crate::cluster::action::{Ask, Asked, Found, Reply};
use crate::cluster::durable::Change;
use crate::cluster::memory::{Ownership, Shortage};
use crate::cluster::plan::tests::setting::Case;
use crate::cluster::world::World;
use crate::im::{Answer, Failure, FailureKind, ImState, InfrastructureId, Reading, Sent};
use crate::resolve::{SecretKey, SecretUse};

const OPEN: &str = "{ cluster: { status: { clusterId: null, operation: { kind: Create, startedAt: \"2026-01-01T00:59:00.000000Z\", lastCallAt: \"2026-01-01T00:59:00.000000Z\", finishedAt: null, attempts: 1 } } } }";

fn id(last: char) -> InfrastructureId {
    let text = format!("44444444-4444-4444-8444-44444444444{last}");
    InfrastructureId::parse(&text).unwrap()
}

/// The world after a reply.
fn after(case: &str, ask: Ask, reply: Reply) -> World {
    let Case { mut world, now } = Case::read(case);
    absorb(
        &mut world,
        Asked {
            ask,
            reply,
            at: now,
        },
    );
    world
}

fn failure(kind: FailureKind, sent: Sent) -> Reply {
    Reply::Failure(Failure {
        kind,
        message: "no".to_owned(),
        sent,
    })
}

fn last_call(world: &World) -> Option<Timestamp> {
    world.durable.last_call_at()
}

#[test]
fn a_refused_create_clears_the_attempt_and_keeps_its_number() {
    for (kind, sent) in [
        (FailureKind::Refused, Sent::Refused),
        (FailureKind::TemplateRejected, Sent::Refused),
        (FailureKind::Unreachable, Sent::No),
    ] {
        let world = after(OPEN, Ask::Change(Change::Create), failure(kind, sent));
        assert_eq!(last_call(&world), None);
        assert_eq!(world.durable.running_on, None);
        assert_eq!(world.durable.operation.as_ref().unwrap().attempts, 1);
        assert!(world.is_clean());
    }
}

#[test]
fn a_create_without_an_answer_stays_recorded() {
    let reply = failure(FailureKind::Unreachable, Sent::Unknown);
    let world = after(OPEN, Ask::Change(Change::Create), reply);
    assert!(world.durable.is_attempt_open());
    assert!(world.durable.running_on.is_some());
    assert!(!world.is_clean());
}

/// An answer without an id may hide an infrastructure.
#[test]
fn a_create_with_another_answer_stays_recorded() {
    let world = after(
        OPEN,
        Ask::Change(Change::Create),
        Reply::Answer(Answer::Done),
    );
    assert!(world.durable.is_attempt_open());
}

#[test]
fn one_match_is_taken_over_with_the_template_that_was_sent() {
    let found = Found {
        read: vec![id('1')],
        matches: vec![id('1')],
        is_complete: true,
    };
    let world = after(OPEN, Ask::Search { skip: Vec::new() }, Reply::Found(found));
    assert_eq!(world.durable.id, Some(id('1')));
    assert!(world.durable.applied.is_some());
}

#[test]
fn of_two_matches_none_is_taken_over() {
    let found = Found {
        read: vec![id('1'), id('2')],
        matches: vec![id('1'), id('2')],
        is_complete: true,
    };
    let world = after(OPEN, Ask::Search { skip: Vec::new() }, Reply::Found(found));
    assert_eq!(world.durable.id, None);
    let refusal = world.known.refusal.unwrap();
    assert_eq!(refusal.reason, "DuplicateInfrastructures");
}

#[test]
fn an_incomplete_search_decides_nothing() {
    let asked = |at| Asked {
        ask: Ask::Search { skip: Vec::new() },
        reply: Reply::Found(Found {
            read: vec![id('1')],
            ..Found::default()
        }),
        at,
    };
    let mut world = after(OPEN, asked(Timestamp::MIN).ask, asked(Timestamp::MIN).reply);
    // The first one shows only that IM answers.
    assert_eq!(world.known.search.read, [].into());
    let at = world.known.heard_since.unwrap();
    absorb(&mut world, asked(at));
    assert!(!world.is_clean());
    assert!(world.known.search.read.contains(&id('1')));
}

/// Without a status, a request may be on its way of which nobody knows.
#[test]
fn without_a_status_one_search_is_not_enough() {
    let found = || {
        Reply::Found(Found {
            is_complete: true,
            ..Found::default()
        })
    };
    let search = || Ask::Search { skip: Vec::new() };
    let mut world = after("noStatus: true", search(), found());
    assert!(!world.is_clean());
    let at = world.known.heard_since.unwrap();
    let (ask, reply) = (search(), found());
    absorb(&mut world, Asked { ask, reply, at });
    assert!(world.is_clean());
}

#[test]
fn only_the_second_missing_state_is_believed() {
    let missing = || failure(FailureKind::NotFound, Sent::Refused);
    let world = after("{}", Ask::State(id('1')), missing());
    assert!(world.durable.id.is_some());
    let world = after("known: { missingFor: 29 }", Ask::State(id('1')), missing());
    assert!(world.durable.id.is_some());
    let world = after("known: { missingFor: 30 }", Ask::State(id('1')), missing());
    assert_eq!(world.durable.id, None);
    assert_eq!(world.durable.operation.unwrap().kind, OperationKind::Create);
}

#[test]
fn an_infrastructure_that_another_url_does_not_know_is_not_forgotten() {
    let missing = failure(FailureKind::NotFound, Sent::Refused);
    let case = "{ backend: moved, known: { missingFor: 30 } }";
    let world = after(case, Ask::State(id('1')), missing);
    assert!(world.durable.id.is_some());
    assert_eq!(world.known.gone.unwrap().reason, "EndpointChanged");
}

const DELETED: &str = "{ metadata: { deletionTimestamp: \"2026-01-01T01:00:00Z\" } }";

#[test]
fn a_deletion_that_finds_nothing_counts_only_at_the_same_url() {
    let ask = || Ask::Change(Change::Delete { force: false });
    let missing = || failure(FailureKind::NotFound, Sent::Refused);
    let world = after(&format!("cluster: {DELETED}"), ask(), missing());
    assert!(world.known.gone_since.is_some());
    let world = after(
        &format!("{{ cluster: {DELETED}, backend: moved }}"),
        ask(),
        missing(),
    );
    assert!(world.known.gone_since.is_none());
}

/// IM can write a record back that it has removed. Its list shows that.
#[test]
fn an_infrastructure_is_gone_when_the_list_lacks_it() {
    let listed = |matches: Vec<InfrastructureId>| {
        let found = Found {
            matches,
            is_complete: true,
            ..Found::default()
        };
        let case = format!("{{ cluster: {DELETED}, known: {{ deleting: true, goneFor: 5 }} }}");
        after(&case, Ask::Left(id('1')), Reply::Found(found))
    };
    let world = listed(vec![id('1')]);
    assert!(!world.learned.is_gone && world.durable.id.is_some());
    assert!(!world.known.is_deleting && world.known.gone_since.is_none());
    assert!(listed(Vec::new()).learned.is_gone);
}

/// The one that was deleted may have been the first of two, and the process that knew it has ended.
#[test]
fn after_a_restart_the_name_is_searched_at_the_end() {
    let deleting = "{ metadata: { deletionTimestamp: \"2026-01-01T01:00:00Z\" }, status: { operation: { kind: Delete, startedAt: \"2026-01-01T00:59:00.000000Z\", lastCallAt: \"2026-01-01T00:59:00.000000Z\", finishedAt: null, attempts: 1 } } }";
    let found = Found {
        is_complete: true,
        ..Found::default()
    };
    let case = format!("{{ cluster: {deleting}, known: {{ nothing: true }} }}");
    let world = after(&case, Ask::Left(id('1')), Reply::Found(found));
    assert!(!world.learned.is_gone);
    assert_eq!(world.durable.id, None);
    assert!(world.durable.is_attempt_open() && !world.is_clean());
}

/// The template asks for two machines.
#[test]
fn missing_machines_are_believed_after_an_interval_and_asked_for_once() {
    let Case { mut world, now } = Case::read("{}");
    let later = |polls: i64| now + jiff::SignedDuration::from_secs(30 * polls);
    let mut reply = |ask, answer, at| {
        let reply = Reply::Answer(answer);
        absorb(&mut world, Asked { ask, reply, at });
        (
            world.known.shortage,
            world.durable.under_way().map(|it| it.kind),
        )
    };
    let one = || {
        let vms = BTreeMap::from([("0".to_owned(), ImState::Configured)]);
        let state = ImState::Configured;
        Answer::State(Reading { state, vms })
    };
    let seen = Shortage::Seen(now);
    assert_eq!(reply(Ask::State(id('1')), one(), now), (seen, None));
    let found = (Shortage::Found, Some(OperationKind::Update));
    assert_eq!(reply(Ask::State(id('1')), one(), later(1)), found);
    let sent = reply(Ask::Change(Change::Resend), Answer::Done, later(1));
    assert_eq!(sent, (Shortage::Sent, Some(OperationKind::Update)));
    // An IM that makes no more of it does not count as we do.
    let accepted = (Shortage::Accepted(1), None);
    assert_eq!(reply(Ask::State(id('1')), one(), later(2)), accepted);
    assert_eq!(reply(Ask::State(id('1')), one(), later(3)), accepted);
}

#[test]
fn after_a_change_nothing_that_was_read_counts() {
    let case = "known: { reading: { state: configured } }";
    let done = || Reply::Answer(Answer::Done);
    let world = after(case, Ask::Change(Change::Reconfigure), done());
    assert_eq!(world.known.reading, None);
    let world = after(case, Ask::Change(Change::Delete { force: false }), done());
    let now = Case::read(case).now;
    assert!(world.known.quiet.unwrap() >= now + jiff::SignedDuration::from_secs(1));
}

#[test]
fn a_changed_password_adds_the_owner_once() {
    let Case { mut world, now } = Case::read("{}");
    if let Some(Ok(backend)) = &mut world.backend {
        backend.im.previous = Some(SecretUse {
            secret: SecretKey {
                namespace: "team".to_owned(),
                name: "old".to_owned(),
            },
            key: "password".to_owned(),
        });
    }
    let mut reply = |ask, reply| {
        absorb(
            &mut world,
            Asked {
                ask,
                reply,
                at: now,
            },
        )
    };
    let refused = || failure(FailureKind::NotGranted, Sent::Refused);
    reply(Ask::State(id('1')), refused());
    reply(Ask::AddOwner(id('1')), Reply::Answer(Answer::Done));
    reply(Ask::State(id('1')), refused());
    assert_eq!(world.known.owner, Ownership::Tried);
    let trouble = world.known.trouble.unwrap();
    assert_eq!(trouble.reason, "CredentialsRejected");
}

#[test]
fn our_own_limit_is_no_failure() {
    let limited = failure(FailureKind::Limited, Sent::No);
    let world = after("{}", Ask::State(id('1')), limited);
    assert_eq!((world.known.failures, world.known.trouble), (0, None));
    assert!(world.known.rest.is_some());
}

/// What is not in the status yet is not forgotten with a conflict.
#[test]
fn an_answer_is_kept_until_it_is_written() {
    let reply = Reply::Answer(Answer::Created(id('1')));
    let mut world = after(OPEN, Ask::Change(Change::Create), reply);
    let cluster = world.cluster.clone();
    assert_eq!(world.known.recall(&cluster).id, Some(id('1')));
    let mut wiped = (*cluster).clone();
    wiped.status = None;
    assert_eq!(world.known.recall(&wiped).id, None);
}

/// The log only explains. An IM that cannot give it is asked for everything else.
#[test]
fn a_log_that_cannot_be_read_stops_nothing() {
    for kind in [FailureKind::Unreachable, FailureKind::Refused] {
        let world = after("{}", Ask::Log(id('1')), failure(kind, Sent::Unknown));
        assert!(world.known.log.is_some(), "{kind:?}");
        assert_eq!(world.known.rest, None);
    }
    let gone = failure(FailureKind::NotFound, Sent::Refused);
    let world = after(
        "known: { reading: { state: failed } }",
        Ask::Log(id('1')),
        gone,
    );
    assert!(world.known.log.is_some());
    assert!(world.known.reading.is_none());
}

#[test]
fn an_owner_is_not_added_to_what_is_gone() {
    let gone = failure(FailureKind::NotFound, Sent::Refused);
    let world = after("known: { toAddOwner: true }", Ask::AddOwner(id('1')), gone);
    assert_eq!(world.known.owner, Ownership::Tried);
}

/// Whoever may write the status may write an id of somebody else into it.
#[test]
fn without_the_clusters_name_an_infrastructure_is_left_alone() {
    let named = |name: &str| {
        let template = format!("metadata: {{ infra_name: \"{name}\" }}");
        let reply = Reply::Answer(Answer::Template(template));
        let deleted = "known: { nothing: true }\ncluster: { metadata: { deletionTimestamp: \"2026-01-01T00:50:00Z\" } }";
        after(deleted, Ask::Name(id('1')), reply)
    };
    let other = named("podloom-another");
    assert_eq!(other.known.gone.clone().unwrap().reason, "AdoptionFailed");
    assert!(other.is_unnamed());
    let own = named(&other.infrastructure_name());
    assert!(own.known.gone.is_none());
    assert!(!own.is_unnamed());
    // What was read of the id before is not of this one, or its kubeconfig would be fetched.
    let template = "metadata: { infra_name: podloom-another }".to_owned();
    let reply = Reply::Answer(Answer::Template(template));
    let forged = after(
        "known: { reading: { state: configured } }",
        Ask::Name(id('1')),
        reply,
    );
    assert!(forged.known.reading.is_none());
}

/// An id says nothing about whose infrastructure it is: another server may have any.
#[test]
fn at_another_url_only_the_name_counts() {
    let named = |name: &str| {
        let template = format!("metadata: {{ infra_name: \"{name}\" }}");
        let reply = Reply::Answer(Answer::Template(template));
        after("backend: moved", Ask::Name(id('1')), reply)
    };
    let other = named("podloom-another");
    assert_eq!(other.known.gone.clone().unwrap().reason, "EndpointChanged");
    assert!(other.is_elsewhere());
    let own = named(&other.infrastructure_name());
    assert!(own.known.gone.is_none());
    assert!(!own.is_elsewhere());
}

/// IM answers that it deletes, and then it has the infrastructure as before.
#[test]
fn an_accepted_deletion_that_is_undone_counts_once() {
    let going = |state: &str| {
        format!(
            "{{ cluster: {{ metadata: {{ deletionTimestamp: \"2026-01-01T00:59:00Z\" }}, status: {{ operation: {{ kind: Delete, \
             startedAt: \"2026-01-01T00:59:00.000000Z\", lastCallAt: \"2026-01-01T00:59:00.000000Z\", finishedAt: null, attempts: 2 }} }} \
             }}, known: {{ deleting: true, undone: 1, reading: {{ state: {state} }} }} }}"
        )
    };
    for (state, times) in [
        ("configured", 2),
        ("running", 2),
        ("deleting", 1),
        ("unknown", 1),
    ] {
        let Case { mut world, now } = Case::read(&going(state));
        let reading = world.known.reading.clone().unwrap().what;
        for _ in 0..2 {
            let reply = Reply::Answer(Answer::State(reading.clone()));
            let ask = Ask::State(id('4'));
            absorb(
                &mut world,
                Asked {
                    ask,
                    reply,
                    at: now,
                },
            );
        }
        assert_eq!(world.known.undone.times, times, "{state}");
    }
}
