//! Compares what Infrastructure Managers have with what is known of it, in two control loops.
//!
//! - [`Drift`] reads the infrastructures of Clusters. If something is different, the Cluster is woken: it decides what to do, and says
//!   so.
//! - [`Unclaimed`] lists what each account has beside them. An infrastructure without a Cluster whose name says that we made it is an
//!   orphan: it is counted and logged once, and never deleted.
//!
//! Nothing here changes anything. A Cluster that is being deleted, paused, or at work is left alone: its own controller reads its
//! infrastructure, and a read at the same time as a deletion can bring an infrastructure back.
//!
//! An Infrastructure Manager is whatever answers at the URL that somebody wrote: it may be slow, silent or hostile. So the ids of both
//! loops are [tenants](Tenant). A tenant has one turn at a time, and each turn has an end, so a slow server delays only its own
//! tenant. What a turn does not get to has its chance in a later one, since the order is another one each time.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, future, stream};
use kube::Resource;
use podloom_api::names::infrastructure::INFRASTRUCTURE_PREFIX;
use podloom_api::{ClusterObject, ClusterOperation};
use podloom_control_loop::{
    BoxError, ControlLoop, Ctx, Handler, Next, Options, Recorder, Source, Storage,
};
use podloom_engine::readable::Readable;
use podloom_turns::lock;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::cluster::Memory;
use super::im::{
    Answer, Call, FailureKind, InfrastructureId, InfrastructureManager, Reading, Target,
};
use super::in_use::Known;
use super::metrics::{DriftKind, InfrastructureMetrics};
use super::resolve::{Account, Backend, Caches, ImEndpoint, Key, Tenant, endpoint, resolve};
use super::secrets::Secrets;
use super::template::name_in;

/// How long one turn of a tenant may take.
const TURN: Duration = Duration::from_mins(2);

/// Compares infrastructures.
pub(crate) struct Drift {
    /// Reads them.
    pub(crate) outside: Outside,
    /// What was read last.
    pub(crate) memory: Memory,
    /// What is counted.
    pub(crate) metrics: InfrastructureMetrics,
}

/// When and how long the loops run, and who measures them.
#[derive(Clone)]
pub(crate) struct Schedule {
    /// How often everything is compared.
    pub(crate) interval: Duration,
    /// Receives the measurements of the loops.
    pub(crate) recorder: Arc<dyn Recorder>,
    /// Ends them.
    pub(crate) stop: CancellationToken,
}

impl Drift {
    /// Returns the work of both loops, which run until they are stopped. Begin it when the caches are filled.
    pub(crate) fn start(self, schedule: &Schedule) -> BoxFuture<'static, ()> {
        let unclaimed = Unclaimed::new(self.outside.clone(), self.metrics.clone());
        let unclaimed = run(
            "infrastructure-orphans",
            ORPHAN_WORKERS,
            unclaimed,
            schedule,
        );
        let clusters = run("infrastructure-drift", CLUSTER_WORKERS, self, schedule);
        future::join(clusters, unclaimed).map(drop).boxed()
    }
}

/// Returns the work of a loop.
fn run<L>(
    name: &'static str,
    workers: usize,
    parts: L,
    schedule: &Schedule,
) -> BoxFuture<'static, ()>
where
    L: Source<Tenant> + Storage<Tenant> + Handler<Tenant, <L as Storage<Tenant>>::Object>,
{
    let parts = Arc::new(parts);
    let control = ControlLoop {
        options: Options {
            workers: NonZeroUsize::new(workers).unwrap_or(NonZeroUsize::MIN),
            resync_interval: Some(schedule.interval),
            ..Options::default()
        },
        recorder: Arc::clone(&schedule.recorder),
        ..ControlLoop::new(name, Arc::clone(&parts), Arc::clone(&parts), parts)
    };
    control.run(schedule.stop.clone()).map(drop).boxed()
}

// The loop that looks for orphans.

/// How many tenants have their turn at once. They are few, since a Cluster is worth more than a count.
const ORPHAN_WORKERS: usize = 4;

/// The parts of the loop.
struct Unclaimed {
    outside: Outside,
    orphans: Orphans,
}

impl Unclaimed {
    fn new(outside: Outside, metrics: InfrastructureMetrics) -> Self {
        Self {
            outside,
            orphans: Orphans::new(metrics),
        }
    }

    /// Lists what a tenant's accounts have that no Cluster has, and reads the names of some.
    async fn turn(&self, tenant: &Tenant, accounts: Accounts) {
        let all = async {
            for (account, im) in accounts {
                self.look(tenant, account, &im).await;
            }
        };
        // The next turn begins with others.
        let _late = timeout(TURN, all).await;
        // Read last: a Cluster that came meanwhile has no orphan.
        let there = self.outside.uids();
        self.orphans.judge(tenant, |uid| there.contains(uid));
    }

    /// Looks at one account, until it does not answer.
    async fn look(&self, tenant: &Tenant, account: Account, im: &ImEndpoint) {
        let Some(owner) = self.outside.owner(im).await else {
            return;
        };
        let Some(mut listed) = self.outside.list(&owner).await else {
            return;
        };
        let claimed = self.outside.ids();
        listed.retain(|id| !claimed.contains(id.as_str()));
        let account = Arc::new(account);
        for id in self.orphans.unread(tenant, &account, listed) {
            let made_for = match self.outside.name(&owner, &id).await {
                Ok(made_for) => made_for,
                // A create request that is not done yet has stored no template.
                Err(FailureKind::NoTemplate | FailureKind::NotFound) => continue,
                Err(_) => return,
            };
            let account = Arc::clone(&account);
            self.orphans.learn(tenant, Owned { account, id }, made_for);
        }
    }
}

impl Source<Tenant> for Unclaimed {
    async fn list(&self, _: &Ctx) -> Result<Vec<Tenant>, BoxError> {
        let named = self.outside.accounts();
        self.orphans.retain(&named);
        Ok(named.into_keys().collect())
    }
}

impl Storage<Tenant> for Unclaimed {
    type Object = Accounts;

    /// None if the tenant has no provider any more, so that the loop forgets it.
    async fn get(&self, _: &Ctx, tenant: &Tenant) -> Result<Option<Accounts>, BoxError> {
        Ok(self.outside.accounts().remove(tenant))
    }
}

impl Handler<Tenant, Accounts> for Unclaimed {
    /// Never fails: trouble is for the provider to see.
    async fn handle(
        &self,
        ctx: &Ctx,
        tenant: &Tenant,
        accounts: Option<Accounts>,
    ) -> Result<Next, BoxError> {
        if let Some(accounts) = accounts {
            // Whoever stops does not wait for a server that hangs.
            let turn = self.turn(tenant, accounts);
            let _stopped = ctx.stopping.run_until_cancelled(turn).await;
        }
        Ok(Next::Settled)
    }
}

// The loop that compares the infrastructures of Clusters.

/// How many tenants have their turn at once.
const CLUSTER_WORKERS: usize = 16;
/// How many accounts of a tenant are asked at once, each about one infrastructure. With all workers, half of the requests that may be
/// on their way at once are left to Clusters.
const ACCOUNTS: usize = 2;
/// After how many requests in a row without an answer an account is left alone until the next turn.
const SILENCE: u32 = 2;

impl Drift {
    /// Compares what the Clusters of one tenant have.
    async fn turn(&self, claims: Claims) {
        let accounts = stream::iter(claims.into_values());
        let all = accounts.for_each_concurrent(ACCOUNTS, |claimed| self.account(claimed));
        // The next turn begins with others.
        let _late = timeout(TURN, all).await;
    }

    /// Compares the infrastructures of an account one after another.
    async fn account(&self, claimed: HashSet<Claimed>) {
        let mut silent = 0;
        let mut claimed = claimed.into_iter();
        while let Some(one) = claimed.next() {
            // Without a reading there is nothing to compare with: the Cluster's own controller reads it first.
            if self.memory.reading(&one.uid).is_none() {
                continue;
            }
            let seen = self.outside.state(&one).await;
            silent = match seen {
                Some(Err(FailureKind::Unreachable)) => silent + 1,
                _ => 0,
            };
            match seen {
                Some(Ok(reading)) => self.compare(&one, &reading),
                Some(Err(FailureKind::NotFound)) => self.differs(&one, DriftKind::Vanished),
                Some(Err(FailureKind::Unreachable)) => self.unheard(&one),
                // Any other failure says nothing.
                Some(Err(_)) | None => {}
            }
            if silent >= SILENCE {
                return claimed.for_each(|one| self.unheard(&one));
            }
        }
    }

    /// Has a Cluster find out for itself that nobody answers: not all ask by themselves while nothing is to be done.
    fn unheard(&self, one: &Claimed) {
        if self.memory.reading(&one.uid).is_some() {
            self.memory.doubt(&one.uid);
            self.outside.known.wake_cluster(&one.cluster);
        }
    }

    /// Compares a reading with the last one.
    fn compare(&self, one: &Claimed, reading: &Reading) {
        let Some(known) = self.memory.reading(&one.uid) else {
            return;
        };
        match (known.state == reading.state, known.vms == reading.vms) {
            (true, true) => {}
            (false, _) => self.differs(one, DriftKind::State),
            (true, false) => self.differs(one, DriftKind::Machines),
        }
    }

    /// Has the Cluster look for itself: it asks again before it believes anything.
    fn differs(&self, one: &Claimed, kind: DriftKind) {
        if self.memory.reading(&one.uid).is_some() {
            self.metrics.drifted(kind);
            self.unheard(one);
        }
    }
}

impl Source<Tenant> for Drift {
    async fn list(&self, _: &Ctx) -> Result<Vec<Tenant>, BoxError> {
        Ok(self.outside.tenants_of_clusters().into_iter().collect())
    }
}

impl Storage<Tenant> for Drift {
    type Object = Claims;

    /// None if the tenant has no Clusters any more, so that the loop forgets it.
    async fn get(&self, _: &Ctx, tenant: &Tenant) -> Result<Option<Claims>, BoxError> {
        let claims = self.outside.claims(tenant);
        Ok((!claims.is_empty()).then_some(claims))
    }
}

impl Handler<Tenant, Claims> for Drift {
    /// Never fails: trouble is for the Clusters to see.
    async fn handle(
        &self,
        ctx: &Ctx,
        _: &Tenant,
        claims: Option<Claims>,
    ) -> Result<Next, BoxError> {
        if let Some(claims) = claims {
            // Whoever stops does not wait for a server that hangs.
            let turn = self.turn(claims);
            let _stopped = ctx.stopping.run_until_cancelled(turn).await;
        }
        Ok(Next::Settled)
    }
}

// Infrastructures that were made for Clusters which do not exist any more.
//
// What an account has is what its Infrastructure Manager says, which may be anything. So a tenant has room for so many infrastructures
// and no more, and nothing of a tenant takes the room of another.

/// How many infrastructures without a Cluster are remembered of a tenant. More are not looked at.
const NAMES: usize = 5_000;
/// How many names are read in one turn of an account.
const READS: usize = 200;
/// How many orphans of a tenant are logged in one turn, a line each.
const LOGGED: usize = 20;

/// An infrastructure of an account.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owned {
    /// The account.
    pub(crate) account: Arc<Account>,
    /// The infrastructure.
    pub(crate) id: InfrastructureId,
}

/// Which infrastructures are orphans.
pub(crate) struct Orphans {
    tenants: Mutex<HashMap<Tenant, Findings>>,
    metrics: InfrastructureMetrics,
}

/// What a tenant has without a Cluster.
#[derive(Default)]
struct Findings {
    /// The UIDs of the Clusters that infrastructures were made for; none of one that was made for none of ours. They never change.
    made_for: HashMap<Owned, Option<String>>,
    orphans: BTreeSet<Place>,
}

/// Where an infrastructure is: two accounts may have the same one.
type Place = (Arc<str>, InfrastructureId);

impl Orphans {
    /// Returns a state without any.
    pub(crate) fn new(metrics: InfrastructureMetrics) -> Self {
        Self {
            tenants: Mutex::default(),
            metrics,
        }
    }

    /// Sees what an account has without a Cluster: forgets what is not among it any more, and returns some whose names were not read
    /// yet. Which ones is chance, so that none waits for ever because of others that never get a name.
    pub(crate) fn unread(
        &self,
        tenant: &Tenant,
        account: &Arc<Account>,
        listed: Vec<InfrastructureId>,
    ) -> Vec<InfrastructureId> {
        let mut listed: HashSet<InfrastructureId> = listed.into_iter().collect();
        let mut tenants = lock(&self.tenants);
        let made_for = &mut tenants.entry(tenant.clone()).or_default().made_for;
        made_for.retain(|owned, _| owned.account != *account || listed.remove(&owned.id));
        let room = NAMES.saturating_sub(made_for.len());
        listed.into_iter().take(READS.min(room)).collect()
    }

    /// Learns the UID of the Cluster that an infrastructure was made for; none if it was made for none of ours.
    pub(crate) fn learn(&self, tenant: &Tenant, owned: Owned, made_for: Option<String>) {
        let mut tenants = lock(&self.tenants);
        let findings = tenants.entry(tenant.clone()).or_default();
        if findings.made_for.len() < NAMES {
            findings.made_for.insert(owned, made_for);
        }
    }

    /// Finds out which infrastructures of a tenant are orphans. `is_there` says whether there is a Cluster of a UID: the answer to the
    /// request that creates the infrastructure may still be on its way. An orphan is logged once.
    pub(crate) fn judge(&self, tenant: &Tenant, is_there: impl Fn(&str) -> bool) {
        let mut tenants = lock(&self.tenants);
        let Some(findings) = tenants.get(tenant) else {
            return;
        };
        let mut orphans = BTreeMap::new();
        for (owned, made_for) in &findings.made_for {
            if let Some(uid) = made_for.as_deref().filter(|uid| !is_there(uid)) {
                let place = (Arc::clone(&owned.account.url), owned.id.clone());
                orphans.insert(place, uid.to_owned());
            }
        }
        let is_known = |place: &Place| tenants.values().any(|it| it.orphans.contains(place));
        let new: Vec<_> = orphans.iter().filter(|(it, _)| !is_known(it)).collect();
        log(tenant, &new);
        let orphans = orphans.into_keys().collect();
        if let Some(findings) = tenants.get_mut(tenant) {
            findings.orphans = orphans;
        }
        self.count(&tenants);
    }

    /// Forgets the accounts that nobody names any more.
    pub(crate) fn retain(&self, named: &BTreeMap<Tenant, Accounts>) {
        let mut tenants = lock(&self.tenants);
        tenants.retain(|tenant, findings| {
            let Some(accounts) = named.get(tenant) else {
                return false;
            };
            let made_for = &mut findings.made_for;
            made_for.retain(|owned, _| accounts.contains_key(&*owned.account));
            let left: HashSet<Place> = made_for
                .keys()
                .map(|owned| (Arc::clone(&owned.account.url), owned.id.clone()))
                .collect();
            findings.orphans.retain(|place| left.contains(place));
            true
        });
        self.count(&tenants);
    }

    fn count(&self, tenants: &HashMap<Tenant, Findings>) {
        let all: HashSet<&Place> = tenants.values().flat_map(|it| &it.orphans).collect();
        self.metrics.orphaned(all.len());
    }

    /// How many infrastructures are remembered of a tenant.
    #[cfg(test)]
    fn len(&self, tenant: &Tenant) -> usize {
        lock(&self.tenants)
            .get(tenant)
            .map_or(0, |it| it.made_for.len())
    }
}

/// Logs new orphans: a hostile Infrastructure Manager may have new ones in each turn.
fn log(tenant: &Tenant, new: &[(&Place, &String)]) {
    for ((url, id), uid) in new.iter().take(LOGGED) {
        tracing::warn!(
            url = &**url,
            infrastructure = %id,
            cluster_uid = uid.as_str(),
            "an infrastructure was made for a Cluster that does not exist any more: adopt it by spec.adoptInfrastructureId of a new \
             one, or delete it in the Infrastructure Manager"
        );
    }
    let more = new.len().saturating_sub(LOGGED);
    if more > 0 {
        tracing::warn!(
            %tenant,
            more,
            "more infrastructures were made for Clusters that do not exist any more"
        );
    }
}

// What is read of Infrastructure Managers. Only that nobody answers is news; any other failure the Cluster sees by itself.

/// The infrastructures of a tenant's Clusters, by account. Both are in another order each time that they are made.
type Claims = HashMap<Account, HashSet<Claimed>>;

/// The accounts of a tenant, and where they are; in another order each time that they are made.
type Accounts = HashMap<Account, ImEndpoint>;

/// The infrastructure of a Cluster that is not at work.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Claimed {
    /// The Cluster.
    cluster: Key,
    /// Its UID.
    uid: String,
    /// The infrastructure.
    id: InfrastructureId,
}

/// What is outside, and what is known of it.
#[derive(Clone)]
pub(crate) struct Outside {
    /// Clusters, Clouds and providers.
    pub(crate) known: Known,
    /// The values of Secrets.
    pub(crate) secrets: Secrets,
    /// Sends requests.
    pub(crate) im: Arc<dyn InfrastructureManager>,
}

impl Outside {
    /// Returns whose providers the Clusters use that are not at work.
    fn tenants_of_clusters(&self) -> HashSet<Tenant> {
        let found = self.found(|_| true);
        found.map(|(backend, _)| backend.im.tenant()).collect()
    }

    /// Returns what the Clusters of a tenant have, without those at work.
    fn claims(&self, tenant: &Tenant) -> Claims {
        let may_be = |cluster: &ClusterObject| match tenant {
            // No other namespace can name its Clouds and providers.
            Tenant::Namespace(name) => cluster.metadata.namespace.as_ref() == Some(name),
            Tenant::Global(_) => true,
        };
        let mut claims = Claims::new();
        for (backend, claimed) in self.found(may_be) {
            if backend.im.tenant() == *tenant {
                let of_account = claims.entry(backend.im.account()).or_default();
                of_account.insert(claimed);
            }
        }
        claims
    }

    /// Returns the UIDs of all Clusters, even of those that our types cannot hold.
    fn uids(&self) -> HashSet<String> {
        let clusters = self.clusters();
        clusters.filter_map(|it| it.meta().uid.clone()).collect()
    }

    /// Returns the infrastructures of all Clusters, those at work among them, as their status says.
    fn ids(&self) -> HashSet<String> {
        self.clusters().filter_map(|it| cluster_id(&it)).collect()
    }

    /// Returns the accounts of all providers, each once.
    fn accounts(&self) -> BTreeMap<Tenant, Accounts> {
        let mut all: BTreeMap<Tenant, Accounts> = BTreeMap::new();
        let mut providers = self.known.providers();
        // Two global ones may name the same account: it always belongs to the first.
        providers.sort_by_cached_key(|it| Key::of(it.meta()));
        let mut seen = HashSet::new();
        for provider in &providers {
            let Some(im) = provider.0.as_ref().ok() else {
                continue;
            };
            let Ok(im) = endpoint(im, &self.known.caches) else {
                continue;
            };
            let account = im.account();
            if seen.insert(account.clone()) {
                all.entry(im.tenant()).or_default().insert(account, im);
            }
        }
        all
    }

    /// Reads the state of a Cluster's infrastructure; none if it is not the time to, or if the answer says nothing.
    async fn state(&self, claimed: &Claimed) -> Option<Result<Reading, FailureKind>> {
        let target = self.target(claimed).await?;
        let call = Call::State {
            id: claimed.id.clone(),
        };
        match self.im.call(&target, &call).await {
            Ok(Answer::State(reading)) => Some(Ok(reading)),
            Ok(_) => None,
            Err(failure) => Some(Err(failure.kind)),
        }
    }

    /// Returns as whom to ask about an account; none if that cannot be said now.
    async fn owner(&self, im: &ImEndpoint) -> Option<Target> {
        self.secrets.owner(im).await.ok()
    }

    /// Lists what an owner has; none if nobody answered.
    async fn list(&self, owner: &Target) -> Option<Vec<InfrastructureId>> {
        match self.im.call(owner, &Call::List).await {
            Ok(Answer::List(list)) => Some(list),
            _ => None,
        }
    }

    /// Reads the UID of the Cluster that an infrastructure was made for; none if it was made for none of ours.
    async fn name(
        &self,
        owner: &Target,
        id: &InfrastructureId,
    ) -> Result<Option<String>, FailureKind> {
        let call = Call::Template { id: id.clone() };
        match self.im.call(owner, &call).await {
            Ok(Answer::Template(text)) => Ok(made_for(&text)),
            Ok(_) => Err(FailureKind::Unreachable),
            Err(failure) => Err(failure.kind),
        }
    }

    fn clusters(&self) -> impl Iterator<Item = Arc<Readable<ClusterObject>>> {
        self.known.clusters.all().into_iter()
    }

    /// The infrastructures of the Clusters that a test picks and that are not at work, and where they are.
    fn found(
        &self,
        picks: impl Fn(&ClusterObject) -> bool,
    ) -> impl Iterator<Item = (Backend, Claimed)> {
        let all = self
            .known
            .clusters
            .pick(|it| it.0.as_ref().is_ok_and(&picks));
        let caches = &self.known.caches;
        all.into_iter()
            .filter_map(move |cluster| Some((at(&cluster, caches)?, claimed(&cluster)?)))
    }

    /// Where to ask for a Cluster's infrastructure, if it is still the time to.
    async fn target(&self, wanted: &Claimed) -> Option<Target> {
        let is_it = |it: &Readable<ClusterObject>| it.meta().uid.as_ref() == Some(&wanted.uid);
        let cluster = self.known.clusters.find(is_it)?;
        let still = claimed(&cluster)?;
        if still != *wanted {
            return None;
        }
        let backend = at(&cluster, &self.known.caches)?;
        self.secrets.target(&backend).await.ok()
    }
}

/// What the Cloud of a Cluster's infrastructure leads to.
fn at(cluster: &Readable<ClusterObject>, caches: &Caches) -> Option<Backend> {
    let cluster = cluster.0.as_ref().ok()?;
    let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
    let running_on = cluster.status.as_ref()?.running_on.as_ref()?;
    resolve(namespace, running_on, caches).ok()
}

/// The infrastructure of a Cluster that is not at work: neither being deleted, nor paused, nor in the middle of an operation.
fn claimed(cluster: &Readable<ClusterObject>) -> Option<Claimed> {
    let cluster = cluster.0.as_ref().ok()?;
    let status = cluster.status.as_ref()?;
    let is_working = |operation: &ClusterOperation| operation.finished_at.is_none();
    let is_left_alone = cluster.metadata.deletion_timestamp.is_some()
        || cluster.spec.paused
        || status.operation.as_ref().is_some_and(is_working);
    if is_left_alone {
        return None;
    }
    Some(Claimed {
        cluster: Key::of(&cluster.metadata),
        uid: cluster.metadata.uid.clone()?,
        id: status
            .cluster_id
            .as_deref()
            .and_then(InfrastructureId::parse)?,
    })
}

/// The UID of the Cluster that an infrastructure was made for, as its template says. Whatever else an Infrastructure Manager writes
/// there is not kept: it may be long, and is not ours.
fn made_for(text: &str) -> Option<String> {
    if !text.contains(INFRASTRUCTURE_PREFIX) {
        return None;
    }
    let name = name_in(text)??;
    let uid = name.strip_prefix(INFRASTRUCTURE_PREFIX)?;
    // UIDs are written like the ids of infrastructures.
    InfrastructureId::parse(uid).map(|uid| uid.to_string())
}

/// What the status of a Cluster says that its infrastructure is.
fn cluster_id(cluster: &Readable<ClusterObject>) -> Option<String> {
    cluster.0.as_ref().ok()?.status.as_ref()?.cluster_id.clone()
}

#[cfg(test)]
mod tests;
