//! Podloom's Kubernetes kinds: pure types, and every label, annotation and finalizer name.
