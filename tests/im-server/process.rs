//! The server's life: restarts, modes and users.

use std::time::Duration;

use podloom_tests::im::{BootMode, ImData, ImOptions, templates};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::{owner, with_im};

/// How long to watch for what must not happen.
const WHILE: Duration = Duration::from_millis(100);

#[test]
fn infrastructures_survive_restarts_unless_their_data_is_lost() {
    with_im("restart", async |mut im| {
        let (owner, address) = (owner(&im), im.address);
        let id = owner.create(&templates::single_node("none"));
        owner.reaches(&id, "configured").await;
        im.stop().await;
        assert!(owner.try_ask("GET /version", "text/plain", "").is_err());
        im.restart_same().await;
        assert_eq!(im.address, address);
        assert_eq!(owner.list(), [id.as_str()]);
        im.kill();
        im.restart_same().await;
        assert_eq!(owner.list(), [id.as_str()]);
        assert_eq!(owner.state(&id).state, "configured");
        im.restart(&ImOptions::default(), ImData::Lost).await;
        assert!(owner.list().is_empty());
    });
}

#[test]
fn a_frozen_server_answers_when_it_continues() {
    with_im("frozen", async |mut im| {
        let owner = owner(&im);
        im.freeze();
        let mut asking = spawn_blocking(move || owner.list());
        assert!(timeout(WHILE, &mut asking).await.is_err());
        im.thaw();
        assert!(asking.await.unwrap().is_empty());
        im.freeze();
        im.stop().await;
    });
}

#[test]
fn modes_refuse_what_they_are_named_for() {
    with_im("modes", async |mut im| {
        let owner = owner(&im);
        let id = owner.create(&templates::single_node("none"));
        owner.reaches(&id, "configured").await;
        let template = templates::single_node("none").to_string();
        for (boot_mode, of_create, of_delete) in [
            (BootMode::ReadOnly, 403, 403),
            (BootMode::DeleteOnly, 403, 200),
        ] {
            let options = ImOptions {
                boot_mode,
                ..ImOptions::default()
            };
            im.restart(&options, ImData::Kept).await;
            assert_eq!(owner.state(&id).state, "configured");
            let create = owner.ask("POST /infrastructures", "text/yaml", &template);
            assert_eq!(create.status, of_create, "{boot_mode:?}: {}", create.body);
            let stop = format!("PUT /infrastructures/{id}/stop");
            let stop = owner.ask(&stop, "text/plain", "");
            assert_eq!(stop.status, 403, "{boot_mode:?}: {}", stop.body);
            let delete = format!("DELETE /infrastructures/{id}");
            let delete = owner.ask(&delete, "text/plain", "");
            assert_eq!(delete.status, of_delete, "{boot_mode:?}: {}", delete.body);
        }
    });
}

#[test]
fn with_users_a_wrong_password_is_refused() {
    with_im("users", async |mut im| {
        let options = ImOptions {
            users: vec![("test".to_owned(), "secret".to_owned())],
            ..ImOptions::default()
        };
        im.restart(&options, ImData::Kept).await;
        let id = owner(&im).create(&templates::single_node("none"));
        let wrong = im.owner("test", "wrong");
        let template = templates::single_node("none").to_string();
        for (request, body, status) in [
            ("GET /infrastructures", "", 401),
            ("POST /infrastructures", template.as_str(), 401),
            (&format!("GET /infrastructures/{id}/state"), "", 400),
        ] {
            let answer = wrong.ask(request, "text/yaml", body);
            assert_eq!(answer.status, status, "{request}: {}", answer.body);
        }
    });
}

#[test]
fn without_users_each_pair_is_an_owner() {
    with_im("owners", async |im| {
        let id = owner(&im).create(&templates::single_node("none"));
        let other = im.owner("test", "other");
        assert!(other.list().is_empty());
        let state = format!("GET /infrastructures/{id}/state");
        let state = other.ask(&state, "text/plain", "");
        assert_eq!(state.status, 403, "{}", state.body);
    });
}
