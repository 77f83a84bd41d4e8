//! Write Podloom plugins: sandboxed pod mutators in Rust, compiled to WebAssembly.
//!
//! A plugin is a type that implements [`Mutator`], and one line that exports it:
//!
//! ```
//! use podloom_plugin_sdk::prelude::*;
//!
//! struct Team;
//!
//! impl Mutator for Team {
//!     type Config = NoConfig;
//!     const NAME: &str = "team";
//!     const VERSION: &str = env!("CARGO_PKG_VERSION");
//!     const SUMMARY: &str = "Copies the namespace's team label to its pods";
//!
//!     fn needs(_: &NoConfig) -> Needs {
//!         Needs::default().write("/metadata/labels/team")
//!     }
//!
//!     fn mutate(_: &NoConfig, request: &Request, pod: &Pod) -> Result<(), Rejection> {
//!         let Some(team) = request.namespace_label("team") else {
//!             return Err(Rejection::Denied("the namespace has no label team: set one".to_owned()));
//!         };
//!         Ok(pod.labels().set("team", &team)?)
//!     }
//! }
//!
//! podloom_plugin_sdk::mutator!(Team);
//! # fn main() {}
//! ```
//!
// In GUIDE.md the links lead to files. The first definition of a link counts, so these lead to items in the documentation.
//! [tutorial]: crate::tutorial
//! [topology-spread]: Mutator::prepare
//! [registry-mirror]: ImageRef
//! [resource-floor]: Quantity
//! [deploy/README.md]: #in-the-admission-webhook
//! [`Error`]: Error
//! [`Error::Forbidden`]: Error::Forbidden
//! [`Findings`]: Findings
//! [`Error::InvalidPath`]: Error::InvalidPath
//! [`Error::InvalidValue`]: Error::InvalidValue
//! [`Error::NotFound`]: Error::NotFound
//! [`ImageRef`]: ImageRef
//! [`Mutator::needs`]: Mutator::needs
//! [`Mutator::prepare`]: Mutator::prepare
//! [`Mutator::validate`]: Mutator::validate
//! [`Needs::read_all_containers`]: Needs::read_all_containers
//! [`Pod`]: Pod
//! [`Pod::view`]: Pod::view
//! [`Quantity`]: Quantity
//! [`Rejection::Denied`]: Rejection::Denied
//! [`Rejection::Failed`]: Rejection::Failed
//! [`Request`]: Request
//! [`Request::dry_run`]: Request::dry_run
//! [`Request::kind`]: Request::kind
//! [`Request::name`]: Request::name
//! [`decimal`]: decimal
//! [`json::Object`]: json::Object
//! [`json::Value`]: json::Value
//! [`log`]: log
//! [`mutate`]: Mutator::mutate
//! [`mutator!`]: mutator!
//! [`names`]: names
//! [`note`]: note
//! [`warn`]: warn
//! [`path`]: path
//! [`testing`]: testing
//! [`testing::Submitted`]: testing::Submitted
//! [`testing::check_laws`]: testing::check_laws
//! [`testing::configure`]: testing::configure
//!
#![doc = include_str!("../GUIDE.md")]

mod error;
pub mod evictable;
pub mod json;
mod number;
mod operation;
pub mod path;
mod pod;
mod request;

#[cfg(not(target_family = "wasm"))]
mod native;
#[cfg(not(target_family = "wasm"))]
pub mod testing;

#[cfg(all(target_family = "wasm", feature = "arena"))]
mod arena;
#[cfg(target_family = "wasm")]
mod export;
#[cfg(any(test, target_family = "wasm"))]
#[cfg_attr(
    not(target_family = "wasm"),
    expect(unreachable_pub, reason = "the macro uses it in Wasm alone")
)]
mod minify;
#[cfg(target_family = "wasm")]
mod wasm;

/// The tutorial.
///
/// [guide]: crate
/// [deploy/README.md]: #8-ship-it
///
#[cfg(doc)]
#[doc = include_str!("../TUTORIAL.md")]
pub mod tutorial {}

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(not(target_family = "wasm"))]
use native as backend;
#[cfg(target_family = "wasm")]
use wasm as backend;

pub use error::{Error, Findings, Rejection};
pub use number::decimal;
pub use operation::Operation;
pub use pod::{Container, ContainerKind, EnvVar, Map, Node, Pod};
pub use podloom_syntax::{ImageRef, Quantity, names};
pub use request::{LabelSelector, Operator, Request, Requirement};

pub use schemars;
pub use serde;
pub use serde_json;

/// What nearly every plugin uses.
pub mod prelude {
    // What the derive of `JsonSchema` writes names the crate, which a plugin need not depend on.
    pub use schemars::{self, JsonSchema};
    pub use serde::{Deserialize, Serialize};

    pub use crate::{
        Container, ContainerKind, Error, Findings, ImageRef, Level, Mutator, Needs, NoConfig, Node,
        Operation, Pod, Quantity, Rejection, Request, log, note, warn,
    };
}

/// A pod mutator.
///
/// The host makes a fresh sandbox for each call, so nothing is remembered from one pod to the next, and gives it no clock, no
/// randomness and no network: the same pod, request and configuration give the same result.
/// It should also be idempotent: a second run on its own result writes nothing. The host proves both before it uses a plugin.
pub trait Mutator {
    /// The configuration, parsed from the `config` of the plugin's entry in `chain.yaml`. [`NoConfig`] if there is none.
    type Config: serde::de::DeserializeOwned + 'static;

    /// The plugin's name, a DNS label (lower case letters, digits and `-`, at most 63).
    const NAME: &str;
    /// The plugin's version, as SemVer; most often `env!("CARGO_PKG_VERSION")`.
    const VERSION: &str;
    /// One sentence for people, shown by `podloom plugin inspect`.
    const SUMMARY: &str;

    /// Returns the paths that the plugin needs with this configuration.
    ///
    /// The host refuses to load the plugin where the manifest grants less, and refuses each access outside the grant.
    fn needs(config: &Self::Config) -> Needs;

    /// Returns everything that is wrong with the configuration, a sentence each; empty if nothing is.
    ///
    /// What the configuration's type and schema already refuse need not be checked again. What is probably a mistake, though the plugin
    /// can work, is told by a [`note`] here: it is shown with the chain's warnings.
    fn validate(config: &Self::Config) -> Vec<String> {
        let _ = config;
        Vec::new()
    }

    /// Derives from the configuration what every pod needs: texts put together, templates taken apart. By default nothing.
    ///
    /// Called on a valid configuration, before any pod. The host keeps the memory as it is then, up to 256 KiB, and begins each
    /// call with it, so most often this runs once. More than that is made anew in each call, and so is a finished component's.
    ///
    /// What is derived has its place in the configuration's type, in fields that serde skips, with a default. [`needs`](Self::needs)
    /// and [`validate`](Self::validate) do not see it. A [`note`] here is lost, or repeated with every pod: write it in [`mutate`](Self::mutate).
    ///
    /// ```
    /// # use podloom_plugin_sdk::prelude::*;
    /// #[derive(Deserialize)]
    /// struct Config {
    ///     teams: Vec<String>,
    ///     /// The value of the label, made once.
    ///     #[serde(skip)]
    ///     label: String,
    /// }
    /// # struct Teams;
    /// # impl Mutator for Teams {
    /// #     type Config = Config;
    /// #     const NAME: &str = "teams";
    /// #     const VERSION: &str = "0.1.0";
    /// #     const SUMMARY: &str = "Names the teams";
    /// #     fn needs(_: &Config) -> Needs {
    /// #         Needs::default().write("/metadata/labels/teams")
    /// #     }
    ///
    /// fn prepare(config: &mut Config) {
    ///     config.label = config.teams.join(".");
    /// }
    ///
    /// fn mutate(config: &Config, _: &Request, pod: &Pod) -> Result<(), Rejection> {
    ///     Ok(pod.labels().set("teams", &config.label)?)
    /// }
    /// # }
    /// # podloom_plugin_sdk::mutator!(Teams);
    /// # use podloom_plugin_sdk::{serde_json::json, testing};
    /// # let run = testing::run::<Teams>(&json!({"teams": ["a", "b"]}), &Default::default(), &json!({}));
    /// # assert_eq!(run.pod["metadata"]["labels"]["teams"], "a.b");
    /// ```
    fn prepare(config: &mut Self::Config) {
        let _ = config;
    }

    /// Mutates the pod. Nothing that was written is kept unless it returns `Ok`.
    ///
    /// # Errors
    ///
    /// [`Rejection::Denied`] if the pod must not exist like this, [`Rejection::Failed`] if the plugin could not do its work.
    fn mutate(config: &Self::Config, request: &Request, pod: &Pod) -> Result<(), Rejection>;
}

/// The paths that a plugin needs with its present configuration.
///
/// A path is a prefix: it covers everything below it. On a list, a segment is `*` (any element) or `[key=value]` (only that
/// element, which the plugin may also create).
///
/// ```
/// use podloom_plugin_sdk::Needs;
///
/// let needs = Needs::default()
///     .read("/spec/containers")
///     .write("/spec/containers/*/securityContext")
///     .write("/spec/volumes/[name=tmp]");
/// assert_eq!(needs.writes.len(), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Path prefixes to read, besides those it writes.
    pub reads: Vec<String>,
    /// Path prefixes to write; reading them is included.
    pub writes: Vec<String>,
}

impl Needs {
    /// Adds a path prefix to read.
    #[must_use]
    pub fn read(mut self, path: impl Into<String>) -> Self {
        self.reads.push(path.into());
        self
    }

    /// Adds a path prefix to write, and to read.
    #[must_use]
    pub fn write(mut self, path: impl Into<String>) -> Self {
        self.writes.push(path.into());
        self
    }

    /// Adds what [`Pod::all_containers`](crate::Pod::all_containers) reads: names, and which init containers are sidecars.
    #[must_use]
    pub fn read_all_containers(mut self) -> Self {
        let paths = [
            "containers/*/name",
            "initContainers/*/name",
            "initContainers/*/restartPolicy",
        ];
        self.reads.extend(paths.map(|path| format!("/spec/{path}")));
        self
    }

    /// Adds a path prefix below each container, regular or init, to write, and to read: `image`, `resources/requests`.
    ///
    /// ```
    /// use podloom_plugin_sdk::Needs;
    ///
    /// let needs = Needs::default().write_in_all_containers("image");
    /// assert_eq!(needs.writes, ["/spec/containers/*/image", "/spec/initContainers/*/image"]);
    /// ```
    #[must_use]
    pub fn write_in_all_containers(mut self, below: &str) -> Self {
        let lists = ["/spec/containers/*", "/spec/initContainers/*"];
        self.writes
            .extend(lists.map(|list| path::join(list, below)));
        self
    }
}

/// The configuration of a plugin that takes none. Any field in it is an error.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoConfig {}

/// How much a log line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Payloads and steps.
    Trace,
    /// Decisions.
    Debug,
    /// Changes.
    Info,
    /// Something is wrong, and work goes on.
    Warn,
    /// A human must look.
    Error,
}

/// Writes one line to the host's log, under the plugin's name.
///
/// The host cuts long lines and stops listening to a plugin that logs without end.
/// Never log a value that may be secret.
pub fn log(level: Level, message: &str) {
    backend::log(level, message);
}

/// Tells the user something about this pod: in the diff of `podloom render`, as an admission warning, in an Event.
///
/// For reasons (skipped, conflict, could not repair). What was written the host knows itself.
/// Name paths and keys, never a value that may be secret.
pub fn note(message: &str) {
    backend::note(message);
}

/// Tells the user what somebody should act on: the pod violates a rule that it is let through with, or did not get what it asked for.
///
/// As [`note`], but shown before all notes, and counted by `podloom render --strict`. The host keeps 32 of both, and counts the others:
/// say once what is so at many places, with [`Findings`].
pub fn warn(message: &str) {
    backend::warn(message);
}

/// Exports a [`Mutator`] as a plugin: `mutator!(Type, schema = "config.schema.json")`, or `mutator!(Type)` if its
/// configuration is [`NoConfig`].
///
/// The schema's path is relative to the crate's root. The file is part of the plugin, so that the host can check a
/// configuration before the plugin runs. It is made from the configuration's type, which derives
/// [`JsonSchema`](schemars::JsonSchema), by the test that this macro adds:
/// `cargo test` writes the file when it is missing or old, and fails once.
///
/// Native tests check configurations against the schema too. Without a schema, the host and native tests check only that the
/// configuration can be read, and call [`Mutator::validate`].
#[macro_export]
macro_rules! mutator {
    ($plugin:ty) => {
        $crate::__mutator!($plugin);
    };
    ($plugin:ty, schema = $schema:literal) => {
        $crate::__mutator!(
            $plugin,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $schema))
        );

        #[cfg(all(test, not(target_family = "wasm")))]
        #[test]
        fn config_schema_is_fresh() {
            $crate::testing::check_config_schema::<<$plugin as $crate::Mutator>::Config>(
                concat!(env!("CARGO_MANIFEST_DIR"), "/", $schema),
                env!("CARGO_PKG_NAME"),
            );
        }
    };
}

#[doc(hidden)]
#[macro_export]
#[cfg(target_family = "wasm")]
macro_rules! __mutator {
    ($plugin:ty) => {
        $crate::__mutator!($plugin, "");
    };
    ($plugin:ty, $schema:expr) => {
        const _: () = {
            const SCHEMA: &str = $schema;
            // In the plugin's memory, so without the white space that is for people.
            static MINIFIED: [u8; $crate::__private::minified_length(SCHEMA)] =
                $crate::__private::minify(SCHEMA);

            struct Component;

            impl $crate::__private::Preparation for Component {
                fn prepare() {
                    $crate::__private::prepare::<$plugin>();
                }
            }

            impl $crate::__private::Guest for Component {
                fn describe() -> $crate::__private::Description {
                    $crate::__private::describe::<$plugin>(&MINIFIED)
                }
                fn validate_config() -> Result<(), Vec<String>> {
                    $crate::__private::validate_config::<$plugin>()
                }
                fn mutate(
                    pod: &$crate::__private::PodHandle,
                ) -> Result<(), $crate::__private::GuestRejection> {
                    $crate::__private::mutate::<$plugin>(pod)
                }
            }

    $crate::__private::export_plugin!(Component with_types_in $crate::__private::bindings);
        };
    };
}

// Outside Wasm there is nothing to export, but native tests learn whether there is a schema. They take it from the type: the file
// may be missing or old, which its own test reports.
#[doc(hidden)]
#[macro_export]
#[cfg(not(target_family = "wasm"))]
macro_rules! __mutator {
    (@export $plugin:ty, $schema:expr) => {
        impl $crate::testing::Exported for $plugin {
            fn config_schema() -> Option<$crate::schemars::Schema> {
                $schema
            }
        }

        // Without this, the plugin would count as unused.
        const _: fn() = || {
            fn is_exported<M: $crate::testing::Exported>() {}
            is_exported::<$plugin>();
        };
    };
    ($plugin:ty) => {
        $crate::__mutator!(@export $plugin, None);
    };
    ($plugin:ty, $schema:expr) => {
        $crate::__mutator!(
            @export $plugin,
            Some($crate::testing::schema_of::<<$plugin as $crate::Mutator>::Config>())
        );
    };
}

#[doc(hidden)]
#[cfg(target_family = "wasm")]
pub mod __private {
    pub use crate::export::{describe, mutate, prepare, validate_config};
    pub use crate::minify::{minified_length, minify};
    pub use crate::wasm::bindings::exports::podloom::mutator::plugin::{
        Description, Guest, Rejection as GuestRejection,
    };
    pub use crate::wasm::bindings::exports::podloom::mutator::preparation::Guest as Preparation;
    pub use crate::wasm::bindings::podloom::mutator::pods::Pod as PodHandle;
    pub use crate::wasm::bindings::{self, export_plugin};
}
