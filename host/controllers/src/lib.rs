//! Podloom's reconcilers, and the pure rendering of pods that they share with the command line.

pub mod render;
