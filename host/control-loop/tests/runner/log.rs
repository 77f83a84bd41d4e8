//! The log: each failure once, with its id.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::sleep;
use tracing::Level;

use crate::support::{World, failed, looking_at, secs, start};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn each_failure_is_one_warning_and_a_dropped_id_is_lines() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(Level::INFO)
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .finish();
    let logging = tracing::subscriber::set_default(subscriber);
    let world = World::new([1]);
    let mut control_loop = looking_at(&world, |_, _| async { failed() });
    control_loop.options.max_retries = Some(1);
    let running = start(control_loop);
    sleep(secs(60)).await;
    running.stop().await;
    drop(logging);

    let text = lines
        .0
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let text = String::from_utf8(text).expect("the log is text");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let [first, second, dropped, stopped] = lines[..] else {
        panic!("{text}");
    };
    let failure = |attempt: u32| {
        format!(
            r#"WARN handling an id failed loop="test" id=1 attempt={attempt} step="handle" error="it does not work""#
        )
    };
    assert!(first.starts_with(&failure(1)), "{first}");
    assert!(first.contains(" retry_in=4"), "{first}");
    assert_eq!(second, failure(2));
    assert_eq!(
        dropped,
        r#"INFO dropped an id that failed too often loop="test" id=1"#
    );
    assert!(
        stopped.starts_with("INFO the loop has stopped"),
        "{stopped}"
    );
}
