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
fn an_unknown_name_is_answered_with_the_known_ones() {
    check(
        "browser,portals",
        Err("unknown controller \"portals\"; known: browser, or none for no controller"),
    );
    check(
        "",
        Err("unknown controller \"\"; known: browser, or none for no controller"),
    );
    check(
        "browser,none",
        Err("none cannot be combined with other controllers"),
    );
}

#[test]
fn only_a_duty_that_mutates_pods_needs_the_chain() {
    assert!(parse("browser").is_ok_and(|controllers| controllers.need_chain()));
    assert!(parse("none").is_ok_and(|controllers| !controllers.need_chain()));
}
