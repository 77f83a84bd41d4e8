//! The duties: what an installation can switch on. Each has a row in this table.
//!
//! The row decides everything else about a duty: the values of `--controllers`, which kinds and rights preflight checks, what
//! `podloom crds` and `podloom rbac` print, readiness, Leases and metrics. Tests compare `deploy/` with it.
//! The rows are in `rows`.
//! To add a duty, follow "Adding a kind" in `host/ARCHITECTURE.md`.

mod rows;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use podloom_api::{SelenosisApi, SelenosisKind};

use self::rows::{
    BROWSER, CHAIN, CLEANER, CLUSTER_EVENTS, EVENTS, INFRASTRUCTURE, LEASE, OWN_EVENTS, PORTAL,
    ROLLOUT, WEBHOOK,
};
pub use podloom_engine::kind::ResourceScope;

/// What an installation can switch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Duty {
    /// Browsers and BrowserConfigs.
    Browser,
    /// PortalExposes and TunnelClasses.
    Portal,
    /// Clusters, and the Clouds and InfrastructureProviders that they run on.
    Infrastructure,
    /// Cleaners.
    Cleaner,
    /// ChainRollouts.
    Rollout,
    /// The admission webhooks.
    Webhook,
}

/// Everything that differs between duties.
#[derive(Debug)]
pub struct Row {
    /// The name in `--controllers`, `/readyz/<duty>`, logs and metrics.
    pub name: &'static str,
    /// What switches it on.
    pub switch: Switch,
    /// How its Deployment, roles and Lease are named.
    pub names: Names,
    /// Its kinds.
    pub kinds: &'static [OwnKind],
    /// The rights that it needs, except those that [`Row::all_rights`] adds.
    pub rights: &'static [Right],
    /// The role that users fill with rights for it; none if it needs none.
    pub aggregated: Option<Aggregated>,
    /// Whether it needs the plugin chain.
    pub chain: Chain,
}

/// A ClusterRole without rules, which Kubernetes fills with those of all ClusterRoles that have a label.
///
/// Users give the operator rights to their own kinds in this way. Preflight asks for none of them: an object that needs one that is
/// missing says so in its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aggregated {
    /// What its name ends in, after the name of the duty's other objects and a dash.
    pub suffix: &'static str,
    /// The label, whose value is `true`.
    pub label: &'static str,
    /// What the rights are for, in words that complete "the operator …".
    pub why: &'static str,
}

/// What switches a duty on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// Its name in `--controllers`.
    Controllers,
    /// A flag of its own.
    Flag(&'static str),
}

/// How the Deployment, roles and Lease of a duty are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// `podloom`, and the Lease `<lease-name>`: for the first duty, as older installations know it.
    Plain,
    /// `podloom-<duty>`, and the Lease `<lease-name>-<duty>`.
    WithDuty,
    /// All of them, also the Lease, as `--webhook-name` says, so that installations beside each other share none. If `--lease-name`
    /// is given, the Lease is `<lease-name>-<duty>`.
    Webhook,
}

/// The names that an installation gives.
#[derive(Clone, Copy, Debug)]
pub struct GivenNames<'a> {
    /// The value of `--lease-name`, if it is given.
    pub lease: Option<&'a str>,
    /// The value of `--webhook-name`.
    pub webhook: &'a str,
}

/// The name of the webhooks unless `--webhook-name` gives another.
pub const WEBHOOK_NAME: &str = "podloom-webhook";
/// What the names of all other duties begin with, unless `--lease-name` gives another name for the Leases.
const NAME: &str = "podloom";

impl Default for GivenNames<'_> {
    fn default() -> Self {
        Self {
            lease: None,
            webhook: WEBHOOK_NAME,
        }
    }
}

/// Whether a duty needs the plugin chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    /// It does: it passes pods through the chain.
    Needed,
    /// It does not.
    Unused,
}

/// A kind of ours that a duty reconciles.
#[derive(Debug)]
pub struct OwnKind {
    /// The API group.
    pub group: Group,
    /// The version that the duty reads and writes.
    pub version: &'static str,
    /// The plural name of the resource.
    pub plural: &'static str,
    /// Whether its objects are in namespaces.
    pub scope: ResourceScope,
    /// Returns its CustomResourceDefinition for a set of API groups.
    pub definition: fn(SelenosisApi) -> CustomResourceDefinition,
    /// Which users of the cluster may write it.
    pub writers: Writers,
    /// Whether the duty works where it is not installed.
    pub is_optional: bool,
    /// The verbs for programs that create such objects; empty for kinds that only people write.
    pub clients: &'static [&'static str],
}

/// The least privileged of Kubernetes' user roles that may write a kind. `view` may read all kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// `edit`: the objects can do no more than pods, which this role may create too.
    Edit,
    /// `admin`: the objects decide how the operator uses its own rights.
    Admin,
}

/// A right: verbs on one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    /// The API group.
    pub group: Group,
    /// The plural name of the resource.
    pub resource: &'static str,
    /// The subresource, if the right is for one.
    pub subresource: Option<&'static str>,
    /// The verbs.
    pub verbs: &'static [&'static str],
    /// Where it is needed.
    pub scope: RightScope,
    /// The one object that it is for, if it is not for all.
    pub object: Option<Object>,
    /// Whether the operator can work without it.
    pub need: Need,
    /// What it is for, in words that complete "the operator …".
    pub why: &'static str,
}

/// An API group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The group of one of Selenosis' kinds, which depends on the installation.
    Selenosis(SelenosisKind),
    /// A fixed group.
    Fixed(&'static str),
}

/// Where a right is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RightScope {
    /// In each watched namespace: all of them, unless `--namespace` names some.
    WatchedNamespaces,
    /// In all namespaces, whichever are watched: the API server sends the webhooks the pods of any namespace.
    AllNamespaces,
    /// In the whole cluster, whichever namespaces are watched.
    Cluster,
    /// In the namespace of the Lease, if leader election is on.
    LeaseNamespace,
    /// In this namespace, whichever namespaces are watched.
    Namespace(&'static str),
    /// In the operator's own namespace.
    OwnNamespace,
    /// In the namespace of the Secrets that cluster-scoped objects name (`--global-secret-namespace`).
    GlobalSecrets,
}

/// An object whose name the installation decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// The webhook configurations: they have the name `--webhook-name`.
    WebhookConfiguration,
    /// The Secret with the webhook's certificates: the name is `--webhook-name` with `-tls`.
    WebhookSecret,
}

/// Whether the operator can work without a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It cannot.
    Required,
    /// It can; the text says what is missing then.
    Optional(&'static str),
    /// It can if no plugin may write labels; the text says what is missing otherwise.
    ForLabels(&'static str),
}

impl Duty {
    /// All duties.
    pub const ALL: [Self; 6] = [
        Self::Browser,
        Self::Portal,
        Self::Infrastructure,
        Self::Cleaner,
        Self::Rollout,
        Self::Webhook,
    ];

    /// Returns its row.
    #[must_use]
    pub const fn row(self) -> &'static Row {
        match self {
            Self::Browser => &BROWSER,
            Self::Portal => &PORTAL,
            Self::Infrastructure => &INFRASTRUCTURE,
            Self::Cleaner => &CLEANER,
            Self::Rollout => &ROLLOUT,
            Self::Webhook => &WEBHOOK,
        }
    }

    /// Returns the duty of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|duty| duty.row().name == name)
    }
}

impl Row {
    /// Returns all rights that the duty uses: its own, and those that duties with its kinds or with the chain need, and those for its Lease.
    pub fn all_rights(&self) -> impl Iterator<Item = &'static Right> + use<> {
        let has = |scope| self.kinds.iter().any(|kind| kind.scope == scope);
        let events: &[Right] = match has(ResourceScope::Namespaced) {
            true if self.is_at_home() => &OWN_EVENTS,
            true => &EVENTS,
            false => &[],
        };
        let cluster_events: &[Right] = match has(ResourceScope::Cluster) {
            true => &CLUSTER_EVENTS,
            false => &[],
        };
        let chain: &[Right] = match self.chain {
            Chain::Needed => &CHAIN,
            Chain::Unused => &[],
        };
        [self.rights, events, cluster_events, chain, &LEASE]
            .into_iter()
            .flatten()
    }

    /// Whether its kinds count in the operator's own namespace alone.
    fn is_at_home(&self) -> bool {
        let of_kinds = |right: &&Right| {
            let mut kinds = self.kinds.iter();
            kinds.any(|kind| (right.group, right.resource) == (kind.group, kind.plural))
        };
        let mut rights = self.rights.iter().filter(of_kinds);
        rights.any(|right| right.scope == RightScope::OwnNamespace)
    }

    /// Returns the name of its Deployment, its ServiceAccount and the role for Kubernetes' own kinds. The names of its other objects
    /// begin with it.
    #[must_use]
    pub fn object_name(&self, given: &GivenNames<'_>) -> String {
        match self.names {
            Names::Plain => NAME.to_owned(),
            Names::WithDuty => format!("{NAME}-{}", self.name),
            Names::Webhook => given.webhook.to_owned(),
        }
    }

    /// Returns the name of its Lease.
    #[must_use]
    pub fn lease_name(&self, given: &GivenNames<'_>) -> String {
        match (self.names, given.lease) {
            (Names::Plain, Some(lease)) => lease.to_owned(),
            (Names::WithDuty | Names::Webhook, Some(lease)) => format!("{lease}-{}", self.name),
            (_, None) => self.object_name(given),
        }
    }

    /// Returns the name of the role for its own kinds.
    #[must_use]
    pub fn kinds_role_name(&self, given: &GivenNames<'_>) -> String {
        match self.names {
            Names::Plain => "podloom-browsers".to_owned(),
            Names::WithDuty | Names::Webhook => format!("{}-kinds", self.object_name(given)),
        }
    }

    /// Returns the role that users fill, and its name; none if the duty has none.
    #[must_use]
    pub fn aggregated_role(&self, given: &GivenNames<'_>) -> Option<(String, Aggregated)> {
        let role = self.aggregated?;
        let name = format!("{}-{}", self.object_name(given), role.suffix);
        Some((name, role))
    }
}

impl Need {
    /// Returns what is missing without the right; none if the operator cannot work without it.
    #[must_use]
    pub const fn without(self) -> Option<&'static str> {
        match self {
            Self::Required => None,
            Self::Optional(without) | Self::ForLabels(without) => Some(without),
        }
    }
}

impl Object {
    /// Returns its name if `--webhook-name` is `name`.
    #[must_use]
    pub fn name(self, name: &str) -> String {
        match self {
            Self::WebhookConfiguration => name.to_owned(),
            Self::WebhookSecret => format!("{name}-tls"),
        }
    }
}

impl OwnKind {
    /// Returns the name of its CustomResourceDefinition, `<plural>.<group>`.
    #[must_use]
    pub fn full_name(&self, api: SelenosisApi) -> String {
        format!("{}.{}", self.plural, self.group.name(api))
    }
}

impl Group {
    /// Returns the name of the group in an installation; empty for the core group.
    #[must_use]
    pub fn name(self, api: SelenosisApi) -> &'static str {
        match self {
            Self::Selenosis(kind) => api.group(kind),
            Self::Fixed(name) => name,
        }
    }
}

#[cfg(test)]
mod tests;
