//! One call of a plugin: a fresh store and instance with all limits, dropped afterwards.
//!
//! No state of the guest survives a call with a pod, so no plugin can carry data from one pod to another. Memory of the host is
//! limited too: text is cut, and the transaction charges for writes.

mod abi;
mod component;
mod kept;
mod module;
mod pace;
mod services;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use podloom_mutation::{
    CallFailure, Note, PluginOutcome, PluginRun, PodRequest, Severity, show_bytes,
};
use podloom_pod_path::Transaction;
use podloom_turns::Lines;
use wasmtime::{ResourceLimiter, Store, Trap, WasmBacktrace};

pub(crate) use self::component::Component;
use self::kept::{Prepared, Views};
pub(crate) use self::module::Module;
use self::pace::{LONG, Pace};
use crate::contract::{Description, Rejection};
use crate::engine::{BACKTRACE_FRAMES, CORE_INSTANCES, CallPurpose, Engine, TABLE_ELEMENTS, ticks};
use crate::limits::{
    CHAIN_KEPT_BYTES, CallLimits, HANDLES, MemoryBudget, NOTE_BYTES, NOTES, PAYLOAD_BYTES,
    PREPARED_BYTES, REASON_BYTES,
};
use crate::request::{PodFields, RunMode, Until, pod_event};
use crate::text::one_line;

/// What is the same in every call of a plugin.
#[derive(Debug)]
pub(crate) struct CallSettings {
    /// Its name in the chain.
    pub(crate) name: String,
    /// Its configuration as JSON text.
    pub(crate) config: String,
    pub(crate) limits: CallLimits,
    /// The memory that each call begins with, once the plugin has prepared itself.
    prepared: OnceLock<Prepared>,
    /// Whether a call has asked for a label or an annotation of the namespace.
    asked_for_namespace: AtomicBool,
    views: Views,
    /// Shared by the plugins of a chain.
    budget: Arc<MemoryBudget>,
    /// Those of the engine.
    lines: Option<Lines>,
}

impl CallSettings {
    pub(crate) fn new(
        name: String,
        config: String,
        limits: CallLimits,
        budget: Arc<MemoryBudget>,
        lines: Option<Lines>,
    ) -> Self {
        Self {
            name,
            config,
            limits,
            prepared: OnceLock::new(),
            asked_for_namespace: AtomicBool::new(false),
            views: Views::default(),
            budget,
            lines,
        }
    }

    /// Whether a call has asked for a label or an annotation of the namespace.
    pub(crate) fn has_asked_for_namespace(&self) -> bool {
        self.asked_for_namespace.load(Ordering::Relaxed)
    }
}

/// The host's state of one call.
pub(crate) struct Guest {
    settings: Arc<CallSettings>,
    /// None while the plugin prepares itself, so that it keeps nothing of one pod for all.
    request: Option<Arc<PodRequest>>,
    pod: Option<Transaction>,
    /// None if the guest is not called for a pod.
    mode: Option<RunMode>,
    /// Whether the call takes long.
    is_long: bool,
    /// How much memory the guest has so far, all its memories together. It never shrinks.
    memory: usize,
    output: GuestOutput,
    /// Only for core modules; none until the module is instantiated.
    module: Option<module::ModuleState>,
}

impl Guest {
    /// The pod that the plugin was called for, as log lines name it.
    fn pod_fields(&self) -> PodFields<'_> {
        match (&self.request, self.mode) {
            (Some(request), Some(mode)) => PodFields::of(request, mode),
            _ => PodFields::default(),
        }
    }
}

/// A plugin's code, linked to the host's functions.
pub(crate) enum LinkedCode {
    Module(Module),
    Component(Component),
}

/// A plugin ready to be called.
#[derive(Clone, Copy)]
pub(crate) struct Sandbox<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) code: &'a LinkedCode,
    pub(crate) settings: &'a Arc<CallSettings>,
}

/// What a plugin says about its configuration.
pub(crate) struct ConfigVerdict {
    /// What is wrong with it.
    pub(crate) complaints: Vec<String>,
    /// What is probably a mistake.
    pub(crate) warnings: Vec<String>,
    /// Where a program in it denies.
    pub(crate) denials: Vec<String>,
}

impl Sandbox<'_> {
    /// Calls `describe`.
    pub(crate) fn describe(self) -> Result<Description, CallFailure> {
        let _permit = self.engine.permit(CallPurpose::Trial, Until::DONE);
        let mut store = self.store(Some(Arc::default()), None, self.limit());
        match self.code {
            LinkedCode::Module(module) => module.describe(&mut store),
            LinkedCode::Component(component) => component.describe(&mut store),
        }
        .map_err(|error| self.failure(&error, store.data()))
    }

    /// Calls `validate-config`. There is no pod, so its notes are about the configuration.
    pub(crate) fn validate_config(self) -> Result<ConfigVerdict, CallFailure> {
        let _permit = self.engine.permit(CallPurpose::Trial, Until::DONE);
        let mut store = self.store(Some(Arc::default()), None, self.limit());
        let verdict = match self.code {
            LinkedCode::Module(module) => module.validate_config(&mut store),
            LinkedCode::Component(component) => component.validate_config(&mut store),
        };
        let complaints = verdict
            .map(|verdict| verdict.err().unwrap_or_default())
            .map_err(|error| self.failure(&error, store.data()))?;
        let mut output = store.into_data().output;
        Ok(ConfigVerdict {
            complaints,
            denials: std::mem::take(&mut output.denials),
            warnings: output
                .into_notes()
                .into_iter()
                .map(|note| note.text)
                .collect(),
        })
    }

    /// Calls `prepare`, if the plugin exports it, and keeps the memory that every later call begins with. The configuration must
    /// be valid.
    ///
    /// A component prepares itself in each call instead, since the host cannot access its memories.
    pub(crate) fn prepare(self) -> Result<(), CallFailure> {
        let LinkedCode::Module(module) = self.code else {
            return Ok(());
        };
        let Some(preparation) = module.preparation() else {
            return Ok(());
        };
        let _permit = self.engine.permit(CallPurpose::Trial, Until::DONE);
        let mut fresh = self.store(None, None, self.limit());
        let before = module
            .fresh_memory(&mut fresh)
            .map_err(|error| self.failure(&error, fresh.data()))?;
        let mut store = self.store(None, None, self.limit());
        let after = module
            .prepare(&mut store, preparation)
            .map_err(|error| self.failure(&error, store.data()))?;
        let prepared = Prepared::of(before.data(&fresh), after.data(&store));
        match prepared.filter(|prepared| self.settings.budget.take_to_keep(prepared.bytes())) {
            // A plugin is set up once, so nothing was kept before.
            Some(prepared) => drop(self.settings.prepared.set(prepared)),
            None => {
                tracing::warn!(
                    plugin = self.settings.name,
                    limit = show_bytes(PREPARED_BYTES),
                    limit_of_chain = show_bytes(CHAIN_KEPT_BYTES),
                    "the plugin prepares more memory than the limit, so it prepares itself again in each call; mutating is slower"
                );
            }
        }
        Ok(())
    }

    /// Calls `mutate` with a pod. It is overdue if it has not returned by then. The transaction is still open; a run without a
    /// rejection or a failure counts as unchanged.
    pub(crate) fn mutate(
        self,
        mode: RunMode,
        transaction: Transaction,
        request: Arc<PodRequest>,
        until: Until,
    ) -> (Transaction, PluginRun) {
        let purpose = match mode {
            RunMode::Serve => CallPurpose::Pod,
            RunMode::Prove { .. } => CallPurpose::Trial,
        };
        let Some(_permit) = self.engine.permit(purpose, until) else {
            let outcome = PluginOutcome::Failed(CallFailure::Overdue);
            let run = PluginRun {
                outcome,
                ..PluginRun::default()
            };
            return (transaction, run);
        };
        let limit = until
            .left()
            .map_or(self.limit(), |left| left.min(self.limit()));
        let mut store = self.store(Some(request), Some((transaction, mode)), limit);
        if mode == RunMode::Serve && limit > LONG {
            let permits = Arc::clone(self.engine.permits());
            let mut pace = Pace::new(permits, self.limit(), until);
            store.set_epoch_deadline(pace.first());
            store.epoch_deadline_callback(move |mut store| {
                store.data_mut().is_long = true;
                Ok(pace.go_on()?)
            });
        }
        let result = match self.code {
            LinkedCode::Module(module) => module.mutate(&mut store),
            LinkedCode::Component(component) => component.mutate(&mut store),
        };
        let outcome = match result {
            Ok(Ok(())) => PluginOutcome::Unchanged,
            Ok(Err(Rejection::Denied(reason))) => PluginOutcome::Denied(reason_line(&reason)),
            Ok(Err(Rejection::Failed(reason))) => {
                PluginOutcome::Failed(CallFailure::Reported(reason_line(&reason)))
            }
            Err(error) => PluginOutcome::Failed(match self.failure(&error, store.data()) {
                CallFailure::TimedOut { .. } if limit < self.limit() => CallFailure::Overdue,
                failure => failure,
            }),
        };
        let fuel = self.engine.counts_fuel.then(|| store.get_fuel());
        let guest = store.into_data();
        if mode == RunMode::Serve && !guest.is_long && outcome == PluginOutcome::Unchanged {
            self.engine.permits().was_quick();
        }
        let transaction = guest
            .pod
            .expect("the store was created with a transaction above, and no import removes it");
        let mut output = guest.output;
        let run = PluginRun {
            outcome,
            denials: std::mem::take(&mut output.denials),
            notes: output.into_notes(),
            memory: guest.memory,
            fuel: fuel.and_then(Result::ok).map(|left| u64::MAX - left),
            ..PluginRun::default()
        };
        (transaction, run)
    }

    /// Create it while a permit is held, and drop it before the permit: the pool has as many slots as there are permits, and a slot
    /// is free only once its store is dropped.
    fn store(
        self,
        request: Option<Arc<PodRequest>>,
        pod: Option<(Transaction, RunMode)>,
        limit: Duration,
    ) -> Store<Guest> {
        let (pod, mode) = pod.unzip();
        let guest = Guest {
            settings: Arc::clone(self.settings),
            request,
            pod,
            mode,
            is_long: false,
            memory: 0,
            output: GuestOutput::default(),
            module: None,
        };
        let mut store = Store::new(&self.engine.wasm, guest);
        store.limiter(|guest| guest);
        store.set_epoch_deadline(ticks(limit));
        store.set_hostcall_fuel(PAYLOAD_BYTES);
        if self.engine.counts_fuel {
            // Fails only in an engine that does not count.
            let _counts = store.set_fuel(u64::MAX);
        }
        store.set_max_component_handles(HANDLES);
        store
    }

    /// The time in which a call may run.
    fn limit(self) -> Duration {
        self.settings.limits.timeout
    }

    fn failure(self, error: &wasmtime::Error, guest: &Guest) -> CallFailure {
        pod_event!(
            debug,
            guest.pod_fields(),
            plugin = self.settings.name,
            error = %one_line(&format!("{error:#}"), 1000),
            "plugin call failed"
        );
        let failure = cause_of(error, self.limit());
        match (failure, &guest.output.last_error) {
            // A panic is a trap without a message; the SDK logs the message first.
            (CallFailure::Trapped(trap), Some(message)) => {
                CallFailure::Trapped(match lacking(message) {
                    Some(lacking) => format!(
                        "{lacking}: {message} ({trap}); `podloom plugin build` shows the line"
                    ),
                    None => format!("{message} ({trap})"),
                })
            }
            (failure, _) => failure,
        }
    }
}

fn reason_line(reason: &str) -> String {
    let line = one_line(reason, REASON_BYTES);
    if line.is_empty() {
        "it gave no reason".to_owned()
    } else {
        line
    }
}

/// A refused growth ends the call: a guest that went on would fail later with a less helpful message.
impl ResourceLimiter for Guest {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        self.memory = self.memory.saturating_add(desired.saturating_sub(current));
        let limit = self.settings.limits.memory;
        match self.memory {
            memory if memory > limit => Err(CallFailure::OutOfMemory { limit }.into()),
            _ => Ok(true),
        }
    }

    fn table_growing(
        &mut self,
        _: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if desired > TABLE_ELEMENTS {
            return Err(CallFailure::OverLimit(format!(
                "it wants a table of more than {TABLE_ELEMENTS} entries"
            ))
            .into());
        }
        Ok(true)
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        Err(cannot_grow("memory", &error))
    }

    fn table_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        Err(cannot_grow("table", &error))
    }

    fn instances(&self) -> usize {
        CORE_INSTANCES as usize
    }

    fn tables(&self) -> usize {
        CORE_INSTANCES as usize
    }

    fn memories(&self) -> usize {
        CORE_INSTANCES as usize
    }
}

fn cannot_grow(what: &str, error: &wasmtime::Error) -> wasmtime::Error {
    let why = one_line(&error.to_string(), 200);
    CallFailure::OverLimit(format!("its {what} cannot grow: {why}")).into()
}

/// What a guest logged and noted during one call.
#[derive(Default)]
struct GuestOutput {
    lines: usize,
    warnings: Said,
    notes: Said,
    /// The lines that name a place where its program denies.
    denials: Vec<String>,
    /// The last line that it logged as an error.
    last_error: Option<String>,
}

/// The first notes of a severity. Of each as many are kept as are shown of both, so that the last warning comes before the first note.
#[derive(Default)]
struct Said {
    first: Vec<String>,
    further: usize,
}

impl GuestOutput {
    fn note(&mut self, severity: Severity, message: &str) {
        let said = match severity {
            Severity::Warning => &mut self.warnings,
            Severity::Normal => &mut self.notes,
        };
        match said.first.len() {
            0..NOTES => said.first.push(one_line(message, NOTE_BYTES)),
            _ => said.further = said.further.saturating_add(1),
        }
    }

    /// The warnings, then the notes, as many as are shown, and how many are not.
    fn into_notes(self) -> Vec<Note> {
        let Self {
            warnings, notes, ..
        } = self;
        let room = NOTES.saturating_sub(warnings.first.len());
        let cut = notes.first.len().saturating_sub(room);
        let not_shown = not_shown(warnings.further, notes.further.saturating_add(cut));
        let warnings = warnings.first.into_iter().map(Note::warning);
        let notes = notes.first.into_iter().take(room).map(Note::normal);
        warnings.chain(notes).chain(not_shown).collect()
    }
}

/// The note that counts those that are not shown.
fn not_shown(warnings: usize, notes: usize) -> Option<Note> {
    if (warnings, notes) == (0, 0) {
        return None;
    }
    let count = |count: usize, word: &str| match count {
        0 => None,
        1 => Some(format!("1 more {word}")),
        count => Some(format!("{count} more {word}s")),
    };
    let counts = [count(warnings, "warning"), count(notes, "note")];
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    let text = format!("not shown: {}", counts.join(" and "));
    Some(match warnings {
        0 => Note::normal(text),
        _ => Note::warning(text),
    })
}

/// It passed more in one call than the host accepts.
fn payload() -> CallFailure {
    CallFailure::OverLimit(format!(
        "it passed more than {} to the host at once",
        show_bytes(PAYLOAD_BYTES)
    ))
}

/// Finds out why a call failed. Limits of the host pass through wasmtime as a `CallFailure`. Of other errors the innermost
/// one is the cause, and the errors around it are a backtrace. Limits of wasmtime have no types, so their text is matched.
fn cause_of(error: &wasmtime::Error, timeout: Duration) -> CallFailure {
    if let Some(failure) = error.downcast_ref::<CallFailure>() {
        return failure.clone();
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => return CallFailure::TimedOut { limit: timeout },
        Some(Trap::StackOverflow) => return CallFailure::StackExhausted,
        // The stack of Rust's plugins is at the start of their memory, so one that overflows leaves the memory.
        Some(Trap::MemoryOutOfBounds) if is_recursive(error) => return CallFailure::StackExhausted,
        Some(trap @ Trap::MemoryOutOfBounds) => {
            return CallFailure::Trapped(format!(
                "{}; perhaps its stack was too small for its local values",
                trap_name(*trap)
            ));
        }
        Some(
            trap @ (Trap::StringOutOfBounds
            | Trap::ListOutOfBounds
            | Trap::InvalidDiscriminant
            | Trap::InvalidChar
            | Trap::UnalignedPointer),
        ) => return CallFailure::BrokeContract(trap_name(*trap)),
        Some(trap) => return CallFailure::Trapped(trap_name(*trap)),
        None => {}
    }
    let cause = error.root_cause().to_string();
    if let Some(import) = undefined(&cause) {
        return CallFailure::Trapped(format!(
            "it called {}; plugins have no files, clock, randomness, environment or network",
            one_line(import, 200)
        ));
    }
    let over = if cause.contains("fuel allocated for hostcalls") {
        return payload();
    } else if cause.contains("handle limit exceeded") {
        format!("it holds more than {HANDLES} handles at once")
    } else if cause.contains("resource limit exceeded") {
        format!(
            "it exceeds a limit of the engine: {}",
            one_line(&cause, 200)
        )
    } else {
        return CallFailure::BrokeContract(one_line(&cause, 200));
    };
    CallFailure::OverLimit(over)
}

/// The import that was called, if wasmtime says that nobody defines it: only those of WASI get so far, in plugins that are Large.
fn undefined(cause: &str) -> Option<&str> {
    let (import, _) = cause.strip_prefix("unknown import: `")?.split_once('`')?;
    Some(import)
}

/// Whether the innermost calls are those of a few functions, again and again.
fn is_recursive(error: &wasmtime::Error) -> bool {
    let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() else {
        return false;
    };
    let calls = backtrace.frames().iter().map(|frame| frame.func_index());
    let calls: Vec<u32> = calls.collect();
    let functions: BTreeSet<u32> = calls.iter().copied().collect();
    calls.len() >= BACKTRACE_FRAMES && functions.len() <= calls.len() / 2
}

/// What a plugin lacks, if its last words come from a part of Rust's standard library that needs it.
fn lacking(words: &str) -> Option<&'static str> {
    const LACKING: [(&str, &str); 6] = [
        (
            "time not implemented on this platform",
            "plugins have no clock",
        ),
        ("can't sleep", "plugins have no clock and no threads"),
        ("failed to spawn thread", "plugins have no threads"),
        ("getrandom", "plugins have no randomness"),
        ("no filesystem on this platform", "plugins have no files"),
        (
            "operation not supported on this platform",
            "plugins have no files, no threads and no network",
        ),
    ];
    let found = LACKING.iter().find(|(part, _)| words.contains(part));
    found.map(|(_, lacking)| *lacking)
}

fn trap_name(trap: Trap) -> String {
    let text = trap.to_string();
    text.strip_prefix("wasm trap: ")
        .unwrap_or(&text)
        .replace('`', "")
}
