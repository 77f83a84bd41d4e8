//! A plugin that ships as a core module, called without a component around it.
//!
//! A component would take three core instances instead of one, and adapter code at each call in either direction. Loading has
//! encoded and validated the component, so this only has to follow the same ABI, whose rules are in `abi`. A module that is not
//! plain is called as a component instead, see [`Module::link`].
//!
//! The contract's imports lift their arguments and lower their results by the same rules. Arguments are flat. A result of more than
//! one number is written to the address in the last argument; results and options have their case at offset 0 and their payload at
//! offset 4.

use std::sync::Arc;

use podloom_mutation::{CallFailure, Operation, PodRequest};
use podloom_pod_path::AccessError;
use wasmtime::{
    Caller, Extern, Instance, InstancePre, Linker, Memory, ModuleExport, Store, Trap, WasmParams,
    WasmResults,
};

use super::Guest;
use super::abi::{GuestReader, GuestWriter, Realloc, broken, case, pair, unexpected_case};
use crate::contract::host::Level;
use crate::contract::{self, Description, Rejection};

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
    pub(super) realloc: Option<Realloc>,
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
            offer(&mut linker, import.module(), interface, import.name()).ok()?;
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
            let mut text = |offset| Ok(reader.string(pair(record, offset))?.to_owned());
            Ok(Description {
                name: text(0)?,
                version: text(8)?,
                summary: text(16)?,
                config_schema: text(24)?,
                reads: texts(reader, pair(record, 32))?,
                writes: texts(reader, pair(record, 40))?,
            })
        })
    }

    pub(crate) fn validate_config(
        &self,
        store: &mut Store<Guest>,
    ) -> wasmtime::Result<Result<(), Vec<String>>> {
        self.call(store, &self.validate_config, (), |reader, address| {
            let result = reader.returned::<12>(address)?;
            match case(result, 0) {
                0 => Ok(Ok(())),
                1 => Ok(Err(texts(reader, pair(result, 4))?)),
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
            let rejection: fn(String) -> Rejection = match (case(result, 0), case(result, 4)) {
                (0, _) => return Ok(Ok(())),
                (1, 0) => Rejection::Denied,
                (1, 1) => Rejection::Failed,
                (1, case) => return Err(unexpected_case(case)),
                _ => return Err(broken("invalid expected discriminant")),
            };
            Ok(Err(rejection(reader.string(pair(result, 8))?.to_owned())))
        })
    }

    /// The export `prepare`, if there is one.
    pub(crate) fn preparation(&self) -> Option<&ModuleExport> {
        self.prepare.as_ref()
    }

    /// The memory of a fresh instance.
    pub(crate) fn fresh_memory(&self, store: &mut Store<Guest>) -> wasmtime::Result<Memory> {
        let instance = self.instance.instantiate(&mut *store)?;
        Ok(exported(
            &instance,
            store,
            &self.memory,
            Extern::into_memory,
        )?)
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
        let memory = exported(&instance, store, &self.memory, Extern::into_memory)?;
        let realloc = exported(&instance, store, &self.realloc, Extern::into_func)?;
        let function = exported(&instance, store, export, Extern::into_func)?;
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

fn exported<T>(
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

type ImportResult = wasmtime::Result<()>;

/// Sizes of results in the guest's memory.
const STRING: usize = 8;
const OPTION: usize = 12;
const RESULT: usize = 16;

/// Defines one import of a module. An import that is not in the contract stays undefined.
fn offer(linker: &mut Linker<Guest>, module: &str, interface: &str, name: &str) -> ImportResult {
    match (interface, name) {
        ("host", "log") => linker.func_wrap(module, name, log),
        ("host", "note") => linker.func_wrap(module, name, note),
        ("host", "warn") => linker.func_wrap(module, name, warn),
        ("host", "config") => linker.func_wrap(module, name, config),
        ("request", "kind") => linker.func_wrap(module, name, kind),
        ("request", "name") => linker.func_wrap(module, name, self::name),
        ("request", "namespace") => linker.func_wrap(module, name, namespace),
        ("request", "label") => linker.func_wrap(module, name, label),
        ("request", "annotation") => linker.func_wrap(module, name, annotation),
        ("request", "namespace-label") => linker.func_wrap(module, name, namespace_label),
        ("request", "namespace-annotation") => linker.func_wrap(module, name, namespace_annotation),
        ("request", "dry-run") => linker.func_wrap(module, name, |caller: Caller<'_, Guest>| {
            dry_run(caller.data())
        }),
        ("request", "operation") => linker.func_wrap(module, name, |caller: Caller<'_, Guest>| {
            operation(caller.data())
        }),
        ("request", "changes") => linker.func_wrap(module, name, changes),
        ("pods", "[method]pod.get") => linker.func_wrap(module, name, get),
        ("pods", "[method]pod.view") => linker.func_wrap(module, name, view),
        ("pods", "[method]pod.keys") => linker.func_wrap(module, name, keys),
        ("pods", "[method]pod.set") => linker.func_wrap(module, name, set),
        ("pods", "[method]pod.insert") => linker.func_wrap(module, name, insert),
        ("pods", "[method]pod.remove") => linker.func_wrap(module, name, remove),
        ("pods", "[resource-drop]pod") => linker.func_wrap(module, name, drop_pod),
        _ => return Ok(()),
    }
    .map(|_| ())
}

/// The instance's memory, unless the guest must not call the host now: in `cabi_realloc`, or in a start function, where memory and
/// allocator are not known yet. In a component the imports are not linked yet either.
fn memory(guest: &Guest) -> Result<Memory, Trap> {
    let module = guest.module.as_ref().ok_or(Trap::IndirectCallToNull)?;
    match module.realloc {
        Some(_) => Ok(module.memory),
        None => Err(Trap::CannotLeaveComponent),
    }
}

/// Fails in `cabi_realloc`. Imports that need no memory can be called in a start function, as in a component.
fn may_leave(guest: &Guest) -> Result<(), Trap> {
    match &guest.module {
        Some(module) if module.realloc.is_none() => Err(Trap::CannotLeaveComponent),
        _ => Ok(()),
    }
}

fn lift<'c>(caller: &'c mut Caller<'_, Guest>) -> Result<(GuestReader<'c>, &'c mut Guest), Trap> {
    let memory = memory(caller.data())?;
    let (memory, guest) = memory.data_and_store_mut(caller);
    Ok((GuestReader::new(memory), guest))
}

/// As [`lift`], for the methods of the pod.
fn lift_pod<'c>(
    caller: &'c mut Caller<'_, Guest>,
    pod: u32,
) -> wasmtime::Result<(GuestReader<'c>, &'c mut Guest)> {
    let (reader, guest) = lift(caller)?;
    check_pod(guest, pod)?;
    Ok((reader, guest))
}

/// Checks the guest's handle, a number that is valid until the guest drops it.
fn check_pod(guest: &Guest, pod: u32) -> Result<(), CallFailure> {
    match &guest.module {
        Some(module) if module.lends_pod && pod == POD => Ok(()),
        _ => Err(broken(&format!("unknown handle index {pod}"))),
    }
}

fn lower<'c, 'g, const N: usize>(
    caller: &'c mut Caller<'g, Guest>,
    result: u32,
) -> wasmtime::Result<GuestWriter<'c, 'g>> {
    let memory = memory(caller.data())?;
    Ok(GuestWriter::result::<N>(caller, memory, result)?)
}

/// Lowers `result<T, access-error>`; `store` lowers the `T`.
fn lower_answer<T>(
    caller: &mut Caller<'_, Guest>,
    result: u32,
    answer: Result<T, AccessError>,
    store: impl FnOnce(&mut GuestWriter<'_, '_>, u32, T) -> ImportResult,
) -> ImportResult {
    let mut writer = lower::<RESULT>(caller, result)?;
    let payload = result.saturating_add(4);
    writer.case(result, u8::from(answer.is_err()))?;
    match answer {
        Ok(value) => store(&mut writer, payload, value),
        Err(error) => writer.error(payload, &error),
    }
}

fn log(mut caller: Caller<'_, Guest>, level: u32, text: u32, length: u32) -> ImportResult {
    let (mut reader, guest) = lift(&mut caller)?;
    let level = match level {
        0 => Level::Trace,
        1 => Level::Debug,
        2 => Level::Info,
        3 => Level::Warn,
        4 => Level::Error,
        level => return Err(unexpected_case(level).into()),
    };
    guest.log(level, reader.string((text, length))?);
    Ok(())
}

fn note(mut caller: Caller<'_, Guest>, text: u32, length: u32) -> ImportResult {
    let (mut reader, guest) = lift(&mut caller)?;
    guest.note(reader.string((text, length))?);
    Ok(())
}

fn warn(mut caller: Caller<'_, Guest>, text: u32, length: u32) -> ImportResult {
    let (mut reader, guest) = lift(&mut caller)?;
    guest.warn(reader.string((text, length))?);
    Ok(())
}

fn config(mut caller: Caller<'_, Guest>, result: u32) -> ImportResult {
    let settings = Arc::clone(&caller.data().settings);
    lower::<STRING>(&mut caller, result)?.string(result, &settings.config)
}

fn kind(caller: Caller<'_, Guest>, result: u32) -> ImportResult {
    of_request(caller, result, |request| request.kind)
}

fn name(caller: Caller<'_, Guest>, result: u32) -> ImportResult {
    of_request(caller, result, |request| &request.name)
}

fn namespace(caller: Caller<'_, Guest>, result: u32) -> ImportResult {
    of_request(caller, result, |request| &request.namespace)
}

fn of_request(
    mut caller: Caller<'_, Guest>,
    result: u32,
    text: for<'r> fn(&'r PodRequest) -> &'r str,
) -> ImportResult {
    let request = Arc::clone(caller.data().request()?);
    lower::<STRING>(&mut caller, result)?.string(result, text(&request))
}

/// Looks up a text of the request by its key.
macro_rules! look_up {
    ($name:ident, $get:ident, |$request:ident, $key:ident| $value:expr) => {
        fn $name(
            mut caller: Caller<'_, Guest>,
            key: u32,
            length: u32,
            result: u32,
        ) -> ImportResult {
            let $request = Arc::clone(caller.data().$get()?);
            let (mut reader, _) = lift(&mut caller)?;
            let $key = reader.string((key, length))?;
            let value = $value;
            lower::<OPTION>(&mut caller, result)?.option(result, value)
        }
    };
}

look_up!(label, request, |request, key| {
    request.labels.get(key).map(String::as_str)
});
look_up!(annotation, request, |request, key| request.annotation(key));
look_up!(namespace_label, request_for_namespace, |request, key| {
    request.namespace_labels.get(key).map(String::as_str)
});
look_up!(
    namespace_annotation,
    request_for_namespace,
    |request, key| { request.namespace_annotation(key) }
);

fn dry_run(guest: &Guest) -> wasmtime::Result<u32> {
    may_leave(guest)?;
    Ok(u32::from(guest.request()?.dry_run))
}

fn operation(guest: &Guest) -> wasmtime::Result<u32> {
    may_leave(guest)?;
    Ok(match guest.pod_operation()? {
        Operation::Create => 0,
        // For a plugin, a pod that a session takes is one that exists and is changed.
        Operation::Update | Operation::Claim => 1,
        Operation::Resize => 2,
        Operation::EphemeralContainers => 3,
    })
}

fn changes(mut caller: Caller<'_, Guest>, result: u32) -> ImportResult {
    let changes = caller.data().pod_changes()?.to_vec();
    lower::<STRING>(&mut caller, result)?.strings(result, &changes)
}

/// A method of the pod: reads the texts in its flat arguments, calls the guest's host, and lowers the answer.
macro_rules! method {
    ($name:ident($($text:ident, $length:ident),+), |$guest:ident| $answer:expr, $lower:expr) => {
        #[allow(
            clippy::too_many_arguments,
            reason = "the flat arguments of the contract"
        )]
        fn $name(
            mut caller: Caller<'_, Guest>,
            pod: u32,
            $($text: u32, $length: u32,)+
            result: u32,
        ) -> ImportResult {
            let (mut reader, $guest) = lift_pod(&mut caller, pod)?;
            $(let $text = reader.string(($text, $length))?;)+
            let answer = $answer?;
            lower_answer(&mut caller, result, answer, $lower)
        }
    };
}

method!(
    get(path, path_length),
    |guest| guest.get(path),
    |writer, at, text| writer.option(at, text.as_deref())
);
method!(
    keys(path, path_length),
    |guest| guest.keys(path),
    |writer, at, keys| writer.strings(at, &keys)
);
method!(
    set(path, path_length, value, value_length),
    |guest| guest.set(path, value.to_owned()),
    |_, _, ()| Ok(())
);
method!(
    insert(path, path_length, value, value_length),
    |guest| guest.insert(path, value.to_owned()),
    |_, _, ()| Ok(())
);
method!(
    remove(path, path_length),
    |guest| guest.remove(path),
    |writer, at, removed| writer.case(at, u8::from(removed))
);

#[expect(
    clippy::too_many_arguments,
    reason = "the flat arguments of the contract"
)]
fn view(
    mut caller: Caller<'_, Guest>,
    pod: u32,
    path: u32,
    path_length: u32,
    fields: u32,
    count: u32,
    result: u32,
) -> ImportResult {
    let (mut reader, guest) = lift_pod(&mut caller, pod)?;
    let path = reader.string((path, path_length))?;
    let fields = reader.list((fields, count))?;
    let answer = guest.view(path, |known| fields.holds(known), || reader.strings(fields))?;
    lower_answer(&mut caller, result, answer, |writer, at, text| {
        writer.option(at, text.as_deref())
    })
}

fn drop_pod(mut caller: Caller<'_, Guest>, pod: u32) -> ImportResult {
    may_leave(caller.data())?;
    check_pod(caller.data(), pod)?;
    if let Some(module) = &mut caller.data_mut().module {
        module.lends_pod = false;
    }
    Ok(())
}
