//! The host's side of the contract: what a guest may call.

use podloom_pod_path::{AccessError, EditError, Transaction};
use wasmtime::component::Resource;

use super::usage::Line;
use super::{Failure, Guest};
use crate::bindings::{PodHandle, host, pods, request};

type Edit<T> = wasmtime::Result<Result<T, pods::AccessError>>;

impl host::Host for Guest {
    fn log(&mut self, level: host::Level, message: String) -> wasmtime::Result<()> {
        let plugin = self.setting.name.as_str();
        match self.speech.line(&message) {
            Line::Keep(line) => match level {
                host::Level::Trace => tracing::trace!(target: "podloom::plugin", plugin, "{line}"),
                host::Level::Debug => tracing::debug!(target: "podloom::plugin", plugin, "{line}"),
                host::Level::Info => tracing::info!(target: "podloom::plugin", plugin, "{line}"),
                host::Level::Warn => tracing::warn!(target: "podloom::plugin", plugin, "{line}"),
                host::Level::Error => {
                    tracing::error!(target: "podloom::plugin", plugin, "{line}");
                    self.speech.last_error = Some(line);
                }
            },
            Line::FirstDropped => {
                tracing::warn!(target: "podloom::plugin", plugin, "this call's further log lines are dropped");
            }
            Line::Dropped => {}
        }
        Ok(())
    }

    fn note(&mut self, message: String) -> wasmtime::Result<()> {
        self.speech.note(&message);
        Ok(())
    }

    fn config(&mut self) -> wasmtime::Result<String> {
        Ok(self.setting.config.clone())
    }
}

impl request::Host for Guest {
    fn kind(&mut self) -> wasmtime::Result<String> {
        Ok(self.request.kind.clone())
    }

    fn name(&mut self) -> wasmtime::Result<String> {
        Ok(self.request.name.clone())
    }

    fn namespace(&mut self) -> wasmtime::Result<String> {
        Ok(self.request.namespace.clone())
    }

    fn label(&mut self, key: String) -> wasmtime::Result<Option<String>> {
        Ok(self.request.labels.get(&key).cloned())
    }

    fn annotation(&mut self, key: String) -> wasmtime::Result<Option<String>> {
        Ok(self.request.annotations.get(&key).cloned())
    }

    fn namespace_label(&mut self, key: String) -> wasmtime::Result<Option<String>> {
        Ok(self.request.namespace_labels.get(&key).cloned())
    }

    fn namespace_annotation(&mut self, key: String) -> wasmtime::Result<Option<String>> {
        Ok(self.request.namespace_annotations.get(&key).cloned())
    }

    fn dry_run(&mut self) -> wasmtime::Result<bool> {
        Ok(self.request.dry_run)
    }
}

impl pods::Host for Guest {}

impl pods::HostPod for Guest {
    fn get(&mut self, _: Resource<PodHandle>, path: String) -> Edit<Option<String>> {
        answer(self.pod()?.get(&path))
    }

    fn view(
        &mut self,
        _: Resource<PodHandle>,
        path: String,
        fields: Vec<String>,
    ) -> Edit<Option<String>> {
        answer(self.pod()?.view(&path, &fields))
    }

    fn keys(&mut self, _: Resource<PodHandle>, path: String) -> Edit<Vec<String>> {
        answer(self.pod()?.keys(&path))
    }

    fn set(&mut self, _: Resource<PodHandle>, path: String, value: String) -> Edit<()> {
        answer(self.pod()?.set(&path, value))
    }

    fn insert(&mut self, _: Resource<PodHandle>, path: String, value: String) -> Edit<()> {
        answer(self.pod()?.insert(&path, value))
    }

    fn remove(&mut self, _: Resource<PodHandle>, path: String) -> Edit<bool> {
        answer(self.pod()?.remove(&path))
    }

    /// Guests only ever borrow the pod, so there is nothing to release.
    fn drop(&mut self, _: Resource<PodHandle>) -> wasmtime::Result<()> {
        Ok(())
    }
}

impl Guest {
    /// Only `mutate` is handed a pod, and no other function can name one.
    fn pod(&mut self) -> wasmtime::Result<&mut Transaction> {
        self.pod
            .as_mut()
            .ok_or_else(|| Failure::BrokeContract("a pod that it was not given".to_owned()).into())
    }
}

/// A refusal is the guest's to handle; a limit ends the call.
fn answer<T>(result: Result<T, EditError>) -> Edit<T> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(EditError::Access(error)) => Ok(Err(match error {
            AccessError::InvalidPath(text) => pods::AccessError::InvalidPath(text),
            AccessError::NotFound(text) => pods::AccessError::NotFound(text),
            AccessError::Forbidden(text) => pods::AccessError::Forbidden(text),
            AccessError::InvalidValue(text) => pods::AccessError::InvalidValue(text),
        })),
        Err(EditError::Limit(limit)) => {
            Err(Failure::OverLimit(format!("it asked for {limit}")).into())
        }
    }
}
