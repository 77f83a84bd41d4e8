//! Each template leads to the state that it is named for.

use std::net::TcpStream;

use podloom_tests::doubles::{Double, HangPoint};
use podloom_tests::eventually;
use podloom_tests::im::{ImData, ImOptions, templates};
use serde_json::{Value, json};

use super::{owner, with_im};

#[test]
fn a_single_node_is_configured_and_returns_its_kubeconfig_byte_for_byte() {
    with_im("single-node", async |im| {
        let owner = owner(&im);
        let kubeconfig = "a: 1 # a comment\n\n  b: \"ü\"\n";
        let id = owner.create(&templates::single_node(kubeconfig));
        let reading = owner.reaches(&id, "configured").await;
        assert_eq!(
            reading.machines,
            [("0".to_owned(), "configured".to_owned())].into()
        );
        assert_eq!(owner.outputs(&id), json!({ "kubeconfig": kubeconfig }));
        assert!(owner.tosca(&id).contains("tosca_simple_yaml_1_0"));
    });
}

#[test]
fn a_pool_grows_and_loses_the_machines_that_are_retired() {
    with_im("worker-pool", async |im| {
        let owner = owner(&im);
        let id = owner.create(&templates::pool(1, &[]));
        owner.has_machines(&id, 2).await;
        owner.update(&id, &templates::pool(3, &[]));
        owner.has_machines(&id, 4).await;
        owner.update(&id, &templates::pool(2, &["2"]));
        owner.has_machines(&id, 3).await;
        let left = owner.state(&id).machines;
        assert!(!left.contains_key("2"), "{left:?}");
        assert_eq!(owner.list(), [id]);
    });
}

#[test]
fn a_structured_kubeconfig_is_an_object() {
    with_im("structured-kubeconfig", async |im| {
        let owner = owner(&im);
        let id = owner.create(&templates::structured_kubeconfig());
        owner.reaches(&id, "configured").await;
        assert_eq!(owner.outputs(&id)["kubeconfig"]["kind"], "Config");
    });
}

#[test]
fn no_nodes_fails_and_says_why() {
    with_im("no-nodes", async |im| {
        let owner = owner(&im);
        let id = owner.create(&templates::no_nodes());
        let reading = owner.reaches(&id, "failed").await;
        assert!(reading.machines.is_empty(), "{reading:?}");
        let log = owner.log(&id);
        assert!(log.contains("Infrastructure without any deploy"), "{log}");
    });
}

#[test]
fn never_configures_stays_unconfigured_until_it_is_repaired() {
    with_im("never-configures", async |im| {
        let owner = owner(&im);
        let id = owner.create(&templates::never_configures());
        owner.reaches(&id, "unconfigured").await;
        owner.reconfigure(&id);
        owner.reaches(&id, "unconfigured").await;
        owner.repair(&id);
        owner.reaches(&id, "configured").await;
        owner.reconfigure(&id);
        owner.reaches(&id, "configured").await;
    });
}

#[test]
fn long_configuring_runs_until_the_server_restarts() {
    with_im("long-configuring", async |mut im| {
        let answers = TcpStream::connect("127.0.0.1:22");
        assert!(
            answers.is_err(),
            "an SSH server on loopback would end it early"
        );
        let owner = owner(&im);
        let id = owner.create(&templates::long_configuring());
        owner.reaches(&id, "running").await;
        im.restart(&ImOptions::default(), ImData::Kept).await;
        owner.reaches(&id, "unconfigured").await;
    });
}

#[test]
fn a_delete_right_after_a_large_create_conflicts_for_a_moment() {
    with_im("conflict", async |im| {
        let owner = owner(&im);
        let delete =
            |id: &str| owner.ask(&format!("DELETE /infrastructures/{id}"), "text/plain", "");
        // IM answers a create before it begins to build. A delete may come earlier still, or when all is built: then it is done.
        let id = eventually("a delete comes while IM builds", async || {
            let id = owner.create(&templates::pool(20, &[]));
            match delete(&id) {
                answer if answer.status == 409 => Ok(id),
                answer => Err(format!("{}: {}", answer.status, answer.body)),
            }
        })
        .await;
        eventually("it is deleted", async || match delete(&id) {
            answer if answer.status == 200 => Ok(()),
            answer => Err(format!("{}: {}", answer.status, answer.body)),
        })
        .await;
    });
}

#[test]
fn machines_stop_and_start() {
    with_im("machines", async |im| {
        let owner = owner(&im);
        let id = owner.create(&templates::single_node("none"));
        owner.reaches(&id, "configured").await;
        owner.stop_machines(&id);
        owner.reaches(&id, "stopped").await;
        owner.start_machines(&id);
        owner.reaches(&id, "configured").await;
    });
}

#[test]
fn a_deleted_infrastructure_is_gone() {
    with_im("deleted", async |im| {
        let owner = owner(&im);
        let kept = owner.create(&templates::single_node("none"));
        let deleted = owner.create(&templates::single_node("none"));
        // While IM builds one, it may save the record of another again that it has just deleted.
        owner.reaches(&kept, "configured").await;
        owner.reaches(&deleted, "configured").await;
        owner.delete(&deleted).await;
        // On a busy machine it is saved again without a build too, and then it is there as before.
        eventually("only the other one is left", async || {
            let left = owner.list();
            if left != [kept.clone()] {
                owner.delete(&deleted).await;
                return Err(format!("{left:?}"));
            }
            Ok(())
        })
        .await;
        let state = owner.ask(
            &format!("GET /infrastructures/{deleted}/state"),
            "text/plain",
            "",
        );
        assert_eq!(state.status, 404, "{}", state.body);
    });
}

#[test]
fn a_type_that_im_does_not_know_is_refused() {
    with_im("refused", async |im| {
        let mut template = templates::single_node("none");
        let server = &mut template["topology_template"]["node_templates"]["server"];
        server["type"] = Value::from("podloom.test.Unknown");
        let answer = owner(&im).ask("POST /infrastructures", "text/yaml", &template.to_string());
        assert_eq!(answer.status, 400);
        assert!(
            answer.body.contains("Error parsing request body"),
            "{}",
            answer.body
        );
    });
}

#[test]
fn a_cloud_that_does_not_answer_keeps_an_infrastructure_pending() {
    with_im("cloud", async |im| {
        let cloud = Double::hanging(HangPoint::Answer);
        let owner = owner(&im).with_cloud(json!({
            "id": "cloud", "type": "OpenStack", "host": format!("http://{}", cloud.address),
            "username": "u", "password": "p", "tenant": "t",
        }));
        let id = owner.create(&templates::single_node("none"));
        assert_eq!(owner.reaches(&id, "pending").await.machines.len(), 0);
        drop(cloud);
        owner.reaches(&id, "failed").await;
    });
}
