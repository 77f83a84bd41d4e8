//! Podloom's path language on a JSON pod: paths, schema, grants and transactions.
//!
//! A plugin works on a pod through a [`Transaction`]: each access names a path, is checked against what the plugin was
//! granted ([`Access`]) and against the Pod's schema, and each write is recorded. The host and native tests of plugins
//! share this crate, so both behave alike. It is pure: no clock, no files, no WebAssembly.
//!
//! # Paths
//!
//! A path is a JSON Pointer (RFC 6901): `/metadata/labels/app.kubernetes.io~1name`, with `~0` for `~` and `~1` for `/`.
//! On an object a segment is a key. On a list it is
//!
//! - an index: `0`, without sign or leading zeros,
//! - `-`, the place after the last element, to append with [`set`](Transaction::set),
//! - `[key=value]`, which names the one element whose field has that value. The key ends at the first `=`, the value at the
//!   segment's last `]`. The field is a string, or a number or boolean as JSON writes it: `[containerPort=8080]`.
//!
//! A path has at most 64 segments, as many as a pod has levels.
//!
//! A field that is null counts as absent, as it does for the API server: it cannot be read, there is nothing to remove, and
//! parents are made in its place.
//!
//! Where nothing is, the Pod's schema says whether a parent is an object or a list. A field that the schema does not know
//! (of a newer Kubernetes) becomes a list if the next segment is `-` or `[key=value]`, and an object otherwise.
//!
//! ```
//! use podloom_pod_path::{Access, Transaction};
//! use serde_json::json;
//!
//! let pod = json!({ "spec": { "containers": [{ "name": "browser", "image": "chrome" }] } });
//! let mut pod = Transaction::begin(pod, Access::unrestricted().into(), [].into());
//!
//! assert_eq!(pod.get("/spec/containers/[name=browser]/image")?.as_deref(), Some("\"chrome\""));
//! pod.set("/spec/containers/[name=browser]/env/[name=TZ]", r#"{"value": "UTC"}"#.to_owned())?;
//!
//! let (pod, writes) = pod.commit();
//! assert_eq!(pod["spec"]["containers"][0]["env"], json!([{ "name": "TZ", "value": "UTC" }]));
//! assert_eq!(writes[0].path, "/spec/containers/[name=browser]/env/[name=TZ]");
//! # Ok::<(), podloom_pod_path::EditError>(())
//! ```
//!
//! # Grants
//!
//! A [grant](Grants) is a prefix: it covers a place and all that lies below. What is not covered makes no difference to any answer:
//! it is `forbidden`, in words that depend on the path and the grants alone, whether or not anything is there. Besides what it
//! covers, a grant shows as little as it takes to find that:
//!
//! - of the parents of what it covers, whether they are there, and whether they are objects, lists or scalars;
//! - of a list in which it covers something of any element (`/spec/containers/*/image`), how many elements there are, and the field
//!   that tells them apart, so that `[name=app]` and `0` name an element even where its `name` cannot be read;
//! - of a list in which it covers elements of one selector alone (`/spec/containers/[name=proxy]`), those elements, by that selector.
//!   Their positions cannot be used, for they would tell how many others there are; append with `-`.
//!
//! A selector by any other field looks only at elements whose field may be read: to others it is as if they did not have it, and
//! where no element's field may be read, the path is `forbidden`, since it would read that field of every element.
//! What a plugin may write it may read too.

mod access;
mod check;
mod cost;
mod error;
mod examine;
mod grant;
mod json;
mod path;
mod protected;
mod schema;
mod transaction;
mod walk;

pub use access::{Access, AccessLimits};
pub use error::{AccessError, EditError, LimitExceeded, shown};
pub use examine::{SchemaViolation, ViolationKind, examine};
pub use grant::{GrantError, Grants};
pub use protected::LAST_APPLIED;
pub use transaction::{Fields, Patch, Trace, Transaction, Write};
