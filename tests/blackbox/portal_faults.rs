//! The portal controller is killed, loses answers, or loses its Lease: still there is one tunnel, with one key.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use podloom_api::{PortalExpose, PortalPhase};
use podloom_tests::faults::{Fault, Proxy, RequestFilter, Rule};
use podloom_tests::portal::{Portal, identity_name, is, tunnel_name};
use podloom_tests::{Cluster, Operator, Watched, blackbox_on, eventually};
use serde_json::json;

/// More writes than a tunnel needs.
const WRITES: u64 = 25;

fn ready(expose: &PortalExpose) -> bool {
    is(expose, PortalPhase::Ready)
}

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

/// The UIDs that objects of this name have had.
fn uids<K: ResourceExt + Clone + std::fmt::Debug + Send + Sync + 'static>(
    seen: &Watched<K>,
    name: &str,
) -> usize
where
    K: kube::Resource + serde::de::DeserializeOwned,
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
        assert_eq!(uids(&self.tunnels, &tunnel_name(name)), 1, "{name}");
        assert_eq!(uids(&self.secrets, &identity_name(name)), 1, "{name}");
    }
}

/// Waits until the operator hangs in a write, or until `is_done`. Returns whether it hangs.
async fn hangs_or(proxy: &Proxy, is_done: impl AsyncFn() -> bool) -> bool {
    eventually("the operator hangs in a write or is done", async || {
        if proxy.hits() == [1] {
            return Ok(true);
        }
        is_done()
            .await
            .then_some(false)
            .ok_or_else(|| "neither".to_owned())
    })
    .await
}

async fn restarted(proxy: &Proxy, operator: &mut Operator) {
    operator.kill();
    proxy.set_rules(&[]);
    operator.restart();
    operator.ready().await;
}

#[test]
fn killed_after_any_write_it_finishes_with_one_tunnel_and_one_key() {
    blackbox_on(Cluster::without_operator, "portal-killed", async |scene| {
        let portal = Portal::new(&scene).await;
        let proxy = portal.proxy();
        let mut operator = portal.operator_behind(&proxy, &[]).await;
        let (seen, exposes) = (portal.watch().await, portal.exposes());
        let children = Children {
            tunnels: portal.watch_deployments().await,
            secrets: Watched::new(portal.secrets()).await,
        };
        let is_ready = async |name: &str| {
            exposes
                .get_opt(name)
                .await
                .unwrap()
                .is_some_and(|it| ready(&it))
        };
        let is_gone = async |name: &str| exposes.get_opt(name).await.unwrap().is_none();

        let mut writes = 0;
        for number in 0..WRITES {
            let name = format!("new{number}");
            proxy.set_rules(&[at_write(number, Fault::Stall)]);
            portal.expose(&name).await;
            let hangs = hangs_or(&proxy, async || is_ready(&name).await).await;
            restarted(&proxy, &mut operator).await;
            seen.until_is(&name, "is ready", ready).await;
            children.are_single(&name);
            writes = number;
            if !hangs {
                break;
            }
        }
        // The finalizer, the Secret, the Deployment and at least one status.
        assert!((4..WRITES - 1).contains(&writes), "{writes} writes");

        // A roll-out, of all tunnels that there are: each is killed once more.
        for number in 0..WRITES {
            let name = "new0";
            let before = portal.tunnel(name).await.metadata.generation;
            proxy.set_rules(&[at_write(number, Fault::Stall)]);
            portal
                .patch(
                    name,
                    json!({ "spec": { "app": { "name": format!("rolled{number}") } } }),
                )
                .await;
            let hangs = hangs_or(&proxy, async || {
                portal.tunnel(name).await.metadata.generation > before && is_ready(name).await
            })
            .await;
            restarted(&proxy, &mut operator).await;
            seen.until_is(name, "is ready again", |expose| {
                ready(expose) && expose.spec.app.name == format!("rolled{number}")
            })
            .await;
            children.are_single(name);
            if !hangs {
                break;
            }
        }

        for number in 0..WRITES {
            let name = format!("new{number}");
            if is_gone(&name).await {
                break;
            }
            proxy.set_rules(&[at_write(number % 3, Fault::Stall)]);
            portal.delete(&name).await;
            hangs_or(&proxy, async || is_gone(&name).await).await;
            restarted(&proxy, &mut operator).await;
            eventually("it is gone, and its tunnel", async || {
                let tunnel = portal
                    .deployments()
                    .get_opt(&tunnel_name(&name))
                    .await
                    .unwrap();
                (is_gone(&name).await && tunnel.is_none())
                    .then_some(())
                    .ok_or_else(|| "it is there".to_owned())
            })
            .await;
        }
    });
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

/// The flags of a replica with its Lease in the scene's namespace.
fn election(namespace: &str) -> [&str; 6] {
    [
        "--lease-namespace",
        namespace,
        "--lease-name",
        "podloom",
        "--lease-duration",
        "3s",
    ]
}

#[test]
fn the_other_replica_takes_over_in_the_middle_of_a_roll_out() {
    blackbox_on(
        Cluster::without_operator,
        "portal-replicas",
        async |scene| {
            let portal = Portal::new(&scene).await;
            let namespace = scene.namespace.as_str();
            let role = json!({ "apiVersion": "v1", "kind": "List", "items": [
            {
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                "metadata": { "name": "leader", "namespace": namespace },
                "rules": [{ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"] }],
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": { "name": "leader", "namespace": namespace },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "leader" },
                "subjects": [{ "kind": "ServiceAccount", "name": "podloom-portal", "namespace": "podloom-system" }],
            },
        ] });
            scene.cluster.apply_text(&role.to_string());
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
