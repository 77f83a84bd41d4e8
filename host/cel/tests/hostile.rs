//! Conditions that were written to harm: none may overflow a stack, run long, or take much memory.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test has no other way to fail; the lint sees only functions marked as tests"
)]

use std::time::{Duration, Instant};

use jiff::Timestamp;
use podloom_cel::{
    Budget, Evaluation, Outcome, Reason, Variables, Verdict, compile_all, evaluate_all,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// As many characters as the API server lets through.
const LENGTH: usize = 8192;
/// Far more than any of these takes, also on a busy machine without optimization.
const PATIENCE: Duration = Duration::from_secs(60);

fn filled(part: &str) -> String {
    part.repeat(LENGTH / part.len())
}

/// So many times `before`, then `core`, then as many times `after`.
fn nested(before: &str, core: &str, after: &str, times: usize) -> String {
    format!("{}{core}{}", before.repeat(times), after.repeat(times))
}

/// Compiles it, and evaluates it if it compiles.
#[track_caller]
fn survives(condition: &str) {
    let started = Instant::now();
    if let Ok(programs) = compile_all(&[condition], &["a"]) {
        let mut variables = Variables::default();
        variables.insert("a", &json!([1, 2, 3])).unwrap();
        let evaluation = evaluate_all(
            &programs,
            &variables,
            Timestamp::UNIX_EPOCH,
            Budget::EVALUATION,
        );
        assert_eq!(evaluation.outcomes.len(), 1);
    }
    let start: String = condition.chars().take(40).collect();
    assert!(
        started.elapsed() < PATIENCE,
        "{start} took {:?}",
        started.elapsed()
    );
}

#[test]
fn endless_nesting_is_refused() {
    for part in [
        "[",
        "(",
        "{",
        "!",
        "-",
        "[[0],",
        "!(",
        "-(",
        "a(",
        "a[",
        "a.a(",
        "{1:",
        "a?",
        "a?a:",
        "size(",
        "!-",
        "[(",
        "a.map(a,",
        "a.all(a,",
        "has(a.",
        "cel.bind(a,1,",
        "'",
        "\"",
        "'''",
        "b'",
        "\\",
        "`",
        "a.",
        "..",
        "?",
        ":",
        "a:",
        "/*",
        "//",
        "]",
        ")",
        "}",
        "a]",
        "1)",
        "\u{0}",
        "ä",
        "😀",
        "0x",
        "1e",
        "1.",
        ",",
        "\n",
        "in ",
        "a in ",
        "&",
        "||",
        "&&",
    ] {
        survives(&filled(part));
    }
}

#[test]
fn long_chains_are_refused_or_evaluated() {
    for (first, part) in [
        ("a", ".a"),
        ("a", "[0]"),
        ("a", ".size()"),
        ("1", "+1"),
        ("1", "==1"),
        ("1", "<1"),
        ("true", "&&true"),
        ("true", "||true"),
        ("true", "?true:true"),
        ("a", " in a"),
        ("[1]", "+[1]"),
        ("'a'", "+'a'"),
        ("a", ".map(a,a)"),
        ("a", ".filter(a,true)"),
        ("a", ".reverse_list()"),
        ("1", "\n"),
    ] {
        let times = (LENGTH - first.len()) / part.len();
        survives(&format!("{first}{}", part.repeat(times)));
    }
}

#[test]
fn balanced_nesting_is_refused_or_evaluated() {
    for times in [10, 60, 100, 1000] {
        for (before, core, after) in [
            ("[", "1", "]"),
            ("(", "1", ")"),
            ("!(", "true", ")"),
            ("{1:", "1", "}"),
            ("size([", "1", "])"),
            ("(1+", "1", ")"),
            ("true?(", "1", "):1"),
            ("[1].map(x,", "1", ")"),
            ("[1].all(x,", "true", ")"),
            ("[1].sort_by(x,", "1", ")"),
            ("cel.bind(x,1,", "1", ")"),
            ("a[", "0", "]"),
        ] {
            survives(&nested(before, core, after, times));
        }
    }
}

#[test]
fn nesting_that_people_write_is_accepted() {
    for condition in [
        nested("(", "true", ")", 40),
        nested("[1].exists(x, ", "true", ")", 10),
        vec!["a == [1, 2, 3]"; 300].join(" && "),
        vec!["1"; 100].join(" + ") + " == 100",
    ] {
        let programs = compile_all(&[&condition], &["a"]);
        assert!(programs.is_ok(), "{condition}: {programs:?}");
    }
}

#[test]
fn a_condition_that_is_too_long_is_refused() {
    let padded = |spaces: usize| format!("true{}", " ".repeat(spaces));
    assert!(compile_all(&[&padded(LENGTH - 4)], &[]).is_ok());
    let failures = compile_all(&[&padded(LENGTH - 3)], &[]).unwrap_err();
    assert_eq!(
        failures[0].text(),
        "1:1: the condition is longer than 8192 characters"
    );
}

fn evaluate(condition: &str, variable: &Value, budget: Budget) -> Evaluation {
    let programs = compile_all(&[condition], &["a"]).unwrap();
    let mut variables = Variables::default();
    variables.insert("a", variable).unwrap();
    evaluate_all(&programs, &variables, Timestamp::UNIX_EPOCH, budget)
}

#[track_caller]
fn spends_all(condition: &str, variable: &Value) {
    let started = Instant::now();
    let evaluation = evaluate(condition, variable, Budget::EVALUATION);
    let Verdict::Failed(failure) = evaluation.verdict() else {
        panic!("{condition} came to {evaluation:?}");
    };
    assert_eq!(failure.reason, Reason::BudgetExceeded, "{failure:?}");
    assert!(evaluation.steps <= Budget::EVALUATION.steps);
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
}

/// `cel.bind(v1, f(v0), cel.bind(v2, f(v1), ...))`, so `f` is applied over and over.
fn repeated(
    start: &str,
    f: impl Fn(&str) -> String,
    times: usize,
    end: impl Fn(&str) -> String,
) -> String {
    let mut condition = format!("cel.bind(v0, {start}, ");
    for step in 1..=times {
        let value = f(&format!("v{}", step - 1));
        condition += &format!("cel.bind(v{step}, {value}, ");
    }
    condition + &end(&format!("v{times}")) + &")".repeat(times + 1)
}

#[test]
fn whatever_grows_spends_the_budget() {
    let many: Vec<u32> = (0..2000).collect();
    let text = "x".repeat(100_000);
    for (condition, variable) in [
        ("lists.range(1000001).size() > 0", json!(null)),
        ("lists.range(9223372036854775807).size() > 0", json!(null)),
        ("lists.range(600000).map(x, x).size() > 0", json!(null)),
        ("a.all(x, a.all(y, x >= 0))", json!(many)),
        ("a.map(x, a.map(y, y)).size() > 0", json!(many)),
        ("a.map(x, a + a).size() > 0", json!(many)),
        ("a.map(x, a.reverse_list()).size() > 0", json!(many)),
        ("a.map(x, a.sort()).size() > 0", json!(many)),
        ("a.all(x, x in a)", json!(many)),
        ("a.all(x, a == a)", json!(many)),
        ("a.all(x, a.indexOf(1999) >= 0)", json!(many)),
        (
            "a.map(x, double(x) + 0.5).distinct().size() > 0",
            json!(many),
        ),
        ("a.replace('', a).size() > 0", json!(text)),
        ("lists.range(1000).map(x, a + a).size() > 0", json!(text)),
        (
            "lists.range(10000).map(x, a).join().size() > 0",
            json!(text),
        ),
        (
            "lists.range(100000).all(x, a.contains('y') || true)",
            json!(text),
        ),
        ("lists.range(100000).all(x, a == a + '')", json!(text)),
        (
            "lists.range(100000).map(x, a.split('x')).size() > 0",
            json!(text),
        ),
        (
            "lists.range(100000).map(x, '%s'.format([a])).size() > 0",
            json!(text),
        ),
    ] {
        spends_all(condition, &variable);
    }
}

#[test]
fn doubling_spends_the_budget() {
    let twice_in_a_list = |v: &str| format!("[{v}, {v}]");
    let twice_in_a_map = |v: &str| format!("{{'a': {v}, 'b': {v}}}");
    let sum = |v: &str| format!("{v} + {v}");
    for condition in [
        repeated("'0123456789'", sum, 28, |v| format!("{v}.size() > 0")),
        repeated("[1]", sum, 28, |v| format!("{v}.size() > 0")),
        repeated("[1]", twice_in_a_list, 28, |v| format!("{v} == {v}")),
        repeated("[1]", twice_in_a_map, 28, |v| format!("{v} == {v}")),
        repeated("[1]", twice_in_a_list, 28, |v| {
            format!("{v}.flatten(60).size() > 0")
        }),
        repeated("[1]", twice_in_a_list, 28, |v| {
            format!("'%s'.format([{v}]).size() > 0")
        }),
        repeated(
            "'aaaaaaaaaa'",
            |v| format!("{v}.replace('a', {v})"),
            5,
            |v| format!("{v}.size() > 0"),
        ),
        repeated(
            "'ab'",
            |v| format!("[{v}, {v}, {v}, {v}].join({v})"),
            15,
            |v| format!("{v}.size() > 0"),
        ),
    ] {
        spends_all(&condition, &json!(null));
    }
}

/// What is shared costs little: a list in a list is not copied.
#[test]
fn sharing_is_cheap() {
    let twice = |v: &str| format!("[{v}, {v}]");
    let condition = repeated("[1]", twice, 28, |v| format!("{v}.size() == 2"));
    let evaluation = evaluate(&condition, &json!(null), Budget::EVALUATION);
    assert_eq!(evaluation.verdict(), Verdict::Met);
    assert!(evaluation.steps < 100, "{evaluation:?}");
}

#[test]
fn a_spent_budget_is_an_error_even_where_errors_are_absorbed() {
    let many: Vec<u32> = (0..2000).collect();
    for condition in [
        "a.all(x, a.all(y, true)) || true",
        "a.exists(x, a.all(y, true) && x == 1999) || true",
        "a.exists(x, x == 1999 || a.all(y, a.all(z, true)))",
        "a.exists(x, a.exists(y, y < 0)) && false",
    ] {
        spends_all(condition, &json!(many));
    }
}

#[test]
fn the_conditions_of_a_list_share_one_budget() {
    let conditions = ["a.all(x, x >= 0)"; 3];
    let programs = compile_all(&conditions, &["a"]).unwrap();
    let mut variables = Variables::default();
    let many: Vec<u32> = (0..100).collect();
    variables.insert("a", &json!(many)).unwrap();
    let budget = Budget {
        steps: 150,
        ..Budget::EVALUATION
    };
    let evaluation = evaluate_all(&programs, &variables, Timestamp::UNIX_EPOCH, budget);
    let [first, second, third] = evaluation.outcomes.as_slice() else {
        panic!("{evaluation:?}");
    };
    assert_eq!(*first, Outcome::True);
    for (index, outcome) in [(1, second), (2, third)] {
        let Outcome::Error(failure) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(
            (failure.index, failure.reason),
            (index, Reason::BudgetExceeded)
        );
    }
    assert_eq!(evaluation.steps, 150);
}

/// Who writes a condition may have no right to read what it looks at.
#[test]
fn hidden_values_are_in_no_result_and_in_no_message() {
    let login = json!({ "data": { "password": "hunter2" }, "items": [{ "data": { "password": "hunter2" } }] });
    let mut variables = Variables::default();
    let is_hidden = |path: &[&str]| matches!(path, [.., "data", _]);
    variables.insert_without("a", &login, &is_hidden).unwrap();
    for (condition, is_true) in [
        ("'password' in a.data", true),
        (
            "a.data.size() == 1 && a.data.exists(key, key == 'password')",
            true,
        ),
        ("a.data == a.data", false),
        ("a.data == {'password': 'hunter2'}", false),
        ("a == {'data': {'password': 'hunter2'}}", false),
        ("[a.data].distinct() == [{'password': 'hunter2'}]", false),
    ] {
        let programs = compile_all(&[condition], &["a"]).unwrap();
        let evaluation = evaluate_all(
            &programs,
            &variables,
            Timestamp::UNIX_EPOCH,
            Budget::EVALUATION,
        );
        let expected = match is_true {
            true => Outcome::True,
            false => Outcome::False,
        };
        assert_eq!(evaluation.outcomes, [expected], "{condition}");
    }
    for condition in [
        "a.data.password != 'x'",
        "has(a.data.password)",
        "a.data['password'].startsWith('h')",
        "a.data.all(key, a.data[key] != 'hunter2')",
        "a.items[0].data.password != ''",
        "{}[a.data.password]",
        "int(a.data.password) == 1",
        "'%s'.format([a]) == ''",
        "'%s'.format([a.data]).contains('h')",
        "string(a.data) == ''",
        "[a.data.password].join() == ''",
        "[a.data].sort().size() == 1",
        "a.data.map(key, a.data[key]).size() == 1",
        "cel.bind(it, a.data.password, it == it)",
        "a.data.password == 'hunter2' ? true : false",
    ] {
        let programs = compile_all(&[condition], &["a"]).unwrap();
        let evaluation = evaluate_all(
            &programs,
            &variables,
            Timestamp::UNIX_EPOCH,
            Budget::EVALUATION,
        );
        let [Outcome::Error(failure)] = evaluation.outcomes.as_slice() else {
            panic!("{condition}: {evaluation:?}");
        };
        assert!(!failure.message.contains("hunter2"), "{failure:?}");
    }
}

#[test]
fn one_call_of_matches_ends_soon() {
    let text = "a".repeat(256 << 10);
    for pattern in [
        "(a?){60}a{60}b",
        "(a*)*b",
        "([a-z]{0,30}){0,10}0",
        "(.*)(.*)(.*)(.*)(.*)x",
    ] {
        let started = Instant::now();
        evaluate(
            &format!("a.matches('{pattern}')"),
            &json!(text),
            Budget::EVALUATION,
        );
        assert!(
            started.elapsed() < PATIENCE,
            "{pattern}: {:?}",
            started.elapsed()
        );
    }
}

/// What conditions are made of, to put together at random.
fn parts() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "a",
        "1",
        "1.5",
        "2u",
        "'x'",
        "b'x'",
        "null",
        "true",
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        ".",
        ",",
        ":",
        "?",
        "+",
        "-",
        "!",
        "==",
        "&&",
        "||",
        " in ",
        "<",
        "map(",
        "all(",
        "exists(",
        "filter(",
        "sort_by(",
        "cel.bind(",
        "has(",
        "size(",
        "x",
        "a.b",
        "[0]",
        "math.greatest(",
        "'%s'.format(",
        "\n",
        "//",
        "`a`",
        "'",
        "\"",
        "\\",
    ]);
    prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_text_breaks_the_compiler(condition in parts()) {
        survives(&condition);
    }

    /// More steps never turn an answer into another one: they only let more conditions come to an answer.
    #[test]
    fn a_larger_budget_only_answers_more(steps in 0_u64..120, more in 0_u64..120) {
        let condition = "a.filter(x, x > 2).map(x, x * 2).exists(x, x == 8) && a.sort_by(x, -x)[0] == 5";
        let of = |steps| evaluate(condition, &json!([1, 2, 3, 4, 5]), Budget { steps, ..Budget::EVALUATION });
        let (small, large) = (of(steps), of(steps + more));
        prop_assert!(small.steps <= steps && small.steps <= large.steps);
        if let Verdict::Met | Verdict::NotMet { .. } = small.verdict() {
            prop_assert_eq!(&small, &large);
        }
    }
}
