//! A plugin that ships as a core module, called without a component around it.
//!
//! A component would take three core instances instead of one, and adapter code at each call in either direction. Loading has
//! encoded and validated the component, so this only has to follow the same ABI: [`abi`] has the rules, [`imports`] the
//! contract's functions. A module that is not plain is called as a component instead, see [`Module::link`].

mod abi;
mod imports;
mod prepared;

use std::sync::Arc;

use podloom_mutation::CallFailure;
use wasmtime::{
    Extern, Instance, InstancePre, Linker, Memory, ModuleExport, Store, WasmParams, WasmResults,
};

use self::abi::{GuestReader, Realloc, broken, unexpected_case};
pub(super) use self::prepared::Prepared;
use super::Guest;
use crate::bindings::{Description, Rejection};
use crate::contract;

/// The guest's handle on its pod: the first in the table, as in a component.
const POD: u32 = 1;
/// Exports that the encoder treats specially: another allocator, or code to run first.
const UNUSUAL: [&str; 5] = [
    "_initialize",
    "canonical_abi_realloc",
    "cabi_import_realloc",
    "cabi_export_realloc",
    "cabi_realloc_adapter",
];

/// A linked module with the indices of its exports.
pub(crate) struct Module {
    instance: InstancePre<Guest>,
    memory: ModuleExport,
    realloc: ModuleExport,
    describe: ModuleExport,
    validate_config: ModuleExport,
    mutate: ModuleExport,
    /// None if the plugin does not export the interface `preparation`.
    prepare: Option<ModuleExport>,
}

/// The host's state of one call that only core modules need.
pub(crate) struct ModuleState {
    memory: Memory,
    /// None while it runs: the guest must not call imports then.
    realloc: Option<Realloc>,
    lends_pod: bool,
}

impl Module {
    /// Links a module that exports the interface `plugin` and optionally `preparation`; none if it needs anything but the contract's
    /// functions with their plain signatures. Such a module is linked as a component, which works or names the error.
    pub(crate) fn link(module: &wasmtime::Module, plugin: &str, preparation: &str) -> Option<Self> {
        if module
            .exports()
            .any(|export| UNUSUAL.contains(&export.name()))
        {
            return None;
        }
        let mut linker = Linker::new(module.engine());
        linker.allow_shadowing(true);
        for import in module.imports() {
            let (interface, _) = contract::interface(import.module())?;
            imports::offer(&mut linker, import.module(), interface, import.name()).ok()?;
        }
        let export = |name: &str| module.get_export_index(&format!("{plugin}#{name}"));
        Some(Self {
            instance: linker.instantiate_pre(module).ok()?,
            memory: module.get_export_index("memory")?,
            realloc: module.get_export_index("cabi_realloc")?,
            describe: export("describe")?,
            validate_config: export("validate-config")?,
            mutate: export("mutate")?,
            prepare: module.get_export_index(&format!("{preparation}#prepare")),
        })
    }

    pub(crate) fn describe(&self, store: &mut Store<Guest>) -> wasmtime::Result<Description> {
        self.call(store, &self.describe, (), |reader, address| {
            let record = reader.returned::<48>(address)?;
            let mut text = |offset| Ok(reader.string(record.pair(offset))?.to_owned());
            Ok(Description {
                name: text(0)?,
                version: text(8)?,
                summary: text(16)?,
                config_schema: text(24)?,
                reads: texts(reader, record.pair(32))?,
                writes: texts(reader, record.pair(40))?,
            })
        })
    }

    pub(crate) fn validate_config(
        &self,
        store: &mut Store<Guest>,
    ) -> wasmtime::Result<Result<(), Vec<String>>> {
        self.call(store, &self.validate_config, (), |reader, address| {
            let result = reader.returned::<12>(address)?;
            match result.case(0) {
                0 => Ok(Ok(())),
                1 => Ok(Err(texts(reader, result.pair(4))?)),
                _ => Err(broken("invalid expected discriminant")),
            }
        })
    }

    pub(crate) fn mutate(
        &self,
        store: &mut Store<Guest>,
    ) -> wasmtime::Result<Result<(), Rejection>> {
        self.call(store, &self.mutate, (POD,), |reader, address| {
            let result = reader.returned::<16>(address)?;
            let rejection: fn(String) -> Rejection = match (result.case(0), result.case(4)) {
                (0, _) => return Ok(Ok(())),
                (1, 0) => Rejection::Denied,
                (1, 1) => Rejection::Failed,
                (1, case) => return Err(unexpected_case(case)),
                _ => return Err(broken("invalid expected discriminant")),
            };
            Ok(Err(rejection(reader.string(result.pair(8))?.to_owned())))
        })
    }

    /// The export `prepare`, if there is one.
    pub(crate) fn preparation(&self) -> Option<&ModuleExport> {
        self.prepare.as_ref()
    }

    /// The memory of a fresh instance.
    pub(crate) fn fresh_memory(&self, store: &mut Store<Guest>) -> wasmtime::Result<Memory> {
        let instance = self.instance.instantiate(&mut *store)?;
        Ok(get(&instance, store, &self.memory, Extern::into_memory)?)
    }

    /// The memory of a fresh instance after a call of `prepare`.
    pub(crate) fn prepare(
        &self,
        store: &mut Store<Guest>,
        preparation: &ModuleExport,
    ) -> wasmtime::Result<Memory> {
        let (memory, ()) = self.start(store, preparation, ())?;
        Ok(memory)
    }

    /// Makes one call on a fresh instance and lifts its result from the returned address.
    ///
    /// Does not call `cabi_post_...`, which frees the result: the instance is dropped anyway.
    fn call<P: WasmParams, R>(
        &self,
        store: &mut Store<Guest>,
        export: &ModuleExport,
        params: P,
        lift: impl FnOnce(&mut GuestReader<'_>, u32) -> Result<R, CallFailure>,
    ) -> wasmtime::Result<R> {
        let (memory, address) = self.start(store, export, params)?;
        Ok(lift(&mut GuestReader::new(memory.data(&*store)), address)?)
    }

    /// Makes one call on a fresh instance, after copying the prepared memory into it if there is one.
    fn start<P: WasmParams, R: WasmResults>(
        &self,
        store: &mut Store<Guest>,
        export: &ModuleExport,
        params: P,
    ) -> wasmtime::Result<(Memory, R)> {
        let instance = self.instance.instantiate(&mut *store)?;
        let memory = get(&instance, store, &self.memory, Extern::into_memory)?;
        let realloc = get(&instance, store, &self.realloc, Extern::into_func)?;
        let function = get(&instance, store, export, Extern::into_func)?;
        let (realloc, function) = (realloc.typed(&*store)?, function.typed(&*store)?);
        store.data_mut().module = Some(ModuleState {
            memory,
            realloc: Some(realloc),
            lends_pod: store.data().pod.is_some(),
        });
        let settings = Arc::clone(&store.data().settings);
        if let Some(prepared) = settings.prepared.get() {
            prepared.restore(memory, store)?;
        }
        let result = function.call(&mut *store, params)?;
        let state = store.data_mut().module.as_mut();
        if state.is_some_and(|state| state.lends_pod) {
            return Err(broken("borrow handles still remain at the end of the call").into());
        }
        Ok((memory, result))
    }
}

fn get<T>(
    instance: &Instance,
    store: &mut Store<Guest>,
    export: &ModuleExport,
    kind: fn(Extern) -> Option<T>,
) -> Result<T, CallFailure> {
    instance
        .get_module_export(store, export)
        .and_then(kind)
        .ok_or_else(|| broken("an export has another type than the contract"))
}

fn texts(reader: &mut GuestReader<'_>, list: (u32, u32)) -> Result<Vec<String>, CallFailure> {
    let list = reader.list(list)?;
    let texts = reader.strings(list)?;
    Ok(texts.into_iter().map(str::to_owned).collect())
}
