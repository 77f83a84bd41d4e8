//! What a program may say: Rhai without clock, modules, `eval` and `switch`, and what it finds there: `pod`, `request`, `deny`, `fail`,
//! `note`. `strict` and `lists` have what takes the place of Rhai's own.
//!
//! Functions of Rhai own their data, so they cannot hold the pod of a call. They find it in `POD`, which is set only during one.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use podloom_plugin_sdk::path;
use podloom_plugin_sdk::prelude::*;
use rhai::packages::{
    BasicArrayPackage, BasicFnPackage, BasicIteratorPackage, BasicMapPackage, BasicStringPackage,
    LanguageCorePackage, MoreStringPackage, Package,
};
use rhai::{
    Array, Dynamic, Engine, EvalAltResult, ImmutableString, Map, NativeCallContext,
    OptimizationLevel, Position, Scope,
};

use crate::strict::Answer;
use crate::{lists, strict};

scoped_tls::scoped_thread_local!(static POD: Pod);
scoped_tls::scoped_thread_local!(static REQUEST: Request);
// The first of `deny` and `fail` counts, whatever the program makes of the error that ends it: Rhai lets a closure's be caught.
scoped_tls::scoped_thread_local!(static ENDED: OnceCell<Rejection>);

/// Stands for the pod in a program.
#[derive(Clone, Copy)]
struct PodOfCall;

/// Stands for the request in a program.
#[derive(Clone, Copy)]
struct RequestOfCall;

/// Runs what may use the pod and the request of a call; returns its result, and what `deny` or `fail` said.
pub(crate) fn with_pod<T>(
    request: &Request,
    pod: &Pod,
    run: impl FnOnce(&mut Scope<'_>) -> T,
) -> (T, Option<Rejection>) {
    let ended = OnceCell::new();
    let result = ENDED.set(&ended, || {
        REQUEST.set(request, || POD.set(pod, || run(&mut scope())))
    });
    (result, ended.into_inner())
}

/// The names that a program finds.
pub(crate) fn scope() -> Scope<'static> {
    let mut scope = Scope::new();
    scope.push_constant("pod", PodOfCall);
    scope.push_constant("request", RequestOfCall);
    scope
}

/// The language. A program in it always ends: the host stops one that runs or grows too long.
pub(crate) fn engine() -> Engine {
    let mut engine = Engine::new_raw();
    LanguageCorePackage::new().register_into_engine(&mut engine);
    BasicIteratorPackage::new().register_into_engine(&mut engine);
    BasicFnPackage::new().register_into_engine(&mut engine);
    BasicStringPackage::new().register_into_engine(&mut engine);
    MoreStringPackage::new().register_into_engine(&mut engine);
    BasicArrayPackage::new().register_into_engine(&mut engine);
    BasicMapPackage::new().register_into_engine(&mut engine);
    // What a name means is known before a program runs.
    engine.set_strict_variables(true);
    engine.disable_symbol("eval");
    // It passes over values of another type.
    engine.disable_symbol("switch");
    // Both answer for values of different types without asking `strict`.
    engine.set_fast_operators(false);
    engine.set_optimization_level(OptimizationLevel::None);
    // Each level takes stack.
    engine.set_max_call_levels(MAX_CALLS);
    engine.set_max_expr_depths(MAX_DEPTH, MAX_DEPTH);
    engine.on_print(|line| podloom_plugin_sdk::log(Level::Info, line));
    register_pod(&mut engine);
    register_request(&mut engine);
    register_outcomes(&mut engine);
    strict::register(&mut engine);
    lists::register(&mut engine);
    strict::register_numbers(&mut engine);
    engine
}

/// How deeply functions may call each other.
const MAX_CALLS: usize = 16;
/// How deeply expressions and blocks may be nested.
const MAX_DEPTH: usize = 64;

fn register_pod(engine: &mut Engine) {
    engine
        .register_type_with_name::<PodOfCall>("pod")
        .register_fn("get", |_: &mut PodOfCall, path: &str| {
            let found = with(|pod| pod.get::<Dynamic>(path))?;
            Answer::Ok(found.unwrap_or_default())
        })
        .register_fn("view", |_: &mut PodOfCall, path: &str, fields: Array| {
            let fields = texts(path, fields)?;
            let fields: Vec<&str> = fields.iter().map(ImmutableString::as_str).collect();
            let found = with(|pod| pod.view::<Dynamic>(path, &fields))?;
            Answer::Ok(found.unwrap_or_default())
        })
        .register_fn("keys", |_: &mut PodOfCall, path: &str| {
            let keys = with(|pod| pod.keys(path))?;
            Answer::Ok(keys.into_iter().map(Dynamic::from).collect::<Array>())
        })
        .register_fn("containers", |_: &mut PodOfCall, fields: Array| {
            let fields = texts("containers", fields)?;
            containers(fields.iter().map(ImmutableString::as_str))
        })
        .register_fn("set", |_: &mut PodOfCall, path: &str, value: Dynamic| {
            let value = written(path, value)?;
            with(|pod| pod.set(path, &value))
        })
        .register_fn("insert", |_: &mut PodOfCall, path: &str, value: Dynamic| {
            let value = written(path, value)?;
            with(|pod| pod.insert(path, &value))
        })
        .register_fn("remove", |_: &mut PodOfCall, path: &str| {
            with(|pod| pod.remove(path))
        })
        // Keys of labels and annotations have slashes in them.
        .register_fn("path", |object: &str, key: &str| path::field(object, key))
        .register_fn("path", |list: &str, key: &str, value: &str| {
            path::element(list, key, value)
        });
}

/// The lists of a pod's containers.
const LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Fields of a pod's containers, as fields below `/spec`. The name is always one of them, since every message needs it.
pub(crate) fn fields_of_containers<'f>(
    fields: impl Iterator<Item = &'f str> + Clone,
) -> impl Iterator<Item = String> {
    let fields = std::iter::once("/name").chain(fields);
    LISTS.into_iter().flat_map(move |list| {
        let of_list = fields.clone();
        of_list.map(move |field| format!("/{list}/*{field}"))
    })
}

/// All containers of a pod with these fields, in one list.
fn containers<'f>(fields: impl Iterator<Item = &'f str> + Clone) -> Answer<Array> {
    let fields: Vec<String> = fields_of_containers(fields).collect();
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    let found = with(|pod| pod.view::<BTreeMap<String, Array>>("/spec", &fields))?;
    let mut found = found.unwrap_or_default();
    let lists = LISTS.iter().filter_map(|list| found.remove(*list));
    Ok(lists.flatten().collect())
}

/// A value that can be written. Absent is what `remove` makes of a value; a program that writes it has most often read it where there
/// was none.
fn written(path: &str, value: Dynamic) -> Answer<Dynamic> {
    if value.is_unit() {
        let message = format!(
            "{path}: there is no value to write: give a default, as in `value ?? \"none\"`, or use pod.remove"
        );
        return Err(message.into());
    }
    Ok(plain(value.flatten()))
}

/// A value with texts in place of the quantities in it.
fn plain(value: Dynamic) -> Dynamic {
    let text = value
        .read_lock::<Quantity>()
        .map(|quantity| quantity.to_string());
    if let Some(text) = text {
        return text.into();
    }
    let value = match value.try_cast_result::<Array>() {
        Ok(list) => return list.into_iter().map(plain).collect::<Array>().into(),
        Err(value) => value,
    };
    match value.try_cast_result::<Map>() {
        Ok(map) => {
            let fields = map.into_iter().map(|(key, value)| (key, plain(value)));
            fields.collect::<Map>().into()
        }
        Err(value) => value,
    }
}

/// The fields of a view.
fn texts(path: &str, fields: Array) -> Answer<Vec<ImmutableString>> {
    let texts = fields.into_iter().map(|field| {
        let wrong = field.type_name();
        field.try_cast::<ImmutableString>().ok_or_else(|| {
            format!(
                "{path}: a field of a view is a path such as \"/name\", and one is of type {wrong}"
            )
            .into()
        })
    });
    texts.collect()
}

fn with<T>(access: impl FnOnce(&Pod) -> Result<T, Error>) -> Answer<T> {
    POD.with(access).map_err(|error| error.to_string().into())
}

fn register_request(engine: &mut Engine) {
    fn of<T>(read: impl FnOnce(&Request) -> T) -> T {
        REQUEST.with(read)
    }
    fn or_unit(found: Option<String>) -> Dynamic {
        found.map_or(Dynamic::UNIT, Dynamic::from)
    }
    engine
        .register_type_with_name::<RequestOfCall>("request")
        .register_get("kind", |_: &mut RequestOfCall| of(Request::kind))
        .register_get("name", |_: &mut RequestOfCall| of(Request::name))
        .register_get("namespace", |_: &mut RequestOfCall| of(Request::namespace))
        .register_get("operation", |_: &mut RequestOfCall| {
            of(Request::operation).as_str()
        })
        .register_get("changes", |_: &mut RequestOfCall| {
            let changes = of(Request::changes).into_iter();
            changes.map(Dynamic::from).collect::<Array>()
        })
        .register_get("dry_run", |_: &mut RequestOfCall| of(Request::dry_run))
        .register_fn("label", |_: &mut RequestOfCall, key: &str| {
            or_unit(of(|request| request.label(key)))
        })
        .register_fn("annotation", |_: &mut RequestOfCall, key: &str| {
            or_unit(of(|request| request.annotation(key)))
        })
        .register_fn("namespace_label", |_: &mut RequestOfCall, key: &str| {
            or_unit(of(|request| request.namespace_label(key)))
        })
        .register_fn(
            "namespace_annotation",
            |_: &mut RequestOfCall, key: &str| {
                or_unit(of(|request| request.namespace_annotation(key)))
            },
        );
}

/// How the log names a place where a program denies. The host knows such lines by their beginning.
pub(crate) fn denial(position: Position) -> String {
    format!("deny at {position}")
}

/// `deny` and `fail` end the program, whatever it would catch. The log says where it denied, for a check of what was tried.
fn register_outcomes(engine: &mut Engine) {
    fn end(rejection: Rejection) -> Answer<()> {
        ENDED.with(|ended| {
            let _first = ended.get_or_init(|| rejection);
        });
        Err(EvalAltResult::ErrorTerminated(Dynamic::UNIT, Position::NONE).into())
    }
    engine
        .register_fn("deny", |context: NativeCallContext, reason: &str| {
            log(Level::Trace, &denial(context.call_position()));
            end(Rejection::Denied(reason.to_owned()))
        })
        .register_fn("fail", |reason: &str| {
            end(Rejection::Failed(reason.to_owned()))
        })
        .register_fn("note", podloom_plugin_sdk::note);
}
