//! The contract's imports for core modules: arguments are lifted and results lowered by the rules of [`super::abi`].
//!
//! Arguments are flat. A result of more than one number is written to the address in the last argument; results and options have
//! their case at offset 0 and their payload at offset 4.

use std::sync::Arc;

use podloom_mutation::{CallFailure, PodRequest};
use podloom_pod_path::AccessError;
use wasmtime::{Caller, Linker, Memory, Trap};

use super::POD;
use super::abi::{GuestReader, GuestWriter, broken, unexpected_case};
use crate::sandbox::Guest;
use crate::sandbox::services::LogLevel;

type ImportResult = wasmtime::Result<()>;

/// Sizes of results in the guest's memory.
const STRING: usize = 8;
const OPTION: usize = 12;
const RESULT: usize = 16;

/// Defines one import of a module. An import that is not in the contract stays undefined.
pub(super) fn offer(
    linker: &mut Linker<Guest>,
    module: &str,
    interface: &str,
    name: &str,
) -> ImportResult {
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
        0 => LogLevel::Trace,
        1 => LogLevel::Debug,
        2 => LogLevel::Info,
        3 => LogLevel::Warn,
        4 => LogLevel::Error,
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

fn label(caller: Caller<'_, Guest>, key: u32, length: u32, result: u32) -> ImportResult {
    look_up(caller, (key, length), result, |request, key| {
        request.labels.get(key).map(String::as_str)
    })
}

fn annotation(caller: Caller<'_, Guest>, key: u32, length: u32, result: u32) -> ImportResult {
    look_up(caller, (key, length), result, PodRequest::annotation)
}

fn namespace_label(caller: Caller<'_, Guest>, key: u32, length: u32, result: u32) -> ImportResult {
    caller.data().request_for_namespace()?;
    look_up(caller, (key, length), result, |request, key| {
        request.namespace_labels.get(key).map(String::as_str)
    })
}

fn namespace_annotation(
    caller: Caller<'_, Guest>,
    key: u32,
    length: u32,
    result: u32,
) -> ImportResult {
    caller.data().request_for_namespace()?;
    look_up(
        caller,
        (key, length),
        result,
        PodRequest::namespace_annotation,
    )
}

fn look_up(
    mut caller: Caller<'_, Guest>,
    key: (u32, u32),
    result: u32,
    value: for<'r> fn(&'r PodRequest, &str) -> Option<&'r str>,
) -> ImportResult {
    let request = Arc::clone(caller.data().request()?);
    let (mut reader, _) = lift(&mut caller)?;
    let value = value(&request, reader.string(key)?);
    lower::<OPTION>(&mut caller, result)?.option(result, value)
}

fn dry_run(guest: &Guest) -> wasmtime::Result<u32> {
    may_leave(guest)?;
    Ok(u32::from(guest.request()?.dry_run))
}

fn get(
    mut caller: Caller<'_, Guest>,
    pod: u32,
    path: u32,
    path_length: u32,
    result: u32,
) -> ImportResult {
    let (mut reader, guest) = lift_pod(&mut caller, pod)?;
    let answer = guest.get(reader.string((path, path_length))?)?;
    lower_answer(&mut caller, result, answer, |writer, at, text| {
        writer.option(at, text.as_deref())
    })
}

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

fn keys(
    mut caller: Caller<'_, Guest>,
    pod: u32,
    path: u32,
    path_length: u32,
    result: u32,
) -> ImportResult {
    let (mut reader, guest) = lift_pod(&mut caller, pod)?;
    let answer = guest.keys(reader.string((path, path_length))?)?;
    lower_answer(&mut caller, result, answer, |writer, at, keys| {
        writer.strings(at, &keys)
    })
}

#[expect(
    clippy::too_many_arguments,
    reason = "the flat arguments of the contract"
)]
fn set(
    mut caller: Caller<'_, Guest>,
    pod: u32,
    path: u32,
    path_length: u32,
    value: u32,
    value_length: u32,
    result: u32,
) -> ImportResult {
    let (mut reader, guest) = lift_pod(&mut caller, pod)?;
    let path = reader.string((path, path_length))?;
    let value = reader.string((value, value_length))?;
    let answer = guest.set(path, value.to_owned())?;
    lower_answer(&mut caller, result, answer, |_, _, ()| Ok(()))
}

#[expect(
    clippy::too_many_arguments,
    reason = "the flat arguments of the contract"
)]
fn insert(
    mut caller: Caller<'_, Guest>,
    pod: u32,
    path: u32,
    path_length: u32,
    value: u32,
    value_length: u32,
    result: u32,
) -> ImportResult {
    let (mut reader, guest) = lift_pod(&mut caller, pod)?;
    let path = reader.string((path, path_length))?;
    let value = reader.string((value, value_length))?;
    let answer = guest.insert(path, value.to_owned())?;
    lower_answer(&mut caller, result, answer, |_, _, ()| Ok(()))
}

fn remove(
    mut caller: Caller<'_, Guest>,
    pod: u32,
    path: u32,
    path_length: u32,
    result: u32,
) -> ImportResult {
    let (mut reader, guest) = lift_pod(&mut caller, pod)?;
    let answer = guest.remove(reader.string((path, path_length))?)?;
    lower_answer(&mut caller, result, answer, |writer, at, removed| {
        writer.case(at, u8::from(removed))
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
