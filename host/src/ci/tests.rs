use serde_json::{Value, json};

use super::{GOLDEN, Level, REJECTED, Report, junit, sarif};
use crate::error::{Diagnostic, Position};

fn at(file: &str, document: usize, line: u64) -> Position {
    let column = 3;
    Position {
        file: file.into(),
        document,
        line,
        column,
    }
}

fn error(place: Position, object: &str) -> Diagnostic {
    Diagnostic {
        object: Some(object.to_owned()),
        ..Diagnostic::at(place, "is <bad> & \u{1b}[31mred").of(&REJECTED)
    }
}

fn sarif_of(report: &Report) -> Value {
    let text = sarif::text(&report.cases).expect("a report");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_finding_belongs_to_its_object_or_line_or_document() {
    let mut report = Report::new("chain.yaml");
    report.look_at(at("a.yaml", 1, 2), "Pod one");
    report.look_at(at("a.yaml", 1, 9), "Pod two");
    for (line, object) in [(2, "Pod two"), (9, "Pod two and 3 more pods"), (5, "Pod x")] {
        report.add(Level::Error, &error(at("a.yaml", 1, line), object));
    }
    report.add(Level::Error, &error(at("a.yaml", 2, 1), "Pod y"));
    report.add(Level::Warning, &Diagnostic::new("odd"));
    let cases = report.cases.iter();
    let found: Vec<_> = cases.map(|it| (&*it.name, it.findings.len())).collect();
    let expected = [
        ("Pod one", 1),
        ("Pod two", 2),
        ("Pod y", 1),
        ("chain.yaml", 1),
    ];
    assert_eq!(found, expected);
}

#[test]
fn files_are_uris_relative_to_the_current_directory() {
    let here = std::env::current_dir().expect("a directory");
    let own = here.join("deploy/a.yaml").display().to_string();
    for (file, expected) in [
        ("deploy/web app#1.yaml", "deploy/web%20app%231.yaml"),
        ("./a/../b/./ü%.yaml", "b/%C3%BC%25.yaml"),
        ("../up/c:d.yaml", "../up/c%3Ad.yaml"),
        (&own, "deploy/a.yaml"),
        ("/elsewhere/a.yaml", "file:///elsewhere/a.yaml"),
        ("-", "stdin"),
    ] {
        let mut report = Report::new(file);
        report.add(Level::Note, &Diagnostic::new("odd"));
        let result = &sarif_of(&report)["runs"][0]["results"][0];
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(*place, json!({ "artifactLocation": { "uri": expected } }));
    }
}

#[test]
fn the_worst_findings_come_first_and_the_rest_is_left_out() {
    let mut report = Report::new("a.yaml");
    for _ in 0..sarif::MOST {
        report.add(Level::Note, &Diagnostic::new("odd"));
    }
    report.add(Level::Error, &Diagnostic::new("bad").of(&GOLDEN));
    let run = &sarif_of(&report)["runs"][0];
    let results = run["results"].as_array().expect("results");
    assert_eq!(
        (results.len(), &results[0]["level"]),
        (sarif::MOST, &json!("error"))
    );
    let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
    let ids: Vec<&Value> = rules.iter().map(|it| &it["id"]).collect();
    assert_eq!(ids, ["golden-file", "input"]);
}

#[test]
fn texts_from_outside_stay_texts() {
    let mut report = Report::new("a.yaml");
    report.add(Level::Error, &error(at("a.yaml", 1, 2), "Pod \"<x>\""));
    let text = junit::text(&report.cases).expect("a report");
    let read = quick_junit::Report::deserialize_from_str(&text).expect("XML");
    let case = &read.test_suites[0].test_cases[0];
    assert_eq!(case.name.as_str(), "Pod \"<x>\"");
    let message = "is <bad> & \\u{1b}[31mred";
    assert!(
        format!("{:?}", case.status).contains(&message.escape_debug().to_string()),
        "{text}"
    );
}
