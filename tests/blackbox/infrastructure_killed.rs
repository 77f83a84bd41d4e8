//! The operator is killed, loses answers, or loses its Lease at any point of a Cluster's life: nothing is made twice, and nothing is
//! left behind.

use std::cell::Cell;

use podloom_api::{Cluster as Machines, ClusterStatus};
use podloom_tests::faults::{Fault, Proxy, RequestFilter, Rule};
use podloom_tests::im::{ImServer, templates};
use podloom_tests::infrastructure::{CLUSTER, Infrastructure, is_configured, kubeconfig};
use podloom_tests::lives::{Blow, Life, Place, strike};
use podloom_tests::{
    Cluster, Operator, Scene, Watched, blackbox_on, election, eventually, may_lead,
};
use serde_json::json;

/// Clusters, and what was asked of the Infrastructure Manager for them.
struct Site<'s> {
    infrastructure: Infrastructure<'s>,
    manager: Proxy,
    /// Whether it is struck in requests to the Infrastructure Manager, not to the API server.
    is_managed: bool,
    seen: Watched<Machines>,
    is_deleted: Cell<bool>,
}

impl<'s> Site<'s> {
    async fn new(scene: &'s Scene, is_managed: bool) -> Self {
        let im = ImServer::shared().await;
        let manager = Proxy::to(im.address);
        let infrastructure = Infrastructure::behind(scene, im, &manager).await;
        Self {
            seen: infrastructure.watch().await,
            infrastructure,
            manager,
            is_managed,
            is_deleted: Cell::default(),
        }
    }

    async fn create(&self, name: &str) {
        let spec = json!({ "tosca": templates::single_node(&kubeconfig()) });
        self.infrastructure.cluster_with(name, spec).await;
    }

    /// Deletes the Cluster of the test, once.
    async fn delete(&self) {
        if !self.is_deleted.replace(true) {
            self.infrastructure.delete().await;
        }
    }

    /// The answers to all requests to make an infrastructure; none for each that was lost.
    fn creates(&self) -> Vec<Option<u16>> {
        let requests = self.manager.requests().into_iter();
        let creates =
            requests.filter(|it| it.method == "POST" && it.path == "/infrastructures?async=true");
        creates.map(|it| it.status).collect()
    }

    /// How many infrastructures IM has made, and the operator got the answer.
    fn made(&self) -> usize {
        let creates = self.creates();
        creates.iter().filter(|it| **it == Some(200)).count()
    }

    /// Whether what is left can only be a record that IM wrote back long after it had said that the infrastructure is gone. On a busy
    /// machine that can take longer than the operator waits before it believes the list. There was one infrastructure then, and IM
    /// has deleted it.
    fn is_written_back(&self, left: usize) -> bool {
        let requests = self.manager.requests();
        let of_one = requests.iter();
        let of_one = of_one.filter(|it| it.path.starts_with("/infrastructures/{id}"));
        let mut since_delete = of_one.skip_while(|it| it.method != "DELETE");
        let is_gone = since_delete
            .any(|it| it.status == Some(404) || it.method == "DELETE" && it.status == Some(200));
        left == 1 && self.creates().len() == 1 && is_gone
    }
}

fn configured(status: &ClusterStatus) -> bool {
    is_configured(status, 1)
}

impl Life for Site<'_> {
    // They share one Infrastructure Manager, which is slow.
    const AT_ONCE: usize = 5;
    // Its state.
    const POLLS: bool = true;

    async fn operator(&self, flags: &[&str]) -> (Proxy, Operator) {
        let proxy = Proxy::start(self.infrastructure.kubeconfig());
        let operator = self.infrastructure.operator_behind(&proxy, flags).await;
        (proxy, operator)
    }

    async fn begins(&self) {
        self.create(CLUSTER).await;
    }

    async fn goes_on(&self) -> Result<(), String> {
        let status = self.seen.last(CLUSTER).and_then(|it| it.status);
        if status.as_ref().is_some_and(configured) {
            if !self.is_deleted.get() {
                assert_eq!(self.infrastructure.owner.list().len(), 1);
            }
            self.delete().await;
        }
        let is_over = self.seen.is_gone(CLUSTER);
        is_over.then_some(()).ok_or_else(|| format!("{status:?}"))
    }

    async fn meanwhile(&self, blow: Blow) {
        if blow == Blow::Unobserved {
            self.delete().await;
        }
    }

    async fn ends(&self) {
        let left = self.infrastructure.owner.list();
        assert!(
            left.is_empty() || self.is_written_back(left.len()),
            "{left:?}: {:?}",
            self.manager.requests()
        );
        // None, if the operator died before it read the answer of its create.
        assert!(self.made() <= 1);
    }

    fn proxy(&self) -> Option<&Proxy> {
        self.is_managed.then_some(&self.manager)
    }
}

/// Strikes Clusters in their writes to the API server.
fn each_write(name: &str, blow: Blow) {
    let writes = "write clusters clusters/status clouds infrastructureproviders secrets";
    // At least: the finalizer, what is asked for, its answer, the Secret, and the finalizer again.
    strike(name, blow, &[(writes.into(), 5..20)], async |place| {
        Site::new(place.scene, false).await
    });
}

/// Strikes Clusters in their requests to the Infrastructure Manager.
fn each_request(name: &str, blow: Blow) {
    let on = RequestFilter {
        path: "/infrastructures".to_owned(),
        ..RequestFilter::default()
    };
    // To create, to read the state and the outputs; to delete.
    strike(name, blow, &[(on, 4..20)], async |place| {
        Site::new(place.scene, true).await
    });
}

#[test]
fn killed_in_any_write_it_makes_and_leaves_nothing_twice() {
    each_write("infra-killed-writes", Blow::KilledIn);
}

#[test]
fn killed_in_any_request_to_im_it_makes_and_leaves_nothing_twice() {
    each_request("infra-killed-requests", Blow::KilledIn);
}

#[test]
fn whichever_answer_of_the_api_server_is_lost_nothing_is_made_twice() {
    each_write("infra-lost-writes", Blow::Unanswered);
}

/// The request was done, and its answer never came: nobody may take that for a failure.
#[test]
fn whichever_answer_of_im_is_lost_nothing_is_made_twice() {
    each_request("infra-lost-requests", Blow::Unanswered);
}

/// A watch breaks before any of its changes, and lists again only when the user has deleted the Cluster.
#[test]
fn what_no_watch_shows_leaves_nothing_behind() {
    let series =
        ["change clusters", "change secrets", "change clouds"].map(|it| (it.into(), 1..16));
    let life = async |place: Place| Site::new(place.scene, false).await;
    strike("infra-unobserved", Blow::Unobserved, &series, life);
}

/// Two infrastructures have the Cluster's name, and the process that knows it is killed while it deletes the first.
#[test]
fn of_two_infrastructures_of_a_name_none_is_left() {
    blackbox_on(Cluster::without_operator, "infra-twins", async |scene| {
        let site = Site::new(&scene, true).await;
        let infrastructure = &site.infrastructure;
        let mut operator = infrastructure.operator(&[]).await;
        // The answer is lost, and there is another one before the operator looks.
        site.manager.set_rules(&[
            Rule::once("POST /infrastructures", 0, Fault::Cut),
            Rule::on("GET /infrastructures", Fault::Hold),
        ]);
        site.create(CLUSTER).await;
        infrastructure.until_owned(1).await;
        let uid = infrastructure.now().await.metadata.uid.unwrap();
        let mut twin = templates::single_node(&kubeconfig());
        twin["metadata"] = json!({ "infra_name": format!("podloom-{uid}") });
        let _twin = infrastructure.owner.create(&twin);
        site.manager.set_rules(&[]);
        infrastructure
            .until_condition("InfrastructureReady", "False/DuplicateInfrastructures")
            .await;
        let hang = Rule::once("DELETE /infrastructures/{id}", 0, Fault::Stall);
        site.manager.set_rules(&[hang]);
        infrastructure.delete().await;
        eventually("the operator hangs", async || {
            let hangs = site.manager.hits() == [1];
            hangs.then_some(()).ok_or("no".to_owned())
        })
        .await;
        operator.kill();
        site.manager.set_rules(&[]);
        operator.restart();
        infrastructure.gone().await;
        assert_eq!(infrastructure.owner.list(), [""; 0]);
    });
}

/// The leader's network goes away while it builds. The other replica goes on with what it left.
#[test]
fn the_other_replica_goes_on() {
    blackbox_on(Cluster::without_operator, "infra-replicas", async |scene| {
        may_lead(&scene, "podloom-system", "podloom-infrastructure");
        let election = election(&scene.namespace);
        let site = Site::new(&scene, true).await;
        let infrastructure = &site.infrastructure;
        let kubernetes = Proxy::start(infrastructure.kubeconfig());
        let _first = infrastructure.operator_behind(&kubernetes, &election).await;
        let second = infrastructure.operator(&election).await;
        let names: Vec<String> = (0..8).map(|number| format!("c{number}")).collect();
        for name in &names {
            site.create(name).await;
        }
        eventually("the leader has begun", async || {
            (site.made() >= 2).then_some(()).ok_or("no".to_owned())
        })
        .await;
        kubernetes.silence_all();
        for name in &names {
            infrastructure
                .until_of(name, "is configured", configured)
                .await;
        }
        assert_eq!(infrastructure.owner.list().len(), names.len());
        // Those of the first leader whose answers it did not live to see are not among them.
        assert!(site.made() <= names.len());
        let (status, body) = second.get("/readyz/infrastructure").unwrap();
        assert_eq!(status, 200, "{body}");
    });
}
