//! What the other tests rely on: that the IM server starts and stops as they ask, and that our templates lead to the states that
//! they are named for.
//!
//! Without `PODLOOM_IM_PYTHON`, which `cargo xtask test` sets, the tests are skipped, so that `cargo test` installs nothing.

#![expect(
    clippy::unwrap_used,
    reason = "this is test code: what goes wrong fails the test"
)]

mod faults;
mod process;
mod stay;
mod templates;

use std::time::Duration;

use podloom_tests::im::{ImOptions, ImOwner, ImServer};
use podloom_tests::within;

/// How long a test may take.
const DEADLINE: Duration = Duration::from_secs(120);

/// Runs a test with a server of its own.
fn with_im(name: &str, test: impl AsyncFnOnce(ImServer)) {
    if std::env::var_os("PODLOOM_IM_PYTHON").is_none() {
        eprintln!(
            "{name} is skipped: PODLOOM_IM_PYTHON is not set; run it with PODLOOM_IM_PYTHON=$(cargo xtask im)"
        );
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let im = ImServer::start(&ImOptions::default()).await;
        within(name, DEADLINE, test(im)).await;
    });
}

/// The owner of most infrastructures.
fn owner(im: &ImServer) -> ImOwner {
    im.owner("test", "secret")
}
