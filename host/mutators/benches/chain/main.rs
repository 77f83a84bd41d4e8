//! What a pod's way through the chain costs, against one parse of the pod, and what the handle on the pod is worth.
//!
//! The bundle is that of `cargo xtask plugins`, from `PODLOOM_BUNDLE` or `target/plugins`. Ratios within one run are the
//! result; absolute times are the machine's. Pods that go in and come out are made and dropped outside the measurement, one at a
//! time: a pod that has just been rendered is in the cache, a thousand copies are not. The process allocates as the operator does.

mod bare;
mod bundle;
mod whole_pod;

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use podloom_mutation::PodRequest;
use podloom_mutators::{Bundle, Chain, Engine, EngineOptions, inspect};
use serde_json::Value;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const PLUGINS: [&str; 3] = ["labels", "sidecar", "hardening"];

/// A browser's pod as it is rendered, with three containers: about 3 KB of JSON.
fn pod() -> Value {
    serde_json::from_str(include_str!("../pod.json")).expect("the file is JSON")
}

fn request() -> PodRequest {
    PodRequest {
        kind: "Browser",
        name: "chrome-143-7f3d1c2e".to_owned(),
        namespace: "team-web".to_owned(),
        namespace_labels: [("team".to_owned(), "web".to_owned())].into(),
        ..PodRequest::default()
    }
}

fn parse(criterion: &mut Criterion) {
    let text = pod().to_string();
    criterion.bench_function("parse/pod", |bencher| {
        // As for the chain: one pod at a time. Thousands of parsed pods kept until a sample ends make a parse look twice as dear.
        bencher.iter_batched(
            || (),
            |()| serde_json::from_str::<Value>(black_box(&text)),
            BatchSize::PerIteration,
        );
    });
}

fn chain(criterion: &mut Criterion) {
    let engine = Engine::new(&EngineOptions::default()).expect("this machine runs WebAssembly");
    let bundle = bundle::directory();

    measure(
        criterion,
        "chain/three",
        &load(&engine, &bundle::only(&bundle, &PLUGINS)),
    );
    for plugin in PLUGINS {
        let chain = load(&engine, &bundle::only(&bundle, &[plugin]));
        measure(criterion, &format!("plugin/{plugin}"), &chain);
    }
    measure(criterion, "call/bare", &load(&engine, &bare::bundle()));
}

fn labels(criterion: &mut Criterion) {
    let bundle = bundle::directory();
    let engine = Engine::new(&EngineOptions::default()).expect("this machine runs WebAssembly");
    measure(
        criterion,
        "labels/handle",
        &load(&engine, &bundle::only(&bundle, &["labels"])),
    );

    let pod = pod();
    let mutator = whole_pod::Mutator::load(&bundle::config(&bundle, "labels"), request());
    criterion.bench_function("labels/json", |bencher| {
        bencher.iter_batched(
            || pod.clone(),
            |pod| mutator.mutate(&pod),
            BatchSize::PerIteration,
        );
    });
}

/// The worst that is refused for its code: large, all within the bounds, but for the end.
fn refusal(criterion: &mut Criterion) {
    let engine = Engine::new(&EngineOptions::default()).expect("this machine runs WebAssembly");
    let body = "i32.const 1 drop ".repeat(80_000);
    let nested = "loop ".repeat(30_000) + &"end ".repeat(30_000);
    let text = format!(
        "(module {} (func {nested}))",
        format!("(func {body})").repeat(8)
    );
    let wasm = wat::parse_str(text).expect("the text is WebAssembly");
    criterion.bench_function("refuse/code", |bencher| {
        bencher.iter(|| inspect(&engine, &wasm, None).expect_err("a refusal"));
    });
}

fn load(engine: &Arc<Engine>, directory: &tempfile::TempDir) -> Chain {
    let bundle = Bundle::read(directory.path()).expect("the bundle is complete");
    Chain::load(engine, &bundle).expect("the bundle loads")
}

fn measure(criterion: &mut Criterion, id: &str, chain: &Chain) {
    let pod = pod();
    let request = Arc::new(request());
    let once = chain.mutate(pod.clone(), Arc::clone(&request));
    assert!(once.is_ok(), "{id}: {once:?}");
    criterion.bench_function(id, |bencher| {
        bencher.iter_batched(
            || pod.clone(),
            |pod| chain.mutate(pod, Arc::clone(&request)),
            BatchSize::PerIteration,
        );
    });
}

criterion_group!(benches, parse, chain, labels, refusal);
criterion_main!(benches);
