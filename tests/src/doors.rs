//! What the tools of others make of our objects: Flux and Argo CD, with what `deploy/gitops` tells them, and those that show reports.

use std::io::Write;
use std::process::{Command, Stdio};

use jiff::Timestamp;
use podloom_cel::{Budget, Variables, Verdict, compile_all, evaluate_all};
use serde_json::{Value, json};

use crate::cluster::root;
use crate::scene::yaml;

/// How an object is, for other tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// As Flux waits for it: `Current`, `InProgress` or `Failed`.
    pub flux: String,
    /// As Argo CD shows it: `Healthy`, `Progressing`, `Degraded` or `Suspended`.
    pub argo: String,
    /// Why, as Argo CD shows it.
    pub message: String,
}

/// Asks what other tools make of an object.
#[must_use]
pub fn health(object: &Value) -> Health {
    let script = script(object);
    let questions = [
        json!({ "object": object }),
        json!({ "object": object, "lua": script }),
    ];
    let [kstatus, argo] = asked(&questions);
    Health {
        flux: flux(object).unwrap_or_else(|| text(&kstatus, "status")),
        argo: text(&argo, "status"),
        message: text(&argo, "message"),
    }
}

fn text(of: &Value, field: &str) -> String {
    of[field].as_str().unwrap_or_default().to_owned()
}

fn file(name: &str) -> String {
    std::fs::read_to_string(root().join("deploy/gitops").join(name)).unwrap()
}

/// The script of Argo CD for the kind of an object.
fn script(object: &Value) -> String {
    let group = object["apiVersion"].as_str().unwrap().split('/').next();
    let kind = object["kind"].as_str().unwrap();
    let key = format!("resource.customizations.health.{}_{kind}", group.unwrap());
    let config = yaml(&file("argocd-cm.yaml"));
    config["data"][&key].as_str().expect(&key).to_owned()
}

/// What the expressions for Flux say; none if it goes by kstatus.
fn flux(object: &Value) -> Option<String> {
    let kustomization = yaml(&file("flux-kustomization.yaml"));
    let checks = kustomization["spec"]["healthCheckExprs"]
        .as_array()
        .unwrap();
    let mut checks = checks.iter();
    let check = checks.find(|it| {
        ["apiVersion", "kind"]
            .iter()
            .all(|key| it[key] == object[key])
    })?;
    let holds = |which: &str| {
        let programs = compile_all(&[check[which].as_str().unwrap()], &["status"]).unwrap();
        let mut variables = Variables::default();
        variables.insert("status", &object["status"]).unwrap();
        let evaluation = evaluate_all(&programs, &variables, Timestamp::now(), Budget::EVALUATION);
        evaluation.verdict() == Verdict::Met
    };
    let seen = &object["status"]["observedGeneration"];
    if !seen.is_null() && *seen != object["metadata"]["generation"] {
        return Some("InProgress".to_owned());
    }
    let states = [("failed", "Failed"), ("current", "Current")];
    let found = states.into_iter().find(|(which, _)| holds(which));
    Some(found.map_or("InProgress", |(_, state)| state).to_owned())
}

/// Reads a report as those do who show it. Returns its summary, and a line for each result, as `fail drift/missed Deployment/web: ...`.
#[must_use]
pub fn report(report: &Value) -> (Value, Vec<String>) {
    let [read] = asked(&[json!({ "report": report })]);
    let lines = text(&read, "message");
    let summary = serde_json::from_str(&text(&read, "status"));
    (summary.unwrap(), lines.lines().map(str::to_owned).collect())
}

fn asked<const N: usize>(questions: &[Value; N]) -> [Value; N] {
    let mut program = Command::new(podloom_control_plane::doors().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: String = questions.iter().map(|it| format!("{it}\n")).collect();
    let mut input = program.stdin.take().unwrap();
    input.write_all(lines.as_bytes()).unwrap();
    drop(input);
    let output = program.wait_with_output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let answers = printed.lines().map(|it| serde_json::from_str(it).unwrap());
    let answers: Vec<Value> = answers.collect();
    answers.try_into().expect("an answer for each question")
}
