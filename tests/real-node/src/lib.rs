//! A real Kubernetes node in namespaces of its own, for Podloom's tests and demo.
//!
//! The kubelet, containerd, runc and the network plugins are the real programs, beside a control plane of their own, in which
//! admission of ServiceAccounts is on as in every cluster. So images are unpacked, containers run under their memory limits, probes
//! are sent, and ConfigMaps are swapped in their volumes. Only kube-proxy, DNS and a registry are missing: two rules of iptables
//! lead pods to the API server, images are loaded from archives, and [`stand_in`] makes an image for every browser.
//!
//! It needs root on Linux with cgroup v1, and runc, iptables, iproute2 and util-linux. [`check`] says what is missing; nothing is
//! installed. Everything else is built once into the user's cache directory.
//!
//! All of it is in namespaces: processes, mounts, network, host name and cgroups. Outside, there are only a directory for
//! temporary files, and cgroups below our own. A node ends with its owner, however that ends; see [`Node`].

mod cgroups;
mod commands;
mod configuration;
mod error;
mod keeper;
mod leftovers;
mod modules;
mod node;
mod possible;
mod programs;
pub mod stand_in;

pub use error::NodeError;
pub use node::Node;
pub use possible::{Impossible, check};
pub use programs::Programs;
