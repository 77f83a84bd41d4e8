//! Random guests as WebAssembly text.

use super::script::{
    ALLOCATE_BY, ANSWER_AT, Allocator, CODES, CONFIG, DROP, DRY_RUN, GET, GROW, GuestAction,
    INSERT, KEYS, KIND, LABEL, LOG, NOTE, NOTE_ANSWER, PAGES, RECURSE, REJECT, REMOVE, RETURN, SET,
    STORE, TABLE_AT, TEXTS, TEXTS_AT, TRAP, VIEW, place,
};
use crate::support::assemble;

const IMPORTS: &str = r#"
(import "podloom:mutator/host@0.1.0" "log" (func $log (param i32 i32 i32)))
(import "podloom:mutator/host@0.1.0" "note" (func $note (param i32 i32)))
(import "podloom:mutator/host@0.1.0" "config" (func $config (param i32)))
(import "podloom:mutator/request@0.1.0" "kind" (func $kind (param i32)))
(import "podloom:mutator/request@0.1.0" "label" (func $label (param i32 i32 i32)))
(import "podloom:mutator/request@0.1.0" "dry-run" (func $dry_run (result i32)))
(import "podloom:mutator/pods@0.1.0" "[method]pod.get" (func $get (param i32 i32 i32 i32)))
(import "podloom:mutator/pods@0.1.0" "[method]pod.view" (func $view (param i32 i32 i32 i32 i32 i32)))
(import "podloom:mutator/pods@0.1.0" "[method]pod.keys" (func $keys (param i32 i32 i32 i32)))
(import "podloom:mutator/pods@0.1.0" "[method]pod.set" (func $set (param i32 i32 i32 i32 i32 i32)))
(import "podloom:mutator/pods@0.1.0" "[method]pod.insert" (func $insert (param i32 i32 i32 i32 i32 i32)))
(import "podloom:mutator/pods@0.1.0" "[method]pod.remove" (func $remove (param i32 i32 i32 i32)))
(import "podloom:mutator/pods@0.1.0" "[resource-drop]pod" (func $drop (param i32)))
"#;

/// What all guests share: an allocator with several behaviours, and functions that note the host's answers.
const COMMON: &str = r#"
(global $heap (mut i32) (i32.const 131072))
(global $dropped (mut i32) (i32.const 0))

(func $cabi_realloc (export "cabi_realloc") (param i32 i32) (param $align i32) (param $size i32) (result i32)
  (local $at i32)
  (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
  (if (i32.eq (global.get $mode) (i32.const 1)) (then (local.set $at (i32.add (local.get $at) (i32.const 1)))))
  (if (i32.eq (global.get $mode) (i32.const 2)) (then (return (i32.const -8))))
  (if (i32.eq (global.get $mode) (i32.const 3)) (then (unreachable)))
  (if (i32.eq (global.get $mode) (i32.const 4)) (then (call $note (i32.const 4096) (i32.const 4))))
  (if (i32.eq (global.get $mode) (i32.const 5)) (then (return (i32.const 4096))))
  (if (i32.eq (global.get $mode) (i32.const 6)) (then (drop (memory.grow (i32.const 1)))))
  (global.set $heap (i32.add (local.get $at) (local.get $size)))
  (local.get $at))

(data (i32.const 16) "fixture")
(data (i32.const 32) "1.0.0")
(data (i32.const 48) "A guest.")
(data (i32.const 64) "/metadata/annotations/script")
(func (export "podloom:mutator/plugin@0.1.0#describe") (result i32)
  (i32.store (i32.const 700) (i32.const 16)) (i32.store (i32.const 704) (i32.const 7))
  (i32.store (i32.const 708) (i32.const 32)) (i32.store (i32.const 712) (i32.const 5))
  (i32.store (i32.const 716) (i32.const 48)) (i32.store (i32.const 720) (i32.const 8))
  (i32.const 700))
(func (export "podloom:mutator/plugin@0.1.0#validate-config") (result i32)
  (i32.store (i32.const 600) (i32.const 0))
  (i32.const 600))

(func $recurse (call $recurse))
(func $note_answer (param $at i32)
  (call $note (i32.load (local.get $at)) (i32.load offset=4 (local.get $at))))
(func $finish
  (if (i32.eqz (global.get $dropped)) (then (call $drop (i32.const 1)))))
(func $reject (param $kind i32) (param $text i32) (param $length i32) (result i32)
  (call $finish)
  (i32.store (i32.const 600) (i32.const 1))
  (i32.store (i32.const 604) (local.get $kind))
  (i32.store (i32.const 608) (local.get $text))
  (i32.store (i32.const 612) (local.get $length))
  (i32.const 600))

(func $digit (param $at i32) (result i32)
  (local $letter i32)
  (local.set $letter (i32.load8_u (local.get $at)))
  (if (result i32) (i32.gt_u (local.get $letter) (i32.const 57))
    (then (i32.sub (local.get $letter) (i32.const 87)))
    (else (i32.sub (local.get $letter) (i32.const 48)))))
;; Puts the script's bytes at 32768, and gives their end.
(func $read_script (param $pod i32) (result i32)
  (local $from i32) (local $end i32) (local $to i32)
  (call $get (local.get $pod) (i32.const 64) (i32.const 28) (i32.const 512))
  (local.set $from (i32.add (i32.load (i32.const 520)) (i32.const 1)))
  (local.set $end (i32.add (local.get $from) (i32.sub (i32.load (i32.const 524)) (i32.const 2))))
  (local.set $to (i32.const 32768))
  (block $done
    (loop $next
      (br_if $done (i32.ge_u (local.get $from) (local.get $end)))
      (i32.store8 (local.get $to)
        (i32.or
          (i32.shl (call $digit (local.get $from)) (i32.const 4))
          (call $digit (i32.add (local.get $from) (i32.const 1)))))
      (local.set $from (i32.add (local.get $from) (i32.const 2)))
      (local.set $to (i32.add (local.get $to) (i32.const 1)))
      (br $next)))
  (local.get $to))
"#;

/// A guest that does what the script in its pod says.
pub(super) fn interpreter() -> Vec<u8> {
    module(Allocator::Plain, None, &[])
}

/// A guest that acts when it starts if it is to, then does these things with its pod, and then what the script in the pod says.
pub(super) fn module(
    allocator: Allocator,
    start: Option<&[GuestAction]>,
    actions: &[GuestAction],
) -> Vec<u8> {
    let mut text = format!("(module\n{IMPORTS}\n(memory (export \"memory\") {PAGES})\n");
    text.push_str(&format!(
        "(global $mode (mut i32) (i32.const {}))\n{COMMON}\n",
        allocator as u8
    ));
    text.push_str(&format!(
        "(data (i32.const {TEXTS_AT}) \"{}\")\n",
        escaped(TEXTS.concat().as_bytes())
    ));
    let table: Vec<u8> = (0..TEXTS.len())
        .map(place)
        .flat_map(|(at, length)| [at.to_le_bytes(), length.to_le_bytes()].concat())
        .collect();
    text.push_str(&format!(
        "(data (i32.const {TABLE_AT}) \"{}\")\n",
        escaped(&table)
    ));
    if let Some(actions) = start {
        let body: String = actions
            .iter()
            .map(|action| direct(*action, "(nop)"))
            .collect();
        text.push_str(&format!("(func $start {body})\n(start $start)\n"));
    }
    text.push_str(&mutate(actions));
    text.push_str(")\n");
    assemble(&text)
}

fn mutate(actions: &[GuestAction]) -> String {
    let body: String = actions
        .iter()
        .map(|action| {
            direct(
                *action,
                &ending(action.code, action.arguments.map(constant)),
            )
        })
        .collect();
    let variables = ["a", "b", "c", "d", "e", "f"];
    let arguments = variables.map(|variable| format!("(local.get ${variable})"));
    let dispatch: String = (0..CODES)
        .map(|code| {
            let action =
                call(code, arguments.clone()).unwrap_or_else(|| ending(code, arguments.clone()));
            format!("(if (i32.eq (local.get $code) (i32.const {code})) (then {action}))\n")
        })
        .collect();
    let locals: String = variables
        .map(|variable| format!("(local ${variable} i32)"))
        .concat();
    let loads: String = (0..)
        .step_by(4)
        .zip(variables)
        .map(|(offset, variable)| {
            format!(
                "(local.set ${variable} (i32.load offset={} (local.get $at)))",
                offset + 1
            )
        })
        .collect();
    format!(
        r#"(func (export "podloom:mutator/plugin@0.1.0#mutate") (param $pod i32) (result i32)
  (local $at i32) (local $end i32) (local $code i32) {locals}
  {body}
  (local.set $end (call $read_script (local.get $pod)))
  (if (i32.load8_u (i32.const 32768)) (then (global.set $mode (i32.load8_u (i32.const 32768)))))
  (local.set $at (i32.const 32769))
  (block $done
    (loop $next
      (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
      (local.set $code (i32.load8_u (local.get $at)))
      {loads}
      (local.set $at (i32.add (local.get $at) (i32.const 25)))
      {dispatch}
      (br $next)))
  (call $finish)
  (i32.store (i32.const 600) (i32.const 0))
  (i32.const 600))
"#
    )
}

/// An action with its numbers in the code.
fn direct(action: GuestAction, ending: &str) -> String {
    call(action.code, action.arguments.map(constant)).unwrap_or_else(|| ending.to_owned()) + "\n"
}

fn constant(number: u32) -> String {
    format!("(i32.const {number})")
}

/// The call of one function; none if it ends the guest's own.
fn call(code: u8, [a, b, c, d, e, f]: [String; 6]) -> Option<String> {
    Some(match code {
        LOG => format!("(call $log {a} {b} {c})"),
        NOTE => format!("(call $note {a} {b})"),
        CONFIG => format!("(call $config {a})"),
        KIND => format!("(call $kind {a})"),
        LABEL => format!("(call $label {a} {b} {c})"),
        DRY_RUN => "(drop (call $dry_run))".to_owned(),
        GET => format!("(call $get {a} {b} {c} {d})"),
        VIEW => format!("(call $view {a} {b} {c} {d} {e} {f})"),
        KEYS => format!("(call $keys {a} {b} {c} {d})"),
        SET => format!("(call $set {a} {b} {c} {d} {e} {f})"),
        INSERT => format!("(call $insert {a} {b} {c} {d} {e} {f})"),
        REMOVE => format!("(call $remove {a} {b} {c} {d})"),
        DROP => format!("(global.set $dropped (i32.const 1)) (call $drop {a})"),
        TRAP => "(unreachable)".to_owned(),
        GROW => format!("(drop (memory.grow {a}))"),
        RECURSE => "(call $recurse)".to_owned(),
        STORE => format!("(i32.store {a} {b})"),
        NOTE_ANSWER => format!("(call $note_answer {a})"),
        ALLOCATE_BY => format!("(global.set $mode {a})"),
        _ => return None,
    })
}

fn ending(code: u8, [a, b, c, ..]: [String; 6]) -> String {
    match code {
        RETURN => format!("(call $finish) (return {a})"),
        REJECT => format!("(return (call $reject {a} {b} {c}))"),
        _ => String::from("(nop)"),
    }
}

fn escaped(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\{byte:02x}")).collect()
}

const _: () = assert!(ANSWER_AT < 600, "answers and results do not meet");
