//! Inside the sandbox: what the contract imports from the host.

use std::mem::ManuallyDrop;

use crate::operation::Operation;
use crate::{Error, Level};

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

use bindings::podloom::mutator::{host, pods, request};

/// The host's pod, which it lends for one call. Never being dropped, this does not give the handle back a second time.
pub(crate) type Handle = ManuallyDrop<pods::Pod>;

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

/// The submitted object, asked for what is needed of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Submitted;

impl Submitted {
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

    pub(crate) fn operation(&self) -> Operation {
        match request::operation() {
            request::PodOperation::Create => Operation::Create,
            request::PodOperation::Update => Operation::Update,
            request::PodOperation::Resize => Operation::Resize,
            request::PodOperation::EphemeralContainers => Operation::EphemeralContainers,
        }
    }

    pub(crate) fn changes(&self) -> Vec<String> {
        request::changes()
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

pub(crate) fn warn(message: &str) {
    host::warn(message);
}
