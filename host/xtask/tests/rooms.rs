//! Checks the code against the table of rooms: which crate may use which.
//!
//! It runs `cargo tree` for each crate alone, since `cargo metadata` unifies features over the workspace and would show edges that a
//! crate by itself does not have.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// One row of the table.
struct Room {
    name: &'static str,
    /// Our own crates that it may see, directly or through others.
    may_use: &'static [&'static str],
    /// Outside crates that must never be in its tree; a name stands for its family: `kube` for `kube-client` too.
    never: &'static [&'static str],
}

const API: &str = "podloom-api";
const BROWSER: &str = "podloom-browser";
const CEL: &str = "podloom-cel";
const CLEANER: &str = "podloom-cleaner";
const CONFIG_SCHEMA: &str = "podloom-config-schema";
const CONTROL_LOOP: &str = "podloom-control-loop";
const CONTROL_PLANE: &str = "podloom-control-plane";
const CONTROLLERS: &str = "podloom-controllers";
const ENGINE: &str = "podloom-engine";
const HELM: &str = "podloom-helm";
const IM: &str = "podloom-im";
const IMAGE: &str = "podloom-image";
const INFRASTRUCTURE: &str = "podloom-infrastructure";
const MANIFEST: &str = "podloom-manifest";
const METRICS: &str = "podloom-metrics";
const MODEL: &str = "podloom-model";
const MUTATION: &str = "podloom-mutation";
const MUTATORS: &str = "podloom-mutators";
const POD_PATH: &str = "podloom-pod-path";
const PORTAL: &str = "podloom-portal";
const ROLLOUT: &str = "podloom-rollout";
const SBOM: &str = "podloom-sbom";
const SCRIPTED: &str = "podloom-scripted";
const SYNTAX: &str = "podloom-syntax";
const TURNS: &str = "podloom-turns";
const REAL_NODE: &str = "podloom-real-node";
const WEBHOOK: &str = "podloom-webhook";
const SDK: &str = "podloom-plugin-sdk";
/// Every plugin, by the start of its name.
const PLUGINS: &str = "podloom-plugin-";
const WASM: &str = "wasm32-unknown-unknown";

/// What the control loop must never see, whatever its features.
const NO_KUBERNETES: &[&str] = &["kube", "k8s-openapi", "wasmtime"];

const ROOMS: [Room; 33] = [
    Room {
        name: API,
        may_use: &[],
        // kube itself is there for its derive; its client and runtime are not.
        never: &["tokio", "kube-client", "kube-runtime", "hyper", "chrono"],
    },
    Room {
        name: CEL,
        may_use: &[TURNS],
        never: &["kube", "k8s-openapi", "wasmtime"],
    },
    Room {
        name: CONTROL_LOOP,
        may_use: &[],
        never: NO_KUBERNETES,
    },
    Room {
        name: TURNS,
        may_use: &[],
        never: &["kube", "k8s-openapi", "wasmtime"],
    },
    Room {
        name: METRICS,
        may_use: &[],
        never: &["tokio", "kube", "k8s-openapi", "wasmtime"],
    },
    Room {
        name: POD_PATH,
        may_use: &[SYNTAX],
        never: &["tokio", "kube", "k8s-openapi", "wasmtime"],
    },
    Room {
        name: SYNTAX,
        may_use: &[],
        never: &["tokio", "kube", "k8s-openapi", "wasmtime"],
    },
    Room {
        name: CONFIG_SCHEMA,
        may_use: &[POD_PATH, SYNTAX],
        never: &["tokio", "kube", "k8s-openapi", "wasmtime"],
    },
    Room {
        name: MUTATION,
        may_use: &[POD_PATH, SYNTAX],
        never: &["tokio", "kube", "k8s-openapi", "wasmtime"],
    },
    Room {
        name: MUTATORS,
        may_use: &[
            CONFIG_SCHEMA,
            CONTROL_LOOP,
            METRICS,
            MUTATION,
            POD_PATH,
            SYNTAX,
            TURNS,
        ],
        never: &["kube", "k8s-openapi", "axum"],
    },
    Room {
        // xtask is built before everything else, and this with it.
        name: IMAGE,
        may_use: &[SYNTAX],
        never: &["wasmtime", "tokio", "kube", "k8s-openapi"],
    },
    Room {
        // As above; the build script of the operator uses it too.
        name: SBOM,
        may_use: &[],
        never: &["wasmtime", "tokio", "kube", "k8s-openapi"],
    },
    Room {
        name: HELM,
        may_use: &[],
        never: &["wasmtime", "tokio", "kube", "k8s-openapi"],
    },
    Room {
        name: MANIFEST,
        // tokio is there for the workers of CEL, which nothing here uses.
        may_use: &[API, CEL, MUTATION, POD_PATH, SYNTAX, TURNS],
        never: &["wasmtime", "kube-client"],
    },
    Room {
        name: ENGINE,
        may_use: &[API, METRICS, MUTATION, POD_PATH, SYNTAX, TURNS],
        never: &["wasmtime", "axum"],
    },
    Room {
        name: BROWSER,
        may_use: &[API, ENGINE, METRICS, MUTATION, POD_PATH, SYNTAX, TURNS],
        never: &["wasmtime", "axum"],
    },
    Room {
        name: ROLLOUT,
        may_use: &[API, ENGINE, METRICS, MUTATION, POD_PATH, SYNTAX, TURNS],
        never: &["wasmtime", "axum"],
    },
    Room {
        name: PORTAL,
        may_use: &[
            API,
            CONTROL_LOOP,
            ENGINE,
            METRICS,
            MUTATION,
            POD_PATH,
            SYNTAX,
            TURNS,
        ],
        never: &["wasmtime", "axum"],
    },
    Room {
        name: INFRASTRUCTURE,
        may_use: &[
            API,
            CONTROL_LOOP,
            ENGINE,
            METRICS,
            MUTATION,
            POD_PATH,
            SYNTAX,
            TURNS,
        ],
        never: &["wasmtime", "axum"],
    },
    Room {
        name: CLEANER,
        may_use: &[
            API, CEL, ENGINE, HELM, METRICS, MUTATION, POD_PATH, SYNTAX, TURNS,
        ],
        never: &["wasmtime", "axum"],
    },
    Room {
        name: CONTROLLERS,
        may_use: &[
            API,
            BROWSER,
            CEL,
            CLEANER,
            CONTROL_LOOP,
            ENGINE,
            HELM,
            INFRASTRUCTURE,
            METRICS,
            MUTATION,
            POD_PATH,
            PORTAL,
            ROLLOUT,
            SYNTAX,
            TURNS,
        ],
        never: &["wasmtime", "axum"],
    },
    Room {
        name: WEBHOOK,
        may_use: &[
            API,
            BROWSER,
            CEL,
            CLEANER,
            CONTROLLERS,
            CONTROL_LOOP,
            ENGINE,
            HELM,
            INFRASTRUCTURE,
            METRICS,
            MUTATION,
            POD_PATH,
            PORTAL,
            ROLLOUT,
            SYNTAX,
            TURNS,
        ],
        never: &["wasmtime"],
    },
    Room {
        name: "podloom",
        may_use: &[
            API,
            BROWSER,
            CEL,
            CLEANER,
            CONFIG_SCHEMA,
            CONTROL_LOOP,
            CONTROLLERS,
            ENGINE,
            HELM,
            IMAGE,
            INFRASTRUCTURE,
            MANIFEST,
            METRICS,
            MUTATION,
            MUTATORS,
            POD_PATH,
            PORTAL,
            ROLLOUT,
            SBOM,
            SYNTAX,
            TURNS,
            WEBHOOK,
        ],
        never: &[],
    },
    Room {
        name: SDK,
        may_use: &[CONFIG_SCHEMA, POD_PATH, SYNTAX],
        never: &["tokio", "kube", "k8s-openapi", "wasmtime"],
    },
    Room {
        // The standard plugins, and what `podloom plugin new` writes.
        name: PLUGINS,
        may_use: &[SDK, CONFIG_SCHEMA, POD_PATH, SYNTAX],
        never: &["tokio", "kube", "k8s-openapi", "wasmtime"],
    },
    Room {
        // The counterpart of the benchmark: a plugin that takes the pod as JSON, without our SDK.
        name: "podloom-bench-json-labels",
        may_use: &[],
        never: &["tokio", "kube", "k8s-openapi", "wasmtime"],
    },
    Room {
        name: CONTROL_PLANE,
        may_use: &[],
        never: &["wasmtime", "tokio", "kube", "k8s-openapi"],
    },
    Room {
        name: SCRIPTED,
        may_use: &[],
        never: &["wasmtime"],
    },
    Room {
        name: MODEL,
        may_use: &[
            API, ENGINE, METRICS, MUTATION, POD_PATH, SCRIPTED, SYNTAX, TURNS,
        ],
        never: &["wasmtime"],
    },
    Room {
        name: IM,
        may_use: &[CONTROL_PLANE],
        never: &["wasmtime", "tokio", "kube", "k8s-openapi"],
    },
    Room {
        name: REAL_NODE,
        may_use: &[CONTROL_PLANE, IMAGE, SYNTAX],
        never: &["wasmtime", "tokio", "kube", "k8s-openapi"],
    },
    Room {
        // Black-box tests know the operator as a binary. CEL evaluates what is written for Flux.
        name: "podloom-tests",
        may_use: &[API, CEL, CONTROL_PLANE, IM, TURNS],
        never: &["wasmtime", "axum"],
    },
    Room {
        name: "podloom-xtask",
        may_use: &[CONTROL_PLANE, IM, IMAGE, REAL_NODE, SBOM, SYNTAX],
        never: &["wasmtime", "tokio", "kube"],
    },
];

fn cargo(arguments: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(root)
        .output()
        .expect("cargo starts");
    assert!(
        output.status.success(),
        "cargo {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("cargo prints UTF-8")
}

/// The crates that a crate depends on, directly and indirectly; `more` are further arguments for `cargo tree`.
fn tree(package: &str, more: &[&str]) -> BTreeSet<String> {
    let mut arguments = vec![
        "tree",
        "--quiet",
        "--package",
        package,
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ];
    arguments.extend(more);
    cargo(&arguments)
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != package)
        .map(str::to_owned)
        .collect()
}

fn is_ours(name: &str) -> bool {
    name == "podloom" || name.starts_with("podloom-")
}

fn is_of(name: &str, family: &str) -> bool {
    name.strip_prefix(family)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// All crates of the workspace.
fn packages() -> Vec<String> {
    let packages = cargo(&[
        "tree",
        "--quiet",
        "--workspace",
        "--depth",
        "0",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ]);
    packages
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

fn plugins() -> Vec<String> {
    let mut packages = packages();
    packages.retain(|name| name.starts_with(PLUGINS) && name != SDK);
    packages
}

/// The row of a crate: its own, or the row of all plugins.
fn row(package: &str) -> Option<&'static Room> {
    let of = |name: &str| ROOMS.iter().find(|room| room.name == name);
    of(package).or_else(|| of(PLUGINS).filter(|_| package.starts_with(PLUGINS)))
}

#[track_caller]
fn check(package: &str, room: &Room) {
    for seen in tree(package, &[]) {
        assert!(
            !is_ours(&seen) || room.may_use.contains(&seen.as_str()),
            "{package} uses {seen}, but the table of rooms does not allow it"
        );
        let forbidden = room
            .never
            .iter()
            // kube's derive stays allowed where only its client is forbidden.
            .find(|family| is_of(&seen, family));
        assert!(
            forbidden.is_none(),
            "{package} must never use {seen}; `cargo tree -p {package} -i {seen} -e normal` shows why it does"
        );
    }
}

#[test]
fn rooms_use_only_what_the_table_allows() {
    for package in packages() {
        let room = row(&package);
        assert!(
            room.is_some(),
            "the table of rooms has no row for {package}"
        );
        room.into_iter().for_each(|room| check(&package, room));
    }
}

#[test]
fn every_row_has_a_crate() {
    let packages = packages();
    for Room { name, .. } in &ROOMS {
        let found = match *name {
            PLUGINS => !plugins().is_empty(),
            name => packages.iter().any(|package| package == name),
        };
        assert!(
            found,
            "the table of rooms has a row for {name}, which does not exist"
        );
    }
}

#[test]
fn pod_path_uses_only_serde_json_and_the_syntax() {
    let direct = tree(POD_PATH, &["--depth", "1"]);
    let allowed = ["serde_json", SYNTAX].map(str::to_owned);
    assert_eq!(direct, BTreeSet::from(allowed));
    let seen = tree(POD_PATH, &[]);
    assert!(!seen.contains("schemars"), "{seen:?}");
}

#[test]
fn the_control_loop_knows_no_kubernetes_under_any_feature() {
    let seen = tree(CONTROL_LOOP, &["--all-features"]);
    assert!(seen.contains("prometheus-client"), "{seen:?}");
    let forbidden: Vec<&String> = seen
        .iter()
        .filter(|seen| is_ours(seen) || NO_KUBERNETES.iter().any(|family| is_of(seen, family)))
        .collect();
    assert!(forbidden.is_empty(), "it sees {forbidden:?}");
}

#[test]
fn plugins_use_the_sdk_alone_of_ours() {
    for plugin in plugins() {
        let ours: Vec<String> = tree(&plugin, &["--depth", "1"])
            .into_iter()
            .filter(|name| is_ours(name))
            .collect();
        assert_eq!(ours, [SDK], "{plugin}");
    }
}

#[test]
fn compiled_plugins_leave_the_native_pod_out() {
    let seen = tree(SDK, &["--target", WASM]);
    let ours: Vec<&String> = seen.iter().filter(|name| is_ours(name)).collect();
    assert_eq!(ours, [SYNTAX]);
}
