//! What the API server accepts and refuses.

use super::{
    annotation_key, config_key, dns_label, dns_subdomain, env_name, label_key, label_value,
    port_name,
};

type Check = fn(&str) -> Result<(), &'static str>;

#[track_caller]
fn check(check: Check, valid: &[&str], invalid: &[&str]) {
    for text in valid {
        assert_eq!(check(text), Ok(()), "{text}");
    }
    for text in invalid {
        assert!(check(text).is_err(), "{text}");
    }
}

fn long(length: usize) -> String {
    "a".repeat(length)
}

#[test]
fn keys_of_labels_have_a_name_and_may_have_a_prefix() {
    let domain = [&*long(63), &long(63), &long(63), &long(61)].join(".");
    check(
        label_key,
        &[
            "team",
            "T_e-a.m",
            "0",
            "example.com/team",
            "a/b",
            "0a.b-c/T",
            &long(63),
            &format!("{domain}/a"),
            // No part of a prefix is limited by itself.
            &format!("{}/a", long(100)),
        ],
        &[
            "",
            "/",
            "/team",
            "team/",
            "a/b/c",
            "-team",
            "team.",
            "te am",
            "größe",
            "Example.com/team",
            "example..com/team",
            "-a.com/team",
            "a_b.com/team",
            &long(64),
            &format!("{domain}a/a"),
        ],
    );
}

#[test]
fn prefixes_of_annotations_may_have_capitals() {
    check(
        annotation_key,
        &["Example.COM/team", "a/b", "T"],
        &["", "exa_mple.com/team", "a/", "größe/a"],
    );
}

#[test]
fn values_of_labels_may_be_empty() {
    check(
        label_value,
        &["", "a", "Web_1.2-x", &long(63)],
        &["-a", "a-", "a b", "a/b", "ä", &long(64)],
    );
}

#[test]
fn names_are_dns_labels_or_subdomains() {
    check(
        dns_label,
        &["a", "0", "my-app-1", &long(63)],
        &["", "A", "a.b", "-a", "a-", "a_b", &long(64)],
    );
    check(
        dns_subdomain,
        &["a", "my-app.example.com", &long(253)],
        &["", "a..b", "A.b", "a_b", "a.", &long(254)],
    );
}

#[test]
fn ports_are_named_as_services_are_in_the_internet() {
    check(
        port_name,
        &["a", "1a", "http-2", "abcdefghijklmno"],
        &["", "80", "A", "a--b", "-a", "a-", "a_b", "abcdefghijklmnop"],
    );
}

#[test]
fn environment_variables_have_printable_names() {
    check(
        env_name,
        &["A", "a b", "1", ".", "a.b-c_~", "$(A)"],
        &["", "a=b", "=", "ä", "a\tb", "\u{7f}"],
    );
}

#[test]
fn keys_of_config_maps_are_file_names() {
    check(
        config_key,
        &["a", ".a", "A_b-c.d", "a..b", &long(253)],
        &["", ".", "..", "..a", "a/b", "a b", "ä", &long(254)],
    );
}
