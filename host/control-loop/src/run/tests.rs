//! Handlers that cannot be cancelled.

use std::sync::{Mutex, mpsc};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::task::{self, spawn_blocking};
use tokio_util::sync::CancellationToken;

use crate::run::Driver;
use crate::{ControlLoop, Next, handler_fn, source_fn, storage_fn};

/// With real threads time is real, so the driver's patience is short.
#[test]
fn a_handler_that_blocks_its_thread_does_not_keep_the_loop_from_stopping() {
    let threads = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build();
    let (leave, stay) = mpsc::channel::<()>();
    let (sits, sitting) = mpsc::channel();
    let stay = Mutex::new(stay);
    let mut control_loop = ControlLoop::new(
        "test",
        source_fn(|_| async { Ok(vec![1]) }),
        storage_fn(|_, _| async { Ok(Some(())) }),
        handler_fn(move |_, _, _: Option<()>| {
            sits.send(()).expect("the test waits");
            let _ = stay.lock().expect("one handler").recv();
            async { Ok(Next::Settled) }
        }),
    );
    control_loop.options.drain_timeout = Duration::from_millis(1);
    let stop = CancellationToken::new();
    let report = threads.expect("threads start").block_on(async {
        let mut driver = Driver::start(control_loop, stop.clone());
        driver.patience = Duration::from_millis(1);
        let running = task::spawn(driver.run());
        let sat = spawn_blocking(move || sitting.recv()).await;
        sat.expect("no panic").expect("it sits");
        stop.cancel();
        let report = running.await.expect("it ends");
        leave.send(()).expect("it still sits");
        report
    });
    assert_eq!(report.abandoned, ["1"]);
    assert_eq!(report.queued, 0);
}
