use super::super::*;

fn relay(number: usize) -> Authority {
    Authority::parse(&format!("https://{number}.example")).unwrap()
}

fn called(accounts: &Accounts) -> Vec<String> {
    let called = accounts.called();
    called.iter().map(ToString::to_string).collect()
}

#[test]
fn one_namespace_has_two_looks_and_a_line() {
    let mut accounts = Accounts::default();
    for number in 0..2 {
        assert_eq!(accounts.begin(&relay(number), &["a"]), Some("a"));
    }
    for number in [3, 2, 3] {
        assert_eq!(accounts.begin(&relay(number), &["a"]), None);
    }
    assert_eq!(accounts.begin(&relay(9), &["b"]), Some("b"));
    assert!(called(&accounts).is_empty());
    accounts.end("a");
    assert_eq!(called(&accounts), ["3.example"], "the first comer");
    let newcomer = accounts.begin(&relay(4), &["a"]);
    assert_eq!(newcomer, None, "it comes after those that wait");
    assert_eq!(accounts.begin(&relay(2), &["a"]), None);
    assert_eq!(accounts.begin(&relay(3), &["a"]), Some("a"));
    accounts.end("a");
    assert_eq!(called(&accounts), ["2.example"]);
}

#[test]
fn a_relay_of_several_namespaces_uses_the_first_account_with_room() {
    let mut accounts = Accounts::default();
    for number in 0..2 {
        accounts.begin(&relay(number), &["a"]);
    }
    assert_eq!(accounts.begin(&relay(2), &["a", "b"]), Some("b"));
    accounts.begin(&relay(3), &["b"]);
    assert_eq!(accounts.begin(&relay(4), &["a", "b"]), None);
    assert_eq!(accounts.begin(&relay(5), &["a"]), None);
    accounts.end("b");
    assert_eq!(accounts.begin(&relay(4), &["a", "b"]), Some("b"));
    accounts.end("a");
    assert_eq!(called(&accounts), ["5.example"], "4 waits nowhere any more");
}

#[test]
fn who_leaves_makes_room_and_nothing_is_kept() {
    let mut accounts = Accounts::default();
    for number in 0..4 {
        accounts.begin(&relay(number), &["a"]);
    }
    accounts.end("a");
    assert_eq!(called(&accounts), ["2.example"]);
    accounts.leave(&relay(2));
    assert_eq!(called(&accounts), ["3.example"]);
    accounts.leave(&relay(3));
    accounts.end("a");
    assert!(accounts.0.is_empty());
}
