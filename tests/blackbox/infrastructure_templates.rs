//! What different templates come to: some are refused, some never get usable machines, and most want nothing more.

use podloom_api::ClusterState;
use podloom_tests::faults::{Fault, Proxy, Rule};
use podloom_tests::im::{ImOptions, ImServer, templates};
use podloom_tests::infrastructure::{CLUSTER, Infrastructure, condition, kubeconfig, message};
use podloom_tests::{Cluster, blackbox_on, eventually};
use serde_json::{Value, json};

/// An update of an infrastructure.
const UPDATE: (&str, &str) = ("POST", "/infrastructures/{id}");
const RECONFIGURE: (&str, &str) = ("PUT", "/infrastructures/{id}/reconfigure");

/// A Cluster that runs is read, and nothing is changed: not at IM, and not at the API server.
#[test]
fn nothing_is_written_at_rest() {
    blackbox_on(Cluster::without_operator, "infra-rest", async |scene| {
        let im = ImServer::shared().await;
        let proxy = Proxy::to(im.address);
        let infrastructure = Infrastructure::behind(&scene, im, &proxy).await;
        let kubernetes = Proxy::start(infrastructure.kubeconfig());
        let _operator = infrastructure.operator_behind(&kubernetes, &[]).await;
        infrastructure
            .cluster(&templates::single_node(&kubeconfig()))
            .await;
        infrastructure.until_configured(1).await;
        // The Events and the status of the Cloud may follow the Cluster's own.
        let look = "GET /infrastructures/{id}/state";
        proxy.sees_more(look, 2).await;
        let (asked, written) = (proxy.writes(), kubernetes.writes());
        proxy.sees_more(look, 3).await;
        assert_eq!(proxy.writes(), asked, "{:#?}", proxy.requests());
        assert_eq!(kubernetes.writes(), written, "{:#?}", kubernetes.counts());
    });
}

#[test]
fn a_template_that_im_rejects_fails_until_it_is_edited() {
    blackbox_on(Cluster::without_operator, "infra-rejected", async |scene| {
        // Its own: IM's parser forgets what is wrong with a template when it reads another one at the same time.
        let im = ImServer::start(&ImOptions::default()).await;
        let infrastructure = Infrastructure::at(&scene, &im, &im.url()).await;
        let _operator = infrastructure.operator(&[]).await;
        let right = templates::single_node(&kubeconfig());
        let mut wrong = right.clone();
        wrong["topology_template"]["node_templates"]["server"]["type"] =
            Value::from("podloom.test.Unknown");
        infrastructure.cluster(&wrong).await;
        let status = infrastructure
            .until_condition("TemplateApplied", "False/TemplateRejected")
            .await;
        assert_eq!(status.state, Some(ClusterState::Failed));
        assert_eq!(condition(&status, "Stalled"), "True/TemplateRejected");
        let text = message(&status, "TemplateApplied");
        assert!(text.contains("podloom.test.Unknown"), "{text}");
        assert!(text.len() <= 512, "{text}");
        assert!(infrastructure.owner.list().is_empty());
        infrastructure.replace_template(&right).await;
        infrastructure.until_configured(1).await;
        infrastructure.until_owned(1).await;
    });
}

#[test]
fn a_template_without_nodes_is_tried_again_ever_later() {
    blackbox_on(Cluster::without_operator, "infra-no-nodes", async |scene| {
        let im = ImServer::shared().await;
        let proxy = Proxy::to(im.address);
        let infrastructure = Infrastructure::behind(&scene, im, &proxy).await;
        let _operator = infrastructure.operator(&[]).await;
        infrastructure.cluster(&templates::no_nodes()).await;
        let status = infrastructure
            .until("says why", |status| {
                message(status, "InfrastructureReady").contains("without any deploy")
            })
            .await;
        assert_eq!(condition(&status, "InfrastructureReady"), "False/Failed");
        are_ever_later(&proxy, UPDATE).await;
        let right = templates::single_node(&kubeconfig());
        infrastructure.replace_template(&right).await;
        let id = infrastructure.until_configured(1).await;
        assert_eq!(status.cluster_id, Some(id));
        infrastructure.until_owned(1).await;
    });
}

#[test]
fn machines_that_never_configure_are_reconfigured_ever_later() {
    blackbox_on(
        Cluster::without_operator,
        "infra-unconfigured",
        async |scene| {
            let im = ImServer::shared().await;
            let proxy = Proxy::to(im.address);
            let infrastructure = Infrastructure::behind(&scene, im, &proxy).await;
            let mut template = templates::never_configures();
            template["topology_template"]["outputs"]["kubeconfig"]["value"] = kubeconfig().into();
            let _operator = infrastructure.operator(&[]).await;
            infrastructure.cluster(&template).await;
            // It has a file of the server's, which its provider must allow.
            let status = infrastructure.until_state(ClusterState::Failed).await;
            assert_eq!(
                condition(&status, "TemplateApplied"),
                "False/TemplateInvalid"
            );
            assert_eq!(proxy.writes(), 0);
            infrastructure.allow_files().await;
            let status = infrastructure
                .until_condition("InfrastructureReady", "False/Unconfigured")
                .await;
            are_ever_later(&proxy, RECONFIGURE).await;
            let id = status.cluster_id.unwrap();
            // Two at once would leave IM running for ever.
            proxy.set_rules(&[Rule::on(
                "PUT /infrastructures/{id}/reconfigure",
                Fault::Drop,
            )]);
            infrastructure.owner.reaches(&id, "unconfigured").await;
            infrastructure.owner.repair(&id);
            infrastructure.until_configured(1).await;
            infrastructure.until_state(ClusterState::Connecting).await;
            infrastructure.until_owned(1).await;
        },
    );
}

/// A deadline that has passed is told, and ends nothing.
#[test]
fn a_build_that_takes_too_long_is_repaired() {
    blackbox_on(Cluster::without_operator, "infra-late", async |scene| {
        let im = ImServer::shared().await;
        let proxy = Proxy::to(im.address);
        let infrastructure = Infrastructure::behind(&scene, im, &proxy).await;
        infrastructure.allow_files().await;
        let _operator = infrastructure.operator(&[]).await;
        let spec = json!({
            "tosca": templates::long_configuring(),
            "timeoutSeconds": { "create": 10 },
        });
        infrastructure.cluster_with(CLUSTER, spec).await;
        infrastructure.until_state(ClusterState::Creating).await;
        infrastructure
            .until_condition("InfrastructureReady", "False/DeadlineExceeded")
            .await;
        scene.has_event(CLUSTER, "Warning DeadlineExceeded").await;
        are_ever_later(&proxy, RECONFIGURE).await;
        infrastructure.until_gone().await;
        assert!(infrastructure.owner.list().is_empty());
    });
}

/// Waits for three requests of this method and path, and checks that each pause between them is clearly longer than the one before.
async fn are_ever_later(proxy: &Proxy, (method, path): (&str, &str)) {
    let times = eventually(&format!("there are three {method} {path}"), async || {
        let requests = proxy.requests();
        let of_kind = requests
            .iter()
            .filter(|it| it.method == method && it.path == path);
        let times: Vec<f64> = of_kind.map(|it| it.seconds).collect();
        (times.len() >= 3)
            .then_some(times.clone())
            .ok_or_else(|| format!("{times:?}"))
    })
    .await;
    let (first, second) = (times[1] - times[0], times[2] - times[1]);
    assert!(first > 1.0 && second > first * 1.3, "{times:?}");
}
