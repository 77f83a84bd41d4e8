//! What the controller of Cleaners runs with.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use podloom_syntax::names::{dns_label, dns_subdomain};

/// What the controller of Cleaners runs with.
#[derive(Clone, Debug)]
pub struct CleanerSetup {
    /// What the operator's flags say about every Cleaner.
    pub settings: Arc<CleanerSettings>,
    /// How many Cleaners are reconciled at once, in each watch scope; at least 8, and 32 if that is all namespaces, of which
    /// one gets a quarter.
    pub workers: u16,
    /// How many threads evaluate conditions at once, in the whole process; 2 by default.
    pub evaluation_threads: usize,
    /// Which objects get a Cleaner by what is written on them.
    pub lifetimes: LifetimeSettings,
}

/// Which objects get a Cleaner if an annotation or a label says how long they live.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LifetimeSettings {
    /// Their kinds, which are namespaced.
    pub kinds: BTreeSet<GroupResource>,
    /// Whether these Cleaners delete nothing, and only report.
    pub is_dry_run: bool,
}

/// What the operator's flags say about every Cleaner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanerSettings {
    /// Namespaces in which no Cleaner deletes anything.
    pub excluded_namespaces: BTreeSet<String>,
    /// The cluster-scoped kinds that targets may have.
    pub cluster_scoped: BTreeSet<GroupResource>,
    /// Whether those delete nothing that objects got for their lifetime, whatever their specs say.
    pub ttl_dry_run: bool,
    /// Whether CloudEvents may be sent to this machine itself.
    pub allow_loopback_sinks: bool,
}

impl CleanerSettings {
    /// The namespaces that are excluded unless a flag says otherwise.
    pub const EXCLUDED_NAMESPACES: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];
}

/// A kind by its plural and group, as `kubectl` writes it: `namespaces`, `clusterroles.rbac.authorization.k8s.io`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    /// The plural of the kind, in lower case.
    pub plural: String,
    /// The API group; empty for the core.
    pub group: String,
}

/// Why a text is no [`GroupResource`].
const NO_KIND: &str = "this is no kind; write its plural and its group with a dot between them, such as clusterroles.rbac.authorization.k8s.io, or \
     only the plural for the core, such as namespaces";

impl FromStr for GroupResource {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (plural, group) = text.split_once('.').unwrap_or((text, ""));
        let is_valid = dns_label(plural).is_ok()
            && (dns_subdomain(group).is_ok() || (group.is_empty() && !text.ends_with('.')));
        is_valid
            .then(|| Self {
                plural: plural.to_owned(),
                group: group.to_owned(),
            })
            .ok_or(NO_KIND)
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plural)?;
        match self.group.as_str() {
            "" => Ok(()),
            group => write!(f, ".{group}"),
        }
    }
}

#[cfg(test)]
mod tests;
