//! The row of the controller of Cleaners.

use podloom_api::{cleaner_crd, names};

use super::super::{
    Aggregated, Chain, Group, Names, OwnKind, ResourceScope, Right, RightScope, Row, Switch,
    Writers,
};
use super::fixed;

const CLEANERS: &str = "cleaners";

pub(in crate::duties) const CLEANER: Row = Row {
    name: "cleaner",
    switch: Switch::Controllers,
    names: Names::WithDuty,
    kinds: &[OwnKind {
        group: Group::Fixed(names::cleaner::GROUP),
        version: names::cleaner::VERSION,
        plural: CLEANERS,
        scope: ResourceScope::Namespaced,
        definition: |_| cleaner_crd(),
        // They delete with the operator's rights, which may be more than those of whoever writes them.
        writers: Writers::Admin,
        is_optional: false,
        clients: &[],
    }],
    rights: &[
        Right {
            verbs: &["list", "watch", "patch", "delete"],
            why: "watches Cleaners, sets their finalizer, and deletes those whose conditions are true",
            ..of_cleaners(None)
        },
        Right {
            verbs: &["patch"],
            why: "writes the status of Cleaners",
            ..of_cleaners(Some("status"))
        },
    ],
    aggregated: Some(Aggregated {
        suffix: "targets",
        label: names::cleaner::label::AGGREGATE,
        why: "reads and deletes with these rights what Cleaners name",
    }),
    chain: Chain::Unused,
};

const fn of_cleaners(subresource: Option<&'static str>) -> Right {
    Right {
        subresource,
        ..fixed(
            names::cleaner::GROUP,
            CLEANERS,
            RightScope::WatchedNamespaces,
        )
    }
}
