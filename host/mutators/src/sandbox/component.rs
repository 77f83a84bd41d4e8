//! A finished component, called through the engine's component model.

mod imports;

use wasmtime::component::{
    Component as Compiled, ComponentExportIndex, ComponentNamedList, HasSelf, InstancePre, Lift,
    Linker, Lower, Resource,
};
use wasmtime::{AsContextMut, Store};

use super::Guest;
use crate::bindings::{Description, Mutator, PodHandle, Rejection};
use crate::component::ComponentError;
use crate::text::one_line;

/// Offers the host's functions to components.
pub(crate) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    Mutator::add_to_linker::<_, HasSelf<Guest>>(linker, |guest| guest)
}

/// A linked component, and where in it the functions of the contract are, so that calls look up no names.
pub(crate) struct Component {
    instance: InstancePre<Guest>,
    describe: ComponentExportIndex,
    validate_config: ComponentExportIndex,
    mutate: ComponentExportIndex,
}

impl Component {
    /// Links a component that exports the interface `plugin`.
    pub(crate) fn link(
        linker: &Linker<Guest>,
        component: &Compiled,
        plugin: &str,
    ) -> Result<Self, ComponentError> {
        let instance = linker
            .instantiate_pre(component)
            .map_err(|error| ComponentError::Link(one_line(&format!("{error:#}"), 500)))?;
        let interface = component
            .get_export_index(None, plugin)
            .ok_or(ComponentError::NoPlugin)?;
        let function = |name: &str| {
            component
                .get_export_index(Some(&interface), name)
                .ok_or_else(|| {
                    ComponentError::Link(format!("it exports no function {name} in {plugin}"))
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

    /// A fresh instance, one call. Only the function that is called is looked up and checked against its type.
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
