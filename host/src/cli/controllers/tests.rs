use podloom_controllers::duties::Duty;

use super::{parse, parse_duties};

#[track_caller]
fn check(list: &str, expected: Result<&[Duty], &str>) {
    let parsed = parse(list).map(|duties| duties.into_iter().collect());
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
        Err(
            "unknown controller \"portals\"; known: browser, portal, infrastructure, cleaner, rollout, or none for no controller",
        ),
    );
    check(
        "",
        Err(
            "unknown controller \"\"; known: browser, portal, infrastructure, cleaner, rollout, or none for no controller",
        ),
    );
    check(
        "browser,none",
        Err("none cannot be combined with other controllers"),
    );
}

#[test]
fn a_duty_with_a_flag_of_its_own_is_no_controller() {
    check(
        "webhook",
        Err("webhook is no controller: switch it on with --webhook"),
    );
    let both = parse_duties("webhook,browser").expect("they have rights");
    assert_eq!(both, [Duty::Browser, Duty::Webhook].into());
}
