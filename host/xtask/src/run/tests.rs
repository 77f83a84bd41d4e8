use anyhow::{Result, anyhow};

use super::both;

#[track_caller]
fn check(left: Result<u8>, right: Result<u8>, expected: Result<(u8, u8), &str>) {
    let found = both(left, right).map_err(|error| format!("{error:#}"));
    assert_eq!(found, expected.map_err(str::to_owned));
}

#[test]
fn two_failed_builds_are_two_errors() {
    let rust = || Err(anyhow!("exit status 101").context("cargo build failed"));
    let go = || Err(anyhow!("go build failed"));
    check(Ok(1), Ok(2), Ok((1, 2)));
    check(rust(), Ok(2), Err("cargo build failed: exit status 101"));
    check(Ok(1), go(), Err("go build failed"));
    check(
        rust(),
        go(),
        Err("cargo build failed: exit status 101\nerror: go build failed"),
    );
}
