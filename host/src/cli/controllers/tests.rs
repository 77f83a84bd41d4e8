use podloom_controllers::duties::Duty;

use super::parse;

#[track_caller]
fn check(list: &str, expected: Result<&[Duty], &str>) {
    let parsed = parse(list).map(|controllers| controllers.duties().to_vec());
    let expected = expected.map(<[Duty]>::to_vec);
    assert_eq!(parsed, expected.map_err(str::to_owned));
}

#[test]
fn duties_are_named_once_each() {
    check("browser", Ok(&[Duty::Browser]));
    check("browser, browser", Ok(&[Duty::Browser]));
    check("none", Ok(&[]));
}

#[test]
fn what_is_unknown_is_answered_with_what_there_is() {
    check(
        "browser,portals",
        Err(
            "there is no controller \"portals\"; there is: browser, and none for no controller at all",
        ),
    );
    check(
        "",
        Err("there is no controller \"\"; there is: browser, and none for no controller at all"),
    );
    check("browser,none", Err("none stands alone, or is left out"));
}

#[test]
fn only_a_duty_that_mutates_pods_needs_the_chain() {
    assert!(parse("browser").is_ok_and(|controllers| controllers.need_chain()));
    assert!(parse("none").is_ok_and(|controllers| !controllers.need_chain()));
}
