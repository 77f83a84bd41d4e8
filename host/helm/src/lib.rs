//! Reads the releases that Helm stores in a cluster: what belongs to them, and in which order it is deleted.
//!
//! Helm keeps each revision of a release in a Secret, its [`Record`]. Its payload has the manifest of all objects and the hooks
//! of the chart. To uninstall a release, as `helm uninstall` does:
//!
//! 1. [`Release::decode`] reads the record of the highest revision.
//! 2. [`Release::hooks`] says which hooks run before and after the deletion, and [`Hook::document`] which object each creates.
//! 3. [`Release::uninstalling`] is the payload that says that the release is being uninstalled.
//! 4. [`Release::objects`] says which objects are deleted, in which order, and which stay; [`Record::owns`] tells of an object in
//!    another namespace, or in none, whether it really belongs to the release.
//! 5. The records are deleted, the oldest first.
//!
//! Whoever may write Secrets writes payloads, so every step has limits: on the size once decompressed, on the number and the
//! depth of values, on aliases in YAML. What exceeds one is an error, as is everything that is not understood: then nothing is to
//! be deleted. No error repeats what it read, since manifests hold secrets. Within the limits, reading can still take a second:
//! asynchronous code calls this on a thread of its own.
//!
//! ```
//! use podloom_helm::{HookEvent, Record, Release};
//!
//! let record = Record { release: "shop", namespace: "demo", revision: 3 };
//! assert_eq!(record.secret_name(), "sh.helm.release.v1.shop.v3");
//!
//! // Base64 of JSON; Helm compresses the JSON too.
//! let payload = "eyJuYW1lIjoic2hvcCIsIm5hbWVzcGFjZSI6ImRlbW8iLCJ2ZXJzaW9uIjozLCJpbmZvIjp7InN0YXR1cyI6ImRlcGxveWVkIn0s\
//!     Im1hbmlmZXN0IjoiYXBpVmVyc2lvbjogdjFcbmtpbmQ6IFNlcnZpY2Vcbm1ldGFkYXRhOiB7bmFtZTogc2hvcH0ifQ==";
//! let release = Release::decode(payload.as_bytes(), record)?;
//! let objects = release.objects()?;
//! assert_eq!((objects.deleted[0].kind.as_str(), objects.deleted[0].name.as_str()), ("Service", "shop"));
//! assert!(release.hooks(HookEvent::PreDelete).is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(missing_docs)]

mod manifest;
mod release;

pub use manifest::{ChartObject, ChartObjects, ManifestError};
pub use release::{
    Hook, HookDeletePolicy, HookEvent, PayloadError, Record, Release, SECRET_KEY, SECRET_TYPE,
    SIZE_MAX, Status, annotation, label, unpacked_size,
};
