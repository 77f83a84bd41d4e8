//! The operator is moved to an API server whose caches are old, and back. What happens meanwhile that server shows late, and one kind
//! earlier than another: still nothing is doubled, made for what is gone, or deleted that somebody wants.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, PodTemplate, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use kube::{Api, Resource, ResourceExt};
use podloom_api::{Browser, Cleaner, Cluster as Machines, Phase, PortalExpose};
use podloom_tests::cleaner::{Cleaners, map_target};
use podloom_tests::im::templates;
use podloom_tests::infrastructure::{Infrastructure, is_configured};
use podloom_tests::portal::{Portal, args, ready, tunnel_name};
use podloom_tests::servers::{Servers, key};
use podloom_tests::{
    Change, Cluster, Operator, PATIENCE, Scene, Watched, blackbox_on, election, eventually,
    may_lead,
};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::timeout;

/// How the operator comes to another API server.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// It is killed, and starts there.
    Restart,
    /// It loses its connections, and goes on there.
    Loss,
    /// Another replica, which is there, becomes the leader.
    Leader,
}

/// How long to wait for what must not come.
const SILENCE: Duration = Duration::from_secs(1);

const WAYS: [Way; 3] = [Way::Restart, Way::Loss, Way::Leader];
/// Without the restart: another leader begins as a new process does.
const TWO_WAYS: [Way; 2] = [Way::Loss, Way::Leader];

impl Way {
    /// The name of an object of this round.
    fn name(self, name: &str) -> String {
        format!("{self:?}-{name}").to_lowercase()
    }
}

/// An operator that is moved.
struct Moved<'s> {
    way: Way,
    servers: &'s Servers<'s>,
    /// Etcd's keys of the kinds that are held back, and their plurals.
    held: Vec<(String, String)>,
    operator: Operator,
    /// Starts a replica.
    start: &'s dyn Fn(&Path, &[&str]) -> Operator,
    election: [&'s str; 6],
    other: Option<Operator>,
}

/// A kind that is held back.
fn held<K: Resource<DynamicType = ()>>() -> (String, String) {
    (key::<K>(), K::plural(&()).into_owned())
}

impl<'s> Moved<'s> {
    /// Starts an operator at the API server that is up to date.
    async fn new(
        scene: &'s Scene,
        (way, servers): (Way, &'s Servers<'s>),
        held: Vec<(String, String)>,
        start: &'s dyn Fn(&Path, &[&str]) -> Operator,
    ) -> Self {
        servers.use_fresh();
        let election = election(&scene.namespace);
        let arguments = if way == Way::Leader {
            &election[..]
        } else {
            &[]
        };
        // The first leader stays where it is.
        let fresh = servers.fresh.kubeconfig(&servers.kubeconfig);
        let place = if way == Way::Leader {
            &fresh
        } else {
            &servers.kubeconfig
        };
        let operator = start(place, arguments);
        operator.ready().await;
        Self {
            way,
            servers,
            held,
            operator,
            start,
            election,
            other: None,
        }
    }

    /// Holds all back, and moves the operator to the late API server.
    async fn move_to_late(&mut self) {
        for (key, _) in &self.held {
            self.servers.hold(std::slice::from_ref(key));
        }
        let before = self.watches();
        match self.way {
            Way::Restart => {
                self.operator.kill();
                self.servers.use_late();
                self.operator.restart();
            }
            Way::Loss => self.servers.use_late(),
            Way::Leader => {
                self.servers.use_late();
                let other = (self.start)(&self.servers.kubeconfig, &self.election);
                other.ready().await;
                self.operator.kill();
                self.other = Some(other);
            }
        }
        eventually("the operator watches there", async || {
            let now = self.watches();
            let is_so = before.iter().zip(&now).all(|(before, now)| before < now);
            is_so.then_some(()).ok_or(format!("{before:?} {now:?}"))
        })
        .await;
    }

    /// How often each kind was watched at the late API server.
    fn watches(&self) -> Vec<u64> {
        let of = |plural: &String| self.servers.late.count(&format!("watch {plural}"));
        self.held.iter().map(|(_, plural)| of(plural)).collect()
    }

    /// The late API server hears of a kind again.
    fn release(&self, kind: usize) {
        self.servers.release(&[self.held[kind].0.clone()]);
    }

    /// Moves the operator back.
    async fn move_to_fresh(&mut self) {
        match self.way {
            Way::Restart => {
                self.operator.kill();
                self.servers.use_fresh();
                self.operator.restart();
            }
            Way::Loss => self.servers.use_fresh(),
            Way::Leader => {
                self.other = None;
                self.operator.restart();
            }
        }
        self.operator.ready().await;
    }
}

/// Deletes an object, and does not wait until it is gone.
async fn delete<K: Resource + Clone + DeserializeOwned + Debug>(objects: &Api<K>, name: &str) {
    let deleted = objects.delete(name, &DeleteParams::default()).await;
    drop(deleted.unwrap());
}

/// Deletes an object though it has finalizers.
async fn force_away<K>(objects: &Api<K>, name: &str)
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    delete(objects, name).await;
    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let freed = objects.patch(name, &PatchParams::default(), &free).await;
    // Without a finalizer it is gone already.
    drop(freed);
}

/// Waits until some object of this name was gone.
async fn was_gone<K>(seen: &Watched<K>, name: &str)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let is_it = |change: &Change<K>| matches!(change, Change::Gone(it) if it.name_any() == name);
    seen.until(&format!("{name} was gone"), |changes| {
        changes.iter().any(is_it).then_some(())
    })
    .await;
}

/// Checks that nothing was made for an owner that was gone by then. Returns how many children each owner had.
fn made_for_the_living<O, C>(owners: &Watched<O>, children: &Watched<C>) -> BTreeMap<String, usize>
where
    O: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    C: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    fn version(object: &impl ResourceExt) -> u64 {
        object.resource_version().unwrap().parse().unwrap()
    }
    let ends: BTreeMap<String, u64> = owners
        .changes()
        .iter()
        .filter_map(|change| match change {
            Change::Gone(owner) => Some((owner.uid().unwrap(), version(owner))),
            Change::Is(_) => None,
        })
        .collect();
    let (mut seen, mut counts) = (BTreeSet::new(), BTreeMap::new());
    for change in children.changes() {
        let child = change.object();
        let Some(owner) = child
            .owner_references()
            .first()
            .filter(|_| seen.insert(child.uid()))
        else {
            continue;
        };
        let end = ends.get(&owner.uid).copied().unwrap_or(u64::MAX);
        let name = child.name_any();
        assert!(
            version(child) < end,
            "{name} was made for an owner that was gone"
        );
        *counts.entry(owner.uid.clone()).or_default() += 1;
    }
    counts
}

/// What all of this is about, and that the double does what it says.
#[test]
fn a_late_api_server_gives_an_old_list_only_to_who_allows_it() {
    blackbox_on(Cluster::without_operator, "stale-facts", async |scene| {
        let servers = scene.cluster.servers(&scene.cluster.plane.kubeconfig());
        let keys = [key::<PodTemplate>()];
        let fresh: Api<PodTemplate> = Api::namespaced(scene.client.clone(), &scene.namespace);
        let late = Api::namespaced(servers.late_client().await, &scene.namespace);
        let list = async |parameters: &ListParams| {
            let listed = late.list(parameters).await.unwrap();
            let names: Vec<_> = listed.items.iter().map(PodTemplate::name_any).collect();
            (names, listed.metadata.resource_version.unwrap())
        };
        let cached = ListParams::default().match_any();
        let create = async |name: &str| {
            let pod = json!({ "spec": { "containers": [{ "name": "it", "image": "it" }] } });
            let template = json!({ "metadata": { "name": name }, "template": pod });
            scene.create(fresh.clone(), template).await;
        };
        create("old").await;
        eventually("its cache has it", async || {
            let (names, _) = list(&cached).await;
            (names == ["old"]).then_some(()).ok_or(format!("{names:?}"))
        })
        .await;

        servers.hold(&keys);
        delete(&fresh, "old").await;
        create("new").await;
        assert_eq!(list(&cached).await.0, ["old"]);
        assert!(late.get_opt("old").await.unwrap().is_none());
        assert!(late.get_opt("new").await.unwrap().is_some());
        let (names, version) = list(&ListParams::default()).await;
        assert_eq!(names, ["new"]);

        // A watch from there is silent, and never tells what was before.
        let mut watch = pin!(
            late.watch(&WatchParams::default().disable_bookmarks(), &version)
                .await
                .unwrap()
        );
        create("newest").await;
        assert!(timeout(SILENCE, watch.next()).await.is_err());
        servers.release(&keys);
        let told = watch.next().await.unwrap().unwrap();
        assert!(
            matches!(&told, WatchEvent::Added(it) if it.name_any() == "newest"),
            "{told:?}"
        );
    });
}

/// The deletion of a pod ends its session: by deleting the Browser, or if the pod is gone already, as Failed.
fn is_over(browser: &Browser) -> bool {
    let phase = browser.status.as_ref().and_then(|status| status.phase);
    browser.metadata.deletion_timestamp.is_some() || phase == Some(Phase::Failed)
}

/// Waits until the first sessions are gone and the others run, and deletes those.
async fn end_all(scene: &Scene, browsers: &Watched<Browser>, gone: [&str; 2], live: [&str; 3]) {
    for name in gone {
        browsers.until_gone(name).await;
    }
    for name in live {
        browsers.until_runs(name).await;
    }
    for name in live {
        scene.delete_browser(name).await;
    }
    scene.nothing_is_left().await;
}

#[test]
fn a_session_has_one_pod_whatever_the_caches_show() {
    blackbox_on(Cluster::without_operator, "stale-session", async |scene| {
        may_lead(&scene, "podloom-system", "podloom");
        scene.behaviours().await;
        let (browsers, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
        let servers = scene.cluster.servers(scene.cluster.operator_kubeconfig());
        let start = |kubeconfig: &Path, arguments: &[&str]| {
            let own = ["--namespace", &scene.namespace, "--config-grace", "60s"];
            let arguments = [&own[..], arguments].concat();
            Operator::spawn(&scene.cluster, kubeconfig, &arguments)
        };
        for way in WAYS {
            let held = vec![held::<Browser>(), held::<Pod>()];
            let mut moved = Moved::new(&scene, (way, &servers), held, &start).await;
            let [ends, again, starts, lost, new, waits] =
                ["ends", "again", "starts", "lost", "new", "waits"].map(|name| way.name(name));
            scene.browser(&waits, &waits).await;
            browsers
                .until_is(&waits, "waits", |it| it.status.is_some())
                .await;
            scene.browser(&starts, "pending").await;
            for name in [&ends, &again, &lost] {
                scene.browser(name, "running").await;
            }
            for name in [&ends, &again, &lost] {
                browsers.until_runs(name).await;
            }
            pods.until_is(&starts, "is there", |_| true).await;

            moved.move_to_late().await;
            scene.delete_browser(&ends).await;
            force_away(&scene.browsers(), &waits).await;
            let served =
                format!("{{ chrome: {{ {waits}: {{ image: 'example.com/chrome:1' }} }} }}");
            scene.config(&waits, &format!("browsers: {served}")).await;
            for name in [&again, &starts] {
                force_away(&scene.browsers(), name).await;
                was_gone(&pods, name).await;
                scene.browser(name, "running").await;
            }
            scene.browser(&new, "running").await;
            delete(&scene.pods(), &lost).await;
            pods.until_pod_gone(&lost).await;

            if way == Way::Loss {
                moved.release(0);
                pods.until_is(&new, "is there", |_| true).await;
                moved.release(1);
            } else {
                moved.release(1);
                browsers.until_is(&lost, "is over", is_over).await;
                moved.release(0);
            }
            moved.move_to_fresh().await;
            end_all(&scene, &browsers, [&ends, &lost], [&again, &starts, &new]).await;
        }
        let counts = made_for_the_living(&browsers, &pods);
        assert!(counts.values().all(|count| *count == 1), "{counts:?}");
        assert_eq!(counts.len(), 7 * WAYS.len());
    });
}

#[test]
fn no_tunnel_is_made_for_a_portal_expose_that_is_gone_or_was_edited() {
    blackbox_on(Cluster::without_operator, "stale-tunnel", async |scene| {
        may_lead(&scene, "podloom-system", "podloom-portal");
        let portal = Portal::new(&scene).await;
        let (seen, tunnels) = (portal.watch().await, portal.watch_deployments().await);
        let servers = scene.cluster.servers(portal.kubeconfig());
        let start = |kubeconfig: &Path, arguments: &[&str]| portal.spawn(kubeconfig, arguments);
        for way in TWO_WAYS {
            let held = vec![held::<PortalExpose>()];
            let mut moved = Moved::new(&scene, (way, &servers), held, &start).await;
            let [edited, gone, again] = ["edited", "gone", "again"].map(|name| way.name(name));
            for name in [&edited, &gone, &again] {
                portal.expose(name).await;
            }
            for name in [&edited, &gone, &again] {
                seen.until_is(name, "is ready", ready).await;
            }

            moved.move_to_late().await;
            for name in [&gone, &again] {
                force_away(&portal.exposes(), name).await;
                was_gone(&tunnels, &tunnel_name(name)).await;
            }
            portal.expose(&again).await;
            let app = way.name("new");
            portal
                .patch(&edited, json!({ "spec": { "app": { "name": app } } }))
                .await;
            let tunnel = tunnel_name(&edited);
            delete(&portal.deployments(), &tunnel).await;
            was_gone(&tunnels, &tunnel).await;
            // If the old cache misses the operator's own last write, it waits for that first.
            let restored = tunnels
                .until_within("the tunnel is restored", PATIENCE * 2, |changes| {
                    let mut last = changes.iter().rev();
                    let last = last.find(|it| it.object().name_any() == tunnel)?;
                    matches!(last, Change::Is(_)).then(|| last.object().clone())
                })
                .await;
            assert!(args(&restored).contains(&app), "{:?}", args(&restored));

            moved.release(0);
            moved.move_to_fresh().await;
            for name in [&edited, &again] {
                seen.until_is(name, "is ready", ready).await;
                portal.delete(name).await;
                was_gone(&seen, name).await;
            }
        }
        made_for_the_living::<PortalExpose, Deployment>(&seen, &tunnels);
    });
}

#[test]
fn a_cleaner_deletes_nothing_for_what_it_no_longer_says() {
    blackbox_on(Cluster::without_operator, "stale-cleaner", async |scene| {
        may_lead(&scene, "podloom-system", "podloom-cleaner");
        let cleaners = Cleaners::new(&scene);
        let servers = scene.cluster.servers(cleaners.kubeconfig());
        let start = |kubeconfig: &Path, arguments: &[&str]| cleaners.spawn(kubeconfig, arguments);
        for way in WAYS {
            let held = vec![held::<Cleaner>()];
            let mut moved = Moved::new(&scene, (way, &servers), held, &start).await;
            let names = ["edited", "again", "gone"].map(|name| way.name(name));
            let spec = |name: &str, condition: &str| {
                let retry = json!({ "period": "1s" });
                json!({ "retry": retry, "targets": [map_target("it", name)], "conditions": [condition] })
            };
            let done = "it.data.state == 'done'";
            for name in &names {
                cleaners.map(name, json!({}), "idle").await;
                cleaners.create(name, spec(name, done)).await;
            }
            for name in &names {
                cleaners.until_ready(name, "WaitingForConditions").await;
            }

            moved.move_to_late().await;
            let [edited, again, gone] = &names;
            cleaners
                .edit(edited, json!({ "conditions": ["false"] }))
                .await;
            for name in [again, gone] {
                cleaners.delete(name).await;
            }
            cleaners.create(again, spec(again, "false")).await;
            for name in &names {
                cleaners.set_state(name, "done").await;
            }
            // By its cache all are to go. It tries that, or it misses its own last write in the cache and reads the Cleaner.
            for name in &names {
                eventually("it has asked about it", async || {
                    let requests = servers.late.requests();
                    let mut about = requests
                        .iter()
                        .filter(|it| it.path.contains("/cleaners") && it.path.contains(name));
                    let is_answered = about.any(|it| it.status.is_some());
                    is_answered.then_some(()).ok_or(name.clone())
                })
                .await;
            }

            moved.release(0);
            moved.move_to_fresh().await;
            for name in [edited, again] {
                cleaners.until_ready(name, "WaitingForConditions").await;
            }
            for name in &names {
                assert!(cleaners.has_map(name).await, "{name}");
            }
            for name in [edited, again] {
                cleaners.edit(name, json!({ "conditions": [done] })).await;
                cleaners.until_gone(name, &[name]).await;
            }
            assert!(cleaners.has_map(gone).await);
        }
    });
}

#[test]
fn a_cluster_is_made_once_whatever_the_caches_show() {
    blackbox_on(Cluster::without_operator, "stale-cluster", async |scene| {
        may_lead(&scene, "podloom-system", "podloom-infrastructure");
        let infrastructure = Infrastructure::new(&scene).await;
        let (seen, secrets) = (
            infrastructure.watch().await,
            Watched::new(infrastructure.secrets()).await,
        );
        let servers = scene.cluster.servers(infrastructure.kubeconfig());
        let start =
            |kubeconfig: &Path, arguments: &[&str]| infrastructure.spawn(kubeconfig, arguments);
        let configured = async |name: &str, machines| {
            let is = |status: &_| is_configured(status, machines);
            infrastructure.until_of(name, "is configured", is).await;
        };
        for (round, way) in TWO_WAYS.into_iter().enumerate() {
            let held = vec![held::<Machines>()];
            let mut moved = Moved::new(&scene, (way, &servers), held, &start).await;
            let [edited, ends, gone, new] =
                ["edited", "ends", "gone", "new"].map(|name| way.name(name));
            let create = async |name: &str| {
                let spec = json!({ "tosca": templates::pool(1, &[]) });
                infrastructure.cluster_with(name, spec).await;
            };
            for name in [&edited, &ends, &gone] {
                create(name).await;
            }
            for name in [&edited, &ends, &gone] {
                configured(name, 2).await;
            }

            moved.move_to_late().await;
            let clusters = infrastructure.clusters();
            force_away(&clusters, &gone).await;
            was_gone(&secrets, &format!("{gone}-kubeconfig")).await;
            delete(&clusters, &ends).await;
            let larger = Patch::Merge(json!({ "spec": { "tosca": templates::pool(2, &[]) } }));
            clusters
                .patch(&edited, &PatchParams::default(), &larger)
                .await
                .unwrap();
            create(&new).await;

            moved.release(0);
            moved.move_to_fresh().await;
            configured(&edited, 3).await;
            configured(&new, 2).await;
            eventually("the deleted one is gone", async || {
                let found = clusters.get_opt(&ends).await.unwrap();
                found.map_or(Ok(()), |it| Err(format!("{:?}", it.status)))
            })
            .await;
            // That of the one that was forced away is left.
            assert_eq!(
                infrastructure.owner.list().len(),
                3 * (round + 1),
                "{way:?}"
            );
        }
        made_for_the_living::<Machines, Secret>(&seen, &secrets);
    });
}
