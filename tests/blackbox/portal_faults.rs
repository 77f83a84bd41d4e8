//! The portal controller is killed, loses answers, or loses its Lease: still there is one tunnel, with one key.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use podloom_api::PortalExpose;
use podloom_tests::faults::Proxy;
use podloom_tests::lives::{Blow, Life, Place, strike};
use podloom_tests::portal::{Portal, args, identity_name, ready, tunnel_name};
use podloom_tests::{Cluster, Operator, Scene, Watched, blackbox_on, election, may_lead};
use serde_json::json;

/// PortalExposes, and what has become of their tunnels and keys.
struct Tunnels<'s> {
    portal: Portal<'s>,
    seen: Watched<PortalExpose>,
    tunnels: Watched<Deployment>,
    secrets: Watched<Secret>,
    /// The application of `shop`. Its public URL has that name, which no other may have.
    app: &'s str,
    /// Whether the life of `shop` is its roll-out for another application; else it is from its creation to its deletion.
    is_rolled: bool,
}

impl<'s> Tunnels<'s> {
    async fn new(scene: &'s Scene, is_rolled: bool) -> Self {
        let portal = Portal::new(scene).await;
        Self {
            seen: portal.watch().await,
            tunnels: portal.watch_deployments().await,
            secrets: Watched::new(portal.secrets()).await,
            portal,
            app: &scene.namespace,
            is_rolled,
        }
    }

    async fn create(&self) {
        let spec = self.portal.spec(self.app);
        self.portal.expose_with("shop", spec).await;
    }

    /// What the application is called after the roll-out.
    fn other(&self) -> String {
        format!("other-{}", self.app)
    }

    /// Deletes `shop`, which may be gone before a watch shows that.
    async fn delete(&self) {
        let exposes = self.portal.exposes();
        drop(exposes.delete("shop", &DeleteParams::default()).await);
    }

    /// What was ready at any time had one tunnel and one key, and nothing had more.
    #[track_caller]
    fn are_single(&self, name: &str) {
        let tunnels = self.tunnels.uids(&tunnel_name(name)).len();
        let counts = [tunnels, self.secrets.uids(&identity_name(name)).len()];
        let changes = self.seen.of(name);
        let least = usize::from(changes.iter().any(|it| ready(it.object())));
        let are_single = counts.iter().all(|count| (least..=1).contains(count));
        assert!(are_single, "{name}: {counts:?}");
    }
}

impl Life for Tunnels<'_> {
    async fn operator(&self, flags: &[&str]) -> (Proxy, Operator) {
        let proxy = self.portal.proxy();
        let operator = self.portal.operator_behind(&proxy, flags).await;
        (proxy, operator)
    }

    async fn prepares(&self) {
        if self.is_rolled {
            self.create().await;
            self.seen.until_is("shop", "is ready", ready).await;
        }
    }

    async fn begins(&self) {
        if !self.is_rolled {
            return self.create().await;
        }
        let rolls = json!({ "spec": { "app": { "name": self.other() } } });
        self.portal.patch("shop", rolls).await;
    }

    async fn goes_on(&self) -> Result<(), String> {
        let last = self.seen.last("shop");
        let ready = last.as_ref().filter(|it| ready(it));
        let tunnel = self.tunnels.last(&tunnel_name("shop"));
        let is_over = if self.is_rolled {
            let other = self.other();
            let has_rolled = tunnel.is_some_and(|it| args(&it).contains(&other));
            has_rolled && ready.is_some_and(|it| it.spec.app.name == other)
        } else {
            if ready.is_some() {
                self.delete().await;
            }
            self.seen.is_gone("shop") && tunnel.is_none()
        };
        is_over.then_some(()).ok_or_else(|| format!("{last:?}"))
    }

    async fn meanwhile(&self, blow: Blow) {
        if blow == Blow::Unobserved {
            self.delete().await;
        }
    }

    async fn ends(&self) {
        self.are_single("shop");
    }
}

/// Strikes everything that a tunnel consists of, in writes of which it has at least so many.
fn each_write(name: &str, blow: Blow, is_rolled: bool, least: u64) {
    let writes = "write portalexposes portalexposes/status deployments secrets";
    strike(name, blow, &[(writes.into(), least..16)], async |place| {
        Tunnels::new(place.scene, is_rolled).await
    });
}

#[test]
fn killed_in_any_write_of_a_tunnel_it_finishes_with_one_and_one_key() {
    // The finalizer, the Secret, the Deployment and at least one status; the finalizer again.
    each_write("portal-killed", Blow::KilledIn, false, 5);
}

#[test]
fn killed_in_any_write_of_a_roll_out_it_finishes_with_one_and_one_key() {
    // The Secret, the Deployment and at least one status.
    each_write("portal-killed-rolls", Blow::KilledIn, true, 3);
}

#[test]
fn whichever_answer_is_lost_there_is_one_tunnel_and_one_key() {
    each_write("portal-unanswered", Blow::Unanswered, false, 5);
}

#[test]
fn whichever_write_is_lost_there_is_one_tunnel_and_one_key() {
    each_write("portal-lost", Blow::Lost, false, 5);
}

/// A watch breaks before any of its changes, and lists again only when the user has deleted the PortalExpose.
#[test]
fn what_no_watch_shows_leaves_nothing_behind() {
    let series = ["change portalexposes", "change deployments"].map(|it| (it.into(), 1..16));
    let life = async |place: Place| Tunnels::new(place.scene, false).await;
    strike("portal-unobserved", Blow::Unobserved, &series, life);
}

#[test]
fn the_other_replica_takes_over_in_the_middle_of_a_roll_out() {
    blackbox_on(
        Cluster::without_operator,
        "portal-replicas",
        async |scene| {
            may_lead(&scene, "podloom-system", "podloom-portal");
            let all = Tunnels::new(&scene, false).await;
            let election = election(&scene.namespace);
            let proxy = all.portal.proxy();
            let _first = all.portal.operator_behind(&proxy, &election).await;
            let second = all.portal.operator(&election).await;
            let names: Vec<String> = (0..10).map(|number| format!("shop{number}")).collect();
            for name in &names {
                all.portal.expose(name).await;
            }
            all.tunnels
                .until("the leader creates tunnels", |changes| {
                    (changes.len() > 3).then_some(())
                })
                .await;
            // Its network is gone, so it loses the Lease.
            proxy.silence_all();
            for name in &names {
                all.seen.until_is(name, "is ready", ready).await;
                all.are_single(name);
            }
            let (status, body) = second.get("/readyz/portal").unwrap();
            assert_eq!(status, 200, "{body}");
        },
    );
}
