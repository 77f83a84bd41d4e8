//! What it costs to make a Browser's pod of about 3 KB: find its version, merge, check and render.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use podloom_api::{BrowserConfigObject, BrowserObject, SelenosisApi};
use podloom_browser::render::{ConfigRef, render_pod, resolve};

const MANIFESTS: &str = include_str!("browser-with-desktop.yaml");

/// Reads the two documents of the file: the BrowserConfig, then the Browser.
fn manifests() -> (BrowserConfigObject, BrowserObject) {
    let (config, browser) = MANIFESTS
        .split_once("\n---\n")
        .expect("the file has two documents");
    (
        serde_saphyr::from_str(config).expect("the first is a BrowserConfig"),
        serde_saphyr::from_str(browser).expect("the second is a Browser"),
    )
}

fn merge_render(criterion: &mut Criterion) {
    let (config, browser) = manifests();
    let configs = [ConfigRef::from(&config)];
    let render = || {
        let resolved = resolve(black_box(&configs), &browser.spec).expect("the version is defined");
        render_pod(
            SelenosisApi::Seed,
            &browser.metadata,
            &browser.spec,
            &resolved,
        )
        .expect("the options can be read")
    };
    let bytes = serde_json::to_string(&render()).map_or(0, |pod| pod.len());
    assert!((2_500..4_000).contains(&bytes), "the pod has {bytes} bytes");
    criterion
        .benchmark_group("render")
        .bench_function("merge_render", |bencher| bencher.iter(render));
}

criterion_group!(benches, merge_render);
criterion_main!(benches);
