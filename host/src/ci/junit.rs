//! JUnit's XML, as CI systems read it: a suite for each file, and in it a test for each object.
//!
//! It has what the schemas of Jenkins and of others have in common.

use std::collections::HashMap;
use std::io::{self, Write};

use anyhow::Context;
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use super::{Case, Finding, Level};
use crate::error::shown;

pub(super) fn text(cases: &[Case]) -> anyhow::Result<String> {
    let mut xml = Vec::new();
    write(cases, &mut xml).context("could not write the report")?;
    String::from_utf8(xml).context("the report is not UTF-8")
}

fn write(cases: &[Case], to: &mut Vec<u8>) -> io::Result<()> {
    let mut suites: Vec<(&str, Vec<&Case>)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for case in cases {
        let file = &*case.at.file;
        let place = *places.entry(file).or_insert(suites.len());
        match suites.get_mut(place) {
            Some((_, suite)) => suite.push(case),
            None => suites.push((file, vec![case])),
        }
    }
    let mut xml = Writer::new_with_indent(to, b' ', 2);
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let [tests, failures] = counts(cases.iter());
    xml.create_element("testsuites")
        .with_attribute(("name", "podloom"))
        .with_attribute(("tests", &*tests))
        .with_attribute(("failures", &*failures))
        .write_inner_content(|xml| suites.iter().try_for_each(|it| suite(xml, it)))?;
    xml.get_mut().write_all(b"\n")
}

/// How many tests there are, and how many of them fail.
fn counts<'a>(cases: impl Iterator<Item = &'a Case> + Clone) -> [String; 2] {
    let failed = cases.clone().filter(|it| errors(it).next().is_some());
    [cases.count(), failed.count()].map(|it| it.to_string())
}

/// A test fails by errors alone; the rest is its output.
fn errors(case: &Case) -> impl Iterator<Item = &Finding> {
    let all = case.findings.iter();
    all.filter(|it| it.level == Level::Error)
}

fn suite(xml: &mut Writer<&mut Vec<u8>>, (file, cases): &(&str, Vec<&Case>)) -> io::Result<()> {
    let [tests, failures] = counts(cases.iter().copied());
    xml.create_element("testsuite")
        .with_attribute(("name", &*valid(&shown(file))))
        .with_attribute(("tests", &*tests))
        .with_attribute(("failures", &*failures))
        .with_attribute(("errors", "0"))
        .write_inner_content(|xml| cases.iter().try_for_each(|it| test(xml, it)))?;
    Ok(())
}

fn test(xml: &mut Writer<&mut Vec<u8>>, case: &Case) -> io::Result<()> {
    let test = xml
        .create_element("testcase")
        .with_attribute(("name", &*valid(&shown(&case.name))))
        .with_attribute(("classname", &*valid(&shown(&case.at.file))));
    if case.findings.is_empty() {
        test.write_empty()?;
        return Ok(());
    }
    test.write_inner_content(|xml| {
        if let Some(first) = errors(case).next() {
            let message = first.message.about();
            let all: Vec<String> = errors(case).map(|it| it.message.to_string()).collect();
            xml.create_element("failure")
                .with_attribute(("type", first.message.rule.id))
                .with_attribute((
                    "message",
                    &*valid(message.lines().next().unwrap_or_default()),
                ))
                .write_text_content(BytesText::new(&valid(&all.join("\n"))))?;
        }
        let others = case.findings.iter().filter(|it| it.level != Level::Error);
        let others = others.map(|it| format!("{}: {}", it.level.name(), it.message));
        let others: Vec<String> = others.collect();
        if !others.is_empty() {
            xml.create_element("system-out")
                .write_text_content(BytesText::new(&valid(&others.join("\n"))))?;
        }
        Ok(())
    })?;
    Ok(())
}

/// A text without the two characters that XML does not allow; control characters are escaped before.
fn valid(text: &str) -> String {
    text.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}
