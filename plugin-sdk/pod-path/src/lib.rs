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

mod access;
mod check;
mod error;
mod examine;
mod grant;
mod json;
mod path;
mod protected;
mod schema;
mod transaction;
mod walk;

pub use access::{Access, Limits};
pub use error::{AccessError, EditError, LimitExceeded};
pub use examine::{Finding, Problem, examine};
pub use grant::{GrantError, Grants};
pub use transaction::{Fields, Transaction, Write};
