//! Podloom's path language on a JSON pod: paths, schema, grants and transactions.
