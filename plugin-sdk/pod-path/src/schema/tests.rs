//! Facts of the schema.
