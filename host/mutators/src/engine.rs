//! The engine of a process: compiler settings, instance pool, epoch thread and call permits.

mod compiler;
mod permits;
mod ticker;

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;

use podloom_turns::Lines;
use wasmtime::{Config, OptLevel, PoolingAllocationConfig};

use self::compiler::Compiler;
use self::permits::Permits;
use crate::limits::MAX_MEMORY;
use crate::until::Until;

pub(crate) use self::compiler::CompileThreadError;
pub(crate) use self::permits::CallPurpose;
pub(crate) use self::ticker::ticks;

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

/// Why no engine could be created.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The settings are not supported on this processor or platform.
    #[error("cannot set up the WebAssembly engine: {0}")]
    Configure(String),
    /// The epoch thread could not be started.
    #[error("cannot start the thread that enforces time limits")]
    StartTicker(#[source] std::io::Error),
}

/// Compiles plugins and runs their calls. Create one for all chains that serve: plugins that one engine compiled do not run on
/// another.
pub struct Engine {
    pub(crate) wasm: wasmtime::Engine,
    permits: Arc<Permits>,
    compiler: Compiler,
    instances: InstanceAllocation,
    pub(crate) counts_fuel: bool,
    pub(crate) lines: Option<Lines>,
}

impl Engine {
    /// Sets up the compiler and the instance pool, and starts the epoch thread, which enforces time limits.
    ///
    /// # Errors
    /// If the platform cannot run WebAssembly, or no thread can be started.
    pub fn new(options: &EngineOptions) -> Result<Arc<Self>, EngineError> {
        let permits = options
            .permits
            .unwrap_or_else(default_permits)
            .get()
            .min(MAX_PERMITS);
        let mut config = config();
        config.consume_fuel(options.counts_fuel);
        let (wasm, instances) = allocate(&config, options.instances, permits)?;
        let (permits, epoch) = (Arc::new(Permits::new(permits)), wasm.weak());
        let tick = move || {
            if let Some(engine) = epoch.upgrade() {
                engine.increment_epoch();
            }
        };
        ticker::start(Arc::clone(&permits), tick).map_err(EngineError::StartTicker)?;
        Ok(Arc::new(Self {
            wasm,
            permits,
            compiler: Compiler::default(),
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

    /// Waits for a permit, which is held until it is dropped; none if the deadline passes first.
    pub(crate) fn permit(&self, purpose: CallPurpose, until: Until) -> Option<permits::Permit<'_>> {
        let permit = self.permits.acquire(purpose, until);
        // A permit that comes too late is dropped, which wakes the next caller.
        permit.filter(|_| !until.is_over())
    }

    /// Inspects a plugin and compiles it, see [`Compiler::run`].
    pub(crate) fn compile<L: Send + 'static, T: Send + 'static, E: Send + 'static>(
        self: &Arc<Self>,
        inspect: impl FnOnce() -> Result<L, E> + Send + 'static,
        compile: impl FnOnce(&Self, L) -> Result<T, E> + Send + 'static,
        until: Until,
    ) -> Result<Result<T, E>, CompileThreadError> {
        let engine = Arc::clone(self);
        self.compiler
            .run(inspect, move |inspected| compile(&engine, inspected), until)
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

fn default_permits() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Tries to reserve the pool. If that fails, as in a container with limited address space or in an emulator, each instance gets
/// a mapping of its own.
fn allocate(
    config: &Config,
    wanted: InstanceAllocation,
    permits: usize,
) -> Result<(wasmtime::Engine, InstanceAllocation), EngineError> {
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
    let engine = wasmtime::Engine::new(config)
        .map_err(|error| EngineError::Configure(format!("{error:#}")))?;
    Ok((engine, InstanceAllocation::OnDemand))
}

/// Turns off what plugins do not need, also where it is off by default, since a later version of the engine may turn it on.
/// Canonical NaNs and deterministic SIMD make the results of plugins the same on every processor.
/// Inlining stays off: it makes a chain 2 % faster, but compiling takes three times as long and five times the memory.
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

#[cfg(test)]
mod tests;
