//! What the operator may have to ask of the API server: one table, which the operator checks at its start and the install manifests grant.

use podloom_api::{Kind, SelenosisApi};

/// The right to do some things with one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The API group.
    pub group: Group,
    /// The resource, in the plural.
    pub resource: &'static str,
    /// Its subresource, if that is meant.
    pub subresource: Option<&'static str>,
    /// What is done with it.
    pub verbs: &'static [&'static str],
    /// Where it is done.
    pub place: Place,
    /// Whether the operator can do without.
    pub need: Need,
    /// What it is for, as the rest of a sentence that begins with the operator.
    pub why: &'static str,
}

/// The API group of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// That of one of our kinds, which an installation chooses.
    Ours(Kind),
    /// Always the same.
    Fixed(&'static str),
}

/// Where a right is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In each watched namespace, or in all.
    Watched,
    /// In the whole cluster, whatever is watched.
    Cluster,
    /// In the namespace of the Lease, if there is an election.
    Lease,
}

/// Whether the operator can do without a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It cannot work without.
    Required,
    /// It works, and this is what is missing then.
    Optional(&'static str),
}

/// All rights that the operator uses, and no other.
pub const RULES: [Rule; 10] = [
    Rule {
        verbs: &["list", "watch", "patch", "delete"],
        why: "follows Browsers, sets their finalizer and labels, and deletes those that ended",
        ..ours(Kind::Browser, None)
    },
    Rule {
        verbs: &["patch"],
        why: "tells in its status what became of a Browser",
        ..ours(Kind::Browser, Some("status"))
    },
    Rule {
        verbs: &["update"],
        need: Need::Optional(
            "clusters that enforce owner references permissions refuse pods whose owner waits for them",
        ),
        why: "makes a Browser the owner of its pod",
        ..ours(Kind::Browser, Some("finalizers"))
    },
    Rule {
        verbs: &["list", "watch", "patch"],
        why: "reads BrowserConfigs and takes an old finalizer off them",
        ..ours(Kind::BrowserConfig, None)
    },
    Rule {
        verbs: &["patch"],
        why: "tells in its status what is wrong with a BrowserConfig",
        ..ours(Kind::BrowserConfig, Some("status"))
    },
    Rule {
        verbs: &["get", "list", "watch", "create", "delete"],
        why: "makes the pods of Browsers, follows and deletes them",
        ..fixed("", "pods", Place::Watched)
    },
    Rule {
        verbs: &["create", "patch"],
        need: Need::Optional("there are no Events on Browsers"),
        why: "tells in Events what it did",
        ..fixed("events.k8s.io", "events", Place::Watched)
    },
    Rule {
        verbs: &["list", "watch"],
        need: Need::Optional("plugins see no labels and annotations of namespaces"),
        why: "shows labels and annotations of namespaces to plugins",
        ..fixed("", "namespaces", Place::Cluster)
    },
    Rule {
        verbs: &["get", "update"],
        why: "holds the Lease of the leader",
        ..fixed("coordination.k8s.io", "leases", Place::Lease)
    },
    Rule {
        verbs: &["create"],
        why: "makes the Lease of the leader",
        ..fixed("coordination.k8s.io", "leases", Place::Lease)
    },
];

impl Rule {
    /// Returns the name of the API group in an installation; the core group has none.
    #[must_use]
    pub fn api_group(&self, api: SelenosisApi) -> &'static str {
        match self.group {
            Group::Ours(kind) => api.group(kind),
            Group::Fixed(name) => name,
        }
    }
}

const fn ours(kind: Kind, subresource: Option<&'static str>) -> Rule {
    Rule {
        group: Group::Ours(kind),
        resource: kind.plural(),
        subresource,
        verbs: &[],
        place: Place::Watched,
        need: Need::Required,
        why: "",
    }
}

const fn fixed(group: &'static str, resource: &'static str, place: Place) -> Rule {
    Rule {
        group: Group::Fixed(group),
        resource,
        subresource: None,
        verbs: &[],
        place,
        need: Need::Required,
        why: "",
    }
}
