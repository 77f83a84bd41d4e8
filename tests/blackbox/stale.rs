//! The operator is moved to an API server whose caches are old, and back. What happens meanwhile that server shows late, and one kind
//! earlier than another: still nothing is doubled, made for what is gone, or deleted that somebody wants.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Pod, PodTemplate};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use podloom_api::{Browser, Cleaner, Cluster as Machines, Phase, PortalExpose};
use podloom_tests::cleaner::{Cleaners, map_target};
use podloom_tests::faults::{ProxiedRequest, Proxy};
use podloom_tests::im::templates;
use podloom_tests::infrastructure::{Infrastructure, is_configured};
use podloom_tests::portal::{Portal, args, ready, tunnel_name};
use podloom_tests::servers::{Held, Servers};
use podloom_tests::{
    Change, Cluster, Object, Operator, PATIENCE, Scene, Watched, blackbox_on, election, eventually,
    may_lead,
};
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

const WAYS: [Way; 3] = [Way::Restart, Way::Loss, Way::Leader];
/// Without the restart: another leader begins as a new process does.
const TWO_WAYS: [Way; 2] = [Way::Loss, Way::Leader];

impl Way {
    /// The names of objects of this round.
    fn names<const N: usize>(self, names: [&str; N]) -> [String; N] {
        names.map(|name| format!("{self:?}-{name}").to_lowercase())
    }
}

/// An operator that is moved.
struct Moved<'s> {
    way: Way,
    servers: &'s Servers<'s>,
    /// The kinds that are held back.
    held: Vec<Held>,
    /// Starts a replica.
    start: &'s dyn Fn(&Path, &[&str]) -> Operator,
    /// The flags of each replica.
    flags: Vec<&'s str>,
    operator: Operator,
    other: Option<Operator>,
}

impl<'s> Moved<'s> {
    /// Starts an operator at the API server that is up to date.
    async fn new(
        scene: &'s Scene,
        (way, servers): (Way, &'s Servers<'s>),
        held: Vec<Held>,
        start: &'s dyn Fn(&Path, &[&str]) -> Operator,
    ) -> Self {
        servers.use_fresh();
        let (mut flags, mut kubeconfig) = (Vec::new(), servers.kubeconfig.clone());
        if way == Way::Leader {
            flags.extend(election(&scene.namespace));
            // The first leader stays where it is.
            kubeconfig = servers.fresh.kubeconfig(&kubeconfig);
        }
        let operator = start(&kubeconfig, &flags);
        operator.ready().await;
        Self {
            way,
            servers,
            held,
            start,
            flags,
            operator,
            other: None,
        }
    }

    /// Holds all back, and moves the operator to the late API server.
    async fn move_to_late(&mut self) {
        self.held.iter().for_each(|held| self.servers.hold(held));
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
                let other = (self.start)(&self.servers.kubeconfig, &self.flags);
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
        let watches = |held: &Held| self.servers.late.count(&format!("watch {}", held.plural));
        self.held.iter().map(watches).collect()
    }

    /// The late API server hears of a kind again.
    fn release(&self, kind: usize) {
        self.servers.release(&self.held[kind]);
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
async fn delete<K: Object>(objects: &Api<K>, name: &str) {
    drop(
        objects
            .delete(name, &DeleteParams::default())
            .await
            .unwrap(),
    );
}

/// Checks that nothing was made for an owner that was gone by then.
fn made_for_the_living<O: Object, C: Object>(owners: &Watched<O>, children: &Watched<C>) {
    fn version(object: &impl ResourceExt) -> u64 {
        object.resource_version().unwrap().parse().unwrap()
    }
    let ends = owners.changes().into_iter().filter_map(|it| match it {
        Change::Gone(owner) => Some((owner.uid().unwrap(), version(&owner))),
        Change::Is(_) => None,
    });
    let ends: BTreeMap<String, u64> = ends.collect();
    let mut seen = BTreeSet::new();
    for change in children.changes() {
        let child = change.object();
        let owner = child.owner_references().first();
        let end = owner.and_then(|owner| ends.get(&owner.uid));
        let is_first = seen.insert(child.uid());
        let is_alive = end.is_none_or(|end| version(child) < *end);
        let name = child.name_any();
        assert!(
            !is_first || is_alive,
            "{name} was made for an owner that was gone"
        );
    }
}

/// Waits until a request that has all of this in its path is answered, after so many others.
async fn answered(by: &Proxy, after: usize, parts: &[&str]) {
    eventually(&format!("{parts:?} is asked for"), async || {
        let requests = by.requests();
        let is_it = |it: &&ProxiedRequest| {
            it.status.is_some() && parts.iter().all(|part| it.path.contains(part))
        };
        let found = requests.iter().skip(after).find(is_it);
        found.map(drop).ok_or_else(|| format!("{}", requests.len()))
    })
    .await;
}

/// What all of this is about, and that the double does what it says.
#[test]
fn a_late_api_server_gives_an_old_list_only_to_who_allows_it() {
    blackbox_on(Cluster::without_operator, "stale-facts", async |scene| {
        let servers = scene.cluster.servers(&scene.cluster.plane.kubeconfig());
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

        servers.hold(&Held::of::<PodTemplate>());
        delete(&fresh, "old").await;
        create("new").await;
        assert_eq!(list(&cached).await.0, ["old"]);
        assert!(late.get_opt("old").await.unwrap().is_none());
        assert!(late.get_opt("new").await.unwrap().is_some());
        let (names, version) = list(&ListParams::default()).await;
        assert_eq!(names, ["new"]);

        // A watch from there is silent, and never tells what was before.
        let only_changes = WatchParams::default().disable_bookmarks();
        let mut watch = pin!(late.watch(&only_changes, &version).await.unwrap());
        create("newest").await;
        let silence = Duration::from_secs(1);
        assert!(timeout(silence, watch.next()).await.is_err());
        servers.release(&Held::of::<PodTemplate>());
        let told = watch.next().await.unwrap().unwrap();
        let is_it = matches!(&told, WatchEvent::Added(it) if it.name_any() == "newest");
        assert!(is_it, "{told:?}");
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
        let start = |at: &Path, flags: &[&str]| {
            let own = ["--namespace", &scene.namespace, "--config-grace", "60s"];
            Operator::spawn(&scene.cluster, at, &[&own[..], flags].concat())
        };
        for way in WAYS {
            let held = vec![Held::of::<Browser>(), Held::of::<Pod>()];
            let mut moved = Moved::new(&scene, (way, &servers), held, &start).await;
            let [ends, again, starts, lost, new, waits] =
                way.names(["ends", "again", "starts", "lost", "new", "waits"]);
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
            scene.force_away(&scene.browsers(), &waits).await;
            let version = format!("{waits}: {{ image: 'example.com/chrome:1' }}");
            let spec = format!("browsers: {{ chrome: {{ {version} }} }}");
            scene.config(&waits, &spec).await;
            for name in [&again, &starts] {
                scene.force_away(&scene.browsers(), name).await;
                pods.was_gone(name).await;
                scene.browser(name, "running").await;
            }
            scene.browser(&new, "running").await;
            delete(&scene.pods(), &lost).await;
            pods.until_away(&lost).await;

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
        made_for_the_living(&browsers, &pods);
        pods.are_single();
        assert_eq!(pods.by_owner().len(), 7 * WAYS.len());
    });
}

#[test]
fn no_tunnel_is_made_for_a_portal_expose_that_is_gone_or_was_edited() {
    blackbox_on(Cluster::without_operator, "stale-tunnel", async |scene| {
        may_lead(&scene, "podloom-system", "podloom-portal");
        let portal = Portal::new(&scene).await;
        let (seen, tunnels) = (portal.watch().await, portal.watch_deployments().await);
        let servers = scene.cluster.servers(portal.kubeconfig());
        let start = |at: &Path, flags: &[&str]| portal.spawn(at, flags);
        for way in TWO_WAYS {
            let held = vec![Held::of::<PortalExpose>()];
            let mut moved = Moved::new(&scene, (way, &servers), held, &start).await;
            let [edited, gone, again] = way.names(["edited", "gone", "again"]);
            for name in [&edited, &gone, &again] {
                portal.expose(name).await;
            }
            for name in [&edited, &gone, &again] {
                seen.until_is(name, "is ready", ready).await;
            }

            moved.move_to_late().await;
            for name in [&gone, &again] {
                scene.force_away(&portal.exposes(), name).await;
                tunnels.was_gone(&tunnel_name(name)).await;
            }
            portal.expose(&again).await;
            let app = format!("new-{edited}");
            let edit = json!({ "spec": { "app": { "name": app } } });
            portal.patch(&edited, edit).await;
            let tunnel = tunnel_name(&edited);
            delete(&portal.deployments(), &tunnel).await;
            tunnels.was_gone(&tunnel).await;
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
                seen.was_gone(name).await;
            }
        }
        made_for_the_living(&seen, &tunnels);
    });
}

#[test]
fn a_cleaner_deletes_nothing_for_what_it_no_longer_says() {
    blackbox_on(Cluster::without_operator, "stale-cleaner", async |scene| {
        may_lead(&scene, "podloom-system", "podloom-cleaner");
        let cleaners = Cleaners::new(&scene);
        let servers = scene.cluster.servers(cleaners.kubeconfig());
        let start = |at: &Path, flags: &[&str]| cleaners.spawn(at, flags);
        for way in WAYS {
            let held = vec![Held::of::<Cleaner>()];
            let mut moved = Moved::new(&scene, (way, &servers), held, &start).await;
            let names = way.names(["edited", "again", "gone"]);
            let spec = |name: &str, condition: &str| {
                let targets = [map_target("it", name)];
                json!({ "retry": { "period": "1s" }, "targets": targets, "conditions": [condition] })
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
            let never = json!({ "conditions": ["false"] });
            cleaners.edit(edited, never).await;
            for name in [again, gone] {
                cleaners.delete(name).await;
            }
            cleaners.create(again, spec(again, "false")).await;
            let before = servers.late.requests().len();
            for name in &names {
                cleaners.set_state(name, "done").await;
            }
            // By its cache all are to go. It tries that, or it misses its own last write in the cache and reads the Cleaner.
            for name in &names {
                answered(&servers.late, before, &["/cleaners", name]).await;
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
        let seen = infrastructure.watch().await;
        let secrets = Watched::new(infrastructure.secrets()).await;
        let servers = scene.cluster.servers(infrastructure.kubeconfig());
        let start = |at: &Path, flags: &[&str]| infrastructure.spawn(at, flags);
        let configured = async |name: &str, machines| {
            let is = |status: &_| is_configured(status, machines);
            infrastructure.until_of(name, "is configured", is).await;
        };
        for (round, way) in TWO_WAYS.into_iter().enumerate() {
            let held = vec![Held::of::<Machines>()];
            let mut moved = Moved::new(&scene, (way, &servers), held, &start).await;
            let [edited, ends, gone, new] = way.names(["edited", "ends", "gone", "new"]);
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
            scene.force_away(&clusters, &gone).await;
            secrets.was_gone(&format!("{gone}-kubeconfig")).await;
            delete(&clusters, &ends).await;
            let larger = Patch::Merge(json!({ "spec": { "tosca": templates::pool(2, &[]) } }));
            let all = PatchParams::default();
            clusters.patch(&edited, &all, &larger).await.unwrap();
            create(&new).await;

            moved.release(0);
            moved.move_to_fresh().await;
            configured(&edited, 3).await;
            configured(&new, 2).await;
            seen.was_gone(&ends).await;
            // That of the one that was forced away is left.
            let left = infrastructure.owner.list();
            assert_eq!(left.len(), 3 * (round + 1), "{way:?}");
        }
        made_for_the_living(&seen, &secrets);
    });
}
