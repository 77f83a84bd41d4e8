//! What a Cleaner in a file would do with objects in files, without an API server.
