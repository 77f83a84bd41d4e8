//! One call of a plugin: a fresh store and instance with every limit on, dropped afterwards.
//!
//! Nothing of a call with a pod survives it in the guest, so no pod can see another. Host memory is bounded too: words are cut, and
//! the transaction counts what is written.

mod component;
mod failure;
mod module;
mod services;
mod usage;
mod views;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use podloom_pod_path::Transaction;
use wasmtime::Store;

pub(crate) use self::component::{Component, LinkError};
pub use self::failure::Failure;
pub(crate) use self::module::Module;
use self::module::Prepared;
use self::usage::{Speech, Usage};
use self::views::Views;
use crate::bindings::{Description, Rejection};
use crate::engine::{Engine, Purpose, ticks};
use crate::limits::{
    CHAIN_KEPT_BYTES, CallLimits, HANDLES, PAYLOAD_BYTES, PREPARED_BYTES, REASON_BYTES, show_bytes,
};
use crate::request::{PodFields, Request, RunMode, pod_event};
use crate::room::Room;
use crate::text::one_line;
use crate::until::Until;

/// What is the same in every call of a plugin.
#[derive(Debug)]
pub(crate) struct Setting {
    /// Its name in the chain.
    pub(crate) name: String,
    /// Its configuration as JSON text.
    pub(crate) config: String,
    pub(crate) limits: CallLimits,
    /// What each call begins with, once the plugin has made it ready.
    prepared: OnceLock<Prepared>,
    views: Views,
    /// Of its chain.
    room: Arc<Room>,
}

impl Setting {
    pub(crate) fn new(name: String, config: String, limits: CallLimits, room: Arc<Room>) -> Self {
        Self {
            name,
            config,
            limits,
            prepared: OnceLock::new(),
            views: Views::default(),
            room,
        }
    }
}

/// The host's state of one call.
pub(crate) struct Guest {
    setting: Arc<Setting>,
    /// None while the plugin prepares, so that nothing of it is taken for what every pod has.
    request: Option<Arc<Request>>,
    pod: Option<Transaction>,
    /// Why it was handed a pod; none if it was not.
    mode: Option<RunMode>,
    usage: Usage,
    speech: Speech,
    /// What only core modules need; none until the module has started.
    module: Option<module::State>,
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

/// A plugin's code, linked to the host's functions in the way that suits its form.
pub(crate) enum Code {
    Module(Module),
    Component(Component),
}

/// A plugin ready to be called.
#[derive(Clone, Copy)]
pub(crate) struct Sandbox<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) code: &'a Code,
    pub(crate) setting: &'a Arc<Setting>,
}

/// What came of a call of `mutate`; the transaction is still open.
pub(crate) struct Mutated {
    pub(crate) transaction: Transaction,
    pub(crate) notes: Vec<String>,
    /// How much memory the plugin had at the end, in bytes.
    pub(crate) memory: usize,
    pub(crate) end: End,
}

/// How a call of `mutate` ended.
pub(crate) enum End {
    Done,
    Denied(String),
    Failed(Failure),
}

impl Sandbox<'_> {
    /// Asks the plugin who it is and what it needs.
    pub(crate) fn describe(self) -> Result<Description, Failure> {
        let _permit = self.engine.permit(Purpose::Trial, Until::DONE);
        let mut store = self.store(Some(Arc::default()), None, self.limit());
        match self.code {
            Code::Module(module) => module.describe(&mut store),
            Code::Component(component) => component.describe(&mut store),
        }
        .map_err(|error| self.failure(&error, store.data()))
    }

    /// Asks the plugin what is wrong with its configuration.
    pub(crate) fn validate_config(self) -> Result<Vec<String>, Failure> {
        let _permit = self.engine.permit(Purpose::Trial, Until::DONE);
        let mut store = self.store(Some(Arc::default()), None, self.limit());
        match self.code {
            Code::Module(module) => module.validate_config(&mut store),
            Code::Component(component) => component.validate_config(&mut store),
        }
        .map(|verdict| verdict.err().unwrap_or_default())
        .map_err(|error| self.failure(&error, store.data()))
    }

    /// Lets the plugin make ready what every later call begins with, if it can. Its configuration must be valid.
    ///
    /// A component is left to do it in each call: its memories are its own.
    pub(crate) fn prepare(self) -> Result<(), Failure> {
        let Code::Module(module) = self.code else {
            return Ok(());
        };
        let Some(preparation) = module.preparation() else {
            return Ok(());
        };
        let _permit = self.engine.permit(Purpose::Trial, Until::DONE);
        let mut fresh = self.store(None, None, self.limit());
        let before = module
            .fresh_memory(&mut fresh)
            .map_err(|error| self.failure(&error, fresh.data()))?;
        let mut store = self.store(None, None, self.limit());
        let after = module
            .prepare(&mut store, preparation)
            .map_err(|error| self.failure(&error, store.data()))?;
        let prepared = Prepared::of(before.data(&fresh), after.data(&store));
        match prepared.filter(|prepared| self.setting.room.has_to_keep(prepared.bytes())) {
            // Set up once, the plugin has nothing kept yet.
            Some(prepared) => drop(self.setting.prepared.set(prepared)),
            None => {
                tracing::warn!(
                    plugin = self.setting.name,
                    limit = show_bytes(PREPARED_BYTES),
                    limit_of_chain = show_bytes(CHAIN_KEPT_BYTES),
                    "the plugin prepares more than is kept, and so does it in each call"
                );
            }
        }
        Ok(())
    }

    /// Hands the plugin a pod.
    pub(crate) fn mutate(
        self,
        mode: RunMode,
        transaction: Transaction,
        request: Arc<Request>,
    ) -> Mutated {
        let until = request.until();
        let purpose = match mode {
            RunMode::Serve => Purpose::Pod,
            RunMode::Prove { .. } => Purpose::Trial,
        };
        let Some(_permit) = self.engine.permit(purpose, until) else {
            return Mutated {
                transaction,
                notes: Vec::new(),
                memory: 0,
                end: End::Failed(Failure::Overdue),
            };
        };
        let limit = until
            .left()
            .map_or(self.limit(), |left| left.min(self.limit()));
        let mut store = self.store(Some(request), Some((transaction, mode)), limit);
        let result = match self.code {
            Code::Module(module) => module.mutate(&mut store),
            Code::Component(component) => component.mutate(&mut store),
        };
        let end = match result {
            Ok(Ok(())) => End::Done,
            Ok(Err(Rejection::Denied(reason))) => End::Denied(reason_line(&reason)),
            Ok(Err(Rejection::Failed(reason))) => {
                End::Failed(Failure::Reported(reason_line(&reason)))
            }
            Err(error) => match self.failure(&error, store.data()) {
                Failure::TimedOut { .. } if limit < self.limit() => End::Failed(Failure::Overdue),
                failure => End::Failed(failure),
            },
        };
        let guest = store.into_data();
        let transaction = guest
            .pod
            .expect("the store was made with a transaction above, and no import takes it out");
        Mutated {
            transaction,
            notes: guest.speech.notes,
            memory: guest.usage.memory(),
            end,
        }
    }

    /// Made while a permit is held, and dropped before it is given back: the pool has room for so many permits, and a
    /// place in it is free only once its store is gone.
    fn store(
        self,
        request: Option<Arc<Request>>,
        pod: Option<(Transaction, RunMode)>,
        limit: Duration,
    ) -> Store<Guest> {
        let (pod, mode) = pod.unzip();
        let guest = Guest {
            setting: Arc::clone(self.setting),
            request,
            pod,
            mode,
            usage: Usage::new(self.setting.limits.memory),
            speech: Speech::default(),
            module: None,
        };
        let mut store = Store::new(&self.engine.wasm, guest);
        store.limiter(|guest| &mut guest.usage);
        store.set_epoch_deadline(ticks(limit));
        store.set_hostcall_fuel(PAYLOAD_BYTES);
        store.set_max_component_handles(HANDLES);
        store
    }

    /// The wall time of a call.
    fn limit(self) -> Duration {
        self.setting.limits.timeout
    }

    fn failure(self, error: &wasmtime::Error, guest: &Guest) -> Failure {
        pod_event!(
            debug,
            guest.pod_fields(),
            plugin = self.setting.name,
            error = %one_line(&format!("{error:#}"), 1000),
            "plugin call failed"
        );
        let failure = Failure::of(error, self.limit());
        match (failure, &guest.speech.last_error) {
            // A panic is a trap without words; the SDK logs them first.
            (Failure::Trapped(trap), Some(words)) => Failure::Trapped(format!("{words} ({trap})")),
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
