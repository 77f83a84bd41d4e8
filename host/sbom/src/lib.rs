//! What a program is made of: its software bill of materials (SBOM).
//!
//! The list of crates is kept inside the program, in the section [`SECTION`] that cargo-auditable has made the habit for Rust: so
//! Trivy, Syft, Grype, OSV-Scanner and cargo-audit find it in an image or a file without our help. [`cyclonedx`] prints it as a
//! document for everybody else.
//!
//! [`collect`] asks cargo for the crates when something is built, [`encode`] makes the content of the section, and [`decode`] reads
//! one that somebody else may have made.

mod collect;
mod cyclonedx;
mod section;
mod tree;

pub use auditable_serde::VersionInfo;

pub use collect::{CollectError, collect};
pub use cyclonedx::cyclonedx;
pub use section::{DecodeError, SECTION, decode, encode, with_section};
pub use tree::TreeError;
