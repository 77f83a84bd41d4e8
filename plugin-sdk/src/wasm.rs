//! Inside the sandbox: the imports of the contract, and what the exports call.

use std::any::TypeId;
use std::cell::Cell;
use std::fmt::Write as _;
use std::mem::ManuallyDrop;

use crate::{Error, Level, Mutator, Pod, Rejection};

/// Generated from `wit/`, a copy of the contract.
#[allow(missing_docs, reason = "generated; the contract documents itself")]
pub mod bindings {
    wit_bindgen::generate!({
        path: "wit",
        world: "prepared-mutator",
        pub_export_macro: true,
        export_macro_name: "export_plugin",
        default_bindings_module: "podloom_plugin_sdk::__private::bindings",
        runtime_path: "wit_bindgen::rt",
        ownership: Borrowing { duplicate_if_necessary: false },
    });
}

use bindings::exports::podloom::mutator::plugin;
use bindings::podloom::mutator::{host, pods, request};

/// The host's pod. Borrowed for one call: [`mutate`] makes it and forgets it.
#[derive(Debug)]
pub(crate) struct Handle(ManuallyDrop<pods::Pod>);

impl Handle {
    pub(crate) fn get(&self, path: &str) -> Result<Option<String>, Error> {
        Ok(self.0.get(path)?)
    }

    pub(crate) fn view(&self, path: &str, fields: &[&str]) -> Result<Option<String>, Error> {
        Ok(self.0.view(path, fields)?)
    }

    pub(crate) fn keys(&self, path: &str) -> Result<Vec<String>, Error> {
        Ok(self.0.keys(path)?)
    }

    pub(crate) fn set(&self, path: &str, value: &str) -> Result<(), Error> {
        Ok(self.0.set(path, value)?)
    }

    pub(crate) fn insert(&self, path: &str, value: &str) -> Result<(), Error> {
        Ok(self.0.insert(path, value)?)
    }

    pub(crate) fn remove(&self, path: &str) -> Result<bool, Error> {
        Ok(self.0.remove(path)?)
    }
}

impl From<pods::AccessError> for Error {
    fn from(error: pods::AccessError) -> Self {
        match error {
            pods::AccessError::InvalidPath(message) => Self::InvalidPath(message),
            pods::AccessError::NotFound(message) => Self::NotFound(message),
            pods::AccessError::Forbidden(message) => Self::Forbidden(message),
            pods::AccessError::InvalidValue(message) => Self::InvalidValue(message),
        }
    }
}

/// The request, asked for when it is needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request;

impl Request {
    pub(crate) fn kind(&self) -> String {
        request::kind()
    }

    pub(crate) fn name(&self) -> String {
        request::name()
    }

    pub(crate) fn namespace(&self) -> String {
        request::namespace()
    }

    pub(crate) fn label(&self, key: &str) -> Option<String> {
        request::label(key)
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<String> {
        request::annotation(key)
    }

    pub(crate) fn namespace_label(&self, key: &str) -> Option<String> {
        request::namespace_label(key)
    }

    pub(crate) fn namespace_annotation(&self, key: &str) -> Option<String> {
        request::namespace_annotation(key)
    }

    pub(crate) fn dry_run(&self) -> bool {
        request::dry_run()
    }
}

pub(crate) fn log(level: Level, message: &str) {
    let level = match level {
        Level::Trace => host::Level::Trace,
        Level::Debug => host::Level::Debug,
        Level::Info => host::Level::Info,
        Level::Warn => host::Level::Warn,
        Level::Error => host::Level::Error,
    };
    host::log(level, message);
}

pub(crate) fn note(message: &str) {
    host::note(message);
}

/// A panic is a trap without words; its message goes to the log first.
fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let mut message = String::new();
        if write!(message, "{panic}").is_ok() {
            host::log(host::Level::Error, &message);
        }
    }));
}

fn config<M: Mutator>() -> Result<M::Config, String> {
    crate::json::from_str(&host::config()).map_err(|error| format!("configuration: {error}"))
}

/// Where the configuration was left, and which type it has; none as long as there is none.
struct Prepared(Cell<Option<(TypeId, *const ())>>);

// SAFETY: a plugin has one thread; the contract is linked without shared memory.
unsafe impl Sync for Prepared {}

static PREPARED: Prepared = Prepared(Cell::new(None));

/// The configuration, ready for pods. It ends with the instance, so taking it apart would be for nothing.
fn prepared<M: Mutator>() -> Result<&'static M::Config, String> {
    let of = TypeId::of::<M::Config>();
    if let Some((_, known)) = PREPARED.0.get().filter(|(known, _)| *known == of) {
        // SAFETY: it was left below, by a call for the same type, and is never taken apart.
        return Ok(unsafe { &*known.cast::<M::Config>() });
    }
    report_panics();
    let mut config = config::<M>()?;
    M::prepare(&mut config);
    let config = Box::leak(Box::new(config));
    PREPARED.0.set(Some((of, (&raw const *config).cast())));
    Ok(config)
}

/// The export `prepare`: the host keeps the memory as it is afterwards. What is wrong with a configuration is told elsewhere.
pub fn prepare<M: Mutator>() {
    let _ = prepared::<M>();
}

/// The export `describe`. A configuration that does not parse needs nothing: `validate-config` tells what is wrong with it.
pub fn describe<M: Mutator>(schema: &str) -> plugin::Description {
    report_panics();
    let needs = config::<M>()
        .map(|config| M::needs(&config))
        .unwrap_or_default();
    plugin::Description {
        name: M::NAME.to_owned(),
        version: M::VERSION.to_owned(),
        summary: M::SUMMARY.to_owned(),
        config_schema: schema.to_owned(),
        reads: needs.reads,
        writes: needs.writes,
    }
}

/// The export `validate-config`.
///
/// # Errors
///
/// Everything that is wrong with the configuration, a sentence each.
pub fn validate_config<M: Mutator>() -> Result<(), Vec<String>> {
    report_panics();
    let errors = match config::<M>() {
        Ok(config) => M::validate(&config),
        Err(message) => vec![message],
    };
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}

/// The export `mutate`.
///
/// # Errors
///
/// What the plugin returned, or `failed` if its configuration does not parse.
pub fn mutate<M: Mutator>(pod: &pods::Pod) -> Result<(), plugin::Rejection> {
    let config = prepared::<M>().map_err(plugin::Rejection::Failed)?;
    // SAFETY: the handle is the borrowed one, valid until this export returns; the copy does not outlive it and, never being
    // dropped, does not give it back a second time.
    let handle = unsafe { pods::Pod::from_handle(pod.handle()) };
    let pod = Pod {
        handle: Handle(ManuallyDrop::new(handle)),
    };
    let request = crate::Request { inner: Request };
    M::mutate(config, &request, &pod).map_err(|rejection| match rejection {
        Rejection::Denied(message) => plugin::Rejection::Denied(message),
        Rejection::Failed(message) => plugin::Rejection::Failed(message),
    })
}
