//! A plugin that ships as a component, called through wasmtime's component model.

use podloom_mutation::Operation;
use podloom_pod_path::AccessError;
use wasmtime::component::{
    Component as Compiled, ComponentExportIndex, ComponentNamedList, HasSelf, InstancePre, Lift,
    Linker, Lower, Resource,
};
use wasmtime::{AsContextMut, Store};

use super::Guest;
use super::services::AccessResult;
use crate::contract::{Description, Mutator, PodHandle, Rejection, host, pods, request};

/// A linked component with the indices of its exported functions, so calls look up no names.
pub(crate) struct Component {
    instance: InstancePre<Guest>,
    describe: ComponentExportIndex,
    validate_config: ComponentExportIndex,
    mutate: ComponentExportIndex,
}

impl Component {
    /// Links a component that exports the interface `plugin` to the host's functions. What it calls of WASI traps.
    pub(crate) fn link(
        component: &Compiled,
        plugin: &str,
        uses_wasi: bool,
    ) -> wasmtime::Result<Self> {
        let mut linker = Linker::new(component.engine());
        Mutator::add_to_linker::<_, HasSelf<Guest>>(&mut linker, |guest| guest)?;
        if uses_wasi {
            linker.define_unknown_imports_as_traps(component)?;
        }
        let instance = linker.instantiate_pre(component)?;
        let missing = |what: &str| wasmtime::format_err!("it exports no {what}");
        let interface = component.get_export_index(None, plugin);
        let interface = interface.ok_or_else(|| missing(plugin))?;
        let function = |name: &str| {
            let function = component.get_export_index(Some(&interface), name);
            function.ok_or_else(|| missing(&format!("function {name} in {plugin}")))
        };
        Ok(Self {
            instance,
            describe: function("describe")?,
            validate_config: function("validate-config")?,
            mutate: function("mutate")?,
        })
    }

    pub(crate) fn describe(&self, store: &mut Store<Guest>) -> wasmtime::Result<Description> {
        let (description,) = self.call(store, &self.describe, ())?;
        Ok(description)
    }

    pub(crate) fn validate_config(
        &self,
        store: &mut Store<Guest>,
    ) -> wasmtime::Result<Result<(), Vec<String>>> {
        let (verdict,) = self.call(store, &self.validate_config, ())?;
        Ok(verdict)
    }

    pub(crate) fn mutate(
        &self,
        store: &mut Store<Guest>,
    ) -> wasmtime::Result<Result<(), Rejection>> {
        let pod = Resource::<PodHandle>::new_borrow(0);
        let (result,) = self.call(store, &self.mutate, (pod,))?;
        Ok(result)
    }

    /// Makes one call on a fresh instance. Only the called function is looked up and type-checked.
    fn call<P, R>(
        &self,
        store: &mut Store<Guest>,
        export: &ComponentExportIndex,
        params: P,
    ) -> wasmtime::Result<R>
    where
        P: ComponentNamedList + Lower,
        R: ComponentNamedList + Lift + Send + Sync + 'static,
    {
        let instance = self.instance.instantiate(store.as_context_mut())?;
        instance
            .get_typed_func::<P, R>(store.as_context_mut(), export)?
            .call(store, params)
    }
}

// The contract's imports: wasmtime lifts and lowers, `services` does the work.

type GuestResult<T> = wasmtime::Result<Result<T, pods::AccessError>>;

impl host::Host for Guest {
    fn log(&mut self, level: host::Level, message: String) -> wasmtime::Result<()> {
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

    fn operation(&mut self) -> wasmtime::Result<request::PodOperation> {
        Ok(match self.pod_operation()? {
            Operation::Create => request::PodOperation::Create,
            Operation::Update | Operation::Claim => request::PodOperation::Update,
            Operation::Resize => request::PodOperation::Resize,
            Operation::EphemeralContainers => request::PodOperation::EphemeralContainers,
        })
    }

    fn changes(&mut self) -> wasmtime::Result<Vec<String>> {
        Ok(self.pod_changes()?.to_vec())
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
