//! A plugin that ships as a component, called through wasmtime's component model.

mod imports;

use wasmtime::component::{
    Component as Compiled, ComponentExportIndex, ComponentNamedList, HasSelf, InstancePre, Lift,
    Linker, Lower, Resource,
};
use wasmtime::{AsContextMut, Store};

use super::Guest;
use crate::bindings::{Description, Mutator, PodHandle, Rejection};

/// Why a component cannot be called.
pub(crate) enum LinkError {
    /// It does not export the interface.
    NoPlugin,
    /// Its imports or exports differ from the contract.
    Unfit(String),
}

impl From<wasmtime::Error> for LinkError {
    fn from(error: wasmtime::Error) -> Self {
        Self::Unfit(format!("{error:#}"))
    }
}

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
    ) -> Result<Self, LinkError> {
        let mut linker = Linker::new(component.engine());
        Mutator::add_to_linker::<_, HasSelf<Guest>>(&mut linker, |guest| guest)?;
        if uses_wasi {
            linker.define_unknown_imports_as_traps(component)?;
        }
        let instance = linker.instantiate_pre(component)?;
        let interface = component
            .get_export_index(None, plugin)
            .ok_or(LinkError::NoPlugin)?;
        let function = |name: &str| {
            component
                .get_export_index(Some(&interface), name)
                .ok_or_else(|| {
                    LinkError::Unfit(format!("it exports no function {name} in {plugin}"))
                })
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
