//! The duties: what an installation can switch on, one row each.
//!
//! All that depends on a duty comes from its row: the values of `--controllers`, which kinds and rights are looked for before it
//! starts, what `podloom crds` and `podloom rbac` print, readiness, Leases and metrics. Tests hold `deploy/` to it.
//! A further duty is a row here and an arm where the binary starts it.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use podloom_api::{SelenosisApi, SelenosisKind, crd};

pub use crate::engine::kind::ResourceScope;

/// What an installation can switch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Duty {
    /// Browsers and BrowserConfigs.
    Browser,
}

/// All that is particular to a duty.
#[derive(Debug)]
pub struct Row {
    /// What `--controllers`, `/readyz/<duty>`, logs and metrics call it.
    pub name: &'static str,
    /// How its objects and its Lease are called.
    pub names: Names,
    /// Which of several replicas work.
    pub replicas: Replicas,
    /// Its kinds.
    pub kinds: &'static [OwnKind],
    /// What it asks of the API server, apart from what all duties of its sort ask.
    pub rights: &'static [Right],
    /// Whether it passes pods through the chain of plugins.
    pub chain: Chain,
}

/// How the objects and the Lease of a duty are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// `podloom`, and the Lease as `--lease-name` says: the first duty, which older installations have without a name.
    Plain,
    /// `podloom-<duty>`, and the Lease `<lease-name>-<duty>`.
    WithDuty,
}

/// Which of several replicas work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replicas {
    /// The one that holds the Lease.
    Leader,
    /// All, without a Lease.
    All,
}

/// Whether a duty passes pods through the chain of plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    /// It does, so it works only with a chain.
    Needed,
    /// It does not.
    Unused,
}

/// A kind that is a duty's own.
#[derive(Debug)]
pub struct OwnKind {
    /// The API group.
    pub group: Group,
    /// The version that the duty reads and writes.
    pub version: &'static str,
    /// The resource, in the plural.
    pub plural: &'static str,
    /// Whether its objects are in namespaces.
    pub scope: ResourceScope,
    /// Its CustomResourceDefinition in a set of API groups.
    pub definition: fn(SelenosisApi) -> CustomResourceDefinition,
    /// Who of a cluster's users may write it.
    pub writers: Writers,
    /// What programs may do that ask for its objects; nothing for a kind that only people write.
    pub clients: &'static [&'static str],
}

/// The lowest of Kubernetes' roles for users that can write a kind. `view` can read every kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// `edit`: its objects do no more than a pod does, which this role may create too.
    Edit,
    /// `admin`: its objects decide what is done with the operator's own rights.
    Admin,
}

/// The right to do some things with one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    /// The API group.
    pub group: Group,
    /// The resource, in the plural.
    pub resource: &'static str,
    /// Its subresource, if that is meant.
    pub subresource: Option<&'static str>,
    /// What is done with it.
    pub verbs: &'static [&'static str],
    /// Where it is needed.
    pub scope: RightScope,
    /// Whether the operator can do without.
    pub need: Need,
    /// What it is for, as the rest of a sentence that begins with the operator.
    pub why: &'static str,
}

/// An API group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// That of one of Selenosis' kinds, which an installation chooses.
    Selenosis(SelenosisKind),
    /// Always the same.
    Fixed(&'static str),
}

/// Where a right is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RightScope {
    /// In each watched namespace: all of them, unless `--namespace` names some.
    WatchedNamespaces,
    /// In the whole cluster, whichever namespaces are watched.
    Cluster,
    /// In the namespace of the Lease, if leader election is on.
    LeaseNamespace,
}

/// Whether the operator can do without a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It cannot work without.
    Required,
    /// It works, and this is what is missing then.
    Optional(&'static str),
}

const BROWSER: Row = Row {
    name: "browser",
    names: Names::Plain,
    replicas: Replicas::Leader,
    kinds: &[
        OwnKind {
            group: Group::Selenosis(SelenosisKind::Browser),
            version: SelenosisApi::VERSION,
            plural: SelenosisKind::Browser.plural(),
            scope: ResourceScope::Namespaced,
            definition: |api| crd(api, SelenosisKind::Browser),
            writers: Writers::Edit,
            clients: &["get", "list", "watch", "create", "delete"],
        },
        OwnKind {
            group: Group::Selenosis(SelenosisKind::BrowserConfig),
            version: SelenosisApi::VERSION,
            plural: SelenosisKind::BrowserConfig.plural(),
            scope: ResourceScope::Namespaced,
            definition: |api| crd(api, SelenosisKind::BrowserConfig),
            writers: Writers::Admin,
            clients: &[],
        },
    ],
    rights: &[
        Right {
            verbs: &["list", "watch", "patch", "delete"],
            why: "follows Browsers, sets their finalizer and labels, and deletes those that ended",
            ..of_kind(SelenosisKind::Browser, None)
        },
        Right {
            verbs: &["patch"],
            why: "tells in its status what became of a Browser",
            ..of_kind(SelenosisKind::Browser, Some("status"))
        },
        Right {
            verbs: &["update"],
            need: Need::Optional(
                "clusters that enforce owner references permissions refuse pods whose owner waits for them",
            ),
            why: "makes a Browser the owner of its pod",
            ..of_kind(SelenosisKind::Browser, Some("finalizers"))
        },
        Right {
            verbs: &["list", "watch", "patch"],
            why: "reads BrowserConfigs and takes an old finalizer off them",
            ..of_kind(SelenosisKind::BrowserConfig, None)
        },
        Right {
            verbs: &["patch"],
            why: "tells in its status what is wrong with a BrowserConfig",
            ..of_kind(SelenosisKind::BrowserConfig, Some("status"))
        },
        Right {
            verbs: &["get", "list", "watch", "create", "delete"],
            why: "makes the pods of Browsers, follows and deletes them, and never changes one",
            ..fixed("", "pods", RightScope::WatchedNamespaces)
        },
        Right {
            // Repeated Events are counted in the first one, which is a patch.
            verbs: &["create", "patch"],
            need: Need::Optional("there are no Events on Browsers"),
            why: "tells in Events what it did",
            ..fixed("events.k8s.io", "events", RightScope::WatchedNamespaces)
        },
    ],
    chain: Chain::Needed,
};

/// What every duty asks that needs the chain.
const CHAIN: [Right; 1] = [Right {
    verbs: &["list", "watch"],
    need: Need::Optional("plugins see no labels and annotations of namespaces"),
    why: "shows labels and annotations of namespaces to plugins",
    ..fixed("", "namespaces", RightScope::Cluster)
}];

/// What every duty asks that has a Lease.
const LEASE: [Right; 2] = [
    Right {
        verbs: &["get", "update"],
        why: "holds the Lease of the leader",
        ..fixed("coordination.k8s.io", "leases", RightScope::LeaseNamespace)
    },
    Right {
        verbs: &["create"],
        why: "makes the Lease of the leader",
        ..fixed("coordination.k8s.io", "leases", RightScope::LeaseNamespace)
    },
];

impl Duty {
    /// All duties.
    pub const ALL: [Self; 1] = [Self::Browser];

    /// Returns what is particular to it.
    #[must_use]
    pub const fn row(self) -> &'static Row {
        match self {
            Self::Browser => &BROWSER,
        }
    }

    /// Returns the duty of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|duty| duty.row().name == name)
    }
}

impl Row {
    /// Returns all rights that the duty uses, and no other.
    pub fn all_rights(&self) -> impl Iterator<Item = &'static Right> + use<> {
        let chain: &[Right] = match self.chain {
            Chain::Needed => &CHAIN,
            Chain::Unused => &[],
        };
        let lease: &[Right] = match self.replicas {
            Replicas::Leader => &LEASE,
            Replicas::All => &[],
        };
        [self.rights, chain, lease].into_iter().flatten()
    }

    /// Returns the name of its Deployment, its ServiceAccount and the role with its rights to Kubernetes' own kinds; the names of its
    /// other objects begin with it.
    #[must_use]
    pub fn object_name(&self) -> String {
        self.name_after("podloom")
    }

    /// Returns the name of its Lease where `--lease-name` is `name`; none if all replicas work.
    #[must_use]
    pub fn lease_name(&self, name: &str) -> Option<String> {
        (self.replicas == Replicas::Leader).then(|| self.name_after(name))
    }

    /// Returns the name of the role with the rights to its own kinds.
    #[must_use]
    pub fn kinds_role_name(&self) -> String {
        match self.names {
            Names::Plain => "podloom-browsers".to_owned(),
            Names::WithDuty => format!("{}-kinds", self.object_name()),
        }
    }

    fn name_after(&self, name: &str) -> String {
        match self.names {
            Names::Plain => name.to_owned(),
            Names::WithDuty => format!("{name}-{}", self.name),
        }
    }
}

impl OwnKind {
    /// Returns the name of its CustomResourceDefinition, which is what `kubectl` knows it by.
    #[must_use]
    pub fn full_name(&self, api: SelenosisApi) -> String {
        format!("{}.{}", self.plural, self.group.name(api))
    }
}

impl Group {
    /// Returns the group's name in an installation; the core group has none.
    #[must_use]
    pub fn name(self, api: SelenosisApi) -> &'static str {
        match self {
            Self::Selenosis(kind) => api.group(kind),
            Self::Fixed(name) => name,
        }
    }
}

const fn of_kind(kind: SelenosisKind, subresource: Option<&'static str>) -> Right {
    Right {
        group: Group::Selenosis(kind),
        resource: kind.plural(),
        subresource,
        verbs: &[],
        scope: RightScope::WatchedNamespaces,
        need: Need::Required,
        why: "",
    }
}

const fn fixed(group: &'static str, resource: &'static str, scope: RightScope) -> Right {
    Right {
        group: Group::Fixed(group),
        resource,
        subresource: None,
        verbs: &[],
        scope,
        need: Need::Required,
        why: "",
    }
}

#[cfg(test)]
mod tests;
