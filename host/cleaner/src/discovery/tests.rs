use std::sync::{Arc, Mutex};

use podloom_scripted::{Requests, scripted};
use serde_json::{Value, json};

use super::{Discovery, FailureKind, RequestError};
use crate::checked::KindReference;

/// What a version of a group has: kinds and plurals, or the status of a failure.
type Served = Arc<Mutex<Result<Vec<(&'static str, &'static str)>, u16>>>;

fn discovery(kinds: &[(&'static str, &'static str)]) -> (Discovery, Served, Requests) {
    let served: Served = Arc::new(Mutex::new(Ok(kinds.to_vec())));
    let answers = Arc::clone(&served);
    let (client, requests) = scripted(move |request, _| {
        if request.ends_with("/broken.example.com/v1") {
            return (503, failure(503));
        }
        match &*answers.lock().unwrap() {
            Ok(kinds) => {
                let kinds: Vec<Value> = kinds
                    .iter()
                    .map(|(kind, plural)| json!({ "kind": kind, "name": plural, "namespaced": true, "singularName": "", "verbs": [] }))
                    .collect();
                (
                    200,
                    json!({ "groupVersion": "example.com/v1", "resources": kinds }),
                )
            }
            Err(code) => (*code, failure(*code)),
        }
    });
    (Discovery::new(client), served, requests)
}

fn failure(code: u16) -> Value {
    json!({ "kind": "Status", "status": "Failure", "code": code, "reason": "no", "message": "no" })
}

fn kind(group: &str, kind: &str) -> KindReference {
    KindReference {
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
    }
}

async fn plural(discovery: &Discovery, written: &str) -> Result<String, RequestError> {
    let found = discovery.find(&kind("example.com", written)).await;
    found.map(|it| it.resource.plural.clone())
}

#[tokio::test]
async fn the_case_of_letters_does_not_matter_but_the_exact_one_is_first() {
    let (discovery, ..) = discovery(&[
        ("LAMP", "lamps"),
        ("Lamp", "others"),
        ("Lamp/scale", "x/scale"),
    ]);
    assert_eq!(plural(&discovery, "Lamp").await.unwrap(), "others");
    assert_eq!(plural(&discovery, "LAMP").await.unwrap(), "lamps");
    assert_eq!(plural(&discovery, "lamp").await.unwrap(), "lamps");
}

#[tokio::test]
async fn subresources_are_no_kinds() {
    let (discovery, ..) = discovery(&[("Scale", "lamps/scale")]);
    assert!(matches!(
        plural(&discovery, "Scale").await,
        Err(error) if error.kind == FailureKind::NotServed
    ));
}

#[tokio::test]
async fn a_broken_group_hides_no_other() {
    let (discovery, ..) = discovery(&[("Lamp", "lamps")]);
    let broken = discovery.find(&kind("broken.example.com", "Lamp")).await;
    assert!(
        matches!(&broken, Err(error) if error.is_transient()),
        "{broken:?}"
    );
    assert_eq!(plural(&discovery, "lamp").await.unwrap(), "lamps");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_was_not_found_is_looked_for_every_half_minute() {
    let (discovery, served, requests) = discovery(&[]);
    for _ in 0..5 {
        let error = plural(&discovery, "lamp").await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the API server serves no kind lamp in example.com/v1"
        );
    }
    assert_eq!(requests.made().len(), 1);
    *served.lock().unwrap() = Ok(vec![("Lamp", "lamps")]);
    tokio::time::advance(std::time::Duration::from_secs(29)).await;
    assert!(plural(&discovery, "lamp").await.is_err());
    tokio::time::advance(std::time::Duration::from_secs(2)).await;
    assert_eq!(plural(&discovery, "lamp").await.unwrap(), "lamps");
    // What is known is not asked for again.
    tokio::time::advance(std::time::Duration::from_secs(3600)).await;
    assert_eq!(plural(&discovery, "lamp").await.unwrap(), "lamps");
    assert_eq!(requests.made().len(), 2);
}

#[tokio::test]
async fn a_group_that_is_not_there_has_no_kinds() {
    let (discovery, served, _) = discovery(&[]);
    *served.lock().unwrap() = Err(404);
    assert!(matches!(
        plural(&discovery, "lamp").await,
        Err(error) if error.kind == FailureKind::NotServed
    ));
}

#[tokio::test]
async fn a_kind_that_went_is_forgotten() {
    let (discovery, served, _) = discovery(&[("Lamp", "lamps")]);
    assert!(plural(&discovery, "lamp").await.is_ok());
    *served.lock().unwrap() = Ok(Vec::new());
    assert!(plural(&discovery, "lamp").await.is_ok());
    discovery.forget(&kind("example.com", "lamp")).await;
    assert!(plural(&discovery, "lamp").await.is_err());
}

/// Whoever names what does not exist must not have all others ask again.
#[tokio::test]
async fn groups_that_do_not_exist_push_out_none_that_does() {
    let (discovery, served, requests) = discovery(&[("Lamp", "lamps")]);
    assert_eq!(plural(&discovery, "lamp").await.unwrap(), "lamps");
    *served.lock().unwrap() = Err(404);
    for number in 0..2 * super::VERSIONS_MAX {
        let group = format!("g{number}.example.com");
        assert!(discovery.find(&kind(&group, "lamp")).await.is_err());
    }
    let before = requests.made().len();
    assert_eq!(plural(&discovery, "lamp").await.unwrap(), "lamps");
    assert_eq!(requests.made().len(), before);
    assert!(discovery.versions.lock().unwrap().len() <= super::VERSIONS_MAX);
}
