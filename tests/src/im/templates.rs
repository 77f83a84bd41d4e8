//! Our TOSCA templates, of which each leads IM with its Dummy cloud to another state.

use std::fs;

use serde_json::{Value, json};

/// One machine without software: `configured` in a fraction of a second. The output `kubeconfig` is this text.
#[must_use]
pub fn single_node(kubeconfig: &str) -> Value {
    with_kubeconfig(read("single-node.yaml"), kubeconfig)
}

/// The template, but with this text as the output `kubeconfig`.
#[must_use]
pub fn with_kubeconfig(mut template: Value, kubeconfig: &str) -> Value {
    template["topology_template"]["outputs"]["kubeconfig"]["value"] = json!(kubeconfig);
    template
}

/// A server and this many workers: `configured`. If the pool shrinks, machines with the numbers in `retire` go first.
#[must_use]
pub fn pool(workers: u32, retire: &[&str]) -> Value {
    let mut template = read("worker-pool.yaml");
    let inputs = &mut template["topology_template"]["inputs"];
    inputs["workers"]["default"] = json!(workers);
    inputs["retire"]["default"] = json!(retire);
    template
}

/// One machine: `configured`. The output `kubeconfig` is a mapping.
#[must_use]
pub fn structured_kubeconfig() -> Value {
    read("structured-kubeconfig.yaml")
}

/// No machine: `failed`.
#[must_use]
pub fn no_nodes() -> Value {
    read("no-nodes.yaml")
}

/// One machine that cannot be reached: `unconfigured`. It refers to a file on the server.
#[must_use]
pub fn never_configures() -> Value {
    read("never-configures.yaml")
}

/// One machine that is `running` for about 270 s before it is `unconfigured`, if port 22 on loopback is closed. It refers to a file
/// on the server.
#[must_use]
pub fn long_configuring() -> Value {
    read("long-configuring.yaml")
}

fn read(name: &str) -> Value {
    let text = fs::read_to_string(podloom_im::template(name)).unwrap();
    let playbook = podloom_im::template("play.yml");
    let text = text.replace("PLAYBOOK", playbook.to_str().unwrap());
    serde_saphyr::from_str(&text).unwrap()
}
