//! A Kubernetes operator whose pods pass through a chain of sandboxed WebAssembly plugins.

fn main() {}
