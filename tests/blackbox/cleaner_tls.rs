//! Sinks of CloudEvents behind TLS.

use std::path::PathBuf;

use cloudevents::AttributesReader;
use podloom_tests::cleaner::Cleaners;
use podloom_tests::doubles::{Double, Sink};
use podloom_tests::{Cluster, blackbox_on};
use serde_json::json;
use tempfile::TempDir;

use crate::cleaner_events::{LOOPBACK, event, received, spec, until_error, url};

/// Sinks with TLS, each with an authority of its own; the file has all of these.
fn secure_sinks<const N: usize>(files: &TempDir, flaws: [&[&str]; N]) -> ([Sink; N], PathBuf) {
    let mut bundle = String::new();
    let mut number = 0;
    let sinks = flaws.map(|flaw| {
        number += 1;
        let authority = files.path().join(format!("{number}.pem"));
        let sink = Double::tls(&authority, flaw);
        bundle += &std::fs::read_to_string(&authority).unwrap();
        sink
    });
    let all = files.path().join("all.pem");
    std::fs::write(&all, bundle).unwrap();
    (sinks, all)
}

/// A sink that cannot prove who it is gets nothing, not even the head of a request.
#[test]
fn an_event_goes_only_to_a_sink_with_a_valid_certificate() {
    blackbox_on(Cluster::without_operator, "cleaner-tls", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let files = TempDir::new().unwrap();
        let flaw = |name| ["--flaw", name];
        let flaws = ["expired", "wrong-name", "unknown-ca"].map(flaw);
        let [expired, wrong, unknown] = &flaws;
        let (sinks, authorities) = secure_sinks(&files, [expired, wrong, unknown, &[]]);
        let [expired, wrong, unknown, valid] = &sinks;
        let plain = Double::sink(&[]);
        let _operator = cleaners.operator_trusting(&authorities, &[LOOPBACK]).await;
        let secure = |sink: &Sink| url(sink.address()).replace("http:", "https:");
        cleaners.map("web", json!({}), "idle").await;
        let cleaner = cleaners
            .create("shop", spec(&secure(expired), json!({})))
            .await;
        for (sink, why) in [
            (expired, "its certificate has expired"),
            (wrong, "its certificate is not for this host"),
            (
                unknown,
                "its certificate is signed by no authority that is trusted here",
            ),
            (&plain, "it does not speak TLS on this port"),
        ] {
            let sink_field = json!({ "cloudEventSink": secure(sink) });
            cleaners.edit("shop", sink_field).await;
            let expected = format!("the sink cannot be reached: {why}");
            until_error(&cleaners, &expected).await;
        }
        cleaners
            .edit("shop", json!({ "cloudEventSink": secure(valid) }))
            .await;
        let requests = received(valid, 1).await;
        assert_eq!(event(&requests[0]).id(), cleaner.metadata.uid.unwrap());
        cleaners.until_gone("shop", &["web"]).await;
        for sink in [expired, wrong, unknown, &plain] {
            assert_eq!(sink.received().count, 0);
        }
    });
}

/// The operator trusts the authorities of its machine, not those that a sink brings along.
#[test]
fn an_authority_that_the_machine_does_not_know_is_not_trusted() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-tls-unknown",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            let files = TempDir::new().unwrap();
            let sink = Double::tls(&files.path().join("ca.pem"), &[]);
            let _operator = cleaners.operator(&[LOOPBACK]).await;
            cleaners.map("web", json!({}), "idle").await;
            let secure = url(sink.address()).replace("http:", "https:");
            let ignore = json!({ "delivery": { "policy": "Ignore", "deadline": "3s" } });
            cleaners.create("shop", spec(&secure, ignore)).await;
            until_error(
                &cleaners,
                "the sink cannot be reached: its certificate is signed by no authority",
            )
            .await;
            cleaners.until_gone("shop", &["web"]).await;
            assert_eq!(sink.received().count, 0);
        },
    );
}
