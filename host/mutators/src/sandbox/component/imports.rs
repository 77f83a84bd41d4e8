//! The contract's imports for components: wasmtime lifts and lowers, [`crate::sandbox::services`] does the work.

use podloom_pod_path::AccessError;
use wasmtime::component::Resource;

use crate::bindings::{PodHandle, host, pods, request};
use crate::sandbox::Guest;
use crate::sandbox::services::{AccessResult, LogLevel};

type GuestResult<T> = wasmtime::Result<Result<T, pods::AccessError>>;

impl host::Host for Guest {
    fn log(&mut self, level: host::Level, message: String) -> wasmtime::Result<()> {
        let level = match level {
            host::Level::Trace => LogLevel::Trace,
            host::Level::Debug => LogLevel::Debug,
            host::Level::Info => LogLevel::Info,
            host::Level::Warn => LogLevel::Warn,
            host::Level::Error => LogLevel::Error,
        };
        self.log(level, &message);
        Ok(())
    }

    fn note(&mut self, message: String) -> wasmtime::Result<()> {
        self.note(&message);
        Ok(())
    }

    fn warn(&mut self, message: String) -> wasmtime::Result<()> {
        self.warn(&message);
        Ok(())
    }

    fn config(&mut self) -> wasmtime::Result<String> {
        Ok(self.settings.config.clone())
    }
}

impl request::Host for Guest {
    fn kind(&mut self) -> wasmtime::Result<String> {
        Ok(self.request()?.kind.to_owned())
    }

    fn name(&mut self) -> wasmtime::Result<String> {
        Ok(self.request()?.name.clone())
    }

    fn namespace(&mut self) -> wasmtime::Result<String> {
        Ok(self.request()?.namespace.clone())
    }

    fn label(&mut self, key: String) -> wasmtime::Result<Option<String>> {
        Ok(self.request()?.labels.get(&key).cloned())
    }

    fn annotation(&mut self, key: String) -> wasmtime::Result<Option<String>> {
        Ok(self.request()?.annotation(&key).map(str::to_owned))
    }

    fn namespace_label(&mut self, key: String) -> wasmtime::Result<Option<String>> {
        Ok(self
            .request_for_namespace()?
            .namespace_labels
            .get(&key)
            .cloned())
    }

    fn namespace_annotation(&mut self, key: String) -> wasmtime::Result<Option<String>> {
        Ok(self
            .request_for_namespace()?
            .namespace_annotation(&key)
            .map(str::to_owned))
    }

    fn dry_run(&mut self) -> wasmtime::Result<bool> {
        Ok(self.request()?.dry_run)
    }
}

impl pods::Host for Guest {}

impl pods::HostPod for Guest {
    fn get(&mut self, _: Resource<PodHandle>, path: String) -> GuestResult<Option<String>> {
        edit(self.get(&path))
    }

    fn view(
        &mut self,
        _: Resource<PodHandle>,
        path: String,
        fields: Vec<String>,
    ) -> GuestResult<Option<String>> {
        edit(self.view(&path, |known| known == fields, || Ok(fields.clone())))
    }

    fn keys(&mut self, _: Resource<PodHandle>, path: String) -> GuestResult<Vec<String>> {
        edit(self.keys(&path))
    }

    fn set(&mut self, _: Resource<PodHandle>, path: String, value: String) -> GuestResult<()> {
        edit(self.set(&path, value))
    }

    fn insert(&mut self, _: Resource<PodHandle>, path: String, value: String) -> GuestResult<()> {
        edit(self.insert(&path, value))
    }

    fn remove(&mut self, _: Resource<PodHandle>, path: String) -> GuestResult<bool> {
        edit(self.remove(&path))
    }

    /// Guests only borrow the pod, so there is nothing to release.
    fn drop(&mut self, _: Resource<PodHandle>) -> wasmtime::Result<()> {
        Ok(())
    }
}

fn edit<T>(answer: AccessResult<T>) -> GuestResult<T> {
    Ok(answer?.map_err(|error| match error {
        AccessError::InvalidPath(text) => pods::AccessError::InvalidPath(text),
        AccessError::NotFound(text) => pods::AccessError::NotFound(text),
        AccessError::Forbidden(text) => pods::AccessError::Forbidden(text),
        AccessError::InvalidValue(text) => pods::AccessError::InvalidValue(text),
    }))
}
