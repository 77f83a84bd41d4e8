use std::collections::BTreeMap;
use std::sync::Arc;

use podloom_engine::metrics::EngineMetrics;
use podloom_engine::outbound::OutboundMetrics;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::drift::{Accounts, NAMES, Orphans, Owned, READS};
use crate::fixtures::{caches, provider};
use crate::im::InfrastructureId;
use crate::metrics::InfrastructureMetrics;
use crate::resolve::{Account, ImEndpoint, Tenant, endpoint};

const UID: &str = "7c1d1b1e-2a55-11ef-9a52-0242ac110002";

/// The provider of a namespace.
fn im(namespace: &str) -> ImEndpoint {
    let written = provider(Some(namespace), "https://im.example.com");
    endpoint(&serde_json::from_value(written).unwrap(), &caches(&[], &[])).unwrap()
}

fn account(namespace: &str) -> Arc<Account> {
    Arc::new(im(namespace).account())
}

fn tenant(namespace: &str) -> Tenant {
    im(namespace).tenant()
}

fn id(number: usize) -> InfrastructureId {
    InfrastructureId::parse(&format!("00000000-0000-4000-8000-{number:012x}")).unwrap()
}

fn orphans() -> (Orphans, Registry) {
    let mut registry = Registry::default();
    let engine = EngineMetrics::collected(&mut registry);
    let outbound = OutboundMetrics::register(&mut registry);
    let metrics = InfrastructureMetrics::declared(&mut registry, &engine.objects, outbound);
    (Orphans::new(metrics), registry)
}

/// Learns the name of the first infrastructure of a namespace's account, and looks whether it is an orphan.
fn see(orphans: &Orphans, namespace: &str, made_for: Option<&str>, there: &str) {
    let owned = Owned {
        account: account(namespace),
        id: id(1),
    };
    orphans.learn(&tenant(namespace), owned, made_for.map(str::to_owned));
    orphans.judge(&tenant(namespace), |uid| uid == there);
}

#[track_caller]
fn check(registry: &Registry, expected: usize) {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    let line = format!("\nim_orphaned_infrastructures {expected}\n");
    assert!(text.contains(&line), "{text}");
}

#[test]
fn only_an_infrastructure_that_was_made_for_a_cluster_that_is_gone_is_an_orphan() {
    let (orphans, registry) = orphans();
    see(&orphans, "team", None, "");
    check(&registry, 0);
    see(&orphans, "team", Some(UID), UID);
    check(&registry, 0);
    // Its Cluster is deleted later.
    orphans.judge(&tenant("team"), |_| false);
    check(&registry, 1);
    let unread = orphans.unread(&tenant("team"), &account("team"), vec![id(1)]);
    assert!(unread.is_empty(), "it is read once");
}

#[test]
fn two_tenants_with_the_same_server_have_one_orphan_between_them() {
    let (orphans, registry) = orphans();
    see(&orphans, "team", Some(UID), "");
    see(&orphans, "neighbours", Some(UID), "");
    check(&registry, 1);
}

#[test]
fn an_orphan_that_is_deleted_or_adopted_counts_no_more() {
    let (orphans, registry) = orphans();
    see(&orphans, "team", Some(UID), "");
    let unread = orphans.unread(&tenant("team"), &account("team"), Vec::new());
    assert!(unread.is_empty());
    orphans.judge(&tenant("team"), |_| false);
    check(&registry, 0);
    assert_eq!(orphans.len(&tenant("team")), 0);
}

#[test]
fn an_orphan_of_a_server_that_does_not_answer_still_counts() {
    let (orphans, registry) = orphans();
    see(&orphans, "team", Some(UID), "");
    let im = im("team");
    let accounts = Accounts::from([(im.account(), im)]);
    orphans.retain(&BTreeMap::from([(tenant("team"), accounts)]));
    check(&registry, 1);
    // The provider names another account.
    orphans.retain(&BTreeMap::from([(tenant("team"), Accounts::new())]));
    check(&registry, 0);
    see(&orphans, "team", Some(UID), "");
    // Nobody names a provider any more.
    orphans.retain(&BTreeMap::new());
    check(&registry, 0);
}

/// A hostile server may list anything.
#[test]
fn one_tenant_has_room_for_so_many_and_takes_nothing_from_others() {
    let (orphans, _) = orphans();
    let listed: Vec<InfrastructureId> = (0..2 * NAMES).map(id).collect();
    let of =
        |namespace: &str| orphans.unread(&tenant(namespace), &account(namespace), listed.clone());
    for _ in 0..2 * NAMES / READS {
        let unread = of("attackers");
        assert!(unread.len() <= READS);
        for id in unread {
            let account = account("attackers");
            orphans.learn(&tenant("attackers"), Owned { account, id }, None);
        }
    }
    assert_eq!(orphans.len(&tenant("attackers")), NAMES);
    assert!(of("attackers").is_empty());
    assert_eq!(of("team").len(), READS);
}

/// It is not always the same ones that are read, for some never get a name.
#[test]
fn which_names_are_read_is_chance() {
    let (orphans, _) = orphans();
    let listed: Vec<InfrastructureId> = (0..10 * READS).map(id).collect();
    let read = || orphans.unread(&tenant("team"), &account("team"), listed.clone());
    assert_ne!(read(), read());
}
