//! The rules of github.com/distribution/reference, which container runtimes and the kubelet use.

use super::ImageRef;

const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

#[track_caller]
fn check(text: &str, expected: &str) {
    let image: ImageRef = text.parse().unwrap_or_else(|_| panic!("{text} is refused"));
    assert_eq!(image.to_string(), expected);
    assert_eq!(expected.parse(), Ok(image));
}

#[track_caller]
fn refuse(text: &str) {
    assert!(text.parse::<ImageRef>().is_err(), "{text}");
}

#[test]
fn short_references_are_completed() {
    check("nginx", "docker.io/library/nginx:latest");
    check("nginx:1.29", "docker.io/library/nginx:1.29");
    check("grafana/grafana", "docker.io/grafana/grafana:latest");
    check("docker.io/nginx", "docker.io/library/nginx:latest");
    check("index.docker.io/nginx", "docker.io/library/nginx:latest");
    check("docker.io/a/b/c:T", "docker.io/a/b/c:T");
    check("test.com:5000", "docker.io/library/test.com:5000");
    check("192.168.0.1", "docker.io/library/192.168.0.1:latest");
}

#[test]
fn the_first_word_is_a_registry_if_it_looks_like_a_host() {
    check("localhost/app", "localhost/app:latest");
    check("test:5000/app", "test:5000/app:latest");
    check("quay.io/a/b:v1", "quay.io/a/b:v1");
    check("[fc00::1]:5000/app:1", "[fc00::1]:5000/app:1");
    check("[fc00::1]/app:1", "[fc00::1]/app:1");
    check("LOCAL/app", "LOCAL/app:latest");
    check("registry/app", "docker.io/registry/app:latest");
}

#[test]
fn a_digest_needs_no_tag() {
    let digest = format!("@sha256:{HEX}");
    check(
        &format!("nginx{digest}"),
        &format!("docker.io/library/nginx{digest}"),
    );
    check(
        &format!("test:5000/app:1{digest}"),
        &format!("test:5000/app:1{digest}"),
    );
    check(
        &format!("a/b@sha512:{HEX}{HEX}"),
        &format!("docker.io/a/b@sha512:{HEX}{HEX}"),
    );
    refuse(&format!("nginx@sha256:{}", &HEX[1..]));
    refuse(&format!("nginx@sha256:{}", HEX.to_uppercase()));
    refuse(&format!("nginx@md5:{HEX}"));
    refuse(&format!("nginx@{HEX}"));
    refuse(&format!("nginx{digest}{digest}"));
    refuse(&digest);
    refuse(HEX);
    check(
        &format!("docker.io/{HEX}"),
        &format!("docker.io/library/{HEX}:latest"),
    );
}

#[test]
fn repositories_are_words_in_lower_case() {
    for path in [
        "a", "a.b", "a_b", "a__b", "a---b", "0/1", "jess/t", "a.b_c-d",
    ] {
        check(&format!("x.io/{path}:1"), &format!("x.io/{path}:1"));
    }
    for path in [
        "", "A", "a..b", "a___b", "a._b", "-a", "a-", ".a", "a.", "a//b", "a/", "/a", "a b", "ä",
        "a$", "a/B",
    ] {
        refuse(&format!("x.io/{path}:1"));
    }
    check(
        &format!("x.io/{}", "a".repeat(255)),
        &format!("x.io/{}:latest", "a".repeat(255)),
    );
    refuse(&format!("x.io/{}", "a".repeat(256)));
}

#[test]
fn tags_and_registries_have_their_letters() {
    check("app:_x.Y-z", "docker.io/library/app:_x.Y-z");
    let long = "t".repeat(128);
    check(
        &format!("app:{long}"),
        &format!("docker.io/library/app:{long}"),
    );
    for text in [
        "",
        ":tag",
        "app:",
        "app:-x",
        "app:a:b",
        &format!("app:t{long}"),
        " app",
        "app ",
        "https://example.com/app",
        "-x.io/app",
        "x..io/app",
        "x.io:/app",
        "x.io:a/app",
        "x_y.io/app",
        "fc00::1:5000/app",
        "[fc00::1]",
        "[fe80::1%eth0]:5000/app",
        "[]:5000/app",
        "[fc00::1]5000/app",
    ] {
        refuse(text);
    }
}
