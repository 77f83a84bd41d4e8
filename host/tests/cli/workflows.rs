//! The workflows of `.github/workflows` are valid, ask for few rights, and use what is there.

use std::fs;

use serde_json::Value;

use super::root;

/// Actions of others run with our rights, so only GitHub's own are used.
const ACTIONS: &str = "actions/";

/// Words of the workflows that look like paths of the repository and are made by them.
const MADE: [&str; 3] = ["target/", "release/", "files/"];

/// Every workflow: its name and what is in it.
fn workflows() -> Vec<(String, Value)> {
    let directory = root().join(".github/workflows");
    let files = fs::read_dir(directory).expect("the directory is there");
    let files = files.map(|file| file.expect("an entry").path());
    let found: Vec<_> = files
        .map(|file| {
            let name = file.display().to_string();
            let text = fs::read_to_string(&file).expect(&name);
            let workflow = serde_saphyr::from_str(&text).expect(&name);
            let (_, name) = name.rsplit_once('/').expect("a path");
            (name.to_owned(), workflow)
        })
        .collect();
    assert_eq!(found.len(), 3);
    found
}

fn jobs(workflow: &Value) -> impl Iterator<Item = (&String, &Value)> {
    workflow["jobs"].as_object().into_iter().flatten()
}

fn steps(workflow: &Value) -> impl Iterator<Item = &Value> {
    jobs(workflow).flat_map(|(_, job)| job["steps"].as_array().into_iter().flatten())
}

#[test]
fn each_job_has_only_the_rights_that_it_names_and_a_timeout() {
    for (name, workflow) in workflows() {
        assert_eq!(workflow["permissions"], serde_json::json!({}), "{name}");
        for (job, content) in jobs(&workflow) {
            let rights = content["permissions"].as_object();
            let rights = rights.unwrap_or_else(|| panic!("{name}: {job} names no permissions"));
            let writes = rights.iter().filter(|(_, right)| *right == "write");
            let writes: Vec<&str> = writes.map(|(name, _)| name.as_str()).collect();
            let is_asked = content["environment"] == "release";
            match (name.as_str(), job.as_str()) {
                ("release.yml", "publish") => assert!(is_asked, "a person is asked first"),
                ("release.yml", "draft") => assert_eq!(writes, ["contents"]),
                _ => assert_eq!(writes, [""; 0], "{name}: {job}"),
            }
            assert!(content["timeout-minutes"].is_u64(), "{name}: {job}");
        }
    }
}

#[test]
fn each_job_waits_for_jobs_that_exist() {
    for (name, workflow) in workflows() {
        for (job, content) in jobs(&workflow) {
            let needs = match &content["needs"] {
                Value::Array(needs) => needs.clone(),
                Value::Null => Vec::new(),
                one => vec![one.clone()],
            };
            for needed in needs {
                let needed = needed.as_str().unwrap();
                assert!(
                    workflow["jobs"][needed].is_object(),
                    "{name}: {job} needs {needed}"
                );
            }
        }
    }
}

#[test]
fn actions_are_githubs_own_with_a_version() {
    for (name, workflow) in workflows() {
        let mut count = 0;
        for step in steps(&workflow) {
            assert_ne!(
                step["uses"].is_string(),
                step["run"].is_string(),
                "{name}: {step}"
            );
            let Some(action) = step["uses"].as_str() else {
                continue;
            };
            count += 1;
            let version = action.split_once("@v").map(|(_, version)| version);
            let has_version = version.is_some_and(|version| version.parse::<u32>().is_ok());
            assert!(
                action.starts_with(ACTIONS) && has_version,
                "{name}: {action}"
            );
        }
        assert!(count > 0, "{name}");
    }
}

#[test]
fn paths_in_commands_exist() {
    let mut count = 0;
    for (name, workflow) in workflows() {
        for step in steps(&workflow) {
            let command = step["run"].as_str().unwrap_or_default();
            for word in command.split([' ', '\n', '"', '=']) {
                let word = word.trim_end_matches('.');
                let first = word.split('/').next().unwrap_or_default();
                let is_ours =
                    word.contains('/') && root().join(first).is_dir() && !first.is_empty();
                if !is_ours || MADE.iter().any(|made| word.starts_with(made)) {
                    continue;
                }
                count += 1;
                assert!(root().join(word).exists(), "{name}: there is no {word}");
            }
        }
    }
    assert!(count > 1, "only {count} paths found");
}

/// The crates of the release are those that `cargo xtask test` packages.
#[test]
fn the_release_packages_the_crates_that_can_be_published() {
    let source = fs::read_to_string(root().join("host/xtask/src/packages.rs")).unwrap();
    let crates: Vec<&str> = source
        .split('"')
        .filter(|word| word.starts_with("podloom-"))
        .collect();
    assert_eq!(crates.len(), 5);
    let release = fs::read_to_string(root().join(".github/workflows/release.yml")).unwrap();
    let named: Vec<&str> = release
        .split("--package ")
        .skip(1)
        .map(|rest| rest.split_whitespace().next().unwrap_or_default())
        .collect();
    assert_eq!(named, crates);
}
