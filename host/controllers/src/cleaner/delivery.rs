//! The phase in which the CloudEvent about a deletion is delivered.
