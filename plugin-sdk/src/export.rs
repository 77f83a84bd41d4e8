//! What the exports of a plugin do.

use std::any::TypeId;
use std::cell::Cell;
use std::fmt::Write as _;

use crate::wasm::bindings::exports::podloom::mutator::plugin;
use crate::wasm::bindings::podloom::mutator::{host, pods};
use crate::{Mutator, Pod, Rejection, Request, json, wasm};

/// A panic is a trap without a message, so the message goes to the log first.
fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let mut message = String::new();
        if write!(message, "{panic}").is_ok() {
            host::log(host::Level::Error, &message);
        }
    }));
}

fn config<M: Mutator>() -> Result<M::Config, String> {
    json::from_str(&host::config()).map_err(|error| format!("configuration: {error}"))
}

/// Where the prepared configuration is, and which type it has; none until there is one.
struct Prepared(Cell<Option<(TypeId, *const ())>>);

// SAFETY: a plugin has one thread; the contract is linked without shared memory.
unsafe impl Sync for Prepared {}

static PREPARED: Prepared = Prepared(Cell::new(None));

/// The configuration, ready for pods. It is never dropped, since it ends with the instance.
fn prepared<M: Mutator>() -> Result<&'static M::Config, String> {
    let of = TypeId::of::<M::Config>();
    if let Some((_, known)) = PREPARED.0.get().filter(|(known, _)| *known == of) {
        // SAFETY: it was put there below, by a call for the same type, and is never dropped.
        return Ok(unsafe { &*known.cast::<M::Config>() });
    }
    report_panics();
    let mut config = config::<M>()?;
    M::prepare(&mut config);
    let config = Box::leak(Box::new(config));
    PREPARED.0.set(Some((of, (&raw const *config).cast())));
    Ok(config)
}

/// The export `prepare`: the host keeps the memory as it is afterwards. `validate-config` reports what is wrong with a configuration.
pub fn prepare<M: Mutator>() {
    let _ = prepared::<M>();
}

/// The export `describe`. A configuration that does not parse needs nothing: `validate-config` reports what is wrong with it.
pub fn describe<M: Mutator>(schema: &[u8]) -> plugin::Description {
    report_panics();
    let needs = config::<M>()
        .map(|config| M::needs(&config))
        .unwrap_or_default();
    plugin::Description {
        name: M::NAME.to_owned(),
        version: M::VERSION.to_owned(),
        summary: M::SUMMARY.to_owned(),
        config_schema: String::from_utf8_lossy(schema).into_owned(),
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
    // SAFETY: the host lends the handle until this export returns, and nothing of the copy is returned.
    let handle = wasm::Handle::new(unsafe { pods::Pod::from_handle(pod.handle()) });
    let request = Request {
        inner: wasm::Submitted,
    };
    M::mutate(config, &request, &Pod { handle }).map_err(|rejection| match rejection {
        Rejection::Denied(message) => plugin::Rejection::Denied(message),
        Rejection::Failed(message) => plugin::Rejection::Failed(message),
    })
}
