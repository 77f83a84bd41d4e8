//! Podloom's path language on a JSON pod: paths, schema, grants and transactions.
//!
//! A plugin works on a pod through a [`Transaction`]: each access names a path, is checked against what the plugin was
//! granted ([`Access`]) and against the Pod's schema, and each write is recorded. The host and native tests of plugins
//! share this crate, so they behave the same. It is pure: no clock, no files, no WebAssembly.
//!
//! # Paths
//!
//! A path is a JSON Pointer (RFC 6901): `/metadata/labels/app.kubernetes.io~1name`, with `~0` for `~` and `~1` for `/`.
//! On an object a segment is a key. On a list it is
//!
//! - an index: `0`, without sign or leading zeros,
//! - `-`, the end of the list, to append with [`set`](Transaction::set),
//! - `[key=value]`, which names the one element whose field has that value. The key ends at the first `=`, the value at the
//!   segment's last `]`. The field is a string, or a number or boolean as JSON writes it: `[containerPort=8080]`.
//!
//! A path has at most 64 segments, which is also the maximum depth of a pod.
//!
//! A field that is null counts as absent, as for the API server: it cannot be read or removed, values are read without it, and
//! missing parents are created in its place. So it makes no difference whether somebody removed the null fields of a pod before.
//!
//! The Pod's schema decides whether a missing parent becomes an object or a list. A field that the schema does not know (of a newer
//! Kubernetes) becomes a list if the next segment is `-` or `[key=value]`, and an object otherwise.
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
//! A [grant](Grants) is a path prefix: it covers a path and everything below it. A path that is not covered is `forbidden`, with a
//! message that depends only on the path and the grants, so a plugin learns nothing about the rest of the pod. To make covered
//! paths usable, a grant also reveals:
//!
//! - whether the parents of the covered path exist, and whether they are objects, lists or scalars;
//! - if it covers part of all elements of a list (`/spec/containers/*/image`): the number of elements and their merge keys, so that
//!   `[name=app]` and `0` name an element even if its `name` cannot be read;
//! - if it covers elements by a selector (`/spec/containers/[name=proxy]`): which elements that selector matches. Indices cannot be
//!   used there, since they would reveal the number of other elements; append with `-`.
//!
//! A selector by any other field considers only elements whose field may be read. If no element's field may be read, the path is
//! `forbidden`, since the selector would read that field of every element.
//! Paths that a plugin may write it may also read.

mod access;
mod check;
mod compare;
mod error;
mod examine;
mod grant;
mod json;
mod operation;
mod path;
mod protected;
mod schema;
mod transaction;
mod walk;

pub use access::{Access, AccessLimits};
pub use compare::{ChangeKind, PodChange, compare, element_segments};
pub use error::{AccessError, EditError, shown};
pub use examine::{SchemaViolation, UnknownField, ViolationKind, examine, nearest};
pub use grant::{Disturbance, GrantError, Grants};
pub use operation::Operation;
pub use protected::LAST_APPLIED;
pub use transaction::{Fields, Patch, Trace, Transaction, Usage, Write};
