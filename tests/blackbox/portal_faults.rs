//! The portal controller is killed, loses answers, or loses its Lease: still there is one tunnel, with one key.

use std::collections::BTreeSet;
use std::fmt::Debug;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::{Resource, ResourceExt};
use podloom_api::PortalExpose;
use podloom_tests::faults::{Fault, Proxy, RequestFilter, Rule};
use podloom_tests::lives::stride;
use podloom_tests::portal::{Portal, identity_name, ready, tunnel_name};
use podloom_tests::{
    Cluster, Operator, Scene, Watched, blackbox_on, election, eventually, may_lead,
};
use serde::de::DeserializeOwned;
use serde_json::json;

/// More writes than a tunnel needs.
const WRITES: u64 = 25;

/// A rule for one of the writes to everything that a tunnel consists of.
fn at_write(number: u64, fault: Fault) -> Rule {
    let resources = [
        "portalexposes",
        "portalexposes/status",
        "deployments",
        "secrets",
    ];
    Rule {
        on: RequestFilter {
            verbs: vec!["write".to_owned()],
            resources: resources.map(str::to_owned).into(),
            path: String::new(),
        },
        after: number,
        times: Some(1),
        fault,
    }
}

/// How many objects of this name there have been.
fn count<K>(seen: &Watched<K>, name: &str) -> usize
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let changes = seen.of(name);
    let uids: BTreeSet<_> = changes.iter().map(|change| change.object().uid()).collect();
    uids.len()
}

struct Children {
    tunnels: Watched<Deployment>,
    secrets: Watched<Secret>,
}

impl Children {
    #[track_caller]
    fn are_single(&self, name: &str) {
        assert_eq!(count(&self.tunnels, &tunnel_name(name)), 1, "{name}");
        assert_eq!(count(&self.secrets, &identity_name(name)), 1, "{name}");
    }
}

/// The portal of a test whose operator is killed in its writes.
struct Victim<'s> {
    portal: Portal<'s>,
    proxy: Proxy,
    operator: Operator,
    seen: Watched<PortalExpose>,
    children: Children,
}

impl<'s> Victim<'s> {
    async fn new(scene: &'s Scene) -> Self {
        let portal = Portal::new(scene).await;
        let proxy = portal.proxy();
        let operator = portal.operator_behind(&proxy, &[]).await;
        Self {
            seen: portal.watch().await,
            children: Children {
                tunnels: portal.watch_deployments().await,
                secrets: Watched::new(portal.secrets()).await,
            },
            portal,
            proxy,
            operator,
        }
    }

    async fn is_ready(&self, name: &str) -> bool {
        let found = self.portal.exposes().get_opt(name).await.unwrap();
        found.is_some_and(|expose| ready(&expose))
    }

    async fn is_gone(&self, name: &str) -> bool {
        let tunnel = self
            .portal
            .deployments()
            .get_opt(&tunnel_name(name))
            .await
            .unwrap();
        let expose = self.portal.exposes().get_opt(name).await.unwrap();
        expose.is_none() && tunnel.is_none()
    }

    /// Lets the operator hang in the write of this number from now on.
    fn hang_at(&self, number: u64) {
        self.proxy.set_rules(&[at_write(number, Fault::Stall)]);
    }

    /// Waits until the operator hangs, or until `is_done`; then kills it and starts another one. Returns whether it hung.
    async fn kill_or(&mut self, is_done: impl AsyncFn(&Self) -> bool) -> bool {
        let hung = eventually("the operator hangs in a write or is done", async || {
            if self.proxy.hits() == [1] {
                return Ok(true);
            }
            is_done(self)
                .await
                .then_some(false)
                .ok_or_else(|| "neither".to_owned())
        })
        .await;
        self.operator.kill();
        self.proxy.set_rules(&[]);
        self.operator.restart();
        self.operator.ready().await;
        hung
    }
}

#[test]
fn killed_after_any_write_of_a_new_tunnel_it_finishes_with_one_and_one_key() {
    blackbox_on(Cluster::without_operator, "portal-killed", async |scene| {
        let mut victim = Victim::new(&scene).await;
        let mut writes = 0;
        for number in 0..WRITES {
            let name = format!("new{number}");
            victim.hang_at(number);
            victim.portal.expose(&name).await;
            let hung = victim
                .kill_or(async |victim| victim.is_ready(&name).await)
                .await;
            victim.seen.until_is(&name, "is ready", ready).await;
            victim.children.are_single(&name);
            writes = number;
            if !hung {
                break;
            }
        }
        // The finalizer, the Secret, the Deployment and at least one status.
        assert!((4..WRITES - 1).contains(&writes), "{writes} writes");
        for number in 0..=writes {
            let name = format!("new{number}");
            victim.hang_at(number % 3);
            victim.portal.delete(&name).await;
            victim
                .kill_or(async |victim| victim.is_gone(&name).await)
                .await;
            eventually("it is gone, and its tunnel", async || {
                victim
                    .is_gone(&name)
                    .await
                    .then_some(())
                    .ok_or_else(|| "it is there".to_owned())
            })
            .await;
        }
    });
}

/// A watch breaks before any of its changes, and lists again only when the user has deleted the PortalExpose.
#[test]
fn what_no_watch_shows_leaves_nothing_behind() {
    blackbox_on(
        Cluster::without_operator,
        "portal-unobserved",
        async |scene| {
            let victim = Victim::new(&scene).await;
            for resource in ["portalexposes", "deployments"] {
                for number in (0..WRITES).step_by(stride()) {
                    let name = format!("{resource}{number}");
                    victim.proxy.set_rules(&Rule::unobserved(resource, number));
                    let is_unseen = || victim.proxy.hits()[1] > 0;
                    victim.portal.expose(&name).await;
                    eventually("a watch is broken, or it is ready", async || {
                        let is_so = is_unseen() || victim.is_ready(&name).await;
                        is_so.then_some(()).ok_or_else(|| "neither".to_owned())
                    })
                    .await;
                    victim.portal.delete(&name).await;
                    eventually("a watch is broken, or it is gone", async || {
                        let is_so = is_unseen() || victim.is_gone(&name).await;
                        is_so.then_some(()).ok_or_else(|| "neither".to_owned())
                    })
                    .await;
                    let was_unseen = is_unseen();
                    victim.proxy.set_rules(&[]);
                    eventually("it is gone, and its tunnel", async || {
                        let is_gone = victim.is_gone(&name).await;
                        is_gone
                            .then_some(())
                            .ok_or_else(|| "it is there".to_owned())
                    })
                    .await;
                    assert!(
                        count(&victim.children.tunnels, &tunnel_name(&name)) <= 1,
                        "{name}"
                    );
                    // A busy operator may see the first changes in a list, which no watch shows.
                    if !was_unseen && number >= 4 {
                        break;
                    }
                }
            }
        },
    );
}

#[test]
fn killed_after_any_write_of_a_roll_out_it_finishes_with_one_and_one_key() {
    blackbox_on(
        Cluster::without_operator,
        "portal-killed-rolls",
        async |scene| {
            let mut victim = Victim::new(&scene).await;
            victim.portal.expose("shop").await;
            victim.seen.until_is("shop", "is ready", ready).await;
            let mut writes = 0;
            for number in 0..WRITES {
                let before = victim.portal.tunnel("shop").await.metadata.generation;
                let app = format!("rolled{number}");
                victim.hang_at(number);
                victim
                    .portal
                    .patch("shop", json!({ "spec": { "app": { "name": app } } }))
                    .await;
                let has_rolled = async |victim: &Victim<'_>| {
                    let tunnel = victim.portal.tunnel("shop").await;
                    tunnel.metadata.generation > before && victim.is_ready("shop").await
                };
                let hung = victim.kill_or(has_rolled).await;
                let has_app = |expose: &PortalExpose| ready(expose) && expose.spec.app.name == app;
                victim
                    .seen
                    .until_is("shop", "is ready again", has_app)
                    .await;
                victim.children.are_single("shop");
                writes = number;
                if !hung {
                    break;
                }
            }
            // The Secret, the Deployment and at least one status.
            assert!((3..WRITES - 1).contains(&writes), "{writes} writes");
        },
    );
}

#[test]
fn whichever_answer_is_lost_there_is_one_tunnel_and_one_key() {
    blackbox_on(Cluster::without_operator, "portal-lost", async |scene| {
        let portal = Portal::new(&scene).await;
        let proxy = portal.proxy();
        let _operator = portal.operator_behind(&proxy, &[]).await;
        let seen = portal.watch().await;
        let children = Children {
            tunnels: portal.watch_deployments().await,
            secrets: Watched::new(portal.secrets()).await,
        };
        for fault in [Fault::Cut, Fault::Drop] {
            for number in 0..WRITES {
                let name = format!(
                    "{}{number}",
                    if fault == Fault::Cut { "cut" } else { "drop" }
                );
                proxy.set_rules(&[at_write(number, fault.clone())]);
                portal.expose(&name).await;
                seen.until_is(&name, "is ready", ready).await;
                children.are_single(&name);
                if proxy.hits() == [0] {
                    break;
                }
            }
        }
    });
}

#[test]
fn the_other_replica_takes_over_in_the_middle_of_a_roll_out() {
    blackbox_on(
        Cluster::without_operator,
        "portal-replicas",
        async |scene| {
            let portal = Portal::new(&scene).await;
            let namespace = scene.namespace.as_str();
            may_lead(&scene, "podloom-system", "podloom-portal");
            let proxy = portal.proxy();
            let first = portal.operator_behind(&proxy, &election(namespace)).await;
            let second = portal.operator(&election(namespace)).await;
            let seen = portal.watch().await;
            let children = Children {
                tunnels: portal.watch_deployments().await,
                secrets: Watched::new(portal.secrets()).await,
            };
            let names: Vec<String> = (0..10).map(|number| format!("shop{number}")).collect();
            for name in &names {
                portal.expose(name).await;
            }
            children
                .tunnels
                .until("the leader creates tunnels", |changes| {
                    (changes.len() > 3).then_some(())
                })
                .await;
            // Its network is gone, so it loses the Lease.
            proxy.silence_all();
            for name in &names {
                seen.until_is(name, "is ready", ready).await;
                children.are_single(name);
            }
            let (status, body) = second.get("/readyz/portal").unwrap();
            assert_eq!(status, 200, "{body}");
            drop(first);
        },
    );
}
