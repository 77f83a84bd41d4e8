//! One call of a plugin: a fresh store and instance with all limits, dropped afterwards.
//!
//! No state of the guest survives a call with a pod, so no plugin can carry data from one pod to another. Memory of the host is
//! limited too: text is cut, and the transaction charges for writes.

mod component;
mod failure;
mod module;
mod services;
mod usage;
mod views;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use podloom_mutation::{CallFailure, Note, PodRequest, show_bytes};
use podloom_pod_path::Transaction;
use podloom_turns::Lines;
use wasmtime::Store;

pub(crate) use self::component::{Component, LinkError};
pub(crate) use self::module::Module;
use self::module::Prepared;
use self::usage::{GuestLimiter, GuestOutput};
use self::views::Views;
use crate::bindings::{Description, Rejection};
use crate::budget::MemoryBudget;
use crate::engine::{CallPurpose, Engine, ticks};
use crate::limits::{
    CHAIN_KEPT_BYTES, CallLimits, HANDLES, PAYLOAD_BYTES, PREPARED_BYTES, REASON_BYTES,
};
use crate::request::{PodFields, RunMode, pod_event};
use crate::text::one_line;
use crate::until::Until;

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
    limiter: GuestLimiter,
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

/// The results of a call of `mutate`; the transaction is still open.
pub(crate) struct Mutated {
    pub(crate) transaction: Transaction,
    pub(crate) notes: Vec<Note>,
    /// Where its own program denied, if it says so.
    pub(crate) denials: Vec<String>,
    /// How much memory the plugin had at the end, in bytes.
    pub(crate) memory: usize,
    /// How many instructions it executed; none unless the engine counts them.
    pub(crate) fuel: Option<u64>,
    pub(crate) end: CallResult,
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

/// How a call of `mutate` ended.
pub(crate) enum CallResult {
    Done,
    Denied(String),
    Failed(CallFailure),
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

    /// Calls `mutate` with a pod. It is overdue if it has not returned by then.
    pub(crate) fn mutate(
        self,
        mode: RunMode,
        transaction: Transaction,
        request: Arc<PodRequest>,
        until: Until,
    ) -> Mutated {
        let purpose = match mode {
            RunMode::Serve => CallPurpose::Pod,
            RunMode::Prove { .. } => CallPurpose::Trial,
        };
        let Some(_permit) = self.engine.permit(purpose, until) else {
            return Mutated {
                transaction,
                notes: Vec::new(),
                denials: Vec::new(),
                memory: 0,
                fuel: None,
                end: CallResult::Failed(CallFailure::Overdue),
            };
        };
        let limit = until
            .left()
            .map_or(self.limit(), |left| left.min(self.limit()));
        let mut store = self.store(Some(request), Some((transaction, mode)), limit);
        let result = match self.code {
            LinkedCode::Module(module) => module.mutate(&mut store),
            LinkedCode::Component(component) => component.mutate(&mut store),
        };
        let end = match result {
            Ok(Ok(())) => CallResult::Done,
            Ok(Err(Rejection::Denied(reason))) => CallResult::Denied(reason_line(&reason)),
            Ok(Err(Rejection::Failed(reason))) => {
                CallResult::Failed(CallFailure::Reported(reason_line(&reason)))
            }
            Err(error) => match self.failure(&error, store.data()) {
                CallFailure::TimedOut { .. } if limit < self.limit() => {
                    CallResult::Failed(CallFailure::Overdue)
                }
                failure => CallResult::Failed(failure),
            },
        };
        let fuel = self.engine.counts_fuel.then(|| store.get_fuel());
        let Guest {
            pod,
            limiter,
            mut output,
            ..
        } = store.into_data();
        let transaction =
            pod.expect("the store was created with a transaction above, and no import removes it");
        Mutated {
            transaction,
            denials: std::mem::take(&mut output.denials),
            notes: output.into_notes(),
            memory: limiter.memory(),
            fuel: fuel.and_then(Result::ok).map(|left| u64::MAX - left),
            end,
        }
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
            limiter: GuestLimiter::new(self.settings.limits.memory),
            output: GuestOutput::default(),
            module: None,
        };
        let mut store = Store::new(&self.engine.wasm, guest);
        store.limiter(|guest| &mut guest.limiter);
        store.set_epoch_deadline(ticks(limit));
        store.set_hostcall_fuel(PAYLOAD_BYTES);
        if self.engine.counts_fuel {
            // Fails only in an engine that does not count.
            let _counts = store.set_fuel(u64::MAX);
        }
        store.set_max_component_handles(HANDLES);
        store
    }

    /// The wall time of a call.
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
        let failure = failure::of(error, self.limit());
        match (failure, &guest.output.last_error) {
            // A panic is a trap without a message; the SDK logs the message first.
            (CallFailure::Trapped(trap), Some(message)) => {
                CallFailure::Trapped(match failure::lacking(message) {
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
