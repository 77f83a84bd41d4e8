//! Comparisons have an answer or are an error that says what to write.

use podloom_plugin_sdk::{Rejection, testing};

use super::{config, pod, refused, run, submitted};
use crate::Script;

/// The error names its line and all of these words.
#[track_caller]
fn is_error(program: &str, words: &[&str]) {
    let config = config(&format!("\n{program}"));
    let run = testing::run::<Script>(&config, &submitted(), &pod());
    let Err(Rejection::Failed(reason)) = run.result else {
        panic!("{program}: {:?}", run.result);
    };
    for word in words.iter().chain(&["line 2"]) {
        assert!(reason.contains(word), "{program}: {reason}");
    }
}

/// Each of these expressions is true.
#[track_caller]
fn are_true(expressions: &[&str]) {
    let asked = expressions.iter().enumerate();
    let asked =
        asked.map(|(number, it)| format!("if !({it}) {{ fail(\"{number} is false\"); }}\n"));
    assert_eq!(run(&asked.collect::<String>()).result, Ok(()));
}

const DEFAULT: &str = "x ?? ";

#[test]
fn different_types_have_no_order() {
    let (number, text) = ("a number with a text", "a text with a number");
    is_error(r#"600 > "30""#, &["`>`", number, "parse_int(...)"]);
    is_error(r#""9" > 5"#, &["`>`", text, "quantity(...)"]);
    is_error(r#"let n = "9"; 5.5 <= n"#, &["`<=`", number]);
    is_error(
        r#"quantity("1Gi") >= "512Mi""#,
        &["a quantity with a text", "quantity(...)"],
    );
    is_error("true < 1", &["a bool with a number"]);
    is_error("[1] < 2", &["a list with a number"]);
    is_error("#{} > #{}", &["a map with a map"]);
    is_error("[1] > [0]", &["a list with a list"]);
    is_error(r#"max(1, "2")"#, &["`max`", number]);
    is_error(r#"let n = "9"; [1, 2].filter(|x| x > n)"#, &["`>`", number]);
    is_error(
        r#"fn larger(a, b) { a > b } larger(1, "2")"#,
        &["`>`", number],
    );
    is_error(
        r#"const MOST = "5"; if 6 > MOST { deny("never"); }"#,
        &["`>`", number],
    );
}

#[test]
fn an_absent_value_has_no_order() {
    for program in [
        "() < 1000",
        r#"pod.get("/spec/nothing") >= 1"#,
        r#"request.label("none") > "a""#,
        r#"pod.get("/spec/containers")[0]?.resources?.limits?.memory > "4Gi""#,
        "() <= ()",
        "min((), 2)",
        "1 < ()",
        "let n = #{}; n.n > 1",
    ] {
        is_error(program, &["an absent value", DEFAULT, "x != ()"]);
    }
}

#[test]
fn texts_that_are_quantities_have_no_order() {
    for program in [
        r#""10Gi" > "4Gi""#,
        r#""4.5Gi" > "4Gi""#,
        r#""5e9" < "4Gi""#,
        r#""512Mi" > "4Gi""#,
        r#""10" >= "9""#,
        r#""1000 " > "500""#,
        r#""x" < "4Gi""#,
        r#"max("10Gi", "4Gi")"#,
        r#"let a = ["10Gi", "4Gi"]; a.sort()"#,
        r#"["10Gi", "4Gi"].order_desc()"#,
    ] {
        is_error(
            program,
            &["texts with a quantity among them", "quantity(...)"],
        );
    }
}

#[test]
fn different_types_are_not_just_unequal() {
    is_error(
        r#"600 == "600""#,
        &["`==`", "a number with a text", "parse_int(...)"],
    );
    is_error(
        r#""true" != true"#,
        &["`!=`", "a text with a bool", "\"true\""],
    );
    is_error(r#"quantity("1") == "1""#, &["a quantity with a text"]);
    is_error(r#"[1] == ["1"]"#, &["`==`", "a number with a text"]);
    is_error(
        r##"#{ a: 1 } != #{ a: "1" }"##,
        &["`!=`", "a number with a text"],
    );
    is_error("[1] == 1", &["a list with a number"]);
    is_error(r#"5 in ["5", "6"]"#, &["`in`", "a text with a number"]);
    is_error(r#"5 !in ["5"]"#, &["`in`"]);
    is_error(r#"5 in [(), "5"]"#, &["`in`"]);
    is_error(r#"["5"].contains(5)"#, &["`in`"]);
    is_error(r#"["5"].index_of(5)"#, &["`index_of`"]);
    let refused = refused("let a = 1;\nswitch a { \"1\" => deny(\"never\") }");
    assert!(
        refused.contains("if x == 1") && refused.contains("line 2"),
        "{refused}"
    );
}

#[test]
fn absent_values_are_no_numbers_and_no_lists() {
    for program in [
        "() + 1",
        "1 - ()",
        "() * 2",
        r#"pod.get("/spec/nothing") / 2"#,
        "let n = 1; n += ()",
        "-()",
        "!()",
        "parse_int(())",
        "abs(())",
        r#""a" in ()"#,
        r#"().starts_with("a")"#,
    ] {
        is_error(program, &["()", DEFAULT]);
    }
    is_error("let a = (); for c in a { }", &["?? []"]);
    is_error("let a = (); a.limits", &["?.limits"]);
    is_error("let a = (); a[0]", &["?."]);
    is_error("let a = (); if a { }", &["x == true"]);
    is_error("quantity(())", &[DEFAULT]);
}

#[test]
fn a_closure_that_does_not_answer_is_an_error() {
    for method in [
        "filter", "some", "all", "find", "index_of", "retain", "drain",
    ] {
        let wrong = format!("let a = [1, 2]; a.{method}(|x| \"yes\")");
        is_error(&wrong, &[method, "`|x| x == 1`", "string"]);
        let failing = format!("let a = [1, 2]; a.{method}(|x| x < \"2\")");
        is_error(&failing, &["a number with a text"]);
    }
    for method in ["filter", "retain", "drain"] {
        let wrong = format!("let a = #{{ b: 1 }}; a.{method}(|k, v| \"yes\")");
        is_error(&wrong, &[method, "string"]);
    }
    for method in ["sort", "sort_by", "order", "order_by", "dedup"] {
        let failing = format!("let a = [1, 2, 3]; a.{method}(|x, y| x < \"2\")");
        is_error(&failing, &["a number with a text"]);
        is_error(
            &format!("let a = [1, 2]; a.{method}(|x, y| \"yes\")"),
            &[method],
        );
    }
}

#[test]
fn what_has_an_answer_keeps_it() {
    are_true(&[
        "1 < 2 && 2 >= 2 && !(1 > 2) && 1 != 2",
        "1.0 / 0.0 > 1 && 1e-12 > 0 && 1e300 > 1e299 && 1 == 1.0 && 1.5 > 1 && 1 < 1.5 && -1.5 < -1 && 0.1 + 0.2 == 0.3",
        r#""a" < "b" && "B" < "a" && "2026-01-02" > "2026-01-01""#,
        r#"'a' == "a" && "b" > 'a' && 'a' in "cat""#,
        "true > false && true != false",
        r#"() == () && () != 1 && pod.get("/spec/nothing") == ()"#,
        r#"pod.get("/spec/hostNetwork") == true && pod.get("/spec/hostPID") != true"#,
        r#"request.label("none") != "x" && request.label("channel") == "stable""#,
        r#"() !in ["a"] && "a" in ["a", 5] && 5 in ["a", 5] && 6 !in ["a", 5] && 1 !in []"#,
        r#""app" in pod.get("/metadata/labels") && 3 in 1..5"#,
        "[1, [2]] == [1, [2]] && [1] != [2] && [1] != [1, 2] && [] == []",
        "#{ a: 1 } == #{ a: 1 } && #{ a: 1 } != #{ b: 1 } && #{ a: () } != #{ a: 1 }",
        r#"(pod.get("/spec/nothing") ?? 7) > 6"#,
        "[3, 1, 2].order() == [1, 2, 3] && [3, 1, 2].order_desc() == [3, 2, 1]",
        r#"["b", "a", "1"].order() == ["1", "a", "b"]"#,
        "[1, 2, 3].order(|a, b| b - a) == [3, 2, 1] && [2, 1].order(|a, b| a < b) == [1, 2]",
        "{ let n = 2; [1, 2, 3].filter(|x| x >= n) } == [2, 3]",
        "[1, 2, 3].filter(|x, i| i > 0) == [2, 3] && [5, 6].index_of(|x| x == 6) == 1",
        "[5, 6, 5].index_of(5, 1) == 2 && [5].index_of(6) == -1 && [1, 2].find(|x| x > 1) == 2",
        "[1, 2].find(|x| x > 2) == () && [1].some(|x| x == 1) && [1].all(|x| x == 1)",
        "[1, 2].filter(|x| { x == 1; }) == [1] && [1, 2].filter(|x| if x == 1 { true }) == [1]",
        "{ let a = [1, 2, 3]; a.retain(|x| x > 1) == [1] && a == [2, 3] }",
        "{ let a = [1, 2, 3]; a.drain(|x| x > 1) == [2, 3] && a == [1] }",
        "{ let a = [1, 1, 2]; a.dedup(|x, y| x == y); a } == [1, 2]",
        "{ let a = [1, 1, 2]; a.dedup(); a } == [1, 2]",
        "{ let a = [2, 1]; a.sort(); a } == [1, 2] && [1].filter(|| this == 1) == [1]",
        "#{ a: 1, b: 2 }.filter(|k, v| v > 1) == #{ b: 2 }",
        r#""a" + () == "a" && `${()}` == "" && "a" + 5 == "a5""#,
    ]);
}

#[test]
fn quantities_and_numbers_are_amounts() {
    are_true(&[
        r#"quantity("4.5Gi") > quantity("4Gi") && quantity("5e9") > quantity("4Gi")"#,
        r#"quantity("512Mi") < quantity("4Gi") && quantity("1024Mi") == quantity("1Gi")"#,
        r#"quantity("1Gi") == 1073741824 && 1 > quantity("500m") && quantity("500m") == 0.5"#,
        r#"quantity(2) * 3 == quantity("6") && quantity(0.5) < 1 && quantity(quantity("1")) == 1"#,
        r#"quantity("1Gi") + quantity("1Gi") == quantity("2Gi") && 2 * quantity("1") == 2"#,
        r#"max(quantity("1Gi"), quantity("512Mi")) == quantity("1Gi") && min(quantity("2"), 1) == 1"#,
        r#"[quantity("2Gi"), quantity("1G")].order()[0] == quantity("1G")"#,
        r#"quantity("1.5Gi").to_string() == "1536Mi" && `${quantity("1000m")}` == "1""#,
        r#"{ let sum = quantity(0); sum += quantity("1Gi"); sum } == quantity("1Gi")"#,
        r#"quantity("1") in [quantity("1000m")]"#,
        r#"parse_int(" 12 ") == 12 && parse_float("2.5") > 2 && to_int(2.9) == 2 && to_float(2) == 2"#,
        r#"round(2.5) == 3 && round(-2.5) == -3 && round(2) == 2 && abs(-3) == 3 && abs(-2.5) == 2.5"#,
        r#"min(3, 2) == 2 && max(3, 2.5) == 3 && max("a", "b") == "b" && -(1 + 1) == -2"#,
    ]);
    is_error(r#"quantity("4GB")"#, &["is no quantity", "Gi"]);
    is_error("quantity([])", &["array"]);
    is_error(r#"parse_int("4Gi")"#, &["no whole number"]);
    is_error(r#"parse_float("nan")"#, &["no number"]);
    is_error("round(1e300)", &["too large"]);
    // No number, so neither more nor less nor the same.
    is_error("(0.0 / 0.0) < 1", &["`<`"]);
}

#[test]
fn a_quantity_is_written_as_text() {
    let run = run(r#"
        let memory = quantity("1Gi") * 2;
        pod.set("/spec/containers/[name=app]/resources/limits", #{ memory: memory });
        pod.set("/metadata/annotations/memory", memory);
    "#);
    assert_eq!(run.result, Ok(()));
    assert_eq!(
        run.pod["spec"]["containers"][0]["resources"]["limits"]["memory"],
        "2Gi"
    );
    assert_eq!(run.pod["metadata"]["annotations"]["memory"], "2Gi");
}

/// A policy of a user's, as it was: it let 10Gi, 4.5Gi, 5e9 and no limit pass, and denied 512Mi.
#[test]
fn a_limit_that_is_compared_as_a_text_lets_no_pod_pass() {
    let program = r#"for c in pod.get("/spec/containers") {
        if c?.resources?.limits?.memory > "4Gi" { deny("over 4Gi"); }
    }"#;
    let config = config(program);
    for limit in ["10Gi", "4.5Gi", "5e9", "512Mi", ""] {
        let mut pod = pod();
        if !limit.is_empty() {
            pod["spec"]["containers"][0]["resources"]["limits"]["memory"] = limit.into();
        }
        let run = podloom_plugin_sdk::testing::run::<crate::Script>(&config, &submitted(), &pod);
        let Err(Rejection::Failed(reason)) = run.result else {
            panic!("{limit}: {:?}", run.result);
        };
        let what = if limit.is_empty() {
            "an absent value"
        } else {
            "texts with a quantity"
        };
        assert!(
            reason.contains(what) && reason.contains("line 2"),
            "{limit}: {reason}"
        );
    }
}

#[test]
fn a_text_is_no_function() {
    is_error(
        r#"fn bad(c) { c.image } ["a"].some("bad")"#,
        &["some", "|x| bad(x)"],
    );
    is_error(r#"["a"].filter("bad")"#, &["filter", "|x| bad(x)"]);
    let program = r#"fn proxy(c) { () } if ["a", "proxy"].index_of("proxy") != 1 { fail("no"); }"#;
    assert_eq!(run(program).result, Ok(()));
}

#[test]
fn nothing_is_in_every_text() {
    for search in ["starts_with", "ends_with", "contains"] {
        let program = format!(r#""registry.example/a".{search}(`${{()}}`)"#);
        is_error(&program, &[search, "empty"]);
    }
    are_true(&[r#""registry.example/a".starts_with("registry.example/")"#]);
}
