//! Podloom's admission webhooks: they pass pods of other controllers through the plugin chain, and check objects of our kinds.
//!
//! The crate answers reviews and takes care of certificates. The listener is the host's.

mod review;
