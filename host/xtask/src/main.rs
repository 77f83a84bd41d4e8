//! Podloom's automation.

fn main() {}
