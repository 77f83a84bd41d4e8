//! The operator is killed, loses answers, or loses its Lease at any point of a Cluster's life: nothing is made twice, and nothing is
//! left behind.

use podloom_tests::faults::{Fault, Proxy, RequestFilter, Rule};
use podloom_tests::im::{ImServer, templates};
use podloom_tests::infrastructure::{CLUSTER, Infrastructure, is_configured, kubeconfig};
use podloom_tests::{Cluster, Operator, Scene, blackbox_on, election, eventually, may_lead};
use serde_json::json;

/// More requests, or more writes, than a Cluster needs.
const MANY: u64 = 25;

/// Where the operator is struck.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// In a write to the API server.
    Kubernetes,
    /// In a request to the Infrastructure Manager.
    Manager,
}

impl Place {
    /// A fault in the request of this number.
    fn rule(self, number: u64, fault: Fault) -> Rule {
        let kubernetes = [
            "clusters",
            "clusters/status",
            "clouds",
            "infrastructureproviders",
            "secrets",
        ];
        let (verbs, resources, path) = match self {
            Self::Kubernetes => (vec!["write"], kubernetes.to_vec(), ""),
            Self::Manager => (Vec::new(), Vec::new(), "/infrastructures"),
        };
        Rule {
            on: RequestFilter {
                verbs: verbs.into_iter().map(str::to_owned).collect(),
                resources: resources.into_iter().map(str::to_owned).collect(),
                path: path.to_owned(),
            },
            after: number,
            times: Some(1),
            fault,
        }
    }
}

/// Clusters whose operator is struck.
struct Victim<'s> {
    infrastructure: Infrastructure<'s>,
    kubernetes: Proxy,
    manager: Proxy,
    operator: Operator,
}

impl<'s> Victim<'s> {
    async fn new(scene: &'s Scene, arguments: &[&str]) -> Self {
        let im = ImServer::shared().await;
        let manager = Proxy::to(im.address);
        let infrastructure = Infrastructure::behind(scene, im, &manager).await;
        let kubernetes = Proxy::start(infrastructure.kubeconfig());
        let operator = infrastructure.operator_behind(&kubernetes, arguments).await;
        Self {
            infrastructure,
            kubernetes,
            manager,
            operator,
        }
    }

    fn at(&self, place: Place) -> &Proxy {
        match place {
            Place::Kubernetes => &self.kubernetes,
            Place::Manager => &self.manager,
        }
    }

    async fn create(&self, name: &str) {
        let spec = json!({ "tosca": templates::single_node(&kubeconfig()) });
        self.infrastructure.cluster_with(name, spec).await;
    }

    async fn is_configured(&self, name: &str) -> bool {
        let found = self.infrastructure.clusters().get_opt(name).await.unwrap();
        found.is_some_and(|cluster| is_configured(&cluster.status.unwrap_or_default(), 1))
    }

    async fn is_gone(&self, name: &str) -> bool {
        let found = self.infrastructure.clusters().get_opt(name).await.unwrap();
        found.is_none()
    }

    /// Lets the operator hang in the request of this number, kills it there, and starts another one. If `is_done` comes before that
    /// request, it is killed then. Returns whether it hung.
    async fn killed_at(
        &mut self,
        place: Place,
        number: u64,
        is_done: impl AsyncFn(&Self) -> bool,
    ) -> bool {
        let hung = eventually("the operator hangs or is done", async || {
            if self.at(place).hits() == [1] {
                return Ok(true);
            }
            let is_done = is_done(self).await;
            is_done
                .then_some(false)
                .ok_or_else(|| format!("not at {number}"))
        })
        .await;
        self.operator.kill();
        self.at(place).set_rules(&[]);
        self.operator.restart();
        self.operator.ready().await;
        hung
    }

    /// How many infrastructures IM has made, and the operator got the answer.
    fn made(&self) -> usize {
        let requests = self.manager.requests();
        let made = requests.iter().filter(|it| {
            let is_create = it.path == "/infrastructures?async=true";
            it.method == "POST" && is_create && it.status == Some(200)
        });
        made.count()
    }
}

fn lives(place: Place, namespace: &str) {
    blackbox_on(Cluster::without_operator, namespace, async |scene| {
        let mut victim = Victim::new(&scene, &[]).await;
        let hang = |number| [place.rule(number, Fault::Stall)];
        let mut number = 0;
        let mut deaths = [0, 0];
        loop {
            let name = format!("c{number}");
            let made_before = victim.made();
            victim.at(place).set_rules(&hang(number));
            victim.create(&name).await;
            let is_configured = async |victim: &Victim<'_>| victim.is_configured(&name).await;
            let in_creation = victim.killed_at(place, number, is_configured).await;
            let configured = |status: &_| is_configured_status(status);
            victim
                .infrastructure
                .until_of(&name, "is configured", configured)
                .await;
            assert_eq!(victim.infrastructure.owner.list().len(), 1, "{name}");
            // None, if the operator died before it read the answer of its create.
            assert!(victim.made() - made_before <= 1, "{name}");

            victim.at(place).set_rules(&hang(number));
            let clusters = victim.infrastructure.clusters();
            clusters
                .delete(&name, &kube::api::DeleteParams::default())
                .await
                .unwrap();
            let is_gone = async |victim: &Victim<'_>| victim.is_gone(&name).await;
            let in_deletion = victim.killed_at(place, number, is_gone).await;
            eventually("it is gone", async || {
                victim
                    .is_gone(&name)
                    .await
                    .then_some(())
                    .ok_or("it is there".to_owned())
            })
            .await;
            assert_eq!(victim.infrastructure.owner.list(), [""; 0], "{name}");
            deaths[0] += u64::from(in_creation);
            deaths[1] += u64::from(in_deletion);
            if !in_creation && !in_deletion {
                break;
            }
            number += 1;
            assert!(number < MANY, "{deaths:?}");
        }
        // To create, to read the state and the outputs; to delete.
        assert!(deaths[0] >= 3 && deaths[1] >= 1, "{deaths:?}");
    });
}

fn is_configured_status(status: &podloom_api::ClusterStatus) -> bool {
    is_configured(status, 1)
}

#[test]
fn killed_in_any_write_it_makes_and_leaves_nothing_twice() {
    lives(Place::Kubernetes, "infra-killed-writes");
}

#[test]
fn killed_in_any_request_to_im_it_makes_and_leaves_nothing_twice() {
    lives(Place::Manager, "infra-killed-requests");
}

/// The request was done, and its answer never came: nobody may take that for a failure.
#[test]
fn whichever_answer_is_lost_nothing_is_made_twice() {
    blackbox_on(Cluster::without_operator, "infra-lost", async |scene| {
        let victim = Victim::new(&scene, &[]).await;
        let mut made = 0;
        for place in [Place::Kubernetes, Place::Manager] {
            let mut lost = 0;
            for number in 0..MANY {
                let what = if place == Place::Manager { "im" } else { "api" };
                let name = format!("{what}{number}");
                let proxy = victim.at(place);
                proxy.set_rules(&[place.rule(number, Fault::Cut)]);
                victim.create(&name).await;
                victim
                    .infrastructure
                    .until_of(&name, "is configured", is_configured_status)
                    .await;
                made += 1;
                assert_eq!(victim.infrastructure.owner.list().len(), made, "{name}");
                let is_lost = proxy.hits() == [1];
                proxy.set_rules(&[]);
                if !is_lost {
                    break;
                }
                lost += 1;
            }
            assert!((3..MANY).contains(&lost), "{lost}");
        }
    });
}

/// Two infrastructures have the Cluster's name, and the process that knows it is killed while it deletes the first.
#[test]
fn of_two_infrastructures_of_a_name_none_is_left() {
    blackbox_on(Cluster::without_operator, "infra-twins", async |scene| {
        let mut victim = Victim::new(&scene, &[]).await;
        let rule = |request: &str, fault| Rule {
            on: RequestFilter::of(request),
            after: 0,
            times: Some(1),
            fault,
        };
        // The answer is lost, and there is another one before the operator looks.
        victim.manager.set_rules(&[
            rule("POST /infrastructures", Fault::Cut),
            Rule {
                times: None,
                ..rule("GET /infrastructures", Fault::Hold)
            },
        ]);
        victim.create(CLUSTER).await;
        let infrastructure = &victim.infrastructure;
        infrastructure.until_owned(1).await;
        let uid = infrastructure.now().await.metadata.uid.unwrap();
        let mut twin = templates::single_node(&kubeconfig());
        twin["metadata"] = json!({ "infra_name": format!("podloom-{uid}") });
        let _twin = infrastructure.owner.create(&twin);
        victim.manager.set_rules(&[]);
        infrastructure
            .until_condition("InfrastructureReady", "False/DuplicateInfrastructures")
            .await;
        let hang = rule("DELETE /infrastructures/{id}", Fault::Stall);
        victim.manager.set_rules(&[hang]);
        infrastructure.delete().await;
        let is_gone = async |victim: &Victim<'_>| victim.is_gone(CLUSTER).await;
        assert!(victim.killed_at(Place::Manager, 0, is_gone).await);
        victim.infrastructure.gone().await;
        assert_eq!(victim.infrastructure.owner.list(), [""; 0]);
    });
}

/// The leader's network goes away while it builds. The other replica goes on with what it left.
#[test]
fn the_other_replica_goes_on() {
    blackbox_on(Cluster::without_operator, "infra-replicas", async |scene| {
        may_lead(&scene, "podloom-system", "podloom-infrastructure");
        let election = election(&scene.namespace);
        let victim = Victim::new(&scene, &election).await;
        let second = victim.infrastructure.operator(&election).await;
        let names: Vec<String> = (0..8).map(|number| format!("c{number}")).collect();
        for name in &names {
            victim.create(name).await;
        }
        eventually("the leader has begun", async || {
            (victim.made() >= 2).then_some(()).ok_or("no".to_owned())
        })
        .await;
        victim.kubernetes.silence_all();
        for name in &names {
            victim
                .infrastructure
                .until_of(name, "is configured", is_configured_status)
                .await;
        }
        assert_eq!(victim.infrastructure.owner.list().len(), names.len());
        // Those of the first leader whose answers it did not live to see are not among them.
        assert!(victim.made() <= names.len());
        let (status, body) = second.get("/readyz/infrastructure").unwrap();
        assert_eq!(status, 200, "{body}");
    });
}
