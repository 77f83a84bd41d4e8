//! Podloom's chain of sandboxed WebAssembly pod mutators.
