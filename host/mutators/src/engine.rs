//! The engine of a process: compiler settings, instance pool, epoch thread and call permits.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;
use std::{fmt, io, thread};

use podloom_turns::{Lines, lock};
use rayon::ThreadPoolBuilder;
use thread_priority::{ThreadPriority, set_current_thread_priority};
use wasmtime::{Config, OptLevel, PoolingAllocationConfig};

use crate::error::PluginError;
use crate::limits::MAX_MEMORY;
use crate::request::Until;
use crate::text::one_line;

/// How many core instances a component may contain. The encoder makes three of a Rust module; a component with CPython has more than
/// forty.
pub(crate) const CORE_INSTANCES: u32 = 64;
/// How many entries one table may have.
pub(crate) const TABLE_ELEMENTS: usize = 100_000;

const MAX_PERMITS: usize = 32;
const KEEP_RESIDENT: usize = 64 << 10;
/// Enough to see recursion.
pub(crate) const BACKTRACE_FRAMES: usize = 8;

/// Options of an engine; the defaults suit the operator and the command line.
#[derive(Clone, Debug, Default)]
pub struct EngineOptions {
    /// How many plugin calls on pods run at the same time; by default one per processor, at most 32.
    pub permits: Option<NonZeroUsize>,
    /// How instances are allocated.
    pub instances: InstanceAllocation,
    /// Whether each run counts the instructions of its plugin, which makes all calls slower. For tests: unlike time it is always the same.
    pub counts_fuel: bool,
    /// Whether nobody waits for what it compiles: it then takes little from others from the start.
    pub in_background: bool,
    /// Decides which lines about pods are logged, since anybody can cause them; by default all are.
    pub lines: Option<Lines>,
}

/// How instances are allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InstanceAllocation {
    /// From a pool that is reserved at start; on demand if there is too little address space for the pool.
    #[default]
    Pooled,
    /// With a memory mapping for each instance.
    OnDemand,
}

/// Compiles plugins and runs their calls. Create one for all chains that serve: plugins that one engine compiled do not run on
/// another.
pub struct Engine {
    pub(crate) wasm: wasmtime::Engine,
    permits: Arc<Permits>,
    /// Lets one plugin compile at a time.
    pub(crate) turn: Arc<Mutex<()>>,
    instances: InstanceAllocation,
    pub(crate) counts_fuel: bool,
    pub(crate) lines: Option<Lines>,
}

impl Engine {
    /// Sets up the compiler and the instance pool, and starts the epoch thread, which enforces time limits.
    ///
    /// # Errors
    /// If the platform cannot run WebAssembly, or no thread can be started.
    pub fn new(options: &EngineOptions) -> io::Result<Arc<Self>> {
        let each_processor = || thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let permits = options.permits.unwrap_or_else(each_processor);
        let permits = permits.get().min(MAX_PERMITS);
        let mut config = config();
        config.consume_fuel(options.counts_fuel);
        let (wasm, instances) = allocate(&config, options.instances, permits)?;
        let (permits, epoch) = (Arc::new(Permits::new(permits)), wasm.weak());
        lock(&permits.count).has_served = options.in_background;
        let tick = move || {
            if let Some(engine) = epoch.upgrade() {
                engine.increment_epoch();
            }
        };
        start_ticker(Arc::clone(&permits), tick).map_err(|error| {
            io::Error::other(format!(
                "cannot start the thread that enforces time limits: {error}"
            ))
        })?;
        Ok(Arc::new(Self {
            wasm,
            permits,
            turn: Arc::default(),
            instances,
            counts_fuel: options.counts_fuel,
            lines: options.lines.clone(),
        }))
    }

    /// How this engine allocates instances, after the attempt to reserve a pool.
    pub fn instances(&self) -> InstanceAllocation {
        self.instances
    }

    /// Whether calls for pods keep the processors busy, so that work without haste should wait.
    pub fn is_busy(&self) -> bool {
        self.permits.are_busy()
    }

    /// How plugins compile now.
    pub(crate) fn compile_priority(&self) -> CompilePriority {
        match lock(&self.permits.count).has_served {
            true => CompilePriority::Low,
            false => CompilePriority::Normal,
        }
    }

    /// What calls for pods share.
    pub(crate) fn permits(&self) -> &Arc<Permits> {
        &self.permits
    }

    /// Waits for a permit, which is held until it is dropped; none if the deadline passes first.
    pub(crate) fn permit(&self, purpose: CallPurpose, until: Until) -> Option<Permit<'_>> {
        let permit = self.permits.acquire(purpose, until);
        // A permit that comes too late is dropped, which wakes the next caller.
        permit.filter(|_| !until.is_over())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.permits.close();
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("instances", &self.instances)
            .finish_non_exhaustive()
    }
}

/// Tries to reserve the pool. If that fails, as in a container with limited address space or in an emulator, each instance gets
/// a mapping of its own.
fn allocate(
    config: &Config,
    wanted: InstanceAllocation,
    permits: usize,
) -> io::Result<(wasmtime::Engine, InstanceAllocation)> {
    if wanted == InstanceAllocation::Pooled {
        let mut config = config.clone();
        // One more for the call of a trial.
        config.allocation_strategy(pool(permits + 1));
        match wasmtime::Engine::new(&config) {
            Ok(engine) => return Ok((engine, InstanceAllocation::Pooled)),
            Err(error) => {
                tracing::warn!(error = %format!("{error:#}"), "too little address space for an instance pool, allocating instances on demand");
            }
        }
    }
    let engine = wasmtime::Engine::new(config).map_err(|error| {
        io::Error::other(format!("cannot set up the WebAssembly engine: {error:#}"))
    })?;
    Ok((engine, InstanceAllocation::OnDemand))
}

/// Turns off what plugins do not need, also where it is off by default, since a later version of the engine may turn it on.
/// Canonical NaNs and deterministic SIMD make the results of plugins the same on every processor.
/// Inlining stays off: it makes a chain 2 % faster, but compiling takes three times as long and five times the memory, which
/// `drop_contexts` would no longer free.
fn config() -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .strategy(wasmtime::Strategy::Cranelift)
        .cranelift_opt_level(OptLevel::Speed)
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .epoch_interruption(true)
        .memory_init_cow(true)
        .wasm_backtrace_max_frames(NonZeroUsize::new(BACKTRACE_FRAMES))
        .wasm_backtrace_details(wasmtime::WasmBacktraceDetails::Disable)
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .gc_support(false)
        .shared_memory(false)
        .concurrency_support(false);
    config
}

fn pool(permits: usize) -> PoolingAllocationConfig {
    let permits = u32::try_from(permits).unwrap_or(u32::MAX);
    let instances = permits.saturating_mul(CORE_INSTANCES);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(permits)
        .total_core_instances(instances)
        .total_memories(instances)
        .total_tables(instances)
        .max_core_instances_per_component(CORE_INSTANCES)
        .max_memories_per_component(CORE_INSTANCES)
        .max_tables_per_component(CORE_INSTANCES)
        .table_elements(TABLE_ELEMENTS)
        .max_memory_size(MAX_MEMORY)
        .linear_memory_keep_resident(KEEP_RESIDENT)
        .table_keep_resident(KEEP_RESIDENT)
        .max_unused_warm_slots(instances.min(64));
    pool
}

/// Stack size of the thread: Cranelift and the encoder recurse over hostile input.
const STACK: usize = 16 << 20;
/// The compiler's low priority, from 0 to 99; others have 50. This is a nice value of 9: beside threads that keep a processor busy, it gets
/// an eighth of it.
const LOW_PRIORITY: u8 = 25;
const TOO_LONG: &str = "was not compiled in time: building the chain took too long";

/// How much of the processors a compiler takes from other work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompilePriority {
    /// As much as any other work: no chain serves yet.
    Normal,
    /// What others leave: a chain serves pods meanwhile.
    Low,
}

/// Inspects a plugin, then compiles it if the inspection found nothing wrong. Both run on a thread of their own, so a panic
/// of the compiler over hostile input becomes an error, and the process goes on.
///
/// The compiler cannot be interrupted. When the deadline passes, it goes on in the background and its result is dropped. Later
/// plugins wait for that a second or two at most, since the inspection bounds what is compiled; at a low priority on a busy machine
/// longer. The inspection itself does not wait for other plugins, so a bad file is refused at once.
pub(crate) fn compile_in_turn<L: Send + 'static, T: Send + 'static>(
    turn: &Arc<Mutex<()>>,
    priority: CompilePriority,
    inspect: impl FnOnce() -> Result<L, PluginError> + Send + 'static,
    compile: impl FnOnce(L) -> Result<T, PluginError> + Send + 'static,
    until: Until,
) -> Result<T, PluginError> {
    let (answer, compiled) = mpsc::sync_channel(1);
    let turn = Arc::clone(turn);
    let steps = move || {
        let inspected = match inspect() {
            Ok(inspected) => inspected,
            Err(error) => return drop(answer.send(Err(error))),
        };
        let _one_at_a_time = lock(&turn);
        // The caller may have given up while another plugin was compiled.
        if !until.is_over() {
            let compile = || compile(inspected);
            let compiled = match priority {
                CompilePriority::Normal => compile(),
                CompilePriority::Low => at_low_priority(compile),
            };
            drop(answer.send(compiled));
        }
    };
    let thread = thread::Builder::new()
        .name("podloom-compile".to_owned())
        .stack_size(STACK)
        .spawn(steps)
        .map_err(|error| {
            format!("does not compile: cannot start a thread to compile on: {error}")
        })?;
    let compiled = match until.left() {
        None => compiled.recv().map_err(|_| RecvTimeoutError::Disconnected),
        Some(left) => compiled.recv_timeout(left),
    };
    match compiled {
        Ok(compiled) => compiled,
        Err(RecvTimeoutError::Timeout) => Err(TOO_LONG.into()),
        // The thread has ended, or is about to.
        Err(RecvTimeoutError::Disconnected) => Err(match thread.join() {
            Ok(()) => TOO_LONG.into(),
            Err(panic) => {
                let panic = panic_message(panic.as_ref());
                format!("does not compile: the compiler panicked: {panic}").into()
            }
        }),
    }
}

/// Compiles on threads of a low priority, this thread included. They end with it: a priority can only be lowered.
fn at_low_priority<T: Send>(compile: impl FnOnce() -> T + Send) -> T {
    let lowered = LOW_PRIORITY.try_into().map(ThreadPriority::Crossplatform);
    if let Ok(Err(error)) = lowered.map(set_current_thread_priority) {
        tracing::debug!(?error, "plugins compile at the same priority as all else");
    }
    // The compiler's usual threads are those of the process. Threads of its own have the priority of this one, which starts them.
    match ThreadPoolBuilder::new().stack_size(STACK).build() {
        Ok(pool) => pool.install(compile),
        Err(error) => {
            tracing::debug!(%error, "plugins compile on threads that others share");
            compile()
        }
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    one_line(text.unwrap_or("no reason given"), 200)
}

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallPurpose {
    /// Somebody waits for a pod.
    Pod,
    /// A plugin is described or tried before its chain serves. Only one such call runs at a time, and it does not take a permit
    /// from the calls for pods, so no pod waits for it.
    Trial,
}

/// Counts the free permits for pods and wakes waiting callers one by one. Trials take turns.
pub(crate) struct Permits {
    /// How many there are for pods.
    pods: usize,
    count: Mutex<PermitCounts>,
    pod_ended: Condvar,
    trial: Mutex<()>,
    /// Wakes the epoch thread, which sleeps while no call runs.
    began: Condvar,
    ticks: AtomicU64,
    quick: AtomicU64,
}

struct PermitCounts {
    free: usize,
    /// Waking is a system call even if nobody waits; this count avoids it.
    waiting: usize,
    /// Calls for pods and trials.
    running: usize,
    /// Whether there was a call for a pod, or it counts as if there was.
    has_served: bool,
    clock: ClockState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClockState {
    Ticks,
    /// The next call wakes it.
    Rests,
    Ends,
}

impl Permits {
    fn new(pods: usize) -> Self {
        Self {
            pods,
            count: Mutex::new(PermitCounts {
                free: pods,
                waiting: 0,
                running: 0,
                has_served: false,
                clock: ClockState::Ticks,
            }),
            pod_ended: Condvar::new(),
            trial: Mutex::default(),
            began: Condvar::new(),
            ticks: AtomicU64::default(),
            quick: AtomicU64::default(),
        }
    }

    /// Waits for a permit. A trial has no deadline; a caller for a pod gets none if the deadline passes first.
    fn acquire(&self, purpose: CallPurpose, until: Until) -> Option<Permit<'_>> {
        let trial = (purpose == CallPurpose::Trial).then(|| lock(&self.trial));
        let mut count = lock(&self.count);
        if trial.is_none() {
            if count.free == 0 {
                count.waiting += 1;
                count = self.wait(count, until);
                count.waiting -= 1;
            }
            count.free = count.free.checked_sub(1)?;
            count.has_served = true;
        }
        count.running += 1;
        let clock_rests = count.clock == ClockState::Rests;
        if clock_rests {
            count.clock = ClockState::Ticks;
        }
        drop(count);
        if clock_rests {
            self.began.notify_one();
        }
        Some(Permit {
            permits: self,
            trial,
        })
    }

    /// Waits until a permit is free or the deadline passes.
    fn wait<'c>(
        &'c self,
        count: MutexGuard<'c, PermitCounts>,
        until: Until,
    ) -> MutexGuard<'c, PermitCounts> {
        let is_taken = |count: &mut PermitCounts| count.free == 0;
        match until.left() {
            None => self
                .pod_ended
                .wait_while(count, is_taken)
                .unwrap_or_else(PoisonError::into_inner),
            Some(left) => {
                let waited = self.pod_ended.wait_timeout_while(count, left, is_taken);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    /// How often the epoch has advanced.
    pub(crate) fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    /// How many calls for pods were quick.
    pub(crate) fn quick(&self) -> u64 {
        self.quick.load(Ordering::Relaxed)
    }

    /// A call for a pod was quick.
    pub(crate) fn was_quick(&self) {
        self.quick.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether about half of the permits for pods are taken: as many as one tenant gets, who keeps the processors busy.
    fn are_busy(&self) -> bool {
        let free = lock(&self.count).free;
        free < self.pods && free * 2 <= self.pods + 1
    }

    /// Waits until a call runs; false once [`Self::close`] was called.
    fn await_call(&self) -> bool {
        let mut count = lock(&self.count);
        while count.running == 0 && count.clock != ClockState::Ends {
            count.clock = ClockState::Rests;
            let woken = self.began.wait(count);
            count = woken.unwrap_or_else(PoisonError::into_inner);
        }
        count.clock != ClockState::Ends
    }

    /// Ends the epoch thread.
    fn close(&self) {
        lock(&self.count).clock = ClockState::Ends;
        self.began.notify_one();
    }

    #[cfg(test)]
    fn clock_rests(&self) -> bool {
        lock(&self.count).clock == ClockState::Rests
    }
}

/// The right to run one call; returned when dropped.
pub(crate) struct Permit<'a> {
    permits: &'a Permits,
    /// Held by a trial.
    trial: Option<MutexGuard<'a, ()>>,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut count = lock(&self.permits.count);
        count.running -= 1;
        if self.trial.is_some() {
            return;
        }
        count.free += 1;
        let is_awaited = count.waiting > 0;
        drop(count);
        if is_awaited {
            self.permits.pod_ended.notify_one();
        }
    }
}

/// How often the epoch advances, which is the precision of time limits.
pub(crate) const TICK: Duration = Duration::from_millis(2);

/// Starts the epoch thread, which enforces time limits: it advances the engine's epoch while a call runs, and sleeps while none does.
/// It ends within a tick after the permits are closed.
///
/// It is an OS thread, not a timer of the asynchronous runtime, since a starved runtime must not disable the limits.
///
/// The deadline of a call is relative to the epoch at which it begins, so pauses of the thread do not matter. The first tick
/// comes a full interval after the thread wakes.
fn start_ticker(permits: Arc<Permits>, mut tick: impl FnMut() + Send + 'static) -> io::Result<()> {
    thread::Builder::new()
        .name("podloom-epoch".to_owned())
        .spawn(move || {
            while permits.await_call() {
                thread::sleep(TICK);
                permits.ticks.fetch_add(1, Ordering::Relaxed);
                tick();
            }
        })?;
    Ok(())
}

/// How many ticks it takes until at least `limit` has passed.
pub(crate) fn ticks(limit: Duration) -> u64 {
    let ticks = limit.as_nanos().div_ceil(TICK.as_nanos());
    u64::try_from(ticks)
        .unwrap_or(u64::MAX >> 1)
        .saturating_add(1)
}

#[cfg(test)]
mod tests;
