//! Conditions written in CEL, compiled and evaluated in bounded time and memory.
//!
//! Conditions and the objects that they look at come from users and are not trusted. The crate `cel` parses and evaluates; this
//! one adds what it lacks:
//!
//! - **Names are checked when a condition is compiled.** `cel` finds an unknown name when it gets there, so `true || nonsense` is
//!   true.
//! - **What can never be evaluated does not compile**, such as `duration("7d")`: else it would be found once a condition is evaluated,
//!   which may be after weeks.
//! - **A budget.** Each element that something visits or makes, each round of a macro and each 64 bytes of text is a step, and
//!   steps and time are limited. What is made is paid for before it is made, so memory is limited too. A spent budget is an error
//!   even where a macro absorbs errors.
//! - **JSON's numbers** are `int`s where they fit, so `n + 1` works.
//! - **Functions**: `isSorted`, `sum`, `min`, `max`, `indexOf`, `lastIndexOf`, `sort_by(v, key)` (also `sortBy`) and
//!   `reverse_list()` of lists, and `cel.bind(v, value, result)`, besides the standard library and the extensions strings, lists
//!   and math. There are no optional values and no messages.
//! - **Threads with enough stack**, since `cel` calls itself for each level of an expression.
//!
//! As in cel-go, `||`, `&&`, `exists` and `all` absorb errors that do not matter: `true || 1 / 0 == 1` is true.
//!
//! ```
//! use jiff::Timestamp;
//! use podloom_cel::{Budget, Variables, Verdict, compile_all, evaluate_all, next_true};
//! use serde_json::json;
//!
//! let conditions = ["job.status.active == 0", "time - timestamp(job.status.ended) >= duration('1h')"];
//! let programs = compile_all(&conditions, &["job"]).expect("both compile");
//!
//! let mut variables = Variables::default();
//! let job = json!({ "status": { "active": 0, "ended": "2026-01-01T12:00:00Z" } });
//! variables.insert("job", &job).expect("it is not deep");
//!
//! let now: Timestamp = "2026-01-01T12:30:00Z".parse().expect("a timestamp");
//! let evaluation = evaluate_all(&programs, &variables, now, Budget::EVALUATION);
//! assert_eq!(evaluation.verdict(), Verdict::NotMet { index: 1 });
//!
//! // If nothing changes but the time, they are true half an hour later.
//! let due = next_true(&programs, &variables, now, Budget::SEARCH);
//! assert_eq!(due, "2026-01-01T13:00:00Z".parse().ok());
//!
//! let failures = compile_all(&["jb.status.active == 0"], &["job"]).expect_err("a typing error");
//! assert_eq!(failures[0].text(), r#"1:1: unknown name "jb"; known here: job, time"#);
//! ```

mod check;
mod constants;
mod environment;
mod evaluate;
mod evaluator;
mod functions;
mod instrument;
mod message;
mod meter;
mod offer;
mod outcome;
mod program;
mod stack;
mod value;
mod variables;

pub use self::evaluate::{Budget, evaluate_all, evaluate_many, first_true, next_true};
pub use self::evaluator::{Evaluator, Tenant};
pub use self::message::LONGEST_MESSAGE;
pub use self::outcome::{Evaluation, Failure, Outcome, Reason, Verdict};
pub use self::program::{Program, compile_all};
pub use self::value::TooDeep;
pub use self::variables::Variables;
