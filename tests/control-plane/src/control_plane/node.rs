//! The Nodes that KWOK plays.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::StartError;
use crate::wait;

/// Creates this many Nodes, each with room for any number of pods.
pub(super) fn create(mut kubectl: Command, file: &Path, count: u16) -> Result<(), StartError> {
    let manifest = (0..count).fold(String::new(), |mut text, index| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{}", manifest(index));
        text
    });
    fs::write(file, manifest).map_err(StartError::Directory)?;
    kubectl.args(["create", "--validate=false", "--filename"]);
    wait::output(kubectl.arg(file))?;
    Ok(())
}

fn manifest(index: u16) -> String {
    format!(
        "---
apiVersion: v1
kind: Node
metadata:
  name: node-{index}
  annotations:
    kwok.x-k8s.io/node: fake
  labels:
    kubernetes.io/arch: amd64
    kubernetes.io/hostname: node-{index}
    kubernetes.io/os: linux
status:
  allocatable: {{ cpu: 100k, memory: 1Pi, ephemeral-storage: 1Pi, pods: 1M }}
  capacity: {{ cpu: 100k, memory: 1Pi, ephemeral-storage: 1Pi, pods: 1M }}
"
    )
}

/// Whether all Nodes exist and no longer have the taint that a new Node has.
pub(super) fn are_schedulable(mut kubectl: Command, count: u16) -> Result<bool, StartError> {
    // One line for each Node that is ready: the effects of its taints.
    let template =
        "{range .items[?(@.status.phase==\"Running\")]}[{.spec.taints[*].effect}]{\"\\n\"}{end}";
    let output = format!("--output=jsonpath={template}");
    let lines = wait::output(kubectl.args(["get", "nodes", &output]))?;
    let ready = lines.lines().filter(|line| *line == "[]").count();
    Ok(ready == usize::from(count))
}
