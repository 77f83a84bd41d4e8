use super::{failed, few, has_died, passed};

const OUTPUT: &str = "\
running 3 tests
..a::b --- FAILED

failures:

---- a::b stdout ----
stack backtrace:
   1: core::ops
             at ./src/run.rs:1
    indented

failures:
    a::b
    a::c

test result: FAILED. 1 passed; 2 failed; 0 ignored

running 1 test

failures:
    d

test result: FAILED. 0 passed; 1 failed; 0 ignored
";

#[test]
fn finds_the_names_of_what_failed() {
    assert_eq!(failed(OUTPUT), ["a::b", "a::c", "d"]);
    assert_eq!(failed("test result: ok. 3 passed"), [""; 0]);
}

#[test]
fn a_few_failures_are_tried_again() {
    assert_eq!(few(OUTPUT), Some(vec!["a::b", "a::c", "d"]));
    assert_eq!(few("test result: ok. 3 passed"), None);
    let many = format!("{OUTPUT}{OUTPUT}");
    assert_eq!(few(&many), None);
}

/// What died may have had any number of failures.
#[test]
fn nothing_is_tried_again_if_a_test_program_died() {
    for died in ["running 2 tests\n..", "\nrunning 1 test\n"] {
        for output in [format!("{died}\n{OUTPUT}"), format!("{OUTPUT}{died}")] {
            assert!(has_died(&output), "{output}");
            assert_eq!(few(&output), None, "{output}");
        }
    }
    assert!(!has_died(OUTPUT));
}

#[test]
fn counts_what_passed() {
    let ok = "test result: ok. 2 passed; 0 failed; 0 ignored\n";
    assert_eq!(passed(&format!("{ok}{OUTPUT}{ok}")), 5);
    assert_eq!(passed("running 0 tests\n"), 0);
}
