//! A mutator that gets the whole pod as JSON and gives it back: the same engine settings, limits and fresh sandbox per call as
//! the chain, and the pod as a `Value` before and after, since that is what the rest of the program works on.

use std::process::Command;

use podloom_mutation::PodRequest;
use serde_json::Value;
use wasmtime::component::{Component, HasSelf, Linker};
use wasmtime::{
    Config, Engine, OptLevel, PoolingAllocationConfig, Store, StoreLimits, StoreLimitsBuilder,
};

use crate::bundle;

wasmtime::component::bindgen!({
    path: "benches/json-labels/wit",
    world: "json-mutator",
    imports: { default: trappable },
});

const TARGET: &str = "wasm32-unknown-unknown";
const MEMORY: usize = 16 << 20;
const INSTANCES: u32 = 64;

pub(crate) struct Mutator {
    engine: Engine,
    instance: JsonMutatorPre<Guest>,
    config: String,
    request: PodRequest,
}

struct Guest {
    config: String,
    request: PodRequest,
    limits: StoreLimits,
}

impl JsonMutatorImports for Guest {
    fn config(&mut self) -> wasmtime::Result<String> {
        Ok(self.config.clone())
    }

    fn kind(&mut self) -> wasmtime::Result<String> {
        Ok(self.request.kind.to_owned())
    }

    fn namespace_label(&mut self, key: String) -> wasmtime::Result<Option<String>> {
        Ok(self.request.namespace_labels.get(&key).cloned())
    }
}

impl Mutator {
    pub(crate) fn load(config: &str, request: PodRequest) -> Self {
        let engine = Engine::new(&settings()).expect("this machine runs WebAssembly");
        let mut linker = Linker::new(&engine);
        JsonMutator::add_to_linker::<_, HasSelf<Guest>>(&mut linker, |guest| guest)
            .expect("the imports have names of their own");
        let component = wit_component::ComponentEncoder::default()
            .validate(true)
            .module(&guest())
            .and_then(|encoder| encoder.encode())
            .expect("the guest carries its metadata");
        let component = Component::new(&engine, component).expect("the guest compiles");
        let instance = linker
            .instantiate_pre(&component)
            .expect("the guest imports nothing else");
        let instance = JsonMutatorPre::new(instance).expect("the guest exports the world");
        Self {
            engine,
            instance,
            config: config.to_owned(),
            request,
        }
    }

    pub(crate) fn mutate(&self, pod: &Value) -> Value {
        let text = serde_json::to_string(pod).expect("a pod is JSON");
        let mut store = self.store();
        let mutator = self
            .instance
            .instantiate(&mut store)
            .expect("the guest starts");
        let mutated = mutator
            .call_mutate(&mut store, &text)
            .expect("the guest ends")
            .expect("the guest takes the pod");
        serde_json::from_str(&mutated).expect("the guest gives JSON")
    }

    fn store(&self) -> Store<Guest> {
        let limits = StoreLimitsBuilder::new()
            .memory_size(MEMORY)
            .trap_on_grow_failure(true)
            .build();
        let guest = Guest {
            config: self.config.clone(),
            request: self.request.clone(),
            limits,
        };
        let mut store = Store::new(&self.engine, guest);
        store.limiter(|guest| &mut guest.limits);
        store.set_epoch_deadline(u64::from(u32::MAX));
        store.set_hostcall_fuel(1 << 20);
        store
    }
}

/// As the chain's own engine.
fn settings() -> Config {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(INSTANCES)
        .total_core_instances(INSTANCES)
        .total_memories(INSTANCES)
        .total_tables(INSTANCES)
        .table_elements(100_000)
        .max_memory_size(256 << 20)
        .linear_memory_keep_resident(64 << 10)
        .table_keep_resident(64 << 10)
        .max_unused_warm_slots(INSTANCES)
        .decommit_batch_size(8);
    let mut config = Config::new();
    config
        .cranelift_opt_level(OptLevel::Speed)
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .epoch_interruption(true)
        .memory_init_cow(true)
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .gc_support(false)
        .shared_memory(false)
        .concurrency_support(false)
        .allocation_strategy(pool);
    config
}

/// Builds the guest as the plugins are built.
fn guest() -> Vec<u8> {
    let target = bundle::target_directory();
    let status = Command::new(env!("CARGO"))
        .args([
            "build",
            "--quiet",
            "--profile",
            "plugin",
            "--target",
            TARGET,
        ])
        .args(["--package", "podloom-bench-json-labels", "--target-dir"])
        .arg(&target)
        // These would replace the flags in .cargo/config.toml, and with them the small stack.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo starts");
    assert!(
        status.success(),
        "the guest of the comparison does not build: run `cargo xtask plugins` for the reason"
    );
    let path = target
        .join(TARGET)
        .join("plugin/podloom_bench_json_labels.wasm");
    std::fs::read(path).expect("cargo has left the guest")
}
