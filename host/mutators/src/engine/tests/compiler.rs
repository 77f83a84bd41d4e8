use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use super::super::CompilePriority::{Low, Normal};
use super::super::{CallPurpose, Engine, EngineOptions, TOO_LONG, compile_in_turn};
use crate::error::PluginError;
use crate::request::Until;

type Compiled = Result<u32, PluginError>;

/// Compiles something that needs no inspection.
fn compile(turn: &Arc<Mutex<()>>, number: u32) -> Compiled {
    compile_in_turn(turn, Normal, || Ok(()), move |()| Ok(number), Until::DONE)
}

#[test]
fn a_panic_while_compiling_is_an_error() {
    let turn = Arc::default();
    let panicked: Compiled = compile_in_turn(
        &turn,
        Normal,
        || Ok(()),
        |()| panic!("no such opcode"),
        Until::DONE,
    );
    assert_eq!(
        panicked.expect_err("an error").to_string(),
        "does not compile: the compiler panicked: no such opcode"
    );
    let panicked: Compiled = compile_in_turn(
        &turn,
        Normal,
        || panic!("no such type"),
        |()| Ok(1),
        Until::DONE,
    );
    assert_eq!(
        panicked,
        Err("does not compile: the compiler panicked: no such type".into())
    );
    assert_eq!(compile(&turn, 1), Ok(1), "the next one compiles");
}

#[test]
fn nobody_waits_for_a_plugin_that_compiles_too_long() {
    let turn = Arc::default();
    let (go_on, stuck) = mpsc::channel::<()>();
    let soon = || Until::after(Duration::from_millis(20));
    let stuck = Arc::new(Mutex::new(stuck));
    let has_begun = Arc::new(AtomicBool::new(false));
    // On a busy machine, the thread may not even begin before the deadline.
    while !has_begun.load(Ordering::SeqCst) {
        let (stuck, begun) = (Arc::clone(&stuck), Arc::clone(&has_begun));
        let slow: Compiled = compile_in_turn(
            &turn,
            Normal,
            || Ok(()),
            move |()| {
                begun.store(true, Ordering::SeqCst);
                let _dropped = stuck.lock().map(|stuck| stuck.recv());
                Ok(1)
            },
            soon(),
        );
        assert_eq!(slow, Err(TOO_LONG.into()));
    }

    // It still compiles. Another plugin waits for its turn until its deadline, and is not compiled afterwards.
    let was_compiled = Arc::new(AtomicBool::new(false));
    let compiles = Arc::clone(&was_compiled);
    let next: Compiled = compile_in_turn(
        &turn,
        Normal,
        || Ok(()),
        move |()| {
            compiles.store(true, Ordering::SeqCst);
            Ok(2)
        },
        soon(),
    );
    assert_eq!(next, Err(TOO_LONG.into()));
    // A refusal needs no turn.
    let refused: Compiled = compile_in_turn(
        &turn,
        Normal,
        || Err::<(), _>("is too large".into()),
        |()| Ok(3),
        Until::DONE,
    );
    assert_eq!(refused, Err("is too large".into()));

    drop(go_on);
    assert_eq!(compile(&turn, 4), Ok(4), "its turn comes");
    // The plugin whose caller gave up has had its turn once its closure is dropped.
    while Arc::strong_count(&was_compiled) > 1 {
        thread::yield_now();
    }
    assert!(!was_compiled.load(Ordering::SeqCst));
}

/// The nice value of this thread.
fn nice() -> i64 {
    let stat = fs::read_to_string("/proc/thread-self/stat").expect("a file of the kernel");
    // The name before it may contain spaces, but no closing parenthesis.
    let (_, after) = stat.rsplit_once(')').expect("a name");
    let nice = after.split_whitespace().nth(16).expect("a nice value");
    nice.parse().expect("a number")
}

#[test]
fn plugins_compile_at_a_low_priority_once_a_pod_was_called() {
    let engine = Engine::new(&EngineOptions::default()).expect("an engine");
    drop(engine.permit(CallPurpose::Trial, Until::DONE));
    assert_eq!(engine.compile_priority(), Normal);
    drop(engine.permit(CallPurpose::Pod, Until::DONE));
    assert_eq!(engine.compile_priority(), Low);
}

#[test]
fn a_compiler_of_low_priority_takes_little_from_others() {
    let compile = |priority| {
        let compile = |()| Ok((nice(), rayon::broadcast(|_| nice())));
        compile_in_turn(&Arc::default(), priority, || Ok(()), compile, Until::DONE).expect("nices")
    };
    let ours = nice();
    let (here, all) = compile(Low);
    assert!(here > ours, "{here}");
    assert!(all.iter().all(|&nice| nice == here), "{all:?}");
    let (here, all) = compile(Normal);
    assert_eq!(here, ours, "the next one has a thread of its own");
    assert!(all.iter().all(|&nice| nice == ours), "{all:?}");
}
