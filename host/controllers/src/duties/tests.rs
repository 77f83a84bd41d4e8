use std::collections::BTreeSet;

use podloom_api::{SelenosisApi, SelenosisKind, crd};
use podloom_engine::kind::ResourceScope;

use super::{
    Chain, Duty, GivenNames, Group, Names, Need, OwnKind, Right, RightScope, Row, Switch,
    WEBHOOK_NAME, Writers,
};

#[test]
fn each_kind_is_what_its_definition_says() {
    for duty in Duty::ALL {
        for kind in duty.row().kinds {
            for api in SelenosisApi::ALL {
                let definition = (kind.definition)(api);
                let name = definition.metadata.name.unwrap_or_default();
                assert_eq!(name, kind.full_name(api));
                assert_eq!(definition.spec.group, kind.group.name(api), "{name}");
                assert_eq!(definition.spec.names.plural, kind.plural, "{name}");
                assert_eq!(definition.spec.scope, kind.scope.name(), "{name}");
                let mut versions = definition.spec.versions.iter();
                let version = versions.find(|version| version.name == kind.version);
                assert!(version.is_some_and(|version| version.served), "{name}");
            }
        }
    }
}

#[test]
fn duties_have_different_names() {
    let rows = Duty::ALL.map(Duty::row);
    let given = GivenNames::default();
    let of =
        |name: &dyn Fn(&Row) -> String| rows.iter().map(|row| name(row)).collect::<BTreeSet<_>>();
    for names in [
        of(&|row| row.name.to_owned()),
        of(&|row| row.object_name(&given)),
        of(&|row| row.kinds_role_name(&given)),
        of(&|row| row.lease_name(&given)),
    ] {
        assert_eq!(names.len(), rows.len(), "{names:?}");
    }
    for (duty, row) in Duty::ALL.into_iter().zip(rows) {
        assert_eq!(Duty::named(row.name), Some(duty));
        assert!(row.name.bytes().all(|byte| byte.is_ascii_lowercase()));
        assert_ne!(row.name, "none", "--controllers none means no duty");
    }
    assert_eq!(Duty::named("none"), None);
}

/// Existing installations hold the Lease `podloom`, and have objects of that name.
#[test]
fn only_browsers_keep_the_plain_names() {
    let plain: Vec<_> = Duty::ALL
        .into_iter()
        .filter(|duty| duty.row().names == Names::Plain)
        .collect();
    assert_eq!(plain, [Duty::Browser]);
    let row = Duty::Browser.row();
    for given in [GivenNames::default(), OTHER_WEBHOOK] {
        assert_eq!(row.object_name(&given), "podloom");
        assert_eq!(row.kinds_role_name(&given), "podloom-browsers");
        assert_eq!(row.lease_name(&given), "podloom");
    }
    assert_eq!(row.lease_name(&MINE), "mine");
}

const MINE: GivenNames<'_> = GivenNames {
    lease: Some("mine"),
    webhook: WEBHOOK_NAME,
};

const OTHER_WEBHOOK: GivenNames<'_> = GivenNames {
    lease: None,
    webhook: "other",
};

#[test]
fn the_name_of_the_webhooks_names_all_their_objects() {
    let row = Duty::Webhook.row();
    let names = |given: &GivenNames<'_>| (row.object_name(given), row.lease_name(given));
    let expected = |name: &str, lease: &str| (name.to_owned(), lease.to_owned());
    let default = expected("podloom-webhook", "podloom-webhook");
    assert_eq!(names(&GivenNames::default()), default);
    assert_eq!(names(&OTHER_WEBHOOK), expected("other", "other"));
    assert_eq!(names(&MINE), expected("podloom-webhook", "mine-webhook"));
    let both = GivenNames {
        lease: MINE.lease,
        ..OTHER_WEBHOOK
    };
    assert_eq!(names(&both), expected("other", "mine-webhook"));
}

#[test]
fn every_right_has_a_reason() {
    for row in Duty::ALL.map(Duty::row) {
        for right in row.all_rights() {
            assert!(!right.verbs.is_empty(), "{right:?}");
            assert!(!right.why.is_empty(), "{right:?}");
            assert!(!right.why.ends_with('.'), "{right:?}");
        }
        for kind in row.kinds {
            let scopes: &[_] = match kind.scope {
                ResourceScope::Namespaced => {
                    &[RightScope::WatchedNamespaces, RightScope::OwnNamespace]
                }
                ResourceScope::Cluster => &[RightScope::Cluster],
            };
            let watches = row.rights.iter().any(|right| {
                (right.group, right.resource) == (kind.group, kind.plural)
                    && scopes.contains(&right.scope)
                    && right.subresource.is_none()
                    && ["list", "watch"]
                        .iter()
                        .all(|verb| right.verbs.contains(verb))
            });
            assert!(watches, "{} cannot watch {}", row.name, kind.plural);
        }
    }
}

/// A duty with a cluster-scoped kind.
const CLUSTERS: Row = Row {
    name: "clusters",
    switch: Switch::Controllers,
    names: Names::WithDuty,
    kinds: &[OwnKind {
        group: Group::Fixed("example.com"),
        version: "v1",
        plural: "clusters",
        scope: ResourceScope::Cluster,
        definition: |api| crd(api, SelenosisKind::Browser),
        writers: Writers::Admin,
        is_optional: false,
        clients: &[],
    }],
    rights: &[Right {
        group: Group::Fixed("example.com"),
        resource: "clusters",
        subresource: None,
        verbs: &["list", "watch"],
        scope: RightScope::Cluster,
        object: None,
        need: Need::Required,
        why: "watches clusters",
    }],
    aggregated: None,
    chain: Chain::Unused,
};

#[test]
fn a_duty_has_the_rights_that_its_kinds_chain_and_lease_need() {
    let resources = |row: &Row| {
        let rights = row.all_rights();
        rights.map(|right| right.resource).collect::<BTreeSet<_>>()
    };
    assert_eq!(
        resources(&CLUSTERS),
        BTreeSet::from(["clusters", "events", "leases"])
    );
    let with_chain = Row {
        chain: Chain::Needed,
        ..CLUSTERS
    };
    assert_eq!(
        resources(&with_chain),
        BTreeSet::from(["clusters", "events", "leases", "namespaces"])
    );
    let scopes_of_events = |row: &Row| -> Vec<_> {
        let events = row.all_rights().filter(|right| right.resource == "events");
        events.map(|right| right.scope).collect()
    };
    let of_cluster = RightScope::Namespace("default");
    assert_eq!(scopes_of_events(&CLUSTERS), [of_cluster]);
    let watched = RightScope::WatchedNamespaces;
    assert_eq!(scopes_of_events(Duty::Browser.row()), [watched]);
    assert_eq!(CLUSTERS.object_name(&MINE), "podloom-clusters");
    assert_eq!(CLUSTERS.lease_name(&MINE), "mine-clusters");
}
