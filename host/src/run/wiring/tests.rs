mod metrics;

use std::sync::Arc;
use std::sync::Mutex;

use clap::Parser;
use podloom_browser::Timeouts;
use podloom_controllers::duties::{Duty, Row};

use super::{candidate_of, timeouts};
use crate::cli::{Arguments, Command, RunArguments};
use crate::run::tests::fixtures::{CLUSTERS, Cluster};

fn arguments(words: &[&str]) -> RunArguments {
    let command = [&["podloom", "run"], words].concat();
    let parsed = Arguments::try_parse_from(command).expect("good arguments");
    match parsed.command {
        Command::Run(arguments) => *arguments,
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn timeouts_are_by_default_what_the_library_says() {
    let arguments = arguments(&["--plugins", "/plugins"]);
    assert_eq!(timeouts(&arguments), Timeouts::default());
}

/// The first duty's Lease keeps its name, because during an upgrade the old leader holds it.
#[tokio::test]
async fn each_duty_has_a_lease_of_its_own() {
    let cluster = Arc::new(Mutex::new(Cluster::default()));
    let leases = |words: &[&str], row: &Row| {
        let arguments = arguments(words);
        let client = || Ok(Cluster::client(&cluster));
        let candidate = candidate_of(&arguments, row, "we", client);
        candidate
            .expect("a client")
            .map(|candidate| (candidate.namespace, candidate.name))
    };
    let in_namespace = |name: &str| Some(("home".to_owned(), name.to_owned()));
    let home = ["--lease-namespace", "home"];
    let browser = Duty::Browser.row();
    assert_eq!(leases(&home, browser), in_namespace("podloom"));
    assert_eq!(leases(&home, &CLUSTERS), in_namespace("podloom-clusters"));
    let named = [&home[..], &["--lease-name", "mine"]].concat();
    assert_eq!(leases(&named, browser), in_namespace("mine"));
    assert_eq!(leases(&named, &CLUSTERS), in_namespace("mine-clusters"));
    let webhook = Duty::Webhook.row();
    assert_eq!(leases(&home, webhook), in_namespace("podloom-webhook"));
    assert_eq!(leases(&named, webhook), in_namespace("mine-webhook"));
    let second = [&home[..], &["--webhook-name", "second"]].concat();
    assert_eq!(leases(&second, webhook), in_namespace("second"));
    assert_eq!(leases(&second, browser), in_namespace("podloom"));
    assert_eq!(leases(&["--no-leader-election"], browser), None);
}
