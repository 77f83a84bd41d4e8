//! Tests of the operator, as a binary, on a real control plane: one module per behaviour.
//!
//! `cargo xtask test` builds the binary, the plugins and the root folder of the image, and sets `PODLOOM_BLACKBOX_BINARY`,
//! `PODLOOM_BUNDLE` and `PODLOOM_DIST_ROOT`.
//! Without them every test is skipped, with a line on standard error.

#![expect(
    clippy::unwrap_used,
    reason = "this is test code: what goes wrong fails the test"
)]

mod admission_diff;
mod adoption;
mod alone;
mod api_server;
mod artifacts;
mod balanced;
mod blame;
mod bounds;
mod browser_killed;
mod cert_manager;
mod chain_diff;
mod changes_page;
mod cleaner_attacks;
mod cleaner_conditions;
mod cleaner_deletion;
mod cleaner_events;
mod cleaner_helm;
mod cleaner_hooks;
mod cleaner_killed;
mod cleaner_kinds;
mod cleaner_lifetime;
mod cleaner_many;
mod cleaner_proposal;
mod cleaner_rights;
mod cleaner_storm;
mod cleaner_targets;
mod cleaner_time;
mod cleaner_tls;
mod cleaner_tools;
mod cleaner_watches;
mod configuration;
mod console;
mod doors;
mod drift;
mod early_words;
mod exceptions;
mod gate;
mod gate_storm;
mod heal;
mod helm_chart;
mod infrastructure;
mod infrastructure_faults;
mod infrastructure_killed;
mod infrastructure_needs;
mod infrastructure_repair;
mod infrastructure_rules;
mod infrastructure_rules_cloud;
mod infrastructure_rules_cluster;
mod infrastructure_scopes;
mod infrastructure_secrets;
mod infrastructure_templates;
mod infrastructure_tls;
mod infrastructure_webhook;
mod installs;
mod interference;
mod kustomize;
mod languages;
mod later_changes;
mod life_cycle;
mod match_conditions;
mod monitoring;
mod names;
mod namespaces;
mod pipes;
mod plugins;
mod pod_security;
mod policies;
mod portal;
mod portal_adoption;
mod portal_chain;
mod portal_changes;
mod portal_faults;
mod portal_identity;
mod portal_kinds;
mod portal_needs;
mod portal_relays;
mod portal_rest;
mod portal_scopes;
mod refused;
mod reload;
mod replicas;
mod reports;
mod rights;
mod rollout;
mod signed;
mod silence;
mod specs_nobody_wrote;
mod split_groups;
mod stale;
mod status;
mod storm;
mod syntax;
mod timeouts;
mod traces;
mod tutorial;
mod unobserved;
mod unserved;
mod upgrades;
mod users;
mod values;
mod warm;
mod webhook;
mod webhook_clients;
mod webhook_failures;
mod webhook_fair;
mod webhook_load;
mod webhook_marks;
mod webhook_owners;
mod webhook_policy;
mod webhook_refusals;
mod webhook_render;
mod webhook_rights;
mod webhook_selectors;
mod webhook_validation;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn no_module_is_forgotten() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("blackbox");
    let main = fs::read_to_string(here.join("main.rs")).unwrap();
    let modules: BTreeSet<String> = main
        .lines()
        .filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'))
        .map(str::to_owned)
        .collect();
    let files: BTreeSet<String> = fs::read_dir(here)
        .unwrap()
        .filter_map(|file| {
            let name = file.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".rs").map(str::to_owned)
        })
        .filter(|name| name != "main")
        .collect();
    assert_eq!(modules, files);
}
