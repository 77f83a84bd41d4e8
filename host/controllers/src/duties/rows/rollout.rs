//! The row of the controller of ChainRollouts, and what those need that follow one.

use podloom_api::{chain_rollout_crd, names};

use super::super::{
    Chain, Group, Names, Need, OwnKind, ResourceScope, Right, RightScope, Row, Switch, Writers,
};
use super::fixed;

const ROLLOUTS: &str = "chainrollouts";

pub(in crate::duties) const ROLLOUT: Row = Row {
    name: "rollout",
    switch: Switch::Controllers,
    names: Names::WithDuty,
    kinds: &[OwnKind {
        group: Group::Fixed(names::rollout::GROUP),
        version: names::rollout::VERSION,
        plural: ROLLOUTS,
        scope: ResourceScope::Namespaced,
        definition: |_| chain_rollout_crd(),
        // They decide which plugins the pods of all namespaces pass.
        writers: Writers::Admin,
        is_optional: false,
        clients: &[],
    }],
    rights: &[
        Right {
            verbs: &["list", "watch"],
            why: "watches ChainRollouts",
            ..of_rollouts(None)
        },
        Right {
            verbs: &["patch"],
            why: "writes the status of ChainRollouts",
            ..of_rollouts(Some("status"))
        },
        // No verb of Kubernetes: the policy of deploy/controllers/rollout asks for it.
        Right {
            verbs: &["judge"],
            why: "decides which pods pass the candidate; what only reports may write nothing but its entry in status.replicas",
            ..of_rollouts(None)
        },
        Right {
            verbs: &["list", "watch"],
            need: Need::Optional(
                "nobody sees whether pods become Ready and whether their containers restart",
            ),
            why: "sees whether pods become Ready and whether their containers restart",
            ..fixed("", "pods", RightScope::WatchedNamespaces)
        },
    ],
    aggregated: None,
    chain: Chain::Unused,
};

const fn of_rollouts(subresource: Option<&'static str>) -> Right {
    Right {
        subresource,
        ..fixed(names::rollout::GROUP, ROLLOUTS, RightScope::OwnNamespace)
    }
}
